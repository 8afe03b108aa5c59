/* One term e^z = 2^k (1 + q), the arithmetic that runs once per element. Neither k nor q depends on the row's maximum, so that no
 * z - max is ever rounded: a term is only ever moved by a power of two.
 *
 * A block of columns (SOFTMAX_BLOCK_COLUMNS) has its own exponent kb. A term yields
 *   value    v = e^z 2^(SOFTMAX_BIAS - kb), rounded once
 *   digits   e^z 2^-kb as an integer number of 2^-20 (high) and the signed rest as one of 2^-41 (low; float64: 2^-44 and 2^-88),
 *            taken before v was rounded. Their sums over a block are integers: exact in any order.
 * The scalar forms here define the bits; src/cpu and src/cuda repeat them in vectors. */
#ifndef SOFTMAX_NUMERICS_TERMS_H
#define SOFTMAX_NUMERICS_TERMS_H

#include "exact_score.h"

#define SOFTMAX_BIAS 4

/* Which terms a row is made of: by the type of its results. */
typedef enum arithmetic {
    ARITHMETIC_32 = 0,
    ARITHMETIC_64 = 1,
    ARITHMETIC_FLOAT16 = 2,
    ARITHMETIC_BFLOAT16 = 3
} arithmetic;

SOFTMAX_FN int arithmetic_is_short(arithmetic kind) { return kind == ARITHMETIC_FLOAT16 || kind == ARITHMETIC_BFLOAT16; }

/* ---- float32 and the 16-bit types: scores are float, or the sum of two floats ------------------------------------- */
#define TERM32_LOG2E 0x1.715476p+0f
#define TERM32_MAGIC 0x1.8p23f
#define TERM32_LN2_HI 0x1.62e430p-1f  /* 21 bits: r = z - k hi is exact */
#define TERM32_LN2_MINUS 0x1.05c610p-29f /* hi - ln2 */
#define TERM32_C2 0x1.5554760000000p-3f /* coefficients of (e^r - 1 - r) / r^2 beyond 1/2: error 5.5e-9 of e^r, tools/minimax.py */
#define TERM32_C3 0x1.5556d80000000p-5f
#define TERM32_C4 0x1.1252320000000p-7f
#define TERM32_C5 0x1.6b598e0000000p-10f
#define TERM16_C1 0x1.fffff00000000p-1f /* e^r = 1 + C1 r + ...: error 1.5e-7, for float16 */
#define TERM16_C2 0x1.fffcfa0000000p-2f
#define TERM16_C3 0x1.555c660000000p-3f
#define TERM16_C4 0x1.578a7a0000000p-5f
#define TERM16_C5 0x1.0f5fbe0000000p-7f
#define TERMB16_C1 0x1.fffa280000000p-1f /* the same of degree 4: error 4.2e-6, for bfloat16 */
#define TERMB16_C2 0x1.0005640000000p-1f
#define TERMB16_C3 0x1.5835c20000000p-3f
#define TERMB16_C4 0x1.53dc8e0000000p-5f
#define TERM32_HIGH 192.0f          /* adding it rounds to a multiple of 2^-16 = 2^(BIAS - 20) */
#define TERM32_LOW 0x1.8p-14f       /* ... of 2^-37 = 2^(BIAS - 41) */
#define TERM32_BOTH (192.0f + 0x1.8p-14f) /* their sum, exact: a - BOTH is the high digit minus LOW */
#define TERM32_HIGH_UNIT 20
#define TERM32_LOW_UNIT 41
#define TERM32_LIMIT 0x1p18f        /* blocks with |maximum| below it take the fast reduction */
#define TERM32_WIDE_LIMIT 0x1p21f   /* ... below this one the fast reduction corrected; others integers */
#define TERM32_SPREAD 84.0f         /* kb is at most this far (in score) below the block's maximum: v stays finite */
#define TERM32_FLOOR (-128.75f)     /* terms below 2^(kb + FLOOR) are taken there: zero digits, results below the smallest normal */

typedef struct term32 {
    float v;
    uint32_t high; /* modulo 2^32: of a term far above kb they mean nothing, but subtract exactly */
    uint32_t low;
} term32;

/* round(z log2 e), the same from every kb: z log2 e is never half an integer (log2 e has 24 odd bits). */
SOFTMAX_FN float term32_exponent(float z) { return fmaf(z, TERM32_LOG2E, TERM32_MAGIC) - TERM32_MAGIC; }

/* The score at which terms are cut off, given kb. */
SOFTMAX_FN float term32_floor(float kb) { return (kb + TERM32_FLOOR) * 0x1.62e430p-1f; }

/* From z = k ln2 + r + lo and s = 2^(k - kb + BIAS). */
SOFTMAX_FN term32 term32_from_reduced(float r, float lo, float s) {
    float rr = r + lo, p, w, q, a, b;
    term32 t;
    p = fmaf(TERM32_C5, rr, TERM32_C4);
    p = fmaf(p, rr, TERM32_C3);
    p = fmaf(p, rr, TERM32_C2);
    p = fmaf(p, rr, 0.5f);
    w = fmaf(p, rr * rr, lo);
    q = w + r;
    t.v = fmaf(q, s, s);
    a = t.v + TERM32_HIGH;
    b = fmaf(w, s, fmaf(r, s, s - (a - TERM32_BOTH))); /* what the high digit left of s (1 + r + w): q's rounding stays out of it */
    t.high = float_bits(a) - float_bits(TERM32_HIGH);
    t.low = float_bits(b) - float_bits(TERM32_LOW);
    return t;
}

/* e^r of 16-bit results: a shorter polynomial. */
SOFTMAX_FN float term16_power(float r, arithmetic kind) {
    float p;
    if (kind == ARITHMETIC_FLOAT16) {
        p = fmaf(TERM16_C5, r, TERM16_C4);
        p = fmaf(p, r, TERM16_C3);
        p = fmaf(p, r, TERM16_C2);
        p = fmaf(p, r, TERM16_C1);
    } else {
        p = fmaf(TERMB16_C4, r, TERMB16_C3);
        p = fmaf(p, r, TERMB16_C2);
        p = fmaf(p, r, TERMB16_C1);
    }
    return fmaf(p, r, 1.0f);
}

/* The shorter arithmetic of 16-bit results. */
SOFTMAX_FN term32 term16_from_reduced(float r, float s, arithmetic kind) {
    float a, b;
    term32 t;
    t.v = term16_power(r, kind) * s; /* a move of the exponent */
    a = t.v + TERM32_HIGH;
    b = t.v - (a - TERM32_BOTH);
    t.high = float_bits(a) - float_bits(TERM32_HIGH);
    t.low = float_bits(b) - float_bits(TERM32_LOW);
    return t;
}

/* The fast path: |z| < TERM32_LIMIT, z at or above the floor; magic = TERM32_MAGIC + BIAS - kb, exact. */
SOFTMAX_FN term32 term32_fast(float z, float z_lo, float magic, arithmetic kind) {
    float t = fmaf(z, TERM32_LOG2E, magic), k = t - magic;
    float r = fmaf(k, -TERM32_LN2_HI, z);
    float s = bits_float((float_bits(t) << 23) + (127u << 23)); /* the low bits of t are k - kb + BIAS */
    /* ln2's low part is left out: e^z (1 + 2.8e-9 z), which is common to all terms but for 2.8e-9 of their distance */
    if (arithmetic_is_short(kind)) return term16_from_reduced(r + z_lo, s, kind);
    return term32_from_reduced(r, fmaf(k, TERM32_LN2_MINUS, z_lo), s);
}

/* The same for |z| < TERM32_WIDE_LIMIT, where the rounding of log2 e may leave k off the nearest integer and z_lo counts: reduced once more. */
SOFTMAX_FN term32 term32_wide(float z, float z_lo, float magic, arithmetic kind) {
    float t = fmaf(z, TERM32_LOG2E, magic), first = fmaf(t - magic, -TERM32_LN2_HI, z);
    float more = fmaf(first + z_lo, TERM32_LOG2E, TERM32_MAGIC) - TERM32_MAGIC, r, sum, part;
    t = t + more; /* exact */
    r = fmaf(more, -TERM32_LN2_HI, first);
    sum = r + z_lo; /* two_sum */
    part = sum - r;
    z_lo = (r - (sum - part)) + (z_lo - part);
    {
        float s = bits_float((float_bits(t) << 23) + (127u << 23));
        if (arithmetic_is_short(kind)) return term16_from_reduced(sum + z_lo, s, kind);
        return term32_from_reduced(sum, fmaf(t - magic, TERM32_LN2_MINUS, z_lo), s);
    }
}

/* Whichever of the two is for a block with this maximum, |maximum| < TERM32_WIDE_LIMIT. */
SOFTMAX_FN term32 term32_near(float z, float z_lo, float magic, arithmetic kind, float maximum) {
    if (maximum < TERM32_LIMIT && maximum > -TERM32_LIMIT) return term32_fast(z, z_lo, magic, kind);
    return term32_wide(z, z_lo, magic, kind);
}

/* Any score as terms of this kind take it. 16-bit terms within TERM32_WIDE_LIMIT leave out ln2's low part, k times; it is left out here as well, but
 * no more often than there, so that scores on both sides of that limit can be in one row. */
SOFTMAX_FN reduced reduce_for_terms(exact_score s, arithmetic kind) {
    const double most = 0x1p22;
    reduced a = reduce_score(s);
    pair r;
    double k;
    if (!arithmetic_is_short(kind)) return a;
    k = s.high < 0.0 ? -most : most;
    if (fabs(s.high) < 0x1p23 && s.level == SCORE_PLAIN && a.k > -(int64_t)most && a.k < (int64_t)most) k = (double)a.k;
    r = two_sum(a.r, k * -(double)TERM32_LN2_MINUS);
    a.r = r.hi;
    a.lo += r.lo;
    return a;
}

/* A term of any score, reduced; kb as a.k an integer modulo 2^64. */
SOFTMAX_FN term32 term32_far(reduced a, int64_t kb, arithmetic kind) {
    const term32 nothing = {0x1p-124f, 0, 0};
    int64_t k = wrapped_difference(a.k, kb);
    float r, lo, s;
    if (k < -128) return nothing;
    s = bits_float((uint32_t)(k + SOFTMAX_BIAS + 127) << 23);
    r = (float)a.r;
    lo = (float)((a.r - (double)r) + a.lo);
    if (arithmetic_is_short(kind)) return term16_from_reduced(r + lo, s, kind);
    return term32_from_reduced(r, lo, s);
}

/* ---- float64: scores are double, or the sum of two doubles -------------------------------------------------------- */
#define TERM64_HIGH 0x1.8p12        /* rounds to a multiple of 2^-40 = 2^(BIAS - 44) */
#define TERM64_LOW 0x1.8p-32        /* ... of 2^-84 = 2^(BIAS - 88) */
#define TERM64_BOTH (0x1.8p12 + 0x1.8p-32)
#define TERM64_HIGH_UNIT 44
#define TERM64_LOW_UNIT 88
#define TERM64_SPREAD 700.0
#define TERM64_FLOOR (-1024.75)

typedef struct term64 {
    double v;
    uint64_t high;
    uint64_t low;
} term64;

SOFTMAX_FN double term64_exponent(double z) { return fma(z, SOFTMAX_LOG2E, SOFTMAX_MAGIC64) - SOFTMAX_MAGIC64; }

SOFTMAX_FN double term64_floor(double kb) { return (kb + TERM64_FLOOR) * SOFTMAX_LN2_HI; }

SOFTMAX_FN term64 term64_from_reduced(double r, double lo, double s) {
    double rr = r + lo, w, q, a, b;
    term64 t;
    w = fma(fma(exp_head(rr), rr, 0.5), rr * rr, lo);
    q = w + r;
    t.v = fma(q, s, s);
    a = t.v + TERM64_HIGH;
    b = fma(w, s, fma(r, s, s - (a - TERM64_BOTH)));
    t.high = double_bits(a) - double_bits(TERM64_HIGH);
    t.low = double_bits(b) - double_bits(TERM64_LOW);
    return t;
}

/* |z| < SOFTMAX_DOUBLE_LIMIT; magic = SOFTMAX_MAGIC64 + BIAS - kb. */
SOFTMAX_FN term64 term64_fast(double z, double z_lo, double magic) {
    double t = fma(z, SOFTMAX_LOG2E, magic), k = t - magic;
    double r = fma(k, -SOFTMAX_LN2_HI, z);
    double s = bits_double((double_bits(t) << 52) + (1023ULL << 52));
    return term64_from_reduced(r, fma(k, -SOFTMAX_LN2_LO, z_lo), s);
}

SOFTMAX_FN term64 term64_far(reduced a, int64_t kb) {
    const term64 nothing = {0x1p-1021, 0, 0};
    int64_t k = wrapped_difference(a.k, kb);
    if (k < -1024) return nothing;
    return term64_from_reduced(a.r, a.lo, bits_double((uint64_t)(k + SOFTMAX_BIAS + 1023) << 52));
}

#endif
