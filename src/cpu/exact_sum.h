/* Signed sums of a block, exact in any order: every term is rounded onto the grid of the block's largest, in two digits of 44 bits, and
 * the digits are integers. Error below 2^-88 of the largest magnitude for each term. */
#ifndef SOFTMAX_EXACT_SUM_H
#define SOFTMAX_EXACT_SUM_H

#include <float.h>

#include "../numerics/state.h"

/* floor(log2 |x|), not below -960: the second digit's grid must exist. */
static inline int64_t exponent_of(double x) {
    int64_t e = (int64_t)((double_bits(x) >> 52) & 0x7ff) - 1023;
    return e < -960 ? -960 : e;
}

/* Adding it rounds to a multiple of 2^exponent. */
static inline double rounding_constant(int64_t exponent) { return 1.5 * bits_double((uint64_t)(1023 + 52 + exponent) << 52); }

/* The largest magnitude of x; *not_finite where there is a NaN or an infinity. */
static double largest_magnitude(const double *x, int count, int *not_finite) {
    vd top = vd_set(0.0);
    double lanes[VD_LANES], largest = 0.0;
    vm nan = vm_none();
    for (int i = 0; i < count; i += VD_LANES) {
        vd a = i + VD_LANES <= count ? vd_load(x + i) : vd_load_part(x + i, count - i, 0.0);
        nan = vd_or_nan(nan, vd_sub(a, a));
        top = vd_max(top, vd_abs(a));
    }
    vd_store(lanes, top);
    for (int i = 0; i < VD_LANES; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    *not_finite = vm_any(nan);
    return largest;
}

/* The grids' constants: adding `first` rounds to the first digit; `both` minus that sum leaves what completes x to the second digit's sum. */
typedef struct digit_grid {
    int64_t exponent; /* of the largest magnitude */
    double first;
    double second;
    double both; /* first + second, exact */
} digit_grid;

static inline digit_grid digit_grid_of(double largest) {
    digit_grid g;
    g.exponent = exponent_of(largest);
    g.first = rounding_constant(g.exponent - 44);
    g.second = rounding_constant(g.exponent - 88);
    g.both = g.first + g.second;
    return g;
}

static void add_digits(accumulator *sum, uint64_t high, uint64_t low, int padded, const digit_grid *g, int64_t down) {
    accumulator_add(sum, (int64_t)(high - (uint64_t)padded * double_bits(g->first)), g->exponent + down - 44);
    accumulator_add(sum, (int64_t)(low - (uint64_t)padded * double_bits(g->second)), g->exponent + down - 88);
}

/* sum of hi[i] + lo[i] (lo NULL: 0; |lo| below an ULP of hi). Not finite: *flags gets STATE_NAN. */
static void sum_exactly(const double *hi, const double *lo, int count, accumulator *sum, uint32_t *flags) {
    vd c1, c2, factor;
    vl high = vl_zero(), low = vl_zero();
    int i, not_finite, padded = (count + VD_LANES - 1) / VD_LANES * VD_LANES;
    double largest = largest_magnitude(hi, count, &not_finite);
    int64_t down;
    digit_grid g;
    if (not_finite) {
        *flags |= STATE_NAN;
        return;
    }
    if (largest == 0.0) return;
    down = exponent_of(largest) > 1000 ? 64 : 0; /* the grid's constant would overflow */
    g = digit_grid_of(down ? largest * 0x1p-64 : largest);
    factor = vd_set(down ? 0x1p-64 : 1.0);
    c1 = vd_set(g.first);
    c2 = vd_set(g.second);
    for (i = 0; i < count; i += VD_LANES) {
        int whole = i + VD_LANES <= count;
        vd x = vd_mul(whole ? vd_load(hi + i) : vd_load_part(hi + i, count - i, 0.0), factor);
        vd a = vd_add(x, c1), rest = vd_sub(x, vd_sub(a, c1));
        if (lo) rest = vd_add(rest, vd_mul(whole ? vd_load(lo + i) : vd_load_part(lo + i, count - i, 0.0), factor));
        high = vl_add_bits(high, a);
        low = vl_add_bits(low, vd_add(rest, c2));
    }
    add_digits(sum, vl_sum(high), vl_sum(low), padded, &g, down);
}

/* The same of `count` equal numbers. */
static void sum_equals_exactly(pair x, int count, accumulator *sum, uint32_t *flags) {
    double largest = fabs(x.hi), a, b;
    digit_grid g;
    if (!(largest <= DBL_MAX)) *flags |= STATE_NAN;
    if (!(largest <= DBL_MAX) || largest == 0.0) return;
    g = digit_grid_of(largest);
    a = x.hi + g.first;
    b = (x.hi - (a - g.first)) + x.lo + g.second;
    accumulator_add(sum, (int64_t)((double_bits(a) - double_bits(g.first)) * (uint64_t)count), g.exponent - 44);
    accumulator_add(sum, (int64_t)((double_bits(b) - double_bits(g.second)) * (uint64_t)count), g.exponent - 88);
}

#endif
