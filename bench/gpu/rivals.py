"""What others offer on the same GPU, each as a closure over the same arrays; None where it is not installed or cannot do it."""
import ctypes
import functools
import glob
import os

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:
    @triton.jit
    def _softmax_row(x, y, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, BLOCK)
        z = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        e = tl.exp(z - tl.max(z, 0))
        tl.store(y + row * columns + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < columns)

    @triton.jit
    def _copy(x, y, count, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)

    @triton.jit
    def _three_streams(x, y, z, count, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        a = tl.load(x + at, mask=at < count)
        tl.store(z + at, a + tl.load(y + at, mask=at < count), mask=at < count)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def usable(who, function):
    """The function, if it runs here; a rival that fails is left out, and said so."""
    if not function:
        return None
    try:
        function()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001  whatever a rival throws
        print(f"bench-gpu: {who} was left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return None
    return function


def triton_softmax(x, y):
    """One program per row, the row in registers: the tutorial's kernel."""
    if not triton or x.shape[1] > 131072:
        return None
    block = triton.next_power_of_2(x.shape[1])
    warps = min(max(block // 256, 4), 32)
    return lambda: _softmax_row[(x.shape[0],)](x, y, x.shape[1], BLOCK=block, num_warps=warps)


def copy_kernel(x, y):
    return triton and (lambda: _copy[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096, num_warps=8))


def three_streams(x, y, z):
    return triton and (lambda: _three_streams[(triton.cdiv(x.numel(), 2048),)](x, y, z, x.numel(), BLOCK=2048, num_warps=8))


# ---- cuDNN, by its C functions ------------------------------------------------------------------------------------------


@functools.lru_cache(None)
def _cudnn():
    import importlib.util
    places = []
    for package in ("nvidia.cudnn", "nvidia"):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for root in (spec.submodule_search_locations or []) if spec else []:
            places += glob.glob(os.path.join(root, "**", "libcudnn.so.9"), recursive=True)
    for path in places + ["libcudnn.so.9"]:
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        handle = ctypes.c_void_p()
        if library.cudnnCreate(ctypes.byref(handle)) == 0:
            return library, handle
    return None


def cudnn_version():
    found = _cudnn()
    return found and found[0].cudnnGetVersion()


def cudnn(x, y, log=False, dy=None):
    """cudnnSoftmaxForward (or Backward: x is the output, y the gradient), accurate or log, over all of (rows, columns, 1, 1)'s instances:
    its other mode, over channels, is a hundred times slower here."""
    found = _cudnn()
    if not found:
        return None
    library, handle = found
    descriptor = ctypes.c_void_p()
    library.cudnnCreateTensorDescriptor(ctypes.byref(descriptor))
    types = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 9}
    rows, columns = x.shape
    if library.cudnnSetTensor4dDescriptor(descriptor, 0, types[x.dtype], ctypes.c_int(rows), ctypes.c_int(columns), 1, 1):
        return None
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    algorithm = 2 if log else 1
    a, b, d = (ctypes.c_void_p(t.data_ptr()) if t is not None else None for t in (x, y, dy))

    def run(keeps=(x, y, dy)):
        library.cudnnSetStream(handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if dy is None:
            status = library.cudnnSoftmaxForward(handle, algorithm, 0, ctypes.byref(one), descriptor, a, ctypes.byref(zero), descriptor, b)
        else:
            status = library.cudnnSoftmaxBackward(handle, algorithm, 0, ctypes.byref(one), descriptor, a, descriptor, d, ctypes.byref(zero),
                                                  descriptor, b)
        if status:
            raise RuntimeError(f"cuDNN status {status}")
    return run


# ---- PyTorch ------------------------------------------------------------------------------------------------------------


def torch_softmax(x, y, log=False):
    function = torch.log_softmax if log else torch.softmax
    return lambda: function(x, 1, out=y)


def torch_compiled(x, log=False):
    function = torch.compile(lambda t: torch.log_softmax(t, 1) if log else torch.softmax(t, 1), dynamic=False)
    return lambda: function(x)


def torch_backward(y, dy, dx, log=False):
    function = torch.ops.aten._log_softmax_backward_data.out if log else torch.ops.aten._softmax_backward_data.out
    if log:
        return lambda: function(dy, y, 1, y.dtype, out=dx)
    return lambda: function(dy, y, 1, y.dtype, grad_input=dx)


def torch_cross_entropy(x, targets):
    """Loss and gradient, as autograd makes them."""
    leaf = x.detach().requires_grad_(True)

    def run():
        leaf.grad = None
        torch.nn.functional.cross_entropy(leaf, targets).backward()
    return run


def torch_compiled_cross_entropy(x, targets):
    leaf = x.detach().requires_grad_(True)
    function = torch.compile(torch.nn.functional.cross_entropy, dynamic=False)

    def run():
        leaf.grad = None
        function(leaf, targets).backward()
    return run


# ---- Where installed ----------------------------------------------------------------------------------------------------


def liger_loss():
    """The mean loss as a function of (logits, targets); it writes the gradient over the logits. None where it is not installed."""
    try:
        from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    except ImportError:
        return None
    # weight, ignore_index, lse_square_scale, label_smoothing, reduction
    return lambda logits, targets: LigerCrossEntropyFunction.apply(logits, targets, None, -100, 0.0, 0.0, "mean")[0]


def liger_cross_entropy(x, targets):
    """Its forward alone, which makes the gradient too: over the logits, so a copy of them is its to spoil."""
    loss = liger_loss()
    leaf = loss and x.clone().requires_grad_(True)
    return loss and (lambda: loss(leaf, targets))


def liger_softmax(x):
    try:
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
    except ImportError:
        return None
    return lambda: LigerSoftmaxFunction.apply(x)


def quack(name):
    try:
        import quack
    except ImportError:
        return None
    return getattr(quack, name, None)


def quack_softmax(x):
    function = quack("softmax")
    return function and (lambda: function(x))


def quack_cross_entropy(x, targets):
    function = quack("cross_entropy")
    if not function:
        return None
    leaf = x.detach().requires_grad_(True)

    def run():
        leaf.grad = None
        function(leaf, targets).mean().backward()
    return run


def installed():
    """Rivals and their versions, for the table's head; missing ones said so."""
    import importlib.metadata
    words = [f"PyTorch {torch.__version__}"]
    for name in ("triton", "liger-kernel", "quack-kernels"):
        try:
            words.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            words.append(f"{name} not installed")
    version = cudnn_version()
    words.append(f"cuDNN {version}" if version else "cuDNN not found")
    return ", ".join(words)
