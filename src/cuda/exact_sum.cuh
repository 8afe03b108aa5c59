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
    for (int step = lanes >> 1; step > 0; step >>= 1) x += __shfl_xor_sync(EVERY_LANE, x, step);
    return x;
}
static __device__ __forceinline__ uint32_t group_max(uint32_t x, int lanes) {
    for (int step = lanes >> 1; step > 0; step >>= 1) x = max(x, __shfl_xor_sync(EVERY_LANE, x, step));
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

/* 2^power times a word: exact. */
template <int POWER> static __device__ __forceinline__ double scaled_word(uint32_t word) {
    const uint64_t unit = (uint64_t)(1023 + 52 + POWER) << 52;
    return bits_double(unit | word) - bits_double(unit);
}

/* first + the words' values, the limbs of accumulator_read: what its two_sums give, where each sum is a multiple of a unit above the next word. */
static __device__ __forceinline__ pair sum_of_words(double first, uint32_t second, uint32_t third, uint32_t fourth) {
    pair sum = fast_two_sum(first, scaled_word<64>(second)), s = fast_two_sum(sum.hi, scaled_word<32>(third));
    sum = fast_two_sum(s.hi, s.lo + sum.lo);
    s = fast_two_sum(sum.hi, scaled_word<0>(fourth));
    return fast_two_sum(s.hi, s.lo + sum.lo);
}

/* Times 2^exponent, -1000 to 1000: sums of floats' products are. */
static __device__ __forceinline__ pair scaled_sum(pair sum, int exponent) {
    const double factor = bits_double((uint64_t)(1023 + exponent) << 52);
    sum.hi *= factor;
    sum.lo *= factor;
    return sum;
}

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
    const double first = (double)(int32_t)(uint32_t)(whole >> 96) * 0x1p96;
    r.sum = scaled_sum(sum_of_words(first, (uint32_t)(whole >> 64), (uint32_t)(whole >> 32), (uint32_t)whole), bottom);
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

static __device__ __forceinline__ uint64_t size_of(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

/* accumulator_words of exponents whose tops need no modulus, top not below the magnitude's own. */
static __device__ __forceinline__ void limb_words(uint64_t magnitude, int exponent, int top, uint32_t word[ACCUMULATOR_LIMBS]) {
    int offset = exponent - 32 * (top - (ACCUMULATOR_LIMBS - 1)); /* of its unit above the window's bottom */
    if (offset < 0) {
        magnitude = offset > -64 ? magnitude >> -offset : 0;
        offset = 0;
    }
    const int first = ACCUMULATOR_LIMBS - 1 - (offset >> 5), shift = offset & 31;
    const uint32_t low = (uint32_t)(magnitude << shift), middle = (uint32_t)((magnitude << shift) >> 32);
    const uint32_t high = (uint32_t)(magnitude >> 32) >> (31 - shift) >> 1; /* the bits that shift pushes out of 64 */
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) word[i] = i == first ? low : i == first - 1 ? middle : i == first - 2 ? high : 0;
}

/* The sum of count <= 32 blocks, by one warp; the same in every lane. */
static __device__ __forceinline__ digits_part merge_digits(const block_digits *blocks, int count) {
    const int lane = (int)(threadIdx.x & 31);
    const block_digits d = lane < count ? blocks[lane] : no_digits();
    digits_part p;
    const bool none = d.exponent == NO_DIGITS;
    uint32_t high[ACCUMULATOR_LIMBS], low[ACCUMULATOR_LIMBS];
    p.flags = __any_sync(EVERY_LANE, d.flags != 0) ? STATE_NAN : 0;
    p.top = lanes_max_signed(none ? NO_DIGITS_TOP : (d.exponent - DIGITS_HIGH + 62) >> 5);
    limb_words(size_of(d.high), d.exponent - DIGITS_HIGH, p.top, high);
    limb_words(size_of(d.low), d.exponent - DIGITS_LOW, p.top, low);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) {
        const int64_t a = high[i], b = low[i];
        p.limb[i] = lanes_sum_wide(none ? 0 : (d.high < 0 ? -a : a) + (d.low < 0 ? -b : b));
    }
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
    r.flags = p.flags;
    r.sum.hi = r.sum.lo = 0.0;
    if (p.top == NO_DIGITS_TOP) return r;
    const int64_t third = p.limb[2] + (p.limb[3] >> 32), second = p.limb[1] + (third >> 32), first = p.limb[0] + (second >> 32); /* carries */
    r.sum = scaled_sum(sum_of_words((double)first * 0x1p96, (uint32_t)second, (uint32_t)third, (uint32_t)p.limb[3]), 32 * (p.top - (ACCUMULATOR_LIMBS - 1)));
    return r;
}

#endif
