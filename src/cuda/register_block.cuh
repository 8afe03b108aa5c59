/* A block of columns in a warp's registers: numerics/terms.h's fast terms, for blocks whose maximum is below TERM32_LIMIT in size. */
#ifndef SOFTMAX_CUDA_REGISTER_BLOCK_CUH
#define SOFTMAX_CUDA_REGISTER_BLOCK_CUH

#include "../numerics/readout.h"
#include "cells.cuh"
#include "warp_sums.cuh"

/* What a warp finds of its block, before the maximum's own term is taken off. */
struct block_sums {
    float maximum;     /* -inf: nothing in it; NaN: a NaN */
    float maximum_low; /* scores with options: the maximum is maximum + maximum_low */
    float kb;
    uint32_t high, low; /* digits of all its terms */
};

/* What the row must know of a block. */
struct block_note {
    float maximum;
    float maximum_low;
    float top; /* the maximum's v */
    int kb;
    uint64_t digits; /* without the maximum, in units 2^(kb - 41); there are no negative ones */
};

/* Once a block; where there are several, a lane for each. */
template <arithmetic KIND> static __device__ __forceinline__ block_note note_of(const block_sums &s) {
    const float floor_score = term32_floor(s.kb);
    const term32 top = term32_fast(fmaxf(s.maximum, floor_score), s.maximum >= floor_score ? s.maximum_low : 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - s.kb, KIND);
    block_note n;
    n.maximum = s.maximum;
    n.maximum_low = s.maximum_low;
    n.top = top.v;
    n.kb = (int)s.kb;
    n.digits = (uint64_t)((int64_t)(int32_t)(s.high - top.high) * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)(s.low - top.low));
    return n;
}

/* One term's value; the bits of its digits are added up with their constants left in. */
template <arithmetic KIND> static __device__ __forceinline__ float add_term(float z, float magic, uint32_t &high, uint32_t &low) {
    if (KIND == ARITHMETIC_32) {
        term32 t = term32_fast(z, 0.0f, magic, ARITHMETIC_32);
        high += t.high + float_bits(TERM32_HIGH);
        low += t.low + float_bits(TERM32_LOW);
        return t.v;
    }
    float t = fmaf(z, TERM32_LOG2E, magic), r = fmaf(t - magic, -TERM32_LN2_HI, z), v, a, b;
    v = bits_float(float_bits(term16_power(r, KIND)) + (float_bits(t) << 23)); /* a move of the exponent */
    a = v + TERM32_HIGH;
    b = v - (a - TERM32_BOTH);
    high += float_bits(a);
    low += float_bits(b);
    return v;
}

/* Whether a note tells of scores that the fast terms are not for. */
static __device__ __forceinline__ bool is_slow(const block_note &n) { return fabsf(n.maximum) >= TERM32_LIMIT && fabsf(n.maximum) < INFINITY; }

/* A block's maximum and kb from each lane's two largest. */
static __device__ __forceinline__ block_sums top_of_block(float first, float second) {
    block_sums s;
    uint32_t key = order_of(first), top = __reduce_max_sync(EVERY_LANE, key);
    uint32_t owners = __ballot_sync(EVERY_LANE, key == top);
    if ((int)(threadIdx.x & 31) == __ffs(owners) - 1) key = order_of(second);
    second = of_order(__reduce_max_sync(EVERY_LANE, key));
    s.maximum = of_order(top) + 0.0f; /* -0 is taken as +0 */
    s.maximum_low = 0.0f;
    const float maximum = s.maximum == -INFINITY ? 0.0f : s.maximum;
    s.kb = term32_exponent(fmaxf(second, maximum - TERM32_SPREAD));
    s.high = s.low = 0;
    return s;
}

/* Its sums from each lane's scores; KEEP_SCORES: z stay as they are, else they become v. count: its columns; of PARTS parts those without any are
 * left out, which costs full blocks 2 to 4 % of their speed. EDGE: one more, beside the count. */
template <arithmetic KIND, int N, int EDGE, bool KEEP_SCORES, int PARTS>
static __device__ __forceinline__ void add_terms(block_sums &s, float *z, int count) {
    const int in_part = N / PARTS;
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
    uint32_t high = 0, low = 0, taken = 32 * EDGE;
    if (EDGE) {
        float v = add_term<KIND>(fmaxf(z[N], floor_score), magic, high, low);
        if (!KEEP_SCORES) z[N] = v;
    }
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        if ((p > 0 || EDGE) && PARTS > 1 && count <= p * in_part * 32) break;
        taken += in_part * 32;
#pragma unroll
        for (int i = p * in_part; i < (p + 1) * in_part; i++) {
            float v = add_term<KIND>(fmaxf(z[i], floor_score), magic, high, low);
            if (!KEEP_SCORES) z[i] = v;
        }
    }
    s.high = __reduce_add_sync(EVERY_LANE, high) - taken * float_bits(TERM32_HIGH);
    s.low = __reduce_add_sync(EVERY_LANE, low) - taken * float_bits(TERM32_LOW);
}

template <arithmetic KIND, int N, int EDGE, bool KEEP_SCORES, int PARTS>
static __device__ __forceinline__ block_sums sum_block(float first, float second, float *z, int count) {
    block_sums s = top_of_block(first, second);
    add_terms<KIND, N, EDGE, KEEP_SCORES, PARTS>(s, z, count);
    return s;
}

/* e^maximum = f 2^k of a block that is not slow, as exp_of_maximum gives it. */
template <arithmetic KIND> static __device__ __forceinline__ double top_power(const block_note &n, int &k) {
    if (KIND != ARITHMETIC_32) { /* the term itself, moved */
        k = (int)term32_exponent(n.maximum);
        return (double)bits_float(float_bits(n.top) - ((uint32_t)(k - n.kb + SOFTMAX_BIAS) << 23));
    }
    const pair one = {1.0, 0.0};
    double x = (double)n.maximum, t = fma(x, SOFTMAX_LOG2E, SOFTMAX_MAGIC64), whole = t - SOFTMAX_MAGIC64;
    pair r = two_sum(fma(whole, -SOFTMAX_LN2_HI, x), whole * -SOFTMAX_LN2_LO);
    k = (int)whole;
    return pair_add(one, expm1_reduced(r.hi, r.lo)).hi;
}

/* How a row's blocks become results: from its sum 2^k (f + rest). */
struct row_answer {
    float maximum;
    float maximum_low;
    int k;
    double inverse;  /* 2^k / sum */
    float most;      /* the largest result, 2^64 times its size */
    float minus_log; /* maximum - logsumexp */
    float minus_log_low;
    float logsumexp;
    int slow; /* nothing here counts: the row is for the generic code */
};

static __device__ __forceinline__ bool is_constant(const row_answer &r) { return !(fabsf(r.maximum) < INFINITY); }

/* What every result of a constant row is, as a cell. */
template <typename T> static __device__ __forceinline__ uint32_t constant_of(const row_answer &r, bool want_log, bool empty_zero) {
    if (r.maximum == -INFINITY && empty_zero) return want_log ? cell<T>::nothing : 0u;
    return cell<T>::nan;
}

/* log(1 + x), x >= 0, to within 2^-49 of it: what numerics/logarithm.h's log1p_pair has 2^-58 of. */
static __device__ __forceinline__ double near_log1p(double x) {
    double f = x, e = 0.0, s, q, q2, low, high;
    if (x >= 0.41) {
        const uint64_t bits = double_bits(1.0 + x);
        int exponent = (int)(bits >> 52) - 1023;
        if ((bits & 0xfffffffffffffULL) > 0x6a09e667f3bcdULL) exponent++;
        f = bits_double(bits - ((uint64_t)(int64_t)exponent << 52)) - 1.0;
        e = (double)exponent;
    }
    s = f * nearly_inverse(2.0 + f);
    q = s * s;
    q2 = q * q;
    low = fma(0x1.af286bca1af28p-4, q2, 0x1.1111111111111p-3); /* 2/3 + 2/5 q + 2/7 q^2 + ... + 2/19 q^8, even and odd powers apart */
    low = fma(low, q2, 0x1.745d1745d1746p-3);
    high = fma(0x1.e1e1e1e1e1e1ep-4, q2, 0x1.3b13b13b13b14p-3);
    low = fma(low, q2, 0x1.2492492492492p-2);
    high = fma(high, q2, 0x1.c71c71c71c71cp-3);
    low = fma(low, q2, 0x1.5555555555555p-1);
    high = fma(high, q2, 0x1.999999999999ap-2);
    return fma(e, 0x1.62e42fefa39efp-1, fma(s * q, fma(high, q, low), s + s));
}

/* The logarithms of a row: -log1p(R / e^m) and m + it, as floats. What is within 2^-48 of the exact value nearly always rounds as that does; a row
 * where it may not is left to the slow code. */
static __device__ __forceinline__ void read_logarithm(row_answer &r, double f, double rest, bool want_logsumexp) {
    const double near = near_log1p(rest * nearly_inverse(f)), sum = (double)r.maximum + near;
    const double off = near * 0x1p-48, off_sum = fma(fabs((double)r.maximum), 0x1p-51, off);
    r.minus_log = (float)(0.0 - near);
    r.logsumexp = round_to_float32(sum);
    r.slow = want_logsumexp ? round_to_float32(sum + off_sum) != round_to_float32(sum - off_sum) : (float)(near + off) != (float)(near - off);
}

/* The same in full, where scores have low parts. */
static __device__ __forceinline__ void read_logarithm_pair(row_answer &r, double f, double rest) {
    const pair ratio = {rest / f, 0.0}, logarithm = log1p_pair(ratio), sum = two_sum((double)r.maximum, logarithm.hi);
    r.minus_log = (float)(0.0 - logarithm.hi);
    r.minus_log_low = (float)((-logarithm.hi - (double)r.minus_log) - logarithm.lo);
    r.logsumexp = round_to_float32(sum.hi + (sum.lo + (logarithm.lo + (double)r.maximum_low)));
}

/* The least logarithm that does not become 0 as a result. */
static __device__ __forceinline__ float least_log(arithmetic kind) { return kind == ARITHMETIC_FLOAT16 ? 0x1.000002p-25f : 0x1p-126f; }

template <arithmetic KIND, bool LOG, bool LOW>
static __device__ __forceinline__ row_answer answer_of(float maximum, float maximum_low, int k, double f, double rest, bool want_logsumexp) {
    row_answer r;
    r.maximum = maximum;
    r.maximum_low = maximum_low;
    r.k = k;
    r.inverse = 0.0;
    r.most = r.minus_log = r.minus_log_low = 0.0f;
    r.logsumexp = maximum != maximum ? bits_float(0x7fc00000u) : maximum;
    r.slow = 0;
    if (!LOG) {
        r.inverse = KIND == ARITHMETIC_32 ? 1.0 / (f + rest) : (double)__frcp_rn((float)(f + rest));
        r.most = (float)(f * r.inverse * 0x1p64);
    } else if (!is_constant(r)) {
        if (LOW)
            read_logarithm_pair(r, f, rest);
        else
            read_logarithm(r, f, rest, want_logsumexp);
        if (!LOW && r.minus_log > -least_log(KIND)) r.minus_log = 0.0f;
    }
    return r;
}

/* What a block's values are multiplied by: numerics as in results.cuh's factor_of. */
struct register_factor {
    float hi, lo;
    float cut;
    float most;
    bool is_far;  /* values come down by 2^100 first */
    bool is_plain; /* short arithmetic: hi is 2^-64 of the others' scale, and one multiplication is all */
};

template <arithmetic KIND> static __device__ __forceinline__ register_factor factor_of(const row_answer &r, const block_note &n) {
    register_factor f;
    int exponent = n.kb - SOFTMAX_BIAS - r.k + 64;
    f.is_far = n.kb - r.k < -140;
    f.hi = f.lo = 0.0f;
    f.most = f.cut = r.most;
    f.is_plain = KIND != ARITHMETIC_32 && exponent >= -50 && n.maximum != -INFINITY;
    if (f.is_plain) { /* the inverse is a float: only its exponent moves */
        f.hi = bits_float(float_bits((float)r.inverse) + ((uint32_t)(exponent - 64) << 23));
        return f;
    }
    if (n.maximum != -INFINITY && exponent >= -195) {
        if (f.is_far) exponent += 100;
        double g = r.inverse * bits_double((uint64_t)(1023 + exponent) << 52);
        f.hi = (float)g;
        if (KIND == ARITHMETIC_32) f.lo = (float)(g - (double)f.hi);
        if (n.maximum == r.maximum && n.maximum_low == r.maximum_low) f.cut = fmaf(n.top, f.hi, n.top * f.lo);
    }
    return f;
}

/* Whether nothing but factors are needed. A block without scores has the factor 0. */
template <arithmetic KIND> static __device__ __forceinline__ bool is_usual(const register_factor &f, const block_note &n) {
    return n.maximum == -INFINITY || (KIND == ARITHMETIC_32 ? !f.is_far : f.is_plain);
}

/* y = v factor, flushed to +0 where it is below 2^-126 once it is rounded as if exponents had no end. */
template <arithmetic KIND, int N> static __device__ __forceinline__ void scale_block(const register_factor &f, float *v) {
    if (KIND != ARITHMETIC_32 && f.is_plain) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = multiply_and_flush(v[i], f.hi);
        return;
    }
    if (f.is_far) { /* only the block's own maximum, far above kb, may be more than 0 */
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = fmaxf(v[i], 0x1p8f) * 0x1p-100f;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float b = fmaf(v[i], f.hi, v[i] * f.lo);
        b = b >= f.cut ? f.most : b;
        v[i] = shrink_and_flush(b);
    }
}

/* minus_log is 0 where a result that is no more than it would be: then all others are so far below the maximum that it does not count. */
template <int N> static __device__ __forceinline__ void log_block(const row_answer &r, float *z) {
#pragma unroll
    for (int i = 0; i < N; i++) z[i] = (z[i] - r.maximum) + r.minus_log;
}

#endif
