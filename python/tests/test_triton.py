"""libsoftmax.triton against MPFR: on the GPU where there is one, else by Triton's interpreter."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

import exact  # noqa: E402
from libsoftmax import triton as ours  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Triton's interpreter cuts float32 off to bfloat16 where the GPU rounds.
HALF_ULP = {torch.float16: 0.51, torch.bfloat16: 0.51 if torch.cuda.is_available() else 1.01}
TYPES = [torch.float32, torch.float16, torch.bfloat16]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter is NumPy, which warns of NaN


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def scores(dtype, *shape, scale=3.0):
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(shape, generator=generator) * scale).to(dtype).to(DEVICE)


def doubles(tensor):
    return tensor.double().cpu().numpy()


def bound(dtype, distance):
    """float32's x - max is rounded, and its product with log2(e) again: up to 1.2 of the distance in ULP, and exp2, sum and quotient beside it; 16 bits
    hide nearly all of it."""
    return distance * 1.2 + 4 if dtype == torch.float32 else HALF_ULP[dtype]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (9, 7), (300, 8), (40, 33), (4, 129), (5, 300), (2, 1000), (3, 5000), (1, 16384), (2, 16385)])
def test_softmax(dtype, shape):
    x = scores(dtype, *shape)
    y = ours.softmax(x)
    assert y.dtype == dtype and y.shape == x.shape
    assert exact.errors(doubles(y), exact.softmax(doubles(x)), name_of(dtype)).max() <= bound(dtype, 32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_and_strides(dtype, axis):
    x = scores(dtype, 6, 10, 14)[::2, 1::3, 3:]
    rows = doubles(x.movedim(axis, -1).reshape(-1, x.shape[axis]))
    y = doubles(ours.softmax(x, axis).movedim(axis, -1).reshape(rows.shape))
    assert exact.errors(y, exact.softmax(rows), name_of(dtype)).max() <= bound(dtype, 24)
    for columns in (1, 2, 8, 16, 24):  # rows with gaps between them
        gaps = scores(dtype, 9, 48)[:, 8 : 8 + columns]
        torch.testing.assert_close(ours.softmax(gaps), ours.softmax(gaps.contiguous()))
        torch.testing.assert_close(ours.softmax(gaps[::3]), ours.softmax(gaps)[::3])
    wide = scores(dtype, 3, 40)[:, ::2]
    assert not wide.is_contiguous()
    torch.testing.assert_close(ours.softmax(wide), ours.softmax(wide.contiguous()))
    expanded = scores(dtype, 1, 9).expand(4, 9)
    torch.testing.assert_close(ours.softmax(expanded), ours.softmax(expanded.contiguous()))


@pytest.mark.parametrize("columns", [3, 17000])
def test_special_rows(columns):
    x = torch.zeros(5, columns)
    x[0] = -torch.inf
    x[1, -1] = torch.inf
    x[2, 0] = torch.nan
    x[3, 1:] = -torch.inf
    x[4] = 7.25
    y = ours.softmax(x.to(DEVICE)).cpu()
    assert y[:3].isnan().all()
    assert y[3, 0] == 1 and not y[3, 1:].any()
    np.testing.assert_allclose(y[4], 1 / columns, rtol=1e-6)


def test_empty():
    for shape, axis in (((0, 4), 1), ((4, 0), 1), ((0, 0), 0)):
        x = torch.empty(shape, device=DEVICE)
        assert ours.softmax(x, axis).shape == shape and ours.softmax_backward(x, x, axis).shape == shape
    assert ours.softmax(torch.tensor(3.0, device=DEVICE), 0) == 1


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(4, 1), (7, 33), (3, 1000), (2, 16400)])
def test_backward(dtype, shape):
    y = ours.softmax(scores(dtype, *shape))
    dy = scores(dtype, shape[1], shape[0]).T
    assert shape[1] == 1 or shape[0] == 1 or not dy.is_contiguous()
    before = dy.clone()
    truth, magnitude = exact.softmax_backward(doubles(y), doubles(dy))
    error = exact.errors(doubles(ours.softmax_backward(y, dy)), truth, name_of(dtype), magnitude)
    assert error.max() <= bound(dtype, 8) and torch.equal(dy, before)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(4, 1), (6, 10), (5, 257), (2, 3000), (2, 16400)])
def test_cross_entropy(dtype, shape):
    x = scores(dtype, *shape)
    targets = torch.arange(shape[0], device=DEVICE) * 7 % shape[1]
    kept = x.clone()
    losses, gradient = ours.cross_entropy(x, targets, reduction="none")
    assert torch.equal(x, kept) and losses.dtype == torch.float32 and gradient.dtype == dtype
    true_losses, true_gradient = exact.cross_entropy(doubles(x), targets.cpu().numpy())
    assert exact.errors(doubles(losses)[:, None], true_losses, "float32", np.maximum(true_losses.hi, 16)).max() <= 4
    at_target = np.zeros(shape)
    at_target[np.arange(shape[0]), targets.cpu().numpy()] = 1
    error = exact.errors(doubles(gradient), true_gradient, name_of(dtype), np.abs(true_gradient.hi) + at_target)
    assert error.max() <= bound(dtype, 32)
    mean, mean_gradient = ours.cross_entropy(x, targets)
    np.testing.assert_allclose(mean.cpu(), losses.mean().cpu(), rtol=1e-6)
    np.testing.assert_allclose(doubles(mean_gradient), doubles(gradient) / shape[0], rtol=0.01, atol=1e-7)
    total, over = ours.cross_entropy(x, targets, reduction="sum", inplace=True)
    assert over is x and torch.equal(x, gradient)
    np.testing.assert_allclose(total.cpu(), losses.sum().cpu(), rtol=1e-6)


@pytest.mark.parametrize("columns", [5, 17000])
def test_cross_entropy_targets(columns):
    x = scores(torch.float32, 6, columns)
    targets = torch.tensor([0, -100, columns, 4, -1, -100], device=DEVICE)
    losses, gradient = ours.cross_entropy(x, targets, reduction="none")
    assert losses.isnan().tolist() == gradient.isnan().any(1).tolist() == [False, False, True, False, True, False]
    assert losses[1] == 0 and not gradient[1].any()
    x[1, 2] = torch.nan
    losses, gradient = ours.cross_entropy(x, targets.to(torch.int32), reduction="none")
    assert losses[1] == 0 and not gradient[1].any()
    mean, gradient = ours.cross_entropy(x, torch.full((6,), -100, device=DEVICE))
    assert mean.isnan() and not gradient.any()


def test_multiply_unless_one():
    x = scores(torch.bfloat16, 3, 5000)
    once = x.clone()
    ours.multiply_unless_one(once, torch.ones((), device=DEVICE))
    assert torch.equal(once, x)
    ours.multiply_unless_one(once, torch.full((), 0.3, device=DEVICE))
    assert exact.errors(doubles(once), exact.Exact(doubles(x).ravel() * float(np.float32(0.3)), x.shape), "bfloat16").max() <= bound(x.dtype, 0)


def test_refusals():
    x = scores(torch.float32, 3, 4)
    with pytest.raises(TypeError, match="x is torch.float64; a tensor of float32, float16 or bfloat16 is allowed"):
        ours.softmax(x.double())
    with pytest.raises(ValueError, match=r"dy has shape \(3, 3\); \(3, 4\) is allowed"):
        ours.softmax_backward(x, x[:, :3])
    with pytest.raises(ValueError, match="reduction is 'max'"):
        ours.cross_entropy(x, torch.zeros(3, dtype=torch.int64, device=DEVICE), reduction="max")
    with pytest.raises(ValueError, match=r"targets are torch.float32 of shape \(3,\)"):
        ours.cross_entropy(x, torch.zeros(3, device=DEVICE))
