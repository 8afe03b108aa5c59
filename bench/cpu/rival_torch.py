"""PyTorch: into given memory (out=), as users call it (fresh memory), compiled, and oneDNN as its mkldnn tensors reach it."""
import re
import warnings

from contestant import CALLER, LIBRARY, Contestant, PythonRun, Unsupported


def contestants():
    import torch
    warnings.filterwarnings("ignore")
    aten = torch.ops.aten
    types = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}

    def tensor(array, row):
        if array is None:
            return None
        made = torch.from_numpy(array.view("int16") if row.type == "bfloat16" and array.dtype == "uint16" else array)
        return made.view(torch.bfloat16) if made.dtype == torch.int16 else made

    def tensors(row, piece):
        torch.set_num_threads(row.threads)
        return tensor(piece.x, row), tensor(piece.y, row), tensor(piece.dy, row)

    def numpy_of(given):
        given = given.detach()
        return (given.view(torch.int16).numpy().view("uint16") if given.dtype == torch.bfloat16 else given.numpy())

    def into(row, piece):
        x, y, dy = tensors(row, piece)
        if row.type != row.result_type:
            raise Unsupported("results of another type")
        if row.operation == "softmax":
            return lambda: torch.softmax(x, 1, out=y)
        if row.operation == "log_softmax":
            return lambda: torch.log_softmax(x, 1, out=y)
        if row.operation == "logsumexp":
            return lambda: torch.logsumexp(x, 1, out=y)
        if row.operation == "softmax_backward":
            return lambda: aten._softmax_backward_data.out(dy, x, 1, x.dtype, grad_input=y)
        if row.operation == "log_softmax_backward":
            return lambda: aten._log_softmax_backward_data.out(dy, x, 1, x.dtype, out=y)
        if row.operation == "masked_softmax":
            out = torch.from_numpy(piece.mask.view(bool)).logical_not()
            return lambda: torch.softmax(torch.where(out, -torch.inf, x), 1, out=y)
        raise Unsupported("not into given memory")

    def plain(row, piece):
        x, _, dy = tensors(row, piece)
        if row.type != row.result_type:
            raise Unsupported("results of another type")
        if row.operation == "softmax":
            return lambda: torch.softmax(x, 1)
        if row.operation == "log_softmax":
            return lambda: torch.log_softmax(x, 1)
        if row.operation == "logsumexp":
            return lambda: torch.logsumexp(x, 1)
        if row.operation == "softmax_backward":
            return lambda: aten._softmax_backward_data(dy, x, 1, x.dtype)
        if row.operation == "log_softmax_backward":
            return lambda: aten._log_softmax_backward_data(dy, x, 1, x.dtype)
        if row.operation == "masked_softmax":
            mask = torch.from_numpy(piece.mask.view(bool))
            return lambda: torch.softmax(x.masked_fill(~mask, -torch.inf), 1)
        targets = torch.from_numpy(piece.targets)

        def loss_and_gradient():
            logits = x.detach().requires_grad_()
            torch.nn.functional.cross_entropy(logits, targets).backward()
            return logits.grad
        return loss_and_gradient

    def mkldnn(row, piece):
        if row.operation != "softmax" or row.type not in ("float32", "bfloat16"):
            raise Unsupported("not an operation of mkldnn tensors")
        x = tensors(row, piece)[0].to_mkldnn()
        return lambda: torch.softmax(x, 1)

    def each(function):
        def prepare(row, pieces):
            run = PythonRun([function(row, piece) for piece in pieces], output=None if function is into else numpy_of)
            try:
                run.calls[0]()
            except (RuntimeError, NotImplementedError) as error:
                raise Unsupported(str(error).splitlines()[0][:100]) from error
            return run
        return prepare

    def compiled(row, pieces):
        return PythonRun(compiled_calls(torch, row, [tensors(row, piece) for piece in pieces], pieces))

    version = torch.__version__.split("+")[0]
    onednn = re.search(r"MKL-DNN v([\d.]+)", torch.__config__.show())
    made = [Contestant(f"PyTorch {version} out=", "torch", CALLER, each(into)),
            Contestant(f"PyTorch {version}", "torch", LIBRARY, each(plain))]
    if onednn:
        def dense(given):
            return numpy_of(given.to_dense())

        def prepare(row, pieces):
            run = each(mkldnn)(row, pieces)
            run.output, run.keep = dense, True
            return run
        made.append(Contestant(f"oneDNN {onednn[1]} (PyTorch)", "onednn", LIBRARY, prepare))
    made.append(Contestant(f"PyTorch {version} compiled", "torch.compile", CALLER, compiled))
    return made


def compiled_calls(torch, row, tensors, pieces):
    """torch.compile of the formula, its result copied into the given memory: inductor fuses that."""
    if row.operation == "softmax":
        def function(x, y, _):
            y.copy_(torch.softmax(x, 1))
    elif row.operation == "log_softmax":
        def function(x, y, _):
            y.copy_(torch.log_softmax(x, 1))
    elif row.operation == "softmax_backward":
        def function(x, y, dy):
            y.copy_(x * (dy - (x * dy).sum(1, keepdim=True)))
    elif row.operation == "cross_entropy":
        tensors = [(x, y, (torch.from_numpy(piece.targets), torch.from_numpy(piece.loss))) for (x, y, _), piece in zip(tensors, pieces)]

        def function(x, y, more):
            targets, loss = more
            logsumexp = torch.logsumexp(x, 1, keepdim=True)
            loss.copy_((logsumexp - x.gather(1, targets[:, None])).mean())
            here = torch.arange(x.shape[1])[None, :] == targets[:, None]
            y.copy_((torch.exp(x - logsumexp) - here.to(x.dtype)) / x.shape[0])
    else:
        raise Unsupported("not written")
    fast = torch.compile(function, dynamic=False)
    return [lambda x=x, y=y, dy=dy: fast(x, y, dy) for x, y, dy in tensors]
