/* log1p of a pair, once per row. */
#ifndef SOFTMAX_NUMERICS_LOGARITHM_H
#define SOFTMAX_NUMERICS_LOGARITHM_H

#include "arithmetic.h"

/* log(1 + x) for x = hi + lo >= 0, relative error about 2^-58, also next to 0.
 * 1 + x = 2^e (1 + f), f in [-0.29, 0.42] (f = x while x < 0.41); s = f / (2 + f); log(1 + f) = 2 s + s^3 (2/3 + 2/5 s^2 + ...):
 * Taylor's coefficients of 2 atanh(s), |s| <= 0.1716: the first one left out is 1e-19 of the whole. */
SOFTMAX_FN pair log1p_pair(pair x) {
    static const double ln2_hi = 0x1.62e42fefa3800p-1, ln2_lo = 0x1.ef35793c76730p-45;
    pair f = x, two = {2.0, 0.0}, s, logarithm;
    double e = 0.0, square, p;
    if (x.hi >= 0.41) {
        pair one = {1.0, 0.0}, u = pair_add(one, x), minus_one = {-1.0, 0.0};
        uint64_t bits = double_bits(u.hi);
        int exponent = (int)(bits >> 52) - 1023;
        if ((bits & 0xfffffffffffffULL) > 0x6a09e667f3bcdULL) exponent++; /* mantissa above sqrt 2 */
        u.hi = scale_by_power(u.hi, -exponent);
        u.lo = scale_by_power(u.lo, -exponent);
        f = pair_add(minus_one, u);
        e = exponent;
    }
    s = pair_divide(f, pair_add(two, f));
    square = s.hi * s.hi;
    p = 0x1.642c8590b2164p-4;
    p = fma(p, square, 0x1.8618618618618p-4);
    p = fma(p, square, 0x1.af286bca1af28p-4);
    p = fma(p, square, 0x1.e1e1e1e1e1e1ep-4);
    p = fma(p, square, 0x1.1111111111111p-3);
    p = fma(p, square, 0x1.3b13b13b13b14p-3);
    p = fma(p, square, 0x1.745d1745d1746p-3);
    p = fma(p, square, 0x1.c71c71c71c71cp-3);
    p = fma(p, square, 0x1.2492492492492p-2);
    p = fma(p, square, 0x1.999999999999ap-2);
    p = fma(p, square, 0x1.5555555555555p-1);
    logarithm = fast_two_sum(2.0 * s.hi, fma(s.hi * square, p, 2.0 * s.lo));
    if (e != 0.0) {
        pair whole = {e * ln2_hi, e * ln2_lo}; /* 42 bits times |e| < 2^11: exact */
        logarithm = pair_add(whole, logarithm);
    }
    return logarithm;
}

#endif
