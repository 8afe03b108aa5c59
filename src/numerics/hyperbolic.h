/* tanh for softcap, once per element where a softcap is asked for. */
#ifndef SOFTMAX_NUMERICS_HYPERBOLIC_H
#define SOFTMAX_NUMERICS_HYPERBOLIC_H

#include "exponential.h"

/* e^(2|u|) - 1 = E as a pair, u a pair, 0 <= u.hi <= 40. */
SOFTMAX_FN pair expm1_twice(pair u) {
    reduced a = reduce(2.0 * u.hi);
    pair r = two_sum(a.r, a.lo + 2.0 * u.lo);
    pair q = expm1_reduced(r.hi, r.lo), minus_one = {-1.0, 0.0}, one = {1.0, 0.0};
    if (a.k == 0) return q;
    q = pair_add(one, q);
    q.hi = scale_by_power(q.hi, a.k);
    q.lo = scale_by_power(q.lo, a.k);
    return pair_add(q, minus_one);
}

/* softcap: c tanh(x / c), c > 0. Relative error about 2^-57 before the one rounding that the caller makes: at most 0.53 ULP of a double.
 * tanh u = E / (E + 2), E = e^2u - 1. NaN and infinities: x itself, and +-c. */
SOFTMAX_FN double softcap_value(double x, double c) {
    double u_hi = fabs(x) / c;
    pair u, e, two = {2.0, 0.0}, t, cap = {c, 0.0};
    if (x != x) return x;
    if (u_hi > 40.0) return x < 0.0 ? -c : c;
    if (u_hi < 0x1p-500) return x; /* tanh u = u to the last bit, and no product below underflows */
    u.hi = u_hi;
    u.lo = fma(-u_hi, c, fabs(x)) / c;
    e = expm1_twice(u);
    t = pair_multiply(cap, pair_divide(e, pair_add(two, e)));
    return x < 0.0 ? -t.hi : t.hi;
}

/* Its derivative, 1 - tanh^2(x / c) = 4 (E + 1) / (E + 2)^2, which keeps its digits where tanh is next to 1; as a pair, relative error
 * about 2^-57 times 1 + |x / c|. */
SOFTMAX_FN pair softcap_derivative(double x, double c) {
    const pair one = {1.0, 0.0}, two = {2.0, 0.0}, nothing = {0.0, 0.0};
    double u_hi = fabs(x) / c;
    pair u, e, below;
    if (!(u_hi <= 1000.0)) {
        pair nan = {x, 0.0};
        return x != x ? nan : nothing;
    }
    if (u_hi < 0x1p-500) return one;
    u.hi = u_hi;
    u.lo = fma(-u_hi, c, fabs(x)) / c;
    if (u_hi > 40.0) { /* 4 e^-2u to the last bit, and E would overflow */
        power p = exp_pair(-2.0 * u.hi, -2.0 * u.lo);
        e.hi = scale_by_power(p.f.hi, p.k + 2);
        e.lo = scale_by_power(p.f.lo, p.k + 2);
        return e;
    }
    e = expm1_twice(u);
    below = pair_add(two, e);
    e = pair_divide(pair_divide(pair_add(one, e), below), below);
    e.hi *= 4.0;
    e.lo *= 4.0;
    return e;
}

#endif
