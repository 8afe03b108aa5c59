#!/usr/bin/env python3
"""Minimax coefficients of src/numerics: Lawson's reweighted least squares in mpmath, coefficients rounded one after the other, each time
refitting those that are left. Usage: minimax.py (needs mpmath)."""
from mpmath import mp, mpf, exp, expm1, matrix, lu_solve, cos, pi, log

mp.prec = 200


def minimax(function, weight, basis, radius, iterations=30):
    """Coefficients c of sum c_i r^basis_i that minimise max |weight(r) (function(r) - sum)| on [-radius, radius]:
    least squares on Chebyshev points, reweighted by the error (Lawson)."""
    points = [radius * cos(pi * (2 * i + 1) / 120) for i in range(60)]
    values = [function(r) for r in points]
    weights = [weight(r) for r in points]
    lawson = [mpf(1) / 60] * 60
    for _ in range(iterations):
        a = matrix(60, len(basis))
        b = matrix(60, 1)
        for i, r in enumerate(points):
            scale = mp.sqrt(lawson[i]) * weights[i]
            b[i] = scale * values[i]
            for j, power in enumerate(basis):
                a[i, j] = scale * r**power
        c = lu_solve(a, b)  # least squares for a tall matrix
        errors = [abs(weights[i] * (values[i] - sum(c[j] * r**p for j, p in enumerate(basis)))) for i, r in enumerate(points)]
        total = sum(l * e for l, e in zip(lawson, errors))
        if not total:
            break
        lawson = [l * e / total for l, e in zip(lawson, errors)]
    return [c[j] for j in range(len(basis))]


def rounded(value, bits):
    return mpf(0) if value == 0 else mp.ldexp(mp.nint(mp.ldexp(value, bits - 1 - int(mp.floor(mp.log(abs(value), 2))))),
                                             int(mp.floor(mp.log(abs(value), 2))) - bits + 1)


def fit(name, function, weight, basis, radius, bits, fixed=()):
    """fixed: pairs (power, value) that are taken as they are; the rest is rounded lowest power first."""
    known = dict(fixed)
    free = [p for p in basis if p not in known]
    target = lambda r: function(r) - sum(v * r**p for p, v in known.items())
    while free:
        c = minimax(target, weight, free, radius)
        known[free[0]] = rounded(c[0], bits)
        free = free[1:]
    steps = 2000
    worst = max(abs(weight(r) * target(r)) for r in (radius * (2 * mpf(i) / steps - 1) for i in range(steps + 1)))
    print(f"{name}: max weighted error {mp.nstr(worst, 4)} (2^{mp.nstr(log(worst, 2), 5)})")
    for p in basis:
        print(f"  r^{p}: {float(known[p]).hex()}")


half_ln2 = log(2) / 2
tail = lambda r: (expm1(r) - r) / r**2 if r else mpf(1) / 2
rel = lambda r: r**2 * exp(-r)  # what an error of the tail is of e^r
fit("float32 tail (e^r-1-r)/r^2", tail, rel, [0, 1, 2, 3, 4], half_ln2 * mpf("1.06"), 24, [(0, mpf(1) / 2)])
fit("float64 tail (e^r-1-r)/r^2, degree 10", tail, rel, list(range(11)), half_ln2 * mpf("1.001"), 53, [(0, mpf(1) / 2)])
one = lambda r: exp(-r)
for degree in (4, 5):
    fit(f"16-bit e^r, degree {degree}, 1 fixed", exp, one, list(range(degree + 1)), half_ln2 * mpf("1.08"), 24, [(0, mpf(1))])
ln2 = log(2)
hi = rounded(ln2, 20)
print("ln2 float hi", float(hi).hex(), "lo", float(rounded(ln2 - hi, 24)).hex())
hi = rounded(ln2, 32)
print("ln2 double hi", float(hi).hex(), "lo", float(rounded(ln2 - hi, 53)).hex(), "err", mp.nstr(log(abs(ln2-hi-rounded(ln2 - hi, 53)),2),5))
print("log2e float", float(rounded(1 / ln2, 24)).hex(), "double", float(1 / ln2).hex())
print("ln2 * 2^126 =", hex(int(mp.nint(mp.ldexp(ln2, 126)))), "log2e*2^63 =", hex(int(mp.nint(mp.ldexp(1 / ln2, 63)))))
