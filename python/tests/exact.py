"""Exact results by MPFR (through gmpy2), and errors in units of the last place. No kernel that ships is used here.

An exact value is carried as two doubles, hi + lo, some 106 bits: enough to judge float64, and arrays of them compare fast.
"""

import gmpy2
import ml_dtypes
import numpy as np

BITS = 200
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
# (bits of the significand, exponent of the smallest normal number)
FORMATS = {"float64": (53, -1022), "float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}
HALVES = ("float16", "bfloat16")


class Exact:
    """An array of exact values, hi + lo."""

    def __init__(self, values, shape):
        hi = [float(v) for v in values]
        lo = [float(v - h) if np.isfinite(h) else 0.0 for v, h in zip(values, hi)]
        self.hi, self.lo = np.array(hi).reshape(shape), np.array(lo).reshape(shape)


def context():
    return gmpy2.context(gmpy2.get_context(), precision=BITS, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())


def reals(row):
    """MPFR numbers of a row's numbers; those that are MPFR's already stay as they are."""
    return [v if isinstance(v, type(gmpy2.mpfr(0))) else gmpy2.mpfr(float(v)) for v in row]


def _row(row):
    """(the scores as MPFR numbers, their largest, the terms exp(z - m), their sum)"""
    scores = reals(row)
    m = max(scores)
    terms = [gmpy2.exp(z - m) for z in scores]
    return scores, m, terms, sum(terms, gmpy2.mpfr(0))


def _of_rows(x, each):
    """each(number, row) over the rows of x: floats of any type, or MPFR numbers."""
    x = np.asarray(x)
    x = x if x.dtype == object else x.astype(np.float64)
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


def logsumexp(x):
    """(values (rows, 1), the largest of |max|, |l - max|, |l|, against which errors count)."""

    def each(_, row):
        _, m, _, total = _row(row)
        return [m + gmpy2.log(total)]

    result = _of_rows(x, each)
    m = np.asarray(x, dtype=np.float64).max(1, keepdims=True)
    return result, np.maximum(np.maximum(np.abs(m), np.abs(result.hi)), np.abs(result.hi - m))


def softmax_backward(y, dy):
    """y (dy - sum dy y), and |y| (|dy| + sum |dy y|), against which errors count."""
    y, dy = np.asarray(y, dtype=np.float64), np.asarray(dy, dtype=np.float64)

    def each(i, row):
        p, g = reals(row), reals(dy[i])
        total = sum((a * b for a, b in zip(p, g)), gmpy2.mpfr(0))
        return [a * (b - total) for a, b in zip(p, g)]

    return _of_rows(y, each), np.abs(y) * (np.abs(dy) + np.abs(dy * y).sum(1, keepdims=True))


def log_softmax_backward(y, dy):
    """dy - e^y sum dy, and |dy| + e^y sum |dy|."""
    y, dy = np.asarray(y, dtype=np.float64), np.asarray(dy, dtype=np.float64)

    def each(i, row):
        g = reals(dy[i])
        total = sum(g, gmpy2.mpfr(0))
        return [b - gmpy2.exp(a) * total for a, b in zip(reals(row), g)]

    return _of_rows(y, each), np.abs(dy) + np.exp(y) * np.abs(dy).sum(1, keepdims=True)


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


def errors_of_sums(result, exact, type_name, magnitude):
    """Of sums that may cancel: in ULP of their terms' size; 16-bit results in their own ULP and four of float32 of that size."""
    if type_name not in HALVES:
        return errors(result, exact, type_name, magnitude)
    off = np.abs((np.asarray(result, dtype=np.float64) - exact.hi) - exact.lo)
    return off / (ulp_of(exact.hi, type_name) + 4 * ulp_of(magnitude, "float32"))


def scores(rng, kind, shape):
    """Inputs that other libraries get wrong."""
    x = rng.standard_normal(shape)
    return {"normal": x, "wide": 10 * x, "offset": 1e4 + 5 * x, "tail": -80 * rng.random(shape)}[kind]
