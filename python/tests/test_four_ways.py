"""NumPy, PyTorch, Triton and the library over the same rows, each against MPFR within the units in the last place that it claims; and the
library's own CPU and GPU bit for bit.

NumPy and PyTorch are the forms of libsoftmax.reference. 16-bit rows are widened to float32 by every way and rounded at the end.
"""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
GPU = torch.cuda.is_available()
if not GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

import libsoftmax  # noqa: E402
import libsoftmax.torch as operators  # noqa: E402
import libsoftmax.triton as triton_way  # noqa: E402
import exact  # noqa: E402
from libsoftmax.reference import autograd_function, stable  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter is NumPy, which warns of NaN
HALVES = (torch.float16, torch.bfloat16)


def wide(x):
    return x.float() if x.dtype in HALVES else x


class Numpy:
    """The maximum subtracted, three lines."""

    ulp = {"softmax": 20, "backward": 4, "loss": 4, "gradient": 20}

    def softmax(x):
        return torch.from_numpy(stable.softmax(wide(x).numpy())).to(x.dtype)

    def backward(y, dy):
        return torch.from_numpy(stable.softmax_backward(wide(y).numpy(), wide(dy).numpy())).to(y.dtype)

    def loss(x, targets):
        loss, gradient = stable.cross_entropy(wide(x).numpy(), targets.numpy())
        return torch.from_numpy(loss), torch.from_numpy(gradient).to(x.dtype)


class PyTorch:
    """autograd.Function with the backward by hand."""

    ulp = {"softmax": 20, "backward": 4, "loss": 4, "gradient": 20}

    def softmax(x):
        return autograd_function.softmax(wide(x)).to(x.dtype)

    def backward(y, dy):
        class Ctx:
            dim, saved_tensors = -1, (wide(y),)

        return autograd_function.Softmax.backward(Ctx, wide(dy))[0].to(y.dtype)

    def loss(x, targets):
        rows = wide(x).clone().requires_grad_()
        losses = [autograd_function.cross_entropy(r[None], t[None]) for r, t in zip(rows, targets)]
        return torch.stack(losses).detach(), torch.autograd.grad(sum(losses), rows)[0].to(x.dtype)


class Triton:
    """One program per row or for several; exp2, whose argument is rounded once more. Triton's interpreter cuts bfloat16 off instead of rounding."""

    ulp = {"softmax": 33, "backward": 4, "loss": 4, "gradient": 33}
    device = "cuda" if GPU else "cpu"

    def softmax(x):
        return triton_way.softmax(x.to(Triton.device)).cpu()

    def backward(y, dy):
        return triton_way.softmax_backward(y.to(Triton.device), dy.to(Triton.device)).cpu()

    def loss(x, targets):
        loss, gradient = triton_way.cross_entropy(x.to(Triton.device), targets.to(Triton.device), reduction="none")
        return loss.cpu(), gradient.cpu()


class Library:
    """The C library on the CPU."""

    ulp = {"softmax": 2.1, "backward": 2, "loss": 2, "gradient": 3}
    device = "cpu"

    @classmethod
    def softmax(cls, x):
        return libsoftmax.softmax(x.to(cls.device)).cpu()

    @classmethod
    def backward(cls, y, dy):
        return libsoftmax.softmax_backward(y.to(cls.device), dy.to(cls.device)).cpu()

    @classmethod
    def loss(cls, x, targets):
        logits = x.to(cls.device).detach().clone().requires_grad_()
        loss = operators.cross_entropy(logits, targets.to(cls.device), reduction="none")
        loss.sum().backward()
        return loss.detach().cpu(), logits.grad.cpu()


class LibraryCuda(Library):
    """The C library's CUDA kernels."""

    device = "cuda"


WAYS = [Numpy, PyTorch, Triton, Library] + [LibraryCuda] * GPU
TYPES = [torch.float32, torch.float64, *HALVES]


def rows_of(kind, dtype):
    generator = torch.Generator().manual_seed(11)

    def normal(*shape):
        return (3 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)

    if kind == "random":
        return normal(8, 64)
    if kind == "minus infinity":
        x = normal(6, 40)
        x[:, 1:][torch.rand(6, 39, generator=generator) < 0.5] = -torch.inf
        return x
    if kind == "equal":
        return torch.full((3, 96), 1.25, dtype=dtype)
    if kind == "one column":
        return normal(5, 1)
    if kind == "odd width":
        return normal(3, 1021)
    return normal(131, 8).T[::2, 1::2]  # strided


def doubles(x):
    return x.double().numpy()


def bound(way, what, dtype):
    """Scores here are up to 24 apart; x - max, rounded, costs half of that."""
    if what == "loss" or dtype not in HALVES:
        return way.ulp[what]
    return 1.01 if dtype == torch.bfloat16 and way is Triton and not GPU else 0.51


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("kind", ["random", "minus infinity", "equal", "one column", "odd width", "strided"])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_way(way, kind, dtype):
    if way is Triton and dtype == torch.float64:
        pytest.skip("the Triton kernels compute in float32")
    name, x = str(dtype)[6:], rows_of(kind, dtype)
    y, truth = way.softmax(x), exact.softmax(doubles(x))
    assert y.dtype == dtype and y.shape == x.shape
    assert exact.errors(doubles(y), truth, name).max() <= bound(way, "softmax", dtype)

    y = torch.from_numpy(truth.hi).to(dtype)
    dy = rows_of("random", dtype).flatten().repeat(8)[: x.numel()].reshape(x.shape)
    true_dx, magnitude = exact.softmax_backward(doubles(y), doubles(dy))
    dx = way.backward(y, dy)
    if dtype in HALVES:  # the sum's own error beside the rounding
        slack = 4 * exact.ulp_of(magnitude, "float32") / exact.ulp_of(true_dx.hi, name)
        assert (exact.errors(doubles(dx), true_dx, name) <= bound(way, "backward", dtype) + slack).all()
    else:
        assert exact.errors(doubles(dx), true_dx, name, magnitude).max() <= bound(way, "backward", dtype)

    targets = x.argmax(1) if kind == "minus infinity" else torch.arange(len(x)) * 3 % x.shape[1]
    loss, gradient = way.loss(x, targets)
    true_loss, true_gradient = exact.cross_entropy(doubles(x), targets.numpy())
    loss_type = "float64" if dtype == torch.float64 else "float32"
    # The library's loss and p - 1 are right relative to themselves; the others' relative to the largest number on the way.
    ours = issubclass(way, Library)
    distance = doubles(x.max(1).values)[:, None] - np.take_along_axis(doubles(x), targets.numpy()[:, None], 1)
    size = None if ours else np.maximum(np.abs(distance), np.maximum(true_loss.hi, 1))
    assert exact.errors(doubles(loss)[:, None], true_loss, loss_type, size).max() <= bound(way, "loss", dtype)
    at_target = np.zeros(x.shape)
    at_target[np.arange(len(x)), targets.numpy()] = 1
    size = None if ours else np.abs(true_gradient.hi) + at_target
    assert exact.errors(doubles(gradient), true_gradient, name, size).max() <= bound(way, "gradient", dtype)


@pytest.mark.skipif(not GPU, reason="no GPU")
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("kind", ["random", "minus infinity", "equal", "one column", "odd width", "strided"])
def test_cpu_and_gpu_bits(kind, dtype):
    x = rows_of(kind, dtype)
    y = Library.softmax(x)
    targets = torch.arange(len(x)) * 3 % x.shape[1]
    dy = x.nan_to_num(neginf=0)
    pairs = [(y, LibraryCuda.softmax(x)), (Library.backward(y, dy), LibraryCuda.backward(y, dy))]
    pairs += zip(Library.loss(x, targets), LibraryCuda.loss(x, targets))
    for cpu, gpu in pairs:
        assert torch.equal(*(t.contiguous().view(torch.uint8) for t in (cpu, gpu)))
