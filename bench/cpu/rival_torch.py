"""PyTorch: into given memory (out=), as users call it, compiled, and oneDNN as its mkldnn tensors reach it."""
import re
import warnings

from contestant import CALLER, LIBRARY, Contestant, PythonRun, Unsupported


class Calls:
    """The ways to call PyTorch for one row."""

    def __init__(self, torch, row):
        self.torch, self.row, self.aten = torch, row, torch.ops.aten
        torch.set_num_threads(row.threads)

    def tensor(self, array):
        """The caller's memory, without a copy."""
        if array is None:
            return None
        if self.row.type == "bfloat16" and array.dtype == "uint16":
            return self.torch.from_numpy(array.view("int16")).view(self.torch.bfloat16)
        return self.torch.from_numpy(array)

    def numpy(self, given):
        given = given.detach()
        if given.is_mkldnn:
            given = given.to_dense()
        bfloat16 = given.dtype == self.torch.bfloat16
        return given.view(self.torch.int16).numpy().view("uint16") if bfloat16 else given.numpy()

    def into(self, piece):
        torch, aten = self.torch, self.aten
        x, y, dy = self.tensor(piece.x), self.tensor(piece.y), self.tensor(piece.dy)
        barred = None if piece.mask is None else torch.from_numpy(piece.mask.view(bool)).logical_not()
        calls = {"softmax": lambda: torch.softmax(x, 1, out=y),
                 "log_softmax": lambda: torch.log_softmax(x, 1, out=y),
                 "logsumexp": lambda: torch.logsumexp(x, 1, out=y),
                 "softmax_backward": lambda: aten._softmax_backward_data.out(dy, x, 1, x.dtype, grad_input=y),
                 "log_softmax_backward": lambda: aten._log_softmax_backward_data.out(dy, x, 1, x.dtype, out=y),
                 "masked_softmax": lambda: torch.softmax(torch.where(barred, -torch.inf, x), 1, out=y)}
        if self.row.operation not in calls:
            raise Unsupported("not into given memory")
        return calls[self.row.operation]

    def plain(self, piece):
        torch, aten = self.torch, self.aten
        x, dy = self.tensor(piece.x), self.tensor(piece.dy)
        targets, mask = self.tensor(piece.targets), None if piece.mask is None else torch.from_numpy(piece.mask.view(bool))

        def loss_and_gradient():
            logits = x.detach().requires_grad_()
            torch.nn.functional.cross_entropy(logits, targets).backward()
            return logits.grad
        return {"softmax": lambda: torch.softmax(x, 1),
                "log_softmax": lambda: torch.log_softmax(x, 1),
                "logsumexp": lambda: torch.logsumexp(x, 1),
                "softmax_backward": lambda: aten._softmax_backward_data(dy, x, 1, x.dtype),
                "log_softmax_backward": lambda: aten._log_softmax_backward_data(dy, x, 1, x.dtype),
                "masked_softmax": lambda: torch.softmax(x.masked_fill(~mask, -torch.inf), 1),
                "cross_entropy": loss_and_gradient}[self.row.operation]

    def mkldnn(self, piece):
        if self.row.operation != "softmax" or self.row.type not in ("float32", "bfloat16"):
            raise Unsupported("not an operation of mkldnn tensors")
        x = self.tensor(piece.x).to_mkldnn()
        return lambda: self.torch.softmax(x, 1)

    def formula(self):
        """What is compiled: of x, the result's memory, and dy or the targets with the loss's memory."""
        torch, operation, rows = self.torch, self.row.operation, self.row.shape[0]

        def cross_entropy(x, y, targets, loss):
            logsumexp = torch.logsumexp(x, 1, keepdim=True)
            loss.copy_((logsumexp - x.gather(1, targets[:, None])).mean())
            here = torch.arange(x.shape[1])[None, :] == targets[:, None]
            y.copy_((torch.exp(x - logsumexp) - here.to(x.dtype)) / rows)
        formulas = {"softmax": lambda x, y: y.copy_(torch.softmax(x, 1)),
                    "log_softmax": lambda x, y: y.copy_(torch.log_softmax(x, 1)),
                    "softmax_backward": lambda x, y, dy: y.copy_(x * (dy - (x * dy).sum(1, keepdim=True))),
                    "cross_entropy": cross_entropy}
        if operation not in formulas:
            raise Unsupported("not written")
        return formulas[operation]

    def compiled(self, pieces):
        fast = self.torch.compile(self.formula(), dynamic=False)

        def call(piece):
            given = [self.tensor(array) for array in (piece.x, piece.y, piece.dy, piece.targets, piece.loss) if array is not None]
            return lambda: fast(*given)
        return PythonRun([call(piece) for piece in pieces])


def contestants():
    import torch
    warnings.filterwarnings("ignore")
    version = torch.__version__.split("+")[0]
    onednn = re.search(r"MKL-DNN v([\d.]+)", torch.__config__.show())

    def way(name):
        def prepare(row, pieces):
            if row.type != row.result_type:
                raise Unsupported("results of another type")
            calls = Calls(torch, row)
            if name == "compiled":
                return calls.compiled(pieces)
            run = PythonRun([getattr(calls, name)(piece) for piece in pieces], output=None if name == "into" else calls.numpy,
                            keep=name == "mkldnn")
            try:
                run.calls[0]()
            except (RuntimeError, NotImplementedError) as error:
                raise Unsupported(str(error).splitlines()[0][:100]) from error
            return run
        return prepare

    made = [Contestant(f"PyTorch {version} out=", "torch", CALLER, way("into")),
            Contestant(f"PyTorch {version}", "torch", LIBRARY, way("plain"))]
    if onednn:
        made.append(Contestant(f"oneDNN {onednn[1]} (PyTorch)", "onednn", LIBRARY, way("mkldnn")))
    return made + [Contestant(f"PyTorch {version} compiled", "torch.compile", CALLER, way("compiled"))]
