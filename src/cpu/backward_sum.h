/* What a block of a backward adds to its row: the sum of dy y, or of dy where y is not -inf (`of_log`), exactly. Included after a
 * vector_*.h. */
#ifndef SOFTMAX_BACKWARD_SUM_H
#define SOFTMAX_BACKWARD_SUM_H

#include "element_vectors.h"
#include "exact_sum.h"

/* SUMMED_FEW_BITS: of dy, whose second digits are all 0. */
typedef enum summed { SUMMED_PRODUCTS, SUMMED_DY, SUMMED_FEW_BITS, SUMMED_DY_WHERE_FINITE } summed;

static inline uint32_t most_bits_of_lanes(vf a) {
    for (int step = VF_LANES / 2; step > 0; step /= 2) a = vf_most_bits(a, vf_swap(a, step));
    return float_bits(vf_first(a));
}

/* Of terms in float arithmetic, as unsigned bits: the largest magnitude (above infinity's bits: NaN); 0 less that of the smallest magnitude but 0. Of a
 * log's y: the largest bits, -inf's or above if one is that or a negative NaN; 0 less y's, above the sign's if one is positive, infinite or NaN. */
typedef struct float_terms {
    vf top;
    vf least;
    vf y;
    vf y_negated;
} float_terms;

static ALWAYS_INLINE void see_terms(float_terms *t, vf y, vf dy, int of_log) {
    const vf size = vf_abs(of_log ? dy : vf_mul(y, dy));
    t->top = vf_most_bits(t->top, size);
    if (!of_log) return;
    t->least = vf_most_negated(t->least, size);
    t->y = vf_most_bits(t->y, y);
    t->y_negated = vf_most_negated(t->y_negated, y);
}

#define BACKWARD_CAREFUL 0x10000u /* beside STATE_NAN: some block is */

/* y and dy of a block, contiguous and of one type. Its largest term is known before its sum is begun: the next block's can be found meanwhile. */
typedef struct backward_terms {
    const void *y;
    const void *dy;
    element type;
    int count;
    summed what;
    int careful; /* of a log's gradient: some y, or some dy but 0, may be far from the middle of the range */
    double largest;
} backward_terms;

#define INFINITE_BITS 0x7f800000u
#define SIGN_BIT 0x80000000u
#define CALM_LEAST (-40.0f)  /* y from here on and slopes from 2^-20 on: p times them is above 2^-79, ... */
#define CALM_DY 0x1p-60f     /* ... and what it leaves of dy from here on is 0 or a normal number */

static inline float_terms no_float_terms(void) {
    const vf zero = vf_set(0.0f);
    float_terms t = {zero, zero, zero, zero};
    return t;
}

static inline float_terms both_float_terms(const float_terms *t, const float_terms *u) {
    float_terms both = {vf_most_bits(t->top, u->top), vf_most_bits(t->least, u->least), vf_most_bits(t->y, u->y), vf_most_bits(t->y_negated, u->y_negated)};
    return both;
}

/* The largest term's magnitude by all of them: the true one has the same exponent. 0 is returned where it may not have: a product's rounding might have
 * changed it, it left float's range, or there are infinities or NaN, or a log above 0. */
static ALWAYS_INLINE int largest_of_terms(backward_terms *b, const float_terms *t, int of_log) {
    uint32_t largest = most_bits_of_lanes(t->top), least, y_bits;
    b->what = of_log ? SUMMED_DY : SUMMED_PRODUCTS;
    b->largest = 0.0;
    b->careful = 1;
    if (largest >= INFINITE_BITS) return 0;
    if (!of_log) {
        b->largest = (double)bits_float(largest);
        return bits_float(largest) >= 0x1p-100f && (largest & 0x7fffffu) != 0;
    }
    least = 0u - most_bits_of_lanes(t->least);
    y_bits = most_bits_of_lanes(t->y);
    if (y_bits >= (SIGN_BIT | INFINITE_BITS) || most_bits_of_lanes(t->y_negated) > SIGN_BIT) return 0;
    b->largest = (double)bits_float(largest);
    b->careful = !((y_bits == 0 || bits_float(y_bits) >= CALM_LEAST) && (least == 0 || bits_float(least) >= CALM_DY));
    /* all of them multiples of 2^-44 of the largest's power of two: 23 bits below their own */
    if (least != 0 && (largest >> 23) - (least >> 23) <= 44 - 23 && least >> 23 != 0) b->what = SUMMED_FEW_BITS;
    return 1;
}

static ALWAYS_INLINE float_terms terms_by_floats(const backward_terms *b, element type, int of_log) {
    const void *y = b->y, *dy = b->dy;
    const int count = b->count;
    float_terms t = no_float_terms(), u = t; /* two chains of operations */
    int i = 0;
    for (; i + 2 * VF_LANES <= count; i += 2 * VF_LANES) {
        see_terms(&t, load_elements_float(y, type, i), load_elements_float(dy, type, i), of_log);
        see_terms(&u, load_elements_float(y, type, i + VF_LANES), load_elements_float(dy, type, i + VF_LANES), of_log);
    }
    for (; i < count; i += VF_LANES) {
        int end = i + VF_LANES < count ? i + VF_LANES : count;
        see_terms(&t, load_rest_float(y, type, i, end), load_rest_float(dy, type, i, end), of_log);
    }
    return both_float_terms(&t, &u);
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
    vd a;
    if (what == SUMMED_PRODUCTS) {
        a = vd_add_exact_product(y, dy, first);
        *low = vl_add_bits(*low, vd_add_exact_product(y, dy, vd_sub(both, a))); /* the difference is exact */
    } else {
        if (what == SUMMED_DY_WHERE_FINITE) dy = vd_keep_from(y, vd_set(-FLT_MAX), dy);
        a = vd_add(dy, first);
        if (what != SUMMED_FEW_BITS) *low = vl_add_bits(*low, vd_add(dy, vd_sub(both, a)));
    }
    *high = vl_add_bits(*high, a);
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
        if (what == SUMMED_PRODUCTS || what == SUMMED_DY_WHERE_FINITE) load_halves(y, type, i, &y1, &y2);
        add_digits_of(y1, dy1, what, first, both, &high, &low);
        add_digits_of(y2, dy2, what, first, both, &high2, &low2);
    }
    if (i < count) {
        vf a = load_rest_float(y, type, i, count), b = load_rest_float(dy, type, i, count);
        add_digits_of(vd_of_floats(a, 0), vd_of_floats(b, 0), what, first, both, &high, &low);
        add_digits_of(vd_of_floats(a, 1), vd_of_floats(b, 1), what, first, both, &high2, &low2);
    }
    if (what == SUMMED_FEW_BITS) low = vl_set((uint64_t)(padded / VD_LANES) * double_bits(g.second)), low2 = vl_zero();
    add_digits(sum, vl_sum(vl_add(high, high2)), vl_sum(vl_add(low, low2)), padded, &g, 0);
}

/* From a block's float_terms to its largest; flags: of its row. */
static void take_largest(backward_terms *b, const float_terms *t, int of_log, uint32_t *flags) {
    int not_finite, found = largest_of_terms(b, t, of_log);
    if (b->careful) *flags |= BACKWARD_CAREFUL;
    if (found) return;
    b->largest = largest_by_doubles(b->y, b->dy, b->type, b->count, of_log, &not_finite);
    if (of_log) b->what = SUMMED_DY_WHERE_FINITE;
    if (not_finite) {
        *flags |= STATE_NAN;
        b->largest = 0.0;
    }
}

static void find_largest_float(backward_terms *b, int of_log, uint32_t *flags) {
    float_terms t;
    if (b->type == ELEMENT_FLOAT32)
        t = of_log ? terms_by_floats(b, ELEMENT_FLOAT32, 1) : terms_by_floats(b, ELEMENT_FLOAT32, 0);
    else if (b->type == ELEMENT_BFLOAT16)
        t = of_log ? terms_by_floats(b, ELEMENT_BFLOAT16, 1) : terms_by_floats(b, ELEMENT_BFLOAT16, 0);
    else
        t = of_log ? terms_by_floats(b, ELEMENT_FLOAT16, 1) : terms_by_floats(b, ELEMENT_FLOAT16, 0);
    take_largest(b, &t, of_log, flags);
}

static void add_block_float(const backward_terms *b, int64_t ahead, accumulator *sum, uint32_t *flags) {
    (void)flags;
    if (b->largest == 0.0) return;
#define ADD_TERMS_OF(its_type, its_what) add_terms(b->y, b->dy, its_type, b->count, its_what, b->largest, ahead, sum)
#define ADD_TERMS(its_type)                                                         \
    (b->what == SUMMED_PRODUCTS   ? ADD_TERMS_OF(its_type, SUMMED_PRODUCTS)         \
     : b->what == SUMMED_DY       ? ADD_TERMS_OF(its_type, SUMMED_DY)               \
     : b->what == SUMMED_FEW_BITS ? ADD_TERMS_OF(its_type, SUMMED_FEW_BITS)         \
                                  : ADD_TERMS_OF(its_type, SUMMED_DY_WHERE_FINITE))
    if (b->type == ELEMENT_FLOAT32)
        ADD_TERMS(ELEMENT_FLOAT32);
    else if (b->type == ELEMENT_BFLOAT16)
        ADD_TERMS(ELEMENT_BFLOAT16);
    else
        ADD_TERMS(ELEMENT_FLOAT16);
#undef ADD_TERMS
#undef ADD_TERMS_OF
}

/* Doubles: two parts, and so another sum. */
static void find_largest_double(backward_terms *b, int of_log, uint32_t *flags) {
    b->what = of_log ? SUMMED_DY_WHERE_FINITE : SUMMED_PRODUCTS;
    b->careful = 1;
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
