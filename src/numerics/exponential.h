/* exp, once per row or block, in double and in pairs: e^x = 2^k (1 + q), k = round(x log2 e), |q| <= 0.42. The float and 16-bit
 * terms that run once per element are in terms.h.
 * Coefficients: tools/minimax.py. Source of the reduction: Tang, "Table-driven implementation of the exponential
 * function in IEEE floating-point arithmetic", 1989, without the table. */
#ifndef SOFTMAX_NUMERICS_EXPONENTIAL_H
#define SOFTMAX_NUMERICS_EXPONENTIAL_H

#include "arithmetic.h"

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

/* Scores up to 2^21 are reduced in double; up to 2^62 with integers; beyond it neighbours are at least 1024 apart, so that only scores
 * equal to the maximum count: see state.h. */
#define SOFTMAX_DOUBLE_LIMIT 0x1p21
#define SOFTMAX_HUGE 0x1p62

typedef struct reduced {
    int64_t k;
    double r;  /* x - k ln2 = r + lo */
    double lo;
} reduced;

/* |x| <= 2^62. x 2^126 - k (ln2 2^126) modulo 2^128: |r| < 1, so that nothing is lost; error 2^-64. */
SOFTMAX_FN reduced reduce_with_integers(double x) {
    const unsigned __int128 ln2 = ((unsigned __int128)0x2c5c85fdf473de6aULL << 64) | 0xf278ece600fcbdacULL;
    uint64_t bits = double_bits(x);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1075; /* |x| = mantissa 2^exponent */
    uint64_t mantissa = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    int negative = (int)(bits >> 63);
    unsigned __int128 fixed = mantissa; /* |x| 2^126 modulo 2^128; bits of x below 2^-126 do not exist for |x| >= 1 */
    __int128 rest;
    int64_t k;
    reduced result;
    uint64_t magnitude;
    double low;
    fixed = 126 + exponent >= 128 ? 0 : fixed << (126 + exponent);
    { /* k within 2 of |x| log2 e; log2 e - 1 = 0.442695... = 0x71547652b82fe177 / 2^64 */
        uint64_t whole = exponent >= 0 ? mantissa << exponent : mantissa >> -exponent;
        k = (int64_t)(whole + (uint64_t)(((unsigned __int128)whole * 0x71547652b82fe177ULL) >> 64));
    }
    rest = (__int128)(fixed - (unsigned __int128)(uint64_t)k * ln2);
    while (rest > (__int128)(ln2 >> 1)) {
        rest -= (__int128)ln2;
        k++;
    }
    while (rest < -(__int128)(ln2 >> 1)) {
        rest += (__int128)ln2;
        k--;
    }
    if (negative) {
        rest = -rest;
        k = -k;
    }
    /* rest 2^-126 as a pair: its top 64 bits, then the rest */
    magnitude = (uint64_t)((unsigned __int128)(rest < 0 ? -rest : rest) >> 64);
    result.r = (double)(int64_t)(magnitude >> 10) * 0x1p-52; /* 2^(64+10-126) */
    low = (double)(int64_t)(magnitude & 1023) * 0x1p-62 +
          (double)(int64_t)((uint64_t)(rest < 0 ? -rest : rest) >> 11) * 0x1p-115;
    if (rest < 0) {
        result.r = -result.r;
        low = -low;
    }
    {
        pair s = fast_two_sum(result.r, low);
        result.r = s.hi;
        result.lo = s.lo;
    }
    result.k = k;
    return result;
}

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
    return reduce_with_integers(x);
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

/* x + x_lo, |x| <= 2^62, |x_lo| <= ulp(x) / 2. */
SOFTMAX_FN reduced reduce_pair(double x, double x_lo) {
    reduced a = reduce(x);
    pair r;
    if (fabs(x_lo) >= 0x1p-28) { /* far out, x_lo needs a reduction of its own, and their sum another */
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

/* e^(x + x_lo) as for reduce_pair; relative error about 2^-60. */
SOFTMAX_FN power exp_pair(double x, double x_lo) {
    const pair one = {1.0, 0.0};
    reduced a = reduce_pair(x, x_lo);
    power result;
    result.k = a.k;
    result.f = pair_add(one, expm1_reduced(a.r, a.lo));
    return result;
}

#endif
