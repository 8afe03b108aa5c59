/* exp, once per row or block, in double and in pairs: e^x = 2^k (1 + q), k = round(x log2 e), |q| <= 0.42. The float and 16-bit
 * terms that run once per element are in terms.h.
 * Coefficients: tools/minimax.py. Source of the reduction: Tang, "Table-driven implementation of the exponential
 * function in IEEE floating-point arithmetic", 1989, without the table. */
#ifndef SOFTMAX_NUMERICS_EXPONENTIAL_H
#define SOFTMAX_NUMERICS_EXPONENTIAL_H

#include "far_reduction.h"

#define SOFTMAX_LOG2E 0x1.71547652b82fep+0
#define SOFTMAX_LN2_HI 0x1.62e42ff000000p-1    /* 32 bits: x - k hi is exact, both being multiples of 2^-33 from 2^20 on */
#define SOFTMAX_LN2_LO (-0x1.718432a1b0e26p-35) /* ln2 - hi, error 2^-89 */
#define SOFTMAX_MAGIC64 0x1.8p52                /* adding it rounds to an integer, which stands in the low bits */

/* Coefficients of (e^r - 1 - r) / r^2 beyond 1/2. */
#define EXP_C12 0x1.1e5ae0539c436p-29
#define EXP_C11 0x1.af6705b7eb258p-26
#define EXP_C10 0x1.27e59432ef095p-22
#define EXP_C9 0x1.71ddf360ebb32p-19
#define EXP_C8 0x1.a01a014f94184p-16
#define EXP_C7 0x1.a01a01b1f1a4dp-13
#define EXP_C6 0x1.6c16c16c276d2p-10
#define EXP_C5 0x1.111111110f150p-7
#define EXP_C4 0x1.5555555555530p-5
#define EXP_C3 0x1.555555555555ap-3

/* Scores up to 2^21 are reduced in double, others with integers: far_reduction.h. */
#define SOFTMAX_DOUBLE_LIMIT 0x1p21

SOFTMAX_FN reduced reduce(double x) {
    reduced result;
    if (fabs(x) < SOFTMAX_DOUBLE_LIMIT) {
        double t = fma(x, SOFTMAX_LOG2E, SOFTMAX_MAGIC64);
        double k = t - SOFTMAX_MAGIC64;
        result.k = (int64_t)k;
        result.r = fma(k, -SOFTMAX_LN2_HI, x);
        result.lo = k * -SOFTMAX_LN2_LO;
        return result;
    }
    return reduce_far(x, 0.0);
}

/* (e^r - 1 - r) / r^2 = 1/2 + r exp_head(r), error 6.3e-20 of e^r on |r| <= 0.347. */
SOFTMAX_FN double exp_head(double r) {
    double p = EXP_C12;
    p = fma(p, r, EXP_C11);
    p = fma(p, r, EXP_C10);
    p = fma(p, r, EXP_C9);
    p = fma(p, r, EXP_C8);
    p = fma(p, r, EXP_C7);
    p = fma(p, r, EXP_C6);
    p = fma(p, r, EXP_C5);
    p = fma(p, r, EXP_C4);
    return fma(p, r, EXP_C3);
}

/* e^(r + lo) - 1 as a pair; error about 2^-60 of it plus 2^-62 r^2. Here lo may be up to 2^-30 |r|. */
SOFTMAX_FN pair expm1_reduced(double r, double lo) {
    double sum = r + lo;
    double square = sum * sum;
    double square_lo = fma(sum, sum, -square);
    double sum_lo = lo - (sum - r);
    double tail = exp_head(sum) * sum; /* apart from the 1/2, so that square / 2 stays exact */
    pair s = fast_two_sum(sum, 0.5 * square);
    return fast_two_sum(s.hi, s.lo + (fma(square, tail, fma(0.5, square_lo, sum_lo)) + sum_lo * sum));
}

/* x + x_lo, |x_lo| <= ulp(x) / 2, as floats or doubles count it. */
SOFTMAX_FN reduced reduce_pair(double x, double x_lo) {
    reduced a;
    pair r;
    if (!(fabs(x) < SOFTMAX_DOUBLE_LIMIT)) return reduce_far(x, x_lo);
    a = reduce(x);
    if (fabs(x_lo) >= 0x1p-28) { /* a float's low part may need a reduction of its own, and their sum another */
        reduced b = reduce(x_lo), c;
        r = two_sum(a.r, b.r);
        r = two_sum(r.hi, r.lo + (a.lo + b.lo));
        c = reduce(r.hi);
        c.k += a.k + b.k;
        r = two_sum(c.r, c.lo + r.lo);
        a.k = c.k;
    } else {
        r = two_sum(a.r, a.lo + x_lo);
    }
    a.r = r.hi;
    a.lo = r.lo;
    return a;
}

typedef struct power {
    int64_t k;
    pair f; /* e^x = f 2^k, f in [0.70, 1.42] */
} power;

SOFTMAX_FN power power_of_reduced(reduced a) {
    const pair one = {1.0, 0.0};
    power result;
    result.k = a.k;
    result.f = pair_add(one, expm1_reduced(a.r, a.lo));
    return result;
}

/* e^(x + x_lo) as for reduce_pair; relative error about 2^-60. */
SOFTMAX_FN power exp_pair(double x, double x_lo) { return power_of_reduced(reduce_pair(x, x_lo)); }

#endif
