/* What a block of a backward adds to its row: the sum of dy y, or of dy where y is not -inf (`of_log`), exactly. Included after a
 * vector_*.h. */
#ifndef SOFTMAX_BACKWARD_SUM_H
#define SOFTMAX_BACKWARD_SUM_H

#include "element_vectors.h"
#include "exact_sum.h"

typedef enum summed { SUMMED_PRODUCTS, SUMMED_DY, SUMMED_DY_WHERE_FINITE } summed;

static inline float largest_lane(vf a) {
    for (int step = VF_LANES / 2; step > 0; step /= 2) a = vf_max(a, vf_swap(a, step));
    return vf_first(a);
}

/* Of terms in float arithmetic: their largest magnitude, and NaN if one of them, or a y of a log, is NaN or infinite. */
typedef struct float_terms {
    vf top;
    vf spoilt;
} float_terms;

static ALWAYS_INLINE void see_terms(float_terms *t, vf y, vf dy, int of_log) {
    const vf zero = vf_set(0.0f);
    vf term = of_log ? dy : vf_mul(y, dy);
    t->top = vf_max(t->top, vf_abs(term));
    t->spoilt = vf_fma(term, zero, t->spoilt);
    if (of_log) t->spoilt = vf_fma(y, zero, t->spoilt);
}

/* The largest term's magnitude by them: the true one has the same exponent, unless 0 is returned: where a product's rounding might have
 * changed it, it left float's range, or there are infinities or NaN. */
static ALWAYS_INLINE double largest_by_floats(const void *y, const void *dy, element type, int count, int of_log) {
    const vf zero = vf_set(0.0f);
    float_terms t = {zero, zero}, u = t; /* two chains of operations */
    int i = 0;
    float largest;
    for (; i + 2 * VF_LANES <= count; i += 2 * VF_LANES) {
        see_terms(&t, load_elements_float(y, type, i), load_elements_float(dy, type, i), of_log);
        see_terms(&u, load_elements_float(y, type, i + VF_LANES), load_elements_float(dy, type, i + VF_LANES), of_log);
    }
    for (; i < count; i += VF_LANES) {
        int end = i + VF_LANES < count ? i + VF_LANES : count;
        see_terms(&t, load_rest_float(y, type, i, end), load_rest_float(dy, type, i, end), of_log);
    }
    largest = largest_lane(vf_max(t.top, u.top));
    if (vm_any(vf_or_nan(vm_none(), vf_add(t.spoilt, u.spoilt)))) return 0.0;
    if (!of_log && (largest < 0x1p-100f || (float_bits(largest) & 0x7fffffu) == 0)) return 0.0;
    return (double)largest;
}

/* The largest term's magnitude. *not_finite: there is a NaN, or an infinity other than y = -inf of a log. */
static double largest_by_doubles(const void *y, const void *dy, element type, int count, int of_log, int *not_finite) {
    double largest = 0.0, spoilt = 0.0;
    for (int i = 0; i < count; i += VF_LANES) {
        float a[VF_LANES], b[VF_LANES];
        int n = count - i < VF_LANES ? count - i : VF_LANES;
        vf_store(a, load_rest_float(y, type, i, i + n));
        vf_store(b, load_rest_float(dy, type, i, i + n));
        for (int j = 0; j < VF_LANES; j++) {
            double term = of_log ? (double)b[j] : (double)a[j] * (double)b[j], magnitude = fabs(term);
            spoilt += term * 0.0 + (a[j] == -INFINITY ? 0.0 : (double)a[j] * 0.0);
            if (of_log && a[j] == -INFINITY) magnitude = 0.0;
            largest = magnitude > largest ? magnitude : largest;
        }
    }
    *not_finite = spoilt != spoilt;
    return largest;
}

/* One vector's digits onto the sums: of the products y dy, exact in double, or of dy (kept where y is not -inf). */
static ALWAYS_INLINE void add_digits_of(vd y, vd dy, summed what, vd first, vd both, vl *high, vl *low) {
    const vd one = vd_set(1.0);
    vd factor = what == SUMMED_PRODUCTS ? y : one, term = dy, a;
    if (what == SUMMED_DY_WHERE_FINITE) term = vd_keep_from(y, vd_set(-FLT_MAX), dy);
    a = vd_add_exact_product(factor, term, first);
    *high = vl_add_bits(*high, a);
    *low = vl_add_bits(*low, vd_add_exact_product(factor, term, vd_sub(both, a))); /* the difference is exact */
}

/* The digits of the terms on the grid of the largest. Meanwhile the lines `ahead` bytes further on are fetched. */
static ALWAYS_INLINE void add_terms(const void *y, const void *dy, element type, int count, summed what, double largest, int64_t ahead,
                                    accumulator *sum) {
    const digit_grid g = digit_grid_of(largest);
    const vd first = vd_set(g.first), both = vd_set(g.both);
    const int bytes = type == ELEMENT_FLOAT32 ? 4 : 2, padded = (count + VF_LANES - 1) / VF_LANES * VF_LANES;
    vl high = vl_zero(), low = high, high2 = high, low2 = high;
    vd y1, y2, dy1, dy2;
    int i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES) {
        if (i * bytes % 64 == 0) {
            prefetch_line((const char *)y + i * bytes + ahead);
            prefetch_line((const char *)dy + i * bytes + ahead);
        }
        load_halves(dy, type, i, &dy1, &dy2);
        y1 = dy1, y2 = dy2;
        if (what != SUMMED_DY) load_halves(y, type, i, &y1, &y2);
        add_digits_of(y1, dy1, what, first, both, &high, &low);
        add_digits_of(y2, dy2, what, first, both, &high2, &low2);
    }
    if (i < count) {
        vf a = load_rest_float(y, type, i, count), b = load_rest_float(dy, type, i, count);
        add_digits_of(vd_of_floats(a, 0), vd_of_floats(b, 0), what, first, both, &high, &low);
        add_digits_of(vd_of_floats(a, 1), vd_of_floats(b, 1), what, first, both, &high2, &low2);
    }
    add_digits(sum, vl_sum(vl_add(high, high2)), vl_sum(vl_add(low, low2)), padded, &g, 0);
}

/* y and dy of a block, contiguous and of one type. Its largest term is known before its sum is begun: the next block's can be found meanwhile. */
typedef struct backward_terms {
    const void *y;
    const void *dy;
    element type;
    int count;
    summed what;
    double largest;
} backward_terms;

static void find_largest_float(backward_terms *b, int of_log, uint32_t *flags) {
    int not_finite;
    b->what = of_log ? SUMMED_DY : SUMMED_PRODUCTS;
    b->largest = b->type == ELEMENT_FLOAT32    ? (of_log ? largest_by_floats(b->y, b->dy, ELEMENT_FLOAT32, b->count, 1)
                                                         : largest_by_floats(b->y, b->dy, ELEMENT_FLOAT32, b->count, 0))
                 : b->type == ELEMENT_BFLOAT16 ? largest_by_floats(b->y, b->dy, ELEMENT_BFLOAT16, b->count, of_log)
                                               : largest_by_floats(b->y, b->dy, ELEMENT_FLOAT16, b->count, of_log);
    if (b->largest != 0.0) return;
    b->largest = largest_by_doubles(b->y, b->dy, b->type, b->count, of_log, &not_finite);
    if (of_log) b->what = SUMMED_DY_WHERE_FINITE;
    if (not_finite) {
        *flags |= STATE_NAN;
        b->largest = 0.0;
    }
}

static void add_block_float(const backward_terms *b, int64_t ahead, accumulator *sum, uint32_t *flags) {
    (void)flags;
    if (b->largest == 0.0) return;
#define ADD_TERMS(its_type)                                                                                       (b->what == SUMMED_PRODUCTS ? add_terms(b->y, b->dy, its_type, b->count, SUMMED_PRODUCTS, b->largest, ahead, sum)      : b->what == SUMMED_DY     ? add_terms(b->y, b->dy, its_type, b->count, SUMMED_DY, b->largest, ahead, sum)                                       : add_terms(b->y, b->dy, its_type, b->count, SUMMED_DY_WHERE_FINITE, b->largest, ahead, sum))
    if (b->type == ELEMENT_FLOAT32)
        ADD_TERMS(ELEMENT_FLOAT32);
    else if (b->type == ELEMENT_BFLOAT16)
        ADD_TERMS(ELEMENT_BFLOAT16);
    else
        ADD_TERMS(ELEMENT_FLOAT16);
#undef ADD_TERMS
}

/* Doubles: two parts, and so another sum. */
static void find_largest_double(backward_terms *b, int of_log, uint32_t *flags) {
    b->what = of_log ? SUMMED_DY_WHERE_FINITE : SUMMED_PRODUCTS;
    (void)flags;
}

static void add_block_double(const backward_terms *b, int64_t ahead, accumulator *sum, uint32_t *flags) {
    const double *y = (const double *)b->y, *dy = (const double *)b->dy;
    double hi[SOFTMAX_BLOCK_COLUMNS], lo[SOFTMAX_BLOCK_COLUMNS];
    int bad = 0;
    (void)ahead;
    if (b->what == SUMMED_PRODUCTS) {
        for (int i = 0; i < b->count; i++) hi[i] = dy[i] * y[i]; /* not finite where either is not */
        for (int i = 0; i < b->count; i++) lo[i] = fma(dy[i], y[i], -hi[i]);
        sum_exactly(hi, lo, b->count, sum, flags);
        return;
    }
    for (int i = 0; i < b->count; i++) {
        bad |= (y[i] != y[i]) | (y[i] > DBL_MAX) | !(dy[i] - dy[i] == 0);
        hi[i] = y[i] >= -DBL_MAX ? dy[i] : 0.0;
    }
    if (bad) *flags |= STATE_NAN;
    sum_exactly(hi, NULL, b->count, sum, flags);
}

#endif
