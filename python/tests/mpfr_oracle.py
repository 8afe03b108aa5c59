"""Exact results by MPFR (through gmpy2), and errors in units of the last place. No kernel that ships is used here.

An exact value is carried as two doubles, hi + lo, some 106 bits: enough to judge float64, and arrays of them compare fast.
"""

import gmpy2
import numpy as np

BITS = 200
# (bits of the significand, exponent of the smallest normal number)
FORMATS = {"float64": (53, -1022), "float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}


class Exact:
    """An array of exact values, hi + lo."""

    def __init__(self, values, shape):
        hi = [float(v) for v in values]
        lo = [float(v - h) if np.isfinite(h) else 0.0 for v, h in zip(values, hi)]
        self.hi, self.lo = np.array(hi).reshape(shape), np.array(lo).reshape(shape)


def context():
    return gmpy2.context(gmpy2.get_context(), precision=BITS, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())


def _row(row):
    """(the scores as MPFR numbers, their largest, the terms exp(z - m), their sum)"""
    scores = [gmpy2.mpfr(float(v)) for v in row]
    m = max(scores)
    terms = [gmpy2.exp(z - m) for z in scores]
    return scores, m, terms, sum(terms, gmpy2.mpfr(0))


def _of_rows(x, each):
    x = np.asarray(x, dtype=np.float64)
    with context():
        results = [each(i, row) for i, row in enumerate(x)]
        width = len(results[0]) if results else 0
        return Exact([v for row in results for v in row], (len(x), width))


def softmax(x):
    """Of the rows of x (rows, columns), of any float type."""

    def each(_, row):
        _, _, terms, total = _row(row)
        return [t / total for t in terms]

    return _of_rows(x, each)


def log_softmax(x):
    def each(_, row):
        scores, m, _, total = _row(row)
        return [(z - m) - gmpy2.log(total) for z in scores]

    return _of_rows(x, each)


def softmax_backward(y, dy):
    """y (dy - sum dy y), and |y| (|dy| + sum |dy y|), against which errors count."""
    y, dy = np.asarray(y, dtype=np.float64), np.asarray(dy, dtype=np.float64)

    def each(i, row):
        p, g = [gmpy2.mpfr(float(v)) for v in row], [gmpy2.mpfr(float(v)) for v in dy[i]]
        total = sum((a * b for a, b in zip(p, g)), gmpy2.mpfr(0))
        return [a * (b - total) for a, b in zip(p, g)]

    return _of_rows(y, each), np.abs(y) * (np.abs(dy) + np.abs(dy * y).sum(1, keepdims=True))


def cross_entropy(x, targets):
    """(losses (rows, 1), gradients (rows, columns)) of hard targets."""

    def loss(i, row):
        scores, m, terms, total = _row(row)
        t = targets[i]
        rest = sum((e for j, e in enumerate(terms) if j != t), gmpy2.mpfr(0))
        return [gmpy2.log1p(rest / terms[t]) if terms[t] else gmpy2.mpfr("inf")]

    def gradient(i, row):
        _, _, terms, total = _row(row)
        t = targets[i]
        rest = sum((e for j, e in enumerate(terms) if j != t), gmpy2.mpfr(0))
        return [-rest / total if j == t else e / total for j, e in enumerate(terms)]

    return _of_rows(x, loss), _of_rows(x, gradient)


def ulp_of(values, type_name):
    """The distance of neighbouring numbers of the type in the binade of each value."""
    bits, smallest = FORMATS[type_name]
    _, exponent = np.frexp(np.abs(values))
    return np.ldexp(1.0, np.maximum(exponent - 1, smallest) - (bits - 1))


def errors(result, exact, type_name, magnitude=None):
    """|result - exact| in ULP of the exact value, or of `magnitude` where values may cancel. NaN must meet NaN, and infinities each other."""
    got = np.asarray(result, dtype=np.float64).reshape(exact.hi.shape)
    with np.errstate(invalid="ignore"):
        off = np.abs((got - exact.hi) - exact.lo)
    off[(got == exact.hi) & ~np.isfinite(got)] = 0
    off[np.isnan(got) & np.isnan(exact.hi)] = 0
    scale = np.where(np.isfinite(exact.hi), exact.hi, 1.0) if magnitude is None else magnitude
    off = off / ulp_of(scale, type_name)
    # Below the smallest normal number float32 and its kind may give 0.
    _, smallest = FORMATS[type_name]
    tiny = (np.abs(exact.hi) < np.ldexp(1.0, smallest)) & (np.abs(got) <= np.ldexp(1.0, smallest))
    off[tiny & (magnitude is None) & (type_name != "float16")] = 0
    off[np.isnan(off)] = np.inf
    return off
