/* Signed sums that are exact in any order, over the lanes of a warp: the digits of src/cpu/exact_sum.h. A block of columns has the exponent e of
 * its largest term; every term is rounded to two digits, multiples of 2^(e-44) and of 2^(e-88), whose sums are integers. */
#ifndef SOFTMAX_CUDA_EXACT_SUM_CUH
#define SOFTMAX_CUDA_EXACT_SUM_CUH

#include "../numerics/state.h"
#include "machine.cuh"

/* What a block of columns adds to its row's sum: high 2^(exponent - 44) + low 2^(exponent - 88). */
typedef struct block_digits {
    int64_t high;
    int64_t low;
    int32_t exponent; /* NO_DIGITS: nothing to add */
    uint32_t flags;   /* STATE_NAN: a term that is not finite */
} block_digits;

#define NO_DIGITS INT32_MIN
#define DIGITS_HIGH 44
#define DIGITS_LOW 88

static __device__ __forceinline__ block_digits no_digits() {
    block_digits none = {0, 0, NO_DIGITS, 0};
    return none;
}

/* floor(log2 |x|), not below -960: the second digit's grid must exist. */
static __device__ __forceinline__ int exponent_of(double x) {
    int e = (int)((double_bits(x) >> 52) & 0x7ff) - 1023;
    return e < -960 ? -960 : e;
}

/* Adding it rounds to a multiple of 2^exponent. */
static __device__ __forceinline__ double rounding_constant(int exponent) { return 1.5 * bits_double((uint64_t)(1023 + 52 + exponent) << 52); }

/* One lane's digits, with the constants' bits left in; `terms` counts them. */
typedef struct lane_digits {
    double grid_high, grid_low;
    double both; /* their sum, exact */
    uint64_t high, low;
} lane_digits;

static __device__ __forceinline__ lane_digits digits_begin(int exponent) {
    lane_digits d;
    d.grid_high = rounding_constant(exponent - DIGITS_HIGH);
    d.grid_low = rounding_constant(exponent - DIGITS_LOW);
    d.both = d.grid_high + d.grid_low;
    d.high = d.low = 0;
    return d;
}

/* x, at most 2^exponent times 2 in size: what the first digit leaves of it is exact, and so is `both` without the first. */
static __device__ __forceinline__ void digits_add(lane_digits &d, double x) {
    const double a = x + d.grid_high;
    d.high += double_bits(a);
    d.low += double_bits(x + (d.both - a));
}

/* x y of two floats. */
static __device__ __forceinline__ void digits_add_product(lane_digits &d, double x, double y) {
    const double a = fma(x, y, d.grid_high);
    d.high += double_bits(a);
    d.low += double_bits(fma(x, y, d.both - a));
}

static __device__ __forceinline__ void digits_add_pair(lane_digits &d, double x, double x_low) {
    double a = x + d.grid_high, rest = (x - (a - d.grid_high)) + x_low;
    d.high += double_bits(a);
    d.low += double_bits(rest + d.grid_low);
}

static __device__ __forceinline__ void digits_end(lane_digits &d, int terms) {
    d.high -= (uint64_t)terms * double_bits(d.grid_high);
    d.low -= (uint64_t)terms * double_bits(d.grid_low);
}

/* The sum over a warp of integers of at most 53 bits and a sign each. */
static __device__ __forceinline__ int64_t lanes_sum_wide(int64_t x) {
    uint32_t low = lanes_sum((uint32_t)x & 0x3ffffffu);
    int32_t high = lanes_sum_signed((int32_t)(x >> 26));
    return (int64_t)high * 0x4000000 + low;
}

/* The same over groups of `lanes` lanes, a power of two. */
static __device__ __forceinline__ int64_t group_sum_wide(int64_t x, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(EVERY_LANE, x, step);
    return x;
}
static __device__ __forceinline__ uint32_t group_max(uint32_t x, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) x = max(x, __shfl_xor_sync(EVERY_LANE, x, step));
    return x;
}

/* The digits of columns [first, last), at most a block, by a warp. get(column) is a pair, its hi not finite where the sum is to be NaN; it is
 * asked twice. */
template <typename GET> static __device__ block_digits sum_terms(GET get, int64_t first, int64_t last) {
    block_digits d = no_digits();
    uint32_t largest = 0, not_zero = 0;
    lane_digits sums;
    double factor;
    int e, terms = 0;
#pragma unroll 1
    for (int64_t c = first + (threadIdx.x & 31); c < last; c += 32) {
        uint64_t bits = double_bits(get(c).hi) & 0x7fffffffffffffffULL;
        largest = max(largest, (uint32_t)(bits >> 52));
        not_zero |= bits != 0;
    }
    largest = lanes_max(largest);
    if (largest == 0x7ff) {
        d.flags = STATE_NAN;
        return d;
    }
    if (!__any_sync(EVERY_LANE, not_zero != 0)) return d;
    e = (int)largest - 1023;
    if (e < -960) e = -960;
    d.exponent = e;
    factor = 1.0;
    if (e > 1000) { /* the grid's constant would overflow */
        e -= 64;
        factor = 0x1p-64;
    }
    sums = digits_begin(e);
#pragma unroll 1
    for (int64_t c = first + (threadIdx.x & 31); c < last; c += 32, terms++) {
        pair x = get(c);
        digits_add_pair(sums, x.hi * factor, x.lo * factor);
    }
    digits_end(sums, terms);
    d.high = lanes_sum_wide((int64_t)sums.high);
    d.low = lanes_sum_wide((int64_t)sums.low);
    return d;
}

/* ---- From digits to the sum --------------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ int64_t digits_top(const block_digits &d) { return accumulator_top(d.exponent - DIGITS_HIGH); }

static __device__ void digits_accumulate(accumulator &sum, const block_digits &d) {
    if (d.exponent == NO_DIGITS) return;
    accumulator_add(&sum, d.high, d.exponent - DIGITS_HIGH);
    accumulator_add(&sum, d.low, d.exponent - DIGITS_LOW);
}

/* A row's sum as what its results need. */
typedef struct row_sum {
    pair sum;
    uint32_t flags;
} row_sum;

/* Of one block: what an accumulator of its two terms reads out, its limbs made at once as one integer. */
static __device__ __forceinline__ row_sum read_digits(const block_digits &d) {
    row_sum r;
    int top, bottom, down;
    unsigned __int128 whole;
    uint64_t low;
    r.flags = d.flags;
    r.sum.hi = r.sum.lo = 0.0;
    if (d.exponent == NO_DIGITS) return r;
    top = (d.exponent - DIGITS_HIGH + 62) >> 5;
    bottom = 32 * (top - (ACCUMULATOR_LIMBS - 1)); /* of the last limb's unit; the high digits' is 34 to 65 above it, the low ones' -10 to 21 */
    down = bottom - (d.exponent - DIGITS_LOW);
    whole = (unsigned __int128)(__int128)d.high << (d.exponent - DIGITS_HIGH - bottom);
    low = d.low < 0 ? 0 - (uint64_t)d.low : (uint64_t)d.low; /* pieces below the window are dropped from the magnitude */
    unsigned __int128 part = down > 0 ? (unsigned __int128)(low >> down) : (unsigned __int128)low << -down;
    whole = d.low < 0 ? whole - part : whole + part;
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) {
        uint32_t word = (uint32_t)(whole >> (32 * (ACCUMULATOR_LIMBS - 1 - i)));
        double value = i == 0 ? (double)(int32_t)word : (double)word;
        pair s = two_sum(r.sum.hi, value * bits_double((uint64_t)(1023 + 32 * (ACCUMULATOR_LIMBS - 1 - i)) << 52));
        r.sum = fast_two_sum(s.hi, s.lo + r.sum.lo);
    }
    r.sum.hi = scale_by_power(r.sum.hi, bottom);
    r.sum.lo = scale_by_power(r.sum.lo, bottom);
    return r;
}

/* What several blocks add up to; it travels between thread blocks. */
typedef struct digits_part {
    int64_t limb[ACCUMULATOR_LIMBS];
    int32_t top; /* NO_DIGITS_TOP: nothing */
    uint32_t flags;
} digits_part;

#define NO_DIGITS_TOP (-0x40000000)

static __device__ __forceinline__ int32_t lanes_max_signed(int32_t x) { return (int32_t)(lanes_max((uint32_t)x ^ 0x80000000u) ^ 0x80000000u); }

/* The sum of count <= 32 blocks, by one warp; the same in every lane. */
static __device__ __forceinline__ digits_part merge_digits(const block_digits *blocks, int count) {
    const int lane = (int)(threadIdx.x & 31);
    const block_digits d = lane < count ? blocks[lane] : no_digits();
    digits_part p;
    accumulator sum = accumulator_empty();
    p.flags = __any_sync(EVERY_LANE, d.flags != 0) ? STATE_NAN : 0;
    p.top = lanes_max_signed(d.exponent == NO_DIGITS ? NO_DIGITS_TOP : (int32_t)digits_top(d));
    sum.top = p.top;
    digits_accumulate(sum, d);
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) p.limb[i] = lanes_sum_wide(sum.limb[i]);
    return p;
}

/* The same of count <= 32 parts. */
static __device__ __forceinline__ digits_part merge_digit_parts(const digits_part *parts, int count) {
    const int lane = (int)(threadIdx.x & 31);
    const bool present = lane < count;
    const digits_part mine = parts[present ? lane : 0];
    digits_part p;
    p.flags = __any_sync(EVERY_LANE, present && mine.flags != 0) ? STATE_NAN : 0;
    p.top = lanes_max_signed(present ? mine.top : NO_DIGITS_TOP);
    const int down = p.top - mine.top; /* whole limbs, as accumulator_raise moves them */
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) {
        int64_t limb = 0;
#pragma unroll
        for (int j = 0; j <= i; j++) limb = present && down == i - j ? mine.limb[j] : limb;
        p.limb[i] = lanes_sum_wide(limb);
    }
    return p;
}

static __device__ __forceinline__ row_sum read_part(const digits_part &p) {
    row_sum r;
    accumulator sum;
    r.flags = p.flags;
    r.sum.hi = r.sum.lo = 0.0;
    if (p.top == NO_DIGITS_TOP) return r;
    sum.top = p.top;
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) sum.limb[i] = p.limb[i];
    r.sum = accumulator_read(&sum, 0);
    return r;
}

#endif
