"""The ways to compute a problem that people have in Python: SciPy's, PyTorch's and JAX's functions, the forms for study of
libsoftmax.reference, libsoftmax.triton, and this package's functions, for arrays and for autograd.

As in the command's table, other libraries and forms get scores that are prepared as people do, scale and masks rounded to the input's type, before
the clock starts; this package does that inside its time."""
import ctypes
import importlib
import os

import numpy as np

import libsoftmax

FORWARD = ("softmax", "log_softmax", "logsumexp")
INTERPRETED_MOST = 1 << 16  # elements that Triton's interpreter is asked for, where there is no GPU


class Problem:
    """The arrays and options of a command line."""

    def __init__(self, given):
        self.op, self.threads, self.device = given.op, given.threads, given.device
        self.x = self.load(given.input, given.dtype)
        if self.x.dtype.kind not in "fV" or self.x.ndim == 0:
            raise TypeError(f"{given.input} is {self.x.dtype}")
        self.axis = given.axis % self.x.ndim
        self.mask, self.lengths, self.dy, self.targets, self.weights = (
            self.load(name, given.dtype) if name else None
            for name in (given.mask, given.valid_lengths, given.grad, given.targets, given.class_weights))
        self.scale, self.softcap, self.empty_rows = given.scale, given.softcap, given.empty_rows
        self.causal, self.offset = given.causal, given.causal_offset
        self.smoothing, self.z_loss, self.ignored = given.label_smoothing, given.z_loss, given.ignore_index

    @staticmethod
    def load(name, dtype):
        array = np.load(name)
        if dtype == "bfloat16" and array.dtype == np.uint16:
            import ml_dtypes

            return array.view(ml_dtypes.bfloat16)
        return array

    def prepared(self):
        """The scores as people prepare them."""
        z, kind = self.x, self.x.dtype.type
        minus_inf = kind(-np.inf)
        column = np.arange(z.shape[self.axis]).reshape([-1 if d == self.axis else 1 for d in range(z.ndim)])
        if self.softcap:
            z = (kind(self.softcap) * np.tanh(z / kind(self.softcap))).astype(kind)
        if self.scale != 1:
            z = (z * kind(self.scale)).astype(kind)
        if self.mask is not None:
            z = np.where(self.mask != 0, z, minus_inf) if self.mask.dtype.kind in "bu" else z + self.mask.astype(kind)
        if self.lengths is not None:
            lengths = np.broadcast_to(self.lengths, z.shape[: self.axis] + z.shape[self.axis + 1 :])
            z = np.where(column < np.expand_dims(lengths, self.axis), z, minus_inf)
        if self.causal:
            z = np.where(column <= np.arange(z.shape[-2])[:, None] + self.offset, z, minus_inf)
        return np.ascontiguousarray(z, self.x.dtype)

    def result_type(self):
        """logsumexp and losses of 16-bit scores are float32 in the command's table."""
        return np.float32 if self.op in ("logsumexp", "cross_entropy") and self.x.dtype.itemsize == 2 else self.x.dtype


    def is_plain_loss(self):
        """Whether a loss is that of hard targets and nothing else."""
        hard = self.targets.dtype.kind in "iu" and (self.targets != self.ignored).all()
        return hard and not (self.smoothing or self.z_loss or self.softcap) and self.weights is self.mask is self.lengths is None

    def matrix(self, array):
        """With the axis last, and the others one: what forms for study take."""
        last = np.moveaxis(array, self.axis, -1)
        return np.ascontiguousarray(last.reshape(-1, last.shape[-1]))

    def back(self, matrix):
        """The inverse; of one number a row, the shape without the axis."""
        rest = self.x.shape[: self.axis] + self.x.shape[self.axis + 1 :]
        return np.moveaxis(matrix.reshape(*rest, -1), -1, self.axis) if matrix.ndim == 2 else matrix.reshape(rest)


def has_gpu():
    """Whether the driver finds one."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def ways(problem):
    """(name, call, finish) for each way that is installed and has the operation: finish, outside the clock, makes a NumPy array of what call gives."""
    if not has_gpu():  # Triton reads it when it is imported, be it by PyTorch
        os.environ.setdefault("TRITON_INTERPRET", "1")
    for make in (scipy_way, torch_way, jax_way, reference_naive, reference_stable, reference_online, reference_autograd, triton_way, own_torch_way, own_way):
        found = make(problem)
        if found:
            name, call, *finish = found
            yield name[:20], call, lambda r, finish=finish: np.asarray(finish[0](r) if finish else r).astype(problem.result_type(), copy=False)


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def scipy_way(p):
    special = module("scipy.special")
    if not special or p.op not in FORWARD or p.x.dtype.name == "bfloat16":
        return None
    z, function = p.prepared(), getattr(special, p.op)
    return f"SciPy {module('scipy').__version__}", lambda: function(z, axis=p.axis)


class Tensors:
    """PyTorch's arrays of a problem, on its device."""

    def __init__(self, p, torch):
        torch.set_num_threads(p.threads or torch.get_num_threads())
        self.torch, self.kind = torch, p.x.dtype
        self.device = p.device if p.device.startswith("cuda") and torch.cuda.is_available() else "cpu"

    def tensor(self, array):
        array = np.array(array)  # not the file's own read-only pages
        made = self.torch.from_numpy(array.view(np.int16)).view(self.torch.bfloat16) if array.dtype.name == "bfloat16" else self.torch.from_numpy(array)
        return made.to(self.device)

    def finish(self, t):
        t = t.detach().cpu()
        return t.view(self.torch.int16).numpy().view(self.kind) if t.dtype == self.torch.bfloat16 else t.numpy()

    def way(self, name, call):
        if self.device == "cpu":
            return name, call, self.finish

        def finished():
            result = call()
            self.torch.cuda.synchronize()
            return result
        return name, finished, self.finish

    def loss_inputs(self, p):
        """Logits with the classes second, and targets."""
        targets = self.tensor(p.targets)
        return (self.tensor(np.moveaxis(p.x, p.axis, 1) if p.x.ndim > 1 else p.x), targets if targets.is_floating_point() else targets.long())


def torch_way(p):
    torch = module("torch")
    if not torch:
        return None
    t, name = Tensors(p, torch), f"PyTorch {torch.__version__.split('+')[0]}"
    if p.op in FORWARD:
        z, function = t.tensor(p.prepared()), getattr(torch, p.op)
        return t.way(name, lambda: function(z, p.axis))
    if p.op.endswith("_backward"):
        y, dy, function = t.tensor(p.x), t.tensor(p.dy), getattr(torch.ops.aten, f"_{p.op}_data")
        return t.way(name, lambda: function(dy, y, p.axis, y.dtype))
    if p.z_loss or p.mask is not None or p.lengths is not None or p.softcap:
        return None
    logits, targets = t.loss_inputs(p)
    weights = None if p.weights is None else t.tensor(p.weights).to(logits.dtype)
    loss = torch.nn.functional.cross_entropy
    return t.way(name, lambda: loss(logits, targets, weights, ignore_index=p.ignored, reduction="none", label_smoothing=p.smoothing))


def jax_way(p):
    jax = module("jax")
    if not jax or p.op not in FORWARD:
        return None
    jax.config.update("jax_enable_x64", True)
    function = {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.nn.logsumexp}[p.op]
    z, compiled = jax.numpy.asarray(p.prepared()), jax.jit(lambda z: function(z, axis=p.axis))
    return f"JAX {jax.__version__}", lambda: compiled(z).block_until_ready()


def study(p, name, function, *arrays):
    """A form for study over rows of float32 or float64."""
    rows = [p.matrix(array).astype(np.float64 if p.x.dtype == np.float64 else np.float32) for array in arrays]

    def call():
        with np.errstate(all="ignore"):
            return function(*rows)
    return name, call, p.back


def reference_naive(p):
    from libsoftmax.reference import naive

    return study(p, "naive, NumPy", getattr(naive, p.op), p.prepared()) if p.op in ("softmax", "logsumexp") else None


def reference_stable(p):
    from libsoftmax.reference import stable

    if p.op == "cross_entropy":
        if not p.is_plain_loss():
            return None
        targets = p.targets.reshape(-1)
        return study(p, "stable, NumPy", lambda z: stable.cross_entropy(z, targets)[0], p.x)
    return study(p, "stable, NumPy", getattr(stable, p.op), *([p.x, p.dy] if p.op.endswith("_backward") else [p.prepared()]))


def reference_online(p):
    from libsoftmax.reference import online

    forms = {"softmax": online.softmax, "logsumexp": lambda z: online.logsumexp(online.update(online.empty(len(z), z.dtype), z))}
    return study(p, "online, NumPy", forms[p.op], p.prepared()) if p.op in forms else None


def reference_autograd(p):
    """The operation as autograd.Function: its forward, or its hand-written backward."""
    torch = module("torch")
    if not torch or p.op not in ("softmax", "softmax_backward"):
        return None
    from libsoftmax.reference import autograd_function

    t = Tensors(p, torch)
    if p.op == "softmax":
        z = t.tensor(p.prepared())
        z = z.float() if z.dtype.itemsize == 2 else z
        return t.way("autograd by hand", lambda: autograd_function.softmax(z, p.axis))

    class Context:
        dim, saved_tensors = p.axis, (t.tensor(p.x.astype(np.float32) if p.x.dtype.itemsize == 2 else p.x),)

    dy = t.tensor(p.dy.astype(np.float32) if p.x.dtype.itemsize == 2 else p.dy)
    return t.way("autograd by hand", lambda: autograd_function.Softmax.backward(Context, dy)[0])


def triton_way(p):
    """On the GPU that PyTorch sees; else by Triton's interpreter, where that does not take long."""
    torch = module("torch")
    if not torch or not module("triton") or p.x.dtype == np.float64 or p.op not in ("softmax", "softmax_backward", "cross_entropy"):
        return None
    gpu = torch.cuda.is_available()
    if not gpu and p.x.size > INTERPRETED_MOST or p.op == "cross_entropy" and not p.is_plain_loss():
        return None
    from libsoftmax import triton as ours

    t = Tensors(p, torch)
    t.device = p.device if p.device.startswith("cuda") else "cuda" if gpu else "cpu"

    def way(call, finish=t.finish):
        if gpu:
            return *t.way(f"Triton {module('triton').__version__}", call)[:2], finish

        def interpreted():  # by NumPy, which warns of NaN
            with np.errstate(all="ignore"):
                return call()
        return "Triton, interpreted", interpreted, finish

    if p.op == "softmax":
        z = t.tensor(p.prepared())
        return way(lambda: ours.softmax(z, p.axis))
    if p.op == "softmax_backward":
        y, dy = t.tensor(p.x), t.tensor(p.dy)
        return way(lambda: ours.softmax_backward(y, dy, p.axis))
    logits, targets = t.tensor(p.matrix(p.x)), t.tensor(p.targets.reshape(-1)).long()
    return way(lambda: ours.cross_entropy(logits, targets, reduction="none")[0], lambda losses: p.back(t.finish(losses)))


def own_torch_way(p):
    torch = module("torch")
    if not torch:
        return None
    from libsoftmax import torch as ours

    name, t = "libsoftmax.torch", Tensors(p, torch)
    if p.op.endswith("_backward"):
        y, dy, function = t.tensor(p.x), t.tensor(p.dy), getattr(torch.ops.libsoftmax, p.op)
        return t.way(name, lambda: function(dy, y, p.axis))
    words = {"softcap": p.softcap, "valid_lengths": None if p.lengths is None else t.tensor(p.lengths)}
    if p.op == "cross_entropy":
        if p.mask is not None:
            words["mask"] = t.tensor(np.moveaxis(np.broadcast_to(p.mask, p.x.shape), p.axis, 1 if p.x.ndim > 1 else 0))
        logits, targets = t.loss_inputs(p)
        weights = None if p.weights is None else t.tensor(p.weights)
        return t.way(name, lambda: ours.cross_entropy(logits, targets, weights, ignore_index=p.ignored, reduction="none",
                                                      label_smoothing=p.smoothing, z_loss=p.z_loss, **words))
    if p.mask is not None:
        words["mask" if p.mask.dtype.kind in "bu" else "bias"] = t.tensor(p.mask)
    words.update(scale=p.scale, causal=p.causal, causal_offset=p.offset)
    if p.op == "logsumexp":
        words["dtype"] = torch.float32 if p.x.dtype.itemsize == 2 else None
    if p.op != "logsumexp":
        words["empty_rows"] = p.empty_rows
    x, function = t.tensor(p.x), getattr(ours, p.op)
    return t.way(name, lambda: function(x, p.axis, **words))


def own_way(p):
    name, execution = "libsoftmax in Python", dict(threads=p.threads, empty_rows=p.empty_rows)
    function = getattr(libsoftmax, p.op)
    if p.op.endswith("_backward"):
        return name, lambda: function(p.x, p.dy, p.axis, **execution)
    masks = dict(softcap=p.softcap, valid_lengths=p.lengths)
    if p.mask is not None:
        masks["mask" if p.mask.dtype.kind in "bu" else "bias"] = p.mask
    if p.op == "cross_entropy":
        return name, lambda: function(p.x, p.targets, p.axis, reduction="none", label_smoothing=p.smoothing, z_loss=p.z_loss,
                                      ignore_index=p.ignored, class_weights=p.weights, **masks, **execution)
    if p.op == "logsumexp":
        execution["dtype"] = p.result_type()
    return name, lambda: function(p.x, p.axis, scale=p.scale, causal=p.causal, causal_offset=p.offset, **masks, **execution)
