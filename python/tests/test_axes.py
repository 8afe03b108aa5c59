"""axis: an int, a tuple, None; against SciPy's meaning of it."""
import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.special
import torch
from arrays_of import MAKE, Foreign, bits, kind_of

import libsoftmax

SHAPE = (2, 3, 4, 5)
AXES = [None, 0, -1, 2, (0,), (0, 1), (1, 2), (3, 0), (-1, 1), (0, 1, 2, 3), (2, 1, 3)]


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_against_scipy(rng, axis):
    x = rng.standard_normal(SHAPE)
    np.testing.assert_allclose(libsoftmax.softmax(x, axis), scipy.special.softmax(x, axis), rtol=1e-14)
    np.testing.assert_allclose(libsoftmax.log_softmax(x, axis=axis), scipy.special.log_softmax(x, axis), rtol=1e-13, atol=1e-14)
    for keepdims in (False, True):
        ours, theirs = (f(x, axis=axis, keepdims=keepdims) for f in (libsoftmax.logsumexp, scipy.special.logsumexp))
        assert np.shape(ours) == np.shape(theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    y, dy = libsoftmax.softmax(x, axis), rng.standard_normal(SHAPE)
    np.testing.assert_allclose(libsoftmax.softmax_backward(y, dy, axis), y * (dy - (dy * y).sum(axis, keepdims=True)), atol=1e-14)
    y = libsoftmax.log_softmax(x, axis)
    np.testing.assert_allclose(libsoftmax.log_softmax_backward(y, dy, axis), dy - np.exp(y) * dy.sum(axis, keepdims=True), atol=1e-13)


@pytest.mark.parametrize("kind", ["torch", "jax"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_kinds(rng, kind, axis):
    x = rng.standard_normal(SHAPE).astype(np.float32)
    made = MAKE[kind](x)
    for function in (libsoftmax.softmax, libsoftmax.log_softmax, libsoftmax.logsumexp):
        y = function(made, axis)
        assert kind_of(y) == kind and tuple(y.shape) == np.shape(function(x, axis)) and bits(y) == bits(function(x, axis))


def test_together_is_the_flat_row(rng):
    """Axes taken together count in C order: the bits of one row."""
    x = rng.standard_normal((4, 3000)).astype(np.float32)
    assert bits(libsoftmax.softmax(x, None)) == bits(libsoftmax.softmax(x.reshape(-1)))
    assert bits(libsoftmax.softmax(np.asfortranarray(x), None)) == bits(libsoftmax.softmax(x.reshape(-1)))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_options_and_out(rng, kind):
    make = MAKE[kind]
    x, bias = rng.standard_normal(SHAPE).astype(np.float32), rng.standard_normal((3, 1, 5)).astype(np.float32)
    mask, lengths = rng.random((4, 5)) < 0.8, rng.integers(1, 13, (2, 5))
    words = dict(bias=bias, mask=mask, valid_lengths=lengths, scale=0.5)
    moved = np.moveaxis(x, (1, 2), (-2, -1)).reshape(2, 5, 12)
    expected = libsoftmax.softmax(moved, bias=np.moveaxis(np.broadcast_to(bias, SHAPE), (1, 2), (-2, -1)).reshape(2, 5, 12), scale=0.5,
                                  mask=np.moveaxis(np.broadcast_to(mask, SHAPE), (1, 2), (-2, -1)).reshape(2, 5, 12), valid_lengths=lengths)
    expected = np.moveaxis(expected.reshape(2, 5, 3, 4), (2, 3), (1, 2))
    made = {k: make(v) if isinstance(v, np.ndarray) else v for k, v in words.items()}
    out = make(np.empty(SHAPE, np.float32))
    assert libsoftmax.softmax(make(x), (1, 2), out=out, **made) is out
    assert bits(out) == bits(expected)
    out = make(np.empty((2, 5), np.float32))
    assert libsoftmax.logsumexp(make(x), (1, 2), out=out, **made) is out


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("axis", [(1, 2), (0, 2), None], ids=str)
def test_no_more_copies_than_strides_ask_for(rng, kind, axis):
    """Axes that lie together are seen where they are, also in out; others are copied once, and the input is never written."""
    x = rng.standard_normal((40, 50, 60)).astype(np.float32)
    made, out = MAKE[kind](x.copy()), MAKE[kind](np.empty_like(x))
    for _ in range(2):
        tracemalloc.start()
        y = libsoftmax.softmax(made, axis)
        libsoftmax.softmax(made, axis, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert bits(made) == bits(x) and bits(out) == bits(y)
    if kind == "numpy":  # PyTorch's memory is not traced
        assert peak < 2.5 * x.nbytes if axis == (0, 2) else peak < 1.5 * x.nbytes
    backward = libsoftmax.softmax_backward(y, made, axis)
    assert bits(made) == bits(x) and bits(y) == bits(libsoftmax.softmax(made, axis))
    assert bits(backward) == bits(libsoftmax.softmax_backward(MAKE[kind](np.asarray(y)), made, axis, out=out))


def test_keepdims_out(rng):
    x = rng.standard_normal(SHAPE)
    for axis in range(-4, 4):
        shape = list(SHAPE)
        shape[axis] = 1
        for out in (np.empty(shape), np.empty(shape[::-1]).T):
            assert libsoftmax.logsumexp(x, axis, keepdims=True, out=out) is out
            np.testing.assert_allclose(out, scipy.special.logsumexp(x, axis=axis, keepdims=True), rtol=1e-14)


def test_errors():
    x = np.zeros(SHAPE, np.float32)
    for function, axis in itertools.product((libsoftmax.softmax, libsoftmax.logsumexp), [4, -5, 2**70, -(2**70)]):
        with pytest.raises(ValueError, match="axis is .*; x has 4 dimensions, so -4 to 3 are allowed"):
            function(x, axis)
    for axis, error, words in [((0, 0), ValueError, "each axis once"), ((0, 9), ValueError, "-4 to 3 are allowed"), ("0", TypeError, "an int, a tuple"),
                               ((0, "1"), TypeError, "an int, a tuple"), (1.0, TypeError, "an int, a tuple")]:
        with pytest.raises(error, match=words):
            libsoftmax.softmax(x, axis)
    with pytest.raises(ValueError, match="causal is True and axis is None; the last axis alone is allowed"):
        libsoftmax.softmax(x, None, causal=True)
    with pytest.raises(ValueError, match=r"out has shape \(2, 3\); \(2, 3, 4, 5\) is required"):
        libsoftmax.softmax(x, None, out=np.zeros((2, 3), np.float32))
    with pytest.raises(TypeError, match="softmax: axis is None and x a Foreign, which has no reshape; an int is allowed"):
        libsoftmax.softmax(Foreign(x), None)
    with pytest.raises(TypeError, match="cross_entropy: axis is None; an int is allowed"):
        libsoftmax.cross_entropy(x, 0, None)
    with pytest.raises(ValueError, match="axis is 0; x has 0 dimensions"):
        libsoftmax.softmax(torch.tensor(1.0), 0)
