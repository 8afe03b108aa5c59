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
    uint64_t high, low;
} lane_digits;

static __device__ __forceinline__ lane_digits digits_begin(int exponent) {
    lane_digits d;
    d.grid_high = rounding_constant(exponent - DIGITS_HIGH);
    d.grid_low = rounding_constant(exponent - DIGITS_LOW);
    d.high = d.low = 0;
    return d;
}

static __device__ __forceinline__ void digits_add(lane_digits &d, double x) {
    double a = x + d.grid_high, rest = x - (a - d.grid_high);
    d.high += double_bits(a);
    d.low += double_bits(rest + d.grid_low);
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

static __device__ row_sum read_digits(const block_digits &d) {
    row_sum r;
    accumulator sum = accumulator_empty();
    digits_accumulate(sum, d);
    r.sum = accumulator_read(&sum, 0);
    r.flags = d.flags;
    return r;
}

/* The sum of `count` blocks by one warp. */
static __device__ row_sum add_up_digits(const block_digits *blocks, int count) {
    const int lane = (int)(threadIdx.x & 31);
    const int32_t no_top = -0x40000000;
    int32_t top = no_top;
    uint32_t flags = 0;
    accumulator sum = accumulator_empty();
    row_sum r;
    for (int b = lane; b < count; b += 32) {
        if (blocks[b].exponent != NO_DIGITS) top = max(top, (int32_t)digits_top(blocks[b]));
        flags |= blocks[b].flags;
    }
    top = (int32_t)lanes_max((uint32_t)top ^ 0x80000000u) ^ (int32_t)0x80000000;
    r.flags = __any_sync(EVERY_LANE, flags != 0) ? STATE_NAN : 0;
    r.sum.hi = r.sum.lo = 0.0;
    if (top == no_top) return r;
    sum.top = top;
    for (int b = lane; b < count; b += 32) digits_accumulate(sum, blocks[b]);
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) sum.limb[i] = lanes_sum_wide(sum.limb[i]);
    r.sum = accumulator_read(&sum, 0);
    return r;
}

#endif
