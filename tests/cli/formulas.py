"""Formulas of softmax.h in long double, and errors in ULP."""

import numpy as np

from command import CommandTest

EXACT = np.longdouble
INF = np.inf


def exact_scores(x, axis=-1, scale=1.0, softcap=0.0, bias=None, mask=None, lengths=None, causal=None):
    z = x.astype(EXACT)
    if softcap:
        z = np.asarray(EXACT(softcap) * np.tanh(z / EXACT(softcap)), x.dtype).astype(EXACT)
    z = z * EXACT(scale)
    if bias is not None:
        z = z + bias.astype(EXACT)
    n = x.shape[axis]
    column = np.arange(n).reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    if mask is not None:
        z = np.where(mask != 0, z, -INF)
    if lengths is not None:
        other = [size for d, size in enumerate(x.shape) if d != axis % x.ndim]
        z = np.where(column < np.expand_dims(np.broadcast_to(lengths, other), axis), z, -INF)
    if causal is not None:
        z = np.where(column <= np.arange(x.shape[-2])[:, None] + causal, z, -INF)
    return z


def exact_logsumexp(z, axis=-1):
    top = z.max(axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    return np.log(np.exp(z - shift).sum(axis, keepdims=True)) + shift


class FormulaTest(CommandTest):
    def assert_ulp(self, got, exact, most, size=None):
        """got is of the type whose ULP counts; size: the magnitude whose ULP is the unit."""
        self.assertEqual(got.shape, exact.shape)
        size = np.abs(exact if size is None else size)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[~finite], exact[~finite].astype(got.dtype))
        tiny = np.finfo(got.dtype).tiny
        if got.dtype != np.float16:  # below the smallest normal, 0 is right
            finite &= ~((np.abs(exact) < tiny) & (np.abs(got) <= tiny))
        unit = np.spacing(np.maximum(size[finite], tiny).astype(got.dtype)).astype(EXACT)
        error = np.abs(got[finite].astype(EXACT) - exact[finite]) / unit
        worst = error.max() if error.size else 0
        self.assertLessEqual(worst, most)

    def numbers(self, *shape, scale=3.0, kind=np.float32):
        return (scale * np.random.default_rng(len(shape) * 1000 + sum(shape)).standard_normal(shape)).astype(kind)
