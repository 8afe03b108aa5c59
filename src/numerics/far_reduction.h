/* Scores of any size reduced for exp: S = k ln2 + r + lo, |r| <= ln2 / 2, for S a sum of doubles times powers of two. S log2 e is formed in
 * integers, 64 bits before the point and 128 behind it: k is right modulo 2^64, and r to 2^-106.
 * Source: Payne and Hanek, "Radian reduction for trigonometric functions", 1983. */
#ifndef SOFTMAX_NUMERICS_FAR_REDUCTION_H
#define SOFTMAX_NUMERICS_FAR_REDUCTION_H

#include "arithmetic.h"

typedef struct reduced {
    int64_t k; /* modulo 2^64 where it is beyond */
    double r;  /* x - k ln2 = r + lo */
    double lo;
} reduced;

/* Differences of such k, and of what is made of them: in the integers modulo 2^64. */
SOFTMAX_FN int64_t wrapped_difference(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* log2 e: four words of zeros, 1, and 37 words behind the point.
 * python -c "from mpmath import *; mp.prec = 4000; print(hex(int(floor(2**(64 * 37) / log(2)))))" */
SOFTMAX_FN uint64_t log2e_word(int i) {
    static const uint64_t words[42] = {
        0, 0, 0, 0,
        0x0000000000000001ULL, 0x71547652b82fe177ULL, 0x7d0ffda0d23a7d11ULL, 0xd6aef551bad2b4b1ULL,
        0x164a2cd9a342648fULL, 0xbc3887eeaa2ed9acULL, 0x49b25eeb82d7c167ULL, 0xd52173cc1895213fULL,
        0x897f5e06a7be7366ULL, 0x5fc529264c2fb3abULL, 0x643687aaf3ab440cULL, 0x16bd777e75050a8dULL,
        0x1a39e8af56c64a78ULL, 0x33352906deb692ceULL, 0x4f199e108cf39281ULL, 0x9cfc406b19abb71eULL,
        0xc25e11f75c6142e6ULL, 0x4ca16da20b1d74a1ULL, 0x2c719098b4040cbeULL, 0x82351bd8bd422427ULL,
        0x231f9ee25bd0c470ULL, 0xfe2464b892824c12ULL, 0x0f2d07db43448b6bULL, 0xdd358165f1a2b3d8ULL,
        0x675f9ee1d8d19ce2ULL, 0x2ece1d8e1cf2ed95ULL, 0x025c73a0b608ecb0ULL, 0xac9cb843a1c53b02ULL,
        0x1698c0eba217677fULL, 0x7d0b9c4b6e004ca5ULL, 0x169aedd5b0fbf792ULL, 0x20755e0827ae421aULL,
        0xf38c350dbfd200f5ULL, 0x437ad88854a185bbULL, 0xc4bbb5f9231797deULL, 0x27c1982e15c6f87aULL,
        0x30b468c39b2a586eULL, 0x51fb9211a51bfd1eULL,
    };
    return words[i];
}

/* whole + fraction 2^-128, modulo 2^64 */
typedef struct binary_turns {
    uint64_t whole;
    uint64_t fraction[2]; /* the first is the upper half */
} binary_turns;

/* t += x 2^shift log2 e, 0 <= shift <= 1100. What is below 2^-139 may be lost. */
SOFTMAX_FN_APART void add_turns(binary_turns *t, double x, int shift) {
    uint64_t bits = double_bits(x), mantissa = bits & 0xfffffffffffffULL, window[4], carry;
    int field = (int)(bits >> 52) & 0x7ff, at = 256 + (field ? field : 1) - 1075 + shift; /* the window's first bit in log2e_word's */
    unsigned __int128 a, b;
    uint64_t whole, high, low;
    if (field) mantissa |= 0x10000000000000ULL;
    if (at < 0 || mantissa == 0) return;
    for (int i = 0; i < 4; i++) {
        uint64_t first = log2e_word((at >> 6) + i), second = log2e_word((at >> 6) + i + 1);
        window[i] = at & 63 ? first << (at & 63) | second >> (64 - (at & 63)) : first;
    }
    a = (unsigned __int128)mantissa * window[2] + (uint64_t)(((unsigned __int128)mantissa * window[3]) >> 64);
    b = (unsigned __int128)mantissa * window[1] + (uint64_t)(a >> 64);
    whole = mantissa * window[0] + (uint64_t)(b >> 64);
    high = (uint64_t)b;
    low = (uint64_t)a;
    if (bits >> 63) { /* 0 - */
        whole = ~whole;
        high = ~high;
        low = 0 - low;
        if (low == 0 && ++high == 0) whole++;
    }
    a = (unsigned __int128)t->fraction[1] + low;
    t->fraction[1] = (uint64_t)a;
    carry = (uint64_t)(a >> 64);
    b = (unsigned __int128)t->fraction[0] + high + carry;
    t->fraction[0] = (uint64_t)b;
    t->whole += whole + (uint64_t)(b >> 64);
}

SOFTMAX_FN_APART reduced reduced_of_turns(const binary_turns *t) {
    const double ln2 = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
    int negative = (int)(t->fraction[0] >> 63); /* the nearest whole number is above */
    uint64_t high = t->fraction[0], low = t->fraction[1];
    double f, f_low, r, lo;
    reduced result;
    if (negative) {
        high = ~high;
        low = 0 - low;
        if (low == 0) high++;
    }
    f = (double)(int64_t)(high >> 10) * 0x1p-54;
    f_low = (double)(int64_t)((high & 1023) << 43 | low >> 21) * 0x1p-107;
    r = f * ln2;
    lo = fma(f, ln2, -r) + (f * ln2_low + f_low * ln2);
    result.r = r + lo; /* fast_two_sum */
    result.lo = lo - (result.r - r);
    if (negative) {
        result.r = -result.r;
        result.lo = -result.lo;
    }
    result.k = (int64_t)(t->whole + (uint64_t)negative);
    return result;
}

/* x + x_lo */
SOFTMAX_FN_APART reduced reduce_far(double x, double x_lo) {
    binary_turns t = {0, {0, 0}};
    add_turns(&t, x, 0);
    add_turns(&t, x_lo, 0);
    return reduced_of_turns(&t);
}

#endif
