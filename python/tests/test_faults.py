"""What users of other libraries met: small inputs, and the right answer, through every kind of array."""
import numpy as np
import pytest
from arrays_of import MAKE, Foreign
from exact import errors, softmax

import libsoftmax

INF, NAN = np.inf, np.nan
F4, F8 = np.float32, np.float64
ROWS = [
    ("all masked", F4, [-INF] * 3, {}, [NAN] * 3),
    ("all masked, zero", F4, [-INF] * 3, dict(empty_rows="zero"), [0, 0, 0]),
    ("+inf", F4, [0, INF], {}, [NAN, NAN]),
    ("+inf and -inf", F4, [-INF, 0, INF], {}, [NAN] * 3),
    ("beyond exp", F8, [800, 1, 1], {}, [1, 0, 0]),
    ("far below zero", F4, [-1000, -1001], {}, [0.7310586, 0.26894143]),
    ("huge", F4, [1e8, 1e8 - 8], {}, [0.99966465, 3.3535013e-4]),
    ("huge and negative", F4, [-3e6, -3000001], {}, [0.7310586, 0.2689414]),
    ("the ends", F4, [3.4028235e38, -3.4028235e38], {}, [1, 0]),
    ("many in float16", np.float16, [0] * 4096, {}, [1 / 4096] * 4096),
    ("float16's subnormals", np.float16, [0] * 65536, {}, [2.0**-16] * 65536),
    ("masked infinity", F4, [INF, 0, 0], dict(mask=[False, True, True]), [0, 0.5, 0.5]),
    ("masked NaN by bias", F4, [NAN, 0, 0], dict(bias=F4([-INF, 0, 0])), [0, 0.5, 0.5]),
]


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax", "foreign"])
@pytest.mark.parametrize("name,dtype,x,words,right", ROWS, ids=[row[0] for row in ROWS])
def test_rows(kind, name, dtype, x, words, right):
    for axis in (-1, None) if kind != "foreign" else (-1,):
        y = libsoftmax.softmax(MAKE[kind](np.array(x, dtype)), axis, **words)
        np.testing.assert_allclose(np.asarray(y.array if isinstance(y, Foreign) else y, F8), right, rtol=1e-6, equal_nan=True)


def test_logsumexp():
    np.testing.assert_allclose(libsoftmax.logsumexp(F4([[1, 2], [-INF, -INF]])), F4([2.3132617, -INF]))
    assert libsoftmax.logsumexp(F4([0, INF])) == INF and libsoftmax.logsumexp(F4([])) == -INF
    assert abs(float(libsoftmax.logsumexp(np.full(32, 7.64, np.float16))) - 11.106) < 0.005
    np.testing.assert_allclose(libsoftmax.log_softmax(F4([1e8, 1e8])), F4([-0.6931472] * 2))


def test_one_bad_row_leaves_the_others(rng):
    x = rng.standard_normal((3, 9)).astype(F4)
    good = libsoftmax.softmax(x)
    x[1] = NAN
    y = libsoftmax.softmax(x)
    assert np.isnan(y[1]).all() and (y[[0, 2]] == good[[0, 2]]).all()
    dx = libsoftmax.softmax_backward(F4([[NAN, NAN], [0, 0], [0.5, 0.5]]), np.ones((3, 2), F4))
    assert np.isnan(dx[0]).all() and (dx[1:] == 0).all()


def test_losses():
    loss, gradient = libsoftmax.cross_entropy(F4([[-INF, 0]]), F4([[0, 1]]), gradient=True)
    assert loss == 0 and np.isfinite(gradient).all()
    assert np.isnan(libsoftmax.cross_entropy(np.zeros((2, 3), F4), [-100, -100]))
    assert libsoftmax.cross_entropy(np.zeros((2, 3), F4), [-100, -100], empty_rows="zero") == 0
    _, gradient = libsoftmax.cross_entropy(np.zeros((2, 3), F4), [-100, -100], gradient=True)
    assert (gradient == 0).all()
    assert (libsoftmax.cross_entropy(np.zeros((2, 3), F4), [-100, -100], reduction="none") == 0).all()
    dy = F4([2, 5, 7])
    x, targets, words = np.arange(12, dtype=F4).reshape(3, 4), [1, -100, 3], dict(reduction="none", label_smoothing=0.1, gradient=True)
    losses, one = libsoftmax.cross_entropy(x, targets, **words)
    _, scaled = libsoftmax.cross_entropy(x, targets, grad_output=dy, **words)
    assert losses[1] == 0 and (scaled[1] == 0).all()
    np.testing.assert_allclose(scaled, one * dy[:, None], rtol=3e-7)


def test_upstream_of_stride_0(rng):
    y = libsoftmax.softmax(rng.standard_normal((3, 7)).astype(F4))
    dy = np.broadcast_to(F4(3), (3, 7))
    assert (libsoftmax.softmax_backward(y, dy) == libsoftmax.softmax_backward(y, dy.copy())).all()


def test_again_and_again(rng):
    x = (1e4 + 5 * rng.standard_normal((64, 64))).astype(F4)
    first = libsoftmax.softmax(x)
    assert errors(first[:8], softmax(x[:8]), "float32").max() <= 2.5
    for threads in (1, 2, 7):
        for _ in range(10):
            assert (libsoftmax.softmax(x, threads=threads) == first).all()
    for isa in libsoftmax.instruction_sets():
        assert (libsoftmax.softmax(x, isa=isa) == first).all()
    assert (np.concatenate([libsoftmax.softmax(row[None]) for row in x]) == first).all()
