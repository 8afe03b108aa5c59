"""Exact results by mpmath (MPFR's arithmetic in Python), and errors in units of a type's last place."""
import ml_dtypes
import mpmath
import numpy as np

mpmath.mp.prec = 300
PRECISION = {"float32": (24, -126), "float64": (53, -1022), "float16": (11, -14), "bfloat16": (8, -126)}
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def reals(row):
    return [mpmath.mpf(float(v)) for v in row]


def logsumexp(z):
    return mpmath.log(mpmath.fsum(mpmath.exp(v) for v in z))


def softmax(row):
    z = reals(row)
    total = mpmath.fsum(mpmath.exp(v) for v in z)
    return [mpmath.exp(v) / total for v in z]


def log_softmax(row):
    z = reals(row)
    lse = logsumexp(z)
    return [v - lse for v in z]


def softmax_backward(y, dy):
    """With the size that its error is counted in."""
    y, dy = reals(y), reals(dy)
    dot, size = mpmath.fsum(a * b for a, b in zip(y, dy)), mpmath.fsum(abs(a * b) for a, b in zip(y, dy))
    return [a * (b - dot) for a, b in zip(y, dy)], [a * (abs(b) + size) for a, b in zip(y, dy)]


def log_softmax_backward(y, dy):
    y, dy = reals(y), reals(dy)
    total, size = mpmath.fsum(dy), mpmath.fsum(abs(b) for b in dy)
    return ([b - mpmath.exp(a) * total for a, b in zip(y, dy)],
            [abs(b) + mpmath.exp(a) * size for a, b in zip(y, dy)])


def ulp(size, dtype):
    """The last place of numbers as large as size."""
    precision, lowest = PRECISION[dtype]
    exponent = lowest if size == 0 else max(mpmath.frexp(size)[1] - 1, lowest)
    return mpmath.ldexp(1, exponent - precision + 1)


def errors(results, exact, dtype, sizes=None):
    """Results below the smallest normal number count as they are: 0 (float16 keeps its subnormals)."""
    worst = 0.0
    smallest = mpmath.ldexp(1, PRECISION[dtype][1])
    for i, (result, true) in enumerate(zip(results, exact)):
        if dtype != "float16" and abs(true) < smallest and float(result) == 0:
            continue
        size = sizes[i] if sizes else abs(true)
        worst = max(worst, float(abs(mpmath.mpf(float(result)) - true) / ulp(size, dtype)))
    return worst


def errors_of_sums(results, exact, dtype, sizes):
    """16-bit results of sums that may cancel: 1 at half an ULP of the result, and 2 ULP of float32 of the terms' size."""
    if dtype not in ("float16", "bfloat16"):
        return errors(results, exact, dtype, sizes)
    return max(float(abs(mpmath.mpf(float(r)) - true) / (ulp(abs(true), dtype) + 4 * ulp(size, "float32")))
               for r, true, size in zip(results, exact, sizes))


def scores(rng, kind, shape):
    """Inputs that other libraries get wrong."""
    x = rng.standard_normal(shape)
    return {"normal": x, "wide": 10 * x, "offset": 1e4 + 5 * x, "tail": -80 * rng.random(shape)}[kind]
