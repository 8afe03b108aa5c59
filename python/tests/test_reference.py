"""libsoftmax.reference: every way is right where it claims to be, and fails where its page says so."""

import numpy as np
import pytest

import exact
from libsoftmax.reference import naive, online, stable

RANDOM = np.random.default_rng(7)
ROWS = {
    "random": RANDOM.normal(0, 3, (8, 37)),
    "one column": RANDOM.normal(0, 3, (4, 1)),
    "equal": np.full((3, 65), 1.25),
    "minus infinity": np.where(RANDOM.random((6, 33)) < 0.4, -np.inf, RANDOM.normal(0, 2, (6, 33))),
}
ROWS["minus infinity"][:, 0] = 0.5


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", [naive.softmax, stable.softmax, lambda x: online.softmax(x, 16)])
def test_softmax(way, dtype, kind):
    x = ROWS[kind].astype(dtype)
    y = way(x)
    assert y.dtype == dtype
    # |x - max| / 2 where the maximum is subtracted; the naive form has exp's error alone, at scores of this size.
    assert exact.errors(y, exact.softmax(x), dtype.__name__).max() <= 16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_softmax_and_logsumexp(dtype):
    x = ROWS["random"].astype(dtype)
    truth = exact.log_softmax(x)
    assert exact.errors(stable.log_softmax(x), truth, dtype.__name__, np.abs(x).max() + np.abs(truth.hi)).max() <= 2
    lse = x[:, 0] - truth.hi[:, 0]
    for l in (stable.logsumexp(x), naive.logsumexp(x), online.logsumexp(online.update(online.empty(8, dtype), x))):
        np.testing.assert_allclose(l, lse, rtol=8 * np.finfo(dtype).eps)


def test_where_naive_overflows():
    """exp(88) is the last whole score that float32 can hold."""
    assert np.isfinite(naive.softmax(np.array([88, 1, 1], np.float32))).all()
    assert np.isnan(naive.softmax(np.array([89, 1, 1], np.float32))[0])
    assert np.isfinite(naive.softmax(np.array([709, 1, 1], np.float64))).all()
    assert np.isnan(naive.softmax(np.array([710, 1, 1], np.float64))[0])
    assert np.isnan(naive.softmax(np.array([-1000, -1001], np.float32))).all()
    assert naive.logsumexp(np.array([-1000, -1001], np.float32)) == -np.inf


def test_special_rows():
    x = np.array([[-np.inf] * 3, [0, np.inf, 0], [0, np.nan, 0], [-np.inf, 0, 0]], np.float32)
    for way in (stable.softmax, lambda x: online.softmax(x, 2)):
        y = way(x)
        assert np.isnan(y[:3]).any(1).all() and np.isnan(y[0]).all()
        np.testing.assert_array_equal(y[3], [0, 0.5, 0.5])
    assert stable.logsumexp(x)[0] == -np.inf and stable.logsumexp(x)[3] == np.log(np.float32(2))
    assert online.logsumexp(online.update(online.empty(4), x[:, :1]))[0] == -np.inf


def test_online_merge():
    """Tiles, any cut of them, and merged halves: the same within rounding; merging with nothing changes nothing."""
    x = RANDOM.normal(0, 20, (5, 1000)).astype(np.float32)
    whole = online.logsumexp(online.update(online.empty(5), x))
    for tile in (1, 7, 128, 999):
        pair = online.empty(5)
        for start in range(0, 1000, tile):
            pair = online.update(pair, x[:, start : start + tile])
        np.testing.assert_allclose(online.logsumexp(pair), whole, rtol=2e-6)
    halves = [online.update(online.empty(5), half) for half in (x[:, :300], x[:, 300:])]
    np.testing.assert_allclose(online.logsumexp(online.merge(*halves)), whole, rtol=2e-6)
    np.testing.assert_array_equal(online.merge(halves[0], online.empty(5)), halves[0])
    np.testing.assert_array_equal(online.merge(online.empty(5), online.empty(5)), online.empty(5))


def test_backward_is_the_jacobian():
    x = RANDOM.normal(0, 2, 9)
    dy = RANDOM.normal(0, 1, 9)
    y = stable.softmax(x)
    jacobian = y[:, None] * (np.eye(9) - y[None, :])
    np.testing.assert_allclose(stable.softmax_backward(y, dy), jacobian @ dy, rtol=1e-13, atol=1e-15)
    log_jacobian = np.eye(9) - y[None, :]
    np.testing.assert_allclose(stable.log_softmax_backward(np.log(y), dy), log_jacobian.T @ dy, rtol=1e-13, atol=1e-15)


def test_cross_entropy():
    x = RANDOM.normal(0, 3, (6, 11))
    targets = RANDOM.integers(0, 11, 6)
    loss, gradient = stable.cross_entropy(x, targets)
    exact_loss, exact_gradient = exact.cross_entropy(x, targets)
    np.testing.assert_allclose(loss, exact_loss.hi[:, 0], rtol=1e-14)
    np.testing.assert_allclose(gradient, exact_gradient.hi, atol=1e-15)
    # The logarithm of a quotient that is 0 is -inf; the loss's own formula is not.
    confident = np.array([[0.0, 900.0]])
    assert stable.cross_entropy(confident, np.array([0]))[0] == 900
    with np.errstate(divide="ignore"):
        assert -np.log(stable.softmax(confident))[0, 0] == np.inf


def test_autograd_function():
    torch = pytest.importorskip("torch")
    from libsoftmax.reference import autograd_function as reference

    torch.manual_seed(3)
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(reference.softmax, (x, 0)) and torch.autograd.gradgradcheck(reference.softmax, (x, 1))
    targets = torch.tensor([0, 5, 2, 2])
    assert torch.autograd.gradcheck(reference.cross_entropy, (x, targets))
    np.testing.assert_allclose(reference.softmax(x).detach(), stable.softmax(x.detach().numpy()), rtol=1e-14)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
        y = reference.softmax(x)
    assert saved == [y.data_ptr()]
