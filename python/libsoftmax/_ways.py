"""The ways to compute a problem that people have in Python: SciPy's, PyTorch's and JAX's functions, and this package's.

As in the command's table, other libraries get scores that are prepared as people do, scale and masks rounded to the input's type, before
the clock starts; this package does that inside its time."""
import importlib

import numpy as np

import libsoftmax

FORWARD = ("softmax", "log_softmax", "logsumexp")


class Problem:
    """The arrays and options of a command line."""

    def __init__(self, given):
        self.op, self.threads = given.op, given.threads
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


def ways(problem):
    """(name, call) for each way that is installed and has the operation; a call gives a NumPy array."""
    for make in (scipy_way, torch_way, jax_way, own_way):
        found = make(problem)
        if found:
            name, call = found
            kind = problem.result_type()
            yield name[:20], (lambda call=call: call()) if kind == problem.x.dtype else (lambda call=call, kind=kind: np.asarray(call()).astype(kind))


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


def torch_way(p):
    torch = module("torch")
    if not torch:
        return None
    torch.set_num_threads(p.threads or torch.get_num_threads())

    def tensor(array):
        array = np.array(array)  # not the file's own read-only pages
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if array.dtype.name == "bfloat16" else torch.from_numpy(array)

    def back(t):
        return t.view(torch.int16).numpy().view(p.x.dtype) if t.dtype == torch.bfloat16 else t.numpy()

    name = f"PyTorch {torch.__version__.split('+')[0]}"
    if p.op in FORWARD:
        z, function = tensor(p.prepared()), getattr(torch, p.op)
        return name, lambda: back(function(z, p.axis))
    if p.op.endswith("_backward"):
        y, dy, function = tensor(p.x), tensor(p.dy), getattr(torch.ops.aten, f"_{p.op}_data")
        return name, lambda: back(function(dy, y, p.axis, y.dtype))
    if p.z_loss or p.mask is not None or p.lengths is not None or p.softcap:
        return None
    logits, targets = tensor(np.moveaxis(p.x, p.axis, 1) if p.x.ndim > 1 else p.x), tensor(p.targets)
    targets = targets if targets.is_floating_point() else targets.long()
    weights = None if p.weights is None else tensor(p.weights).to(logits.dtype)
    loss = torch.nn.functional.cross_entropy
    return name, lambda: back(loss(logits, targets, weights, ignore_index=p.ignored, reduction="none", label_smoothing=p.smoothing))


def jax_way(p):
    jax = module("jax")
    if not jax or p.op not in FORWARD:
        return None
    jax.config.update("jax_enable_x64", True)
    function = {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax, "logsumexp": jax.nn.logsumexp}[p.op]
    z, compiled = jax.numpy.asarray(p.prepared()), jax.jit(lambda z: function(z, axis=p.axis))
    return f"JAX {jax.__version__}", lambda: compiled(z).block_until_ready()


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
