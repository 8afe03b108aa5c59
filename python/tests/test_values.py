"""Every operation and type against exact results, within the bounds that the docstrings promise."""
import exact
import gmpy2
import numpy as np
import pytest
from exact import DTYPES, HALVES

import libsoftmax

WIDTHS = (1, 2, 7, 33, 257)
KINDS = ("normal", "wide", "offset", "tail")


def bound(dtype, wide):
    return 0.51 if dtype in HALVES else wide


def rows(rng, dtype):
    for n in WIDTHS:
        for kind in KINDS:
            yield exact.scores(rng, kind, (2, n)).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(rng, dtype):
    for x in rows(rng, dtype):
        assert exact.errors(libsoftmax.softmax(x), exact.softmax(x), dtype).max() <= bound(dtype, 2.5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_softmax(rng, dtype):
    for x in rows(rng, dtype):
        assert exact.errors(libsoftmax.log_softmax(x), exact.log_softmax(x), dtype).max() <= bound(dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_logsumexp(rng, dtype):
    for x in rows(rng, dtype):
        true, size = exact.logsumexp(x)
        assert exact.errors(libsoftmax.logsumexp(x), true, dtype, size).max() <= bound(dtype, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_backward(rng, dtype, name):
    backward = name + "_backward"
    for x in rows(rng, dtype):
        dy = rng.standard_normal(x.shape).astype(x.dtype)
        y = getattr(libsoftmax, name)(x)
        true, sizes = getattr(exact, backward)(y, dy)
        assert exact.errors_of_sums(getattr(libsoftmax, backward)(y, dy), true, dtype, sizes).max() <= bound(dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy(rng, dtype):
    for x in rows(rng, dtype):
        targets = rng.integers(0, x.shape[1], 2)
        losses, gradients = libsoftmax.cross_entropy(x, targets, reduction="none", gradient=True)
        true_losses, true_gradients = exact.cross_entropy(x, targets)
        assert exact.errors(losses, true_losses, losses.dtype.name).max() <= 2
        assert exact.errors(gradients, true_gradients, dtype).max() <= bound(dtype, 3)


def test_confident_loss():
    """Where a probability of 1 and its logarithm give 0."""
    x = np.float32([[40, 0, 0]])
    loss, gradient = libsoftmax.cross_entropy(x, [0], gradient=True)
    true_loss, true_gradient = exact.cross_entropy(x, [0])
    assert exact.errors(loss, true_loss, "float32").max() <= 2 and exact.errors(gradient, true_gradient, "float32").max() <= 3
    assert 0 < float(loss) < 1e-16 and gradient[0, 0] < 0


OPTIONS = {"scale": ["scale"], "softcap": ["softcap"], "bias": ["bias"], "mask": ["mask"], "lengths": ["valid_lengths"],
           "causal": ["causal", "causal_offset"],
           "all": ["softcap", "scale", "bias", "mask", "valid_lengths", "causal", "causal_offset"]}


@pytest.mark.parametrize("name", OPTIONS)
def test_score_options(rng, name):
    x = (3 * rng.standard_normal((3, 4, 9))).astype(np.float32)
    bias, mask, lengths = rng.standard_normal((4, 9)).astype(np.float32), rng.random((4, 9)) < 0.7, np.array([9, 3, 5, 1])
    mask[:, 0] = True
    every = dict(scale=0.7, softcap=4.0, bias=bias, mask=mask, valid_lengths=lengths, causal=True, causal_offset=1)
    words = {option: every[option] for option in OPTIONS[name]}
    y = libsoftmax.softmax(x, **words)
    for i in range(3):
        for q in range(4):
            with exact.context():
                z = exact.reals(x[i, q])
                if words.get("softcap"):
                    cap = gmpy2.mpfr(words["softcap"])
                    z = exact.reals([np.float32(float(cap * gmpy2.tanh(v / cap))) for v in z])  # rounded once
                z = [gmpy2.mpfr(words.get("scale", 1)) * v for v in z]
                if "bias" in words:
                    z = [v + b for v, b in zip(z, exact.reals(bias[q]))]
            seen = [j for j in range(9) if ("mask" not in words or mask[q, j]) and ("valid_lengths" not in words or j < lengths[q]) and
                    (not words.get("causal") or j <= q + words["causal_offset"])]
            # softcap may round to the other neighbour: then every score is off by up to an ULP of itself.
            allowed = 2.5 if not words.get("softcap") else 20
            true = exact.softmax(np.array([[z[j] for j in seen]], dtype=object))
            assert exact.errors(y[i, q, seen], true, "float32").max() <= allowed
            assert all(y[i, q, j] == 0 for j in range(9) if j not in seen)


def test_streaming(rng):
    """Where results go first is a matter of speed alone."""
    x, targets = rng.standard_normal((300, 40)).astype(np.float32), rng.integers(0, 40, 300)
    for axis in (0, 1):
        y = libsoftmax.softmax(x, axis)
        for word in ("choose", "never", "always"):
            assert (libsoftmax.softmax(x, axis, streaming=word) == y).all()
            assert (libsoftmax.softmax_backward(y, x, axis, streaming=word) == libsoftmax.softmax_backward(y, x, axis)).all()
    assert libsoftmax.cross_entropy(x, targets, streaming="always") == libsoftmax.cross_entropy(x, targets)
    with pytest.raises(ValueError, match="softmax: streaming is 'sometimes'; 'choose', 'never' or 'always' is allowed"):
        libsoftmax.softmax(x, streaming="sometimes")
    with pytest.raises(TypeError, match="streaming is 1; 'choose', 'never' or 'always' is allowed"):
        libsoftmax.softmax(x, streaming=1)


def test_loss_options(rng):
    x = rng.standard_normal((5, 7)).astype(np.float32)
    targets = np.array([0, 6, -1, 3, 2])
    weights = rng.random(7).astype(np.float32)
    losses, lse = libsoftmax.cross_entropy(x, targets, reduction="none", ignore_index=-1, label_smoothing=0.2, z_loss=0.01,
                                           class_weights=weights, row_logsumexp=True)
    z, w = x.astype(np.float64), weights.astype(np.float64)
    l = np.log(np.exp(z).sum(1))
    expected = np.array([0 if t == -1 else 0.8 * w[t] * (l[i] - z[i, t]) + 0.2 / 7 * (w * (l[i] - z[i])).sum() + 0.01 * l[i] ** 2
                         for i, t in enumerate(targets)])
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    np.testing.assert_allclose(lse, l, rtol=1e-6)
    kept = targets != -1
    z_terms = np.where(kept, 0.01 * l**2, 0)
    mean = (expected - z_terms).sum() / w[targets[kept]].sum() + z_terms.sum() / kept.sum()
    words = dict(ignore_index=-1, label_smoothing=0.2, z_loss=0.01, class_weights=weights)
    np.testing.assert_allclose(libsoftmax.cross_entropy(x, targets, **words), mean, rtol=1e-6)
    np.testing.assert_allclose(libsoftmax.cross_entropy(x, targets, reduction="sum", **words), expected.sum(), rtol=1e-6)


def test_probability_targets(rng):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    p = libsoftmax.softmax(rng.standard_normal((3, 5)).astype(np.float32))
    losses, gradient, of_targets = libsoftmax.cross_entropy(x, p, reduction="none", gradient=True, targets_gradient=True)
    l = np.log(np.exp(x.astype(float)).sum(1, keepdims=True))
    np.testing.assert_allclose(losses, (p * (l - x)).sum(1), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.exp(x - l) * p.sum(1, keepdims=True) - p, atol=1e-6)
    np.testing.assert_allclose(of_targets, l - x, rtol=1e-6)


@pytest.mark.parametrize("upstream", [2.5, np.float32(2.5), np.array(2.5, np.float32), np.full(3, 2.5, np.float32)])
def test_grad_output(rng, upstream):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    _, one = libsoftmax.cross_entropy(x, [0, 1, 2], reduction="none", gradient=True)
    _, scaled = libsoftmax.cross_entropy(x, [0, 1, 2], reduction="none", gradient=True, grad_output=upstream)
    np.testing.assert_allclose(scaled, 2.5 * one, rtol=3e-7)
