/* numerics/hyperbolic.h in vectors of doubles: the same operations in the same order, the lanes' branches by selection. Included after a
 * vector_*.h. */
#ifndef SOFTMAX_SOFTCAP_VECTORS_H
#define SOFTMAX_SOFTCAP_VECTORS_H

#include "../numerics/hyperbolic.h"
#include "element_vectors.h"
#include "log_vectors.h"

#define SOFTCAP_BEYOND 0x1.4000000000001p5 /* the least double above 40 */

static ALWAYS_INLINE vd_pair pair_multiply_vectors(vd_pair a, vd_pair b) {
    vd hi = vd_mul(a.hi, b.hi), rest = vd_fma(a.hi, b.hi, vd_sub(vd_set(0.0), hi));
    return fast_two_sum_vectors(hi, vd_add(rest, vd_add(vd_mul(a.hi, b.lo), vd_mul(a.lo, b.hi))));
}

/* Vectors that go step by step together: one alone is a chain of some 300 cycles, and a processor's window holds no two of them. */
#if defined(VECTOR_PIPELINE)
#define CAPPED 4
#else
#define CAPPED 2
#endif
#define EACH for (int i = 0; i < CAPPED; i++)

/* u = |x| / c as a pair; both parts of a sum's error are exact where its parts are in order, as in two_sum. */
static ALWAYS_INLINE void over_cap(const vd *x, vd c, vd_pair *u) {
    vd rest[CAPPED];
    EACH u[i].hi = vd_div(vd_abs(x[i]), c);
    EACH rest[i] = vd_fma(vd_sub(vd_set(0.0), u[i].hi), c, vd_abs(x[i]));
    EACH u[i].lo = vd_div(rest[i], c);
}

/* exp_head */
static ALWAYS_INLINE void exp_heads(const vd *r, vd *p) {
    static const double coefficient[] = {EXP_C12, EXP_C11, EXP_C10, EXP_C9, EXP_C8, EXP_C7, EXP_C6, EXP_C5, EXP_C4, EXP_C3};
    EACH p[i] = vd_set(coefficient[0]);
    for (int j = 1; j < 10; j++) EACH p[i] = vd_fma(p[i], r[i], vd_set(coefficient[j]));
}

/* expm1_reduced of r, |r| <= 0.35 */
static ALWAYS_INLINE void expm1_reduced_vectors(const vd_pair *r, vd_pair *q) {
    const vd zero = vd_set(0.0), half = vd_set(0.5);
    vd sum[CAPPED], sum_lo[CAPPED], square[CAPPED], low[CAPPED], p[CAPPED];
    EACH sum[i] = vd_add(r[i].hi, r[i].lo);
    EACH sum_lo[i] = vd_sub(r[i].lo, vd_sub(sum[i], r[i].hi));
    exp_heads(sum, p);
    EACH square[i] = vd_mul(sum[i], sum[i]);
    EACH low[i] = vd_fma(half, vd_fma(sum[i], sum[i], vd_sub(zero, square[i])), sum_lo[i]);
    EACH low[i] = vd_add(vd_fma(square[i], vd_mul(p[i], sum[i]), low[i]), vd_mul(sum_lo[i], sum[i]));
    EACH q[i] = fast_two_sum_vectors(sum[i], vd_mul(half, square[i]));
    EACH q[i] = fast_two_sum_vectors(q[i].hi, vd_add(q[i].lo, low[i]));
}

/* pair_add(one, a) where |a| <= 1, or one is -1 and a >= 1: as fast_two_sum */
static ALWAYS_INLINE vd_pair pair_add_in_order(vd_pair large, vd_pair small) {
    vd_pair s = fast_two_sum_vectors(large.hi, small.hi);
    return fast_two_sum_vectors(s.hi, vd_add(s.lo, vd_add(large.lo, small.lo)));
}

/* expm1_twice */
static ALWAYS_INLINE void expm1_twice_vectors(const vd_pair *u, vd_pair *e) {
    const vd zero = vd_set(0.0), one = vd_set(1.0), two = vd_set(2.0), magic = vd_set(SOFTMAX_MAGIC64);
    vd_pair minus_ones = {vd_set(-1.0), zero}, ones = {one, zero}, r[CAPPED], whole[CAPPED];
    vd t[CAPPED], k[CAPPED];
    EACH t[i] = vd_fma(vd_mul(two, u[i].hi), vd_set(SOFTMAX_LOG2E), magic);
    EACH k[i] = vd_sub(t[i], magic);
    EACH r[i].hi = vd_fma(k[i], vd_set(-SOFTMAX_LN2_HI), vd_mul(two, u[i].hi));
    EACH r[i].lo = vd_add(vd_mul(k[i], vd_set(-SOFTMAX_LN2_LO)), vd_mul(two, u[i].lo));
    EACH r[i] = two_sum_vectors(r[i].hi, r[i].lo);
    expm1_reduced_vectors(r, e);
    EACH whole[i] = pair_add_in_order(ones, e[i]);
    EACH {
        whole[i].hi = vd_mul(whole[i].hi, vd_power(t[i]));
        whole[i].lo = vd_mul(whole[i].lo, vd_power(t[i]));
    }
    EACH whole[i] = pair_add_in_order(whole[i], minus_ones);
    EACH {
        e[i].hi = vd_select(k[i], one, whole[i].hi, e[i].hi);
        e[i].lo = vd_select(k[i], one, whole[i].lo, e[i].lo);
    }
}

/* softcap_value, in place */
static ALWAYS_INLINE void softcap_vectors(vd *x, vd c) {
    const vd zero = vd_set(0.0);
    const vd_pair cap = {c, zero}, twos = {vd_set(2.0), zero};
    vd_pair u[CAPPED], e[CAPPED], below[CAPPED];
    vd y[CAPPED];
    over_cap(x, c, u);
    expm1_twice_vectors(u, e);
    EACH below[i] = pair_add_vectors(twos, e[i]);
    EACH e[i] = pair_divide_vectors(e[i], below[i]);
    EACH y[i] = pair_multiply_vectors(cap, e[i]).hi;
    EACH y[i] = vd_select(u[i].hi, vd_set(SOFTCAP_BEYOND), c, y[i]);
    EACH y[i] = vd_select(x[i], zero, y[i], vd_sub(zero, y[i]));
    EACH x[i] = vd_select(u[i].hi, vd_set(0x1p-500), y[i], x[i]); /* NaN too */
}

/* ---- The same for float results, which need not all its digits --------------------------------------------------- */

/* Doubles without low parts: u = |x| (1 / c) and E = e^2u - 1, relative errors 2^-52 and 2^-51 + 2^-51 u. */
static ALWAYS_INLINE void near_expm1_twice(const vd *x, vd inverse, vd *u, vd *e) {
    const vd magic = vd_set(SOFTMAX_MAGIC64), half = vd_set(0.5), one = vd_set(1.0);
    vd t[CAPPED], k[CAPPED], r[CAPPED], q[CAPPED];
    EACH u[i] = vd_mul(vd_abs(x[i]), inverse);
    EACH r[i] = vd_add(u[i], u[i]);
    EACH t[i] = vd_fma(r[i], vd_set(SOFTMAX_LOG2E), magic);
    EACH k[i] = vd_sub(t[i], magic);
    EACH r[i] = vd_fma(k[i], vd_set(-SOFTMAX_LN2_HI), r[i]);
    EACH r[i] = vd_fma(k[i], vd_set(-SOFTMAX_LN2_LO), r[i]);
    exp_heads(r, q);
    EACH q[i] = vd_fma(vd_fma(q[i], r[i], half), vd_mul(r[i], r[i]), r[i]);
    EACH t[i] = vd_power(t[i]);
    EACH e[i] = vd_fma(q[i], t[i], vd_sub(t[i], one));
}

/* softcap_value rounded to float, in place, from a value whose relative error is below 2^-49: 0 if some lane is so close to the middle of two
 * floats that this is not enough. */
static ALWAYS_INLINE int near_softcap_vectors(const vd *x, vd c, vd inverse, float *z) {
    const vd zero = vd_set(0.0), two = vd_set(2.0), error = vd_set(0x1p-48);
    vd u[CAPPED], e[CAPPED], y[CAPPED], below[CAPPED], above[CAPPED];
    vm unsure = vm_none();
    near_expm1_twice(x, inverse, u, e);
    EACH y[i] = vd_mul(c, vd_div(e[i], vd_add(e[i], two)));
    EACH y[i] = vd_select(u[i], vd_set(SOFTCAP_BEYOND), c, y[i]);
    EACH y[i] = vd_select(u[i], vd_set(0x1p-500), vd_select(x[i], zero, y[i], vd_sub(zero, y[i])), x[i]); /* NaN too */
    EACH below[i] = vd_fma(vd_sub(zero, error), y[i], y[i]);
    EACH above[i] = vd_fma(error, y[i], y[i]);
    for (int i = 0; i < CAPPED; i += 2) {
        vf low = vf_of_doubles(below[i], below[i + 1]), high = vf_of_doubles(above[i], above[i + 1]);
        unsure = vf_or_at_least(unsure, vf_abs(vf_sub(high, low)), vf_set(0x1p-149f));
        vf_store(z + i * VD_LANES, vf_of_doubles(y[i], y[i + 1]));
    }
    return !vm_any(unsure);
}

/* Scores, in place. */
APART void softcap_scores_float(float *z, int count, double softcap) {
    enum { STEP = CAPPED * VD_LANES };
    const vd c = vd_set(softcap), inverse = vd_set(1.0 / softcap);
    for (int j = 0; j < count; j += STEP) {
        float last[STEP] = {0}, *at = j + STEP <= count ? z + j : last;
        vd x[CAPPED];
        if (at == last) memcpy(last, z + j, (size_t)(count - j) * sizeof *z);
        EACH x[i] = vd_load_float(at + i * VD_LANES);
        if (!near_softcap_vectors(x, c, inverse, at)) {
            softcap_vectors(x, c);
            EACH vd_store_float(at + i * VD_LANES, x[i]);
        }
        if (at == last) memcpy(z + j, last, (size_t)(count - j) * sizeof *z);
    }
}

/* softcap_derivative, relative error below 2^-44, of `count` scores; 0 if one of them lies beyond 40 caps. */
APART int softcap_near_slopes(const double *x, int count, double softcap, double *slope) {
    enum { STEP = CAPPED * VD_LANES };
    const vd inverse = vd_set(1.0 / softcap), one = vd_set(1.0), two = vd_set(2.0), four = vd_set(4.0), zero = vd_set(0.0);
    vm far = vm_none();
    for (int j = 0; j < count; j += STEP) {
        double last[STEP] = {0}, *to = j + STEP <= count ? slope + j : last;
        const double *from = to == last ? last : x + j;
        vd z[CAPPED], u[CAPPED], e[CAPPED], y[CAPPED];
        if (to == last) memcpy(last, x + j, (size_t)(count - j) * sizeof *x);
        EACH z[i] = vd_load(from + i * VD_LANES);
        near_expm1_twice(z, inverse, u, e);
        EACH y[i] = vd_add(e[i], two);
        EACH y[i] = vd_div(vd_mul(four, vd_add(e[i], one)), vd_mul(y[i], y[i]));
        EACH y[i] = vd_select(u[i], vd_set(0x1p-500), y[i], vd_select(u[i], zero, one, z[i]));
        EACH far = vd_or_at_least(far, u[i], vd_set(40.0));
        EACH vd_store(to + i * VD_LANES, y[i]);
        if (to == last) memcpy(slope + j, last, (size_t)(count - j) * sizeof *x);
    }
    return !vm_any(far);
}

/* ------------------------------------------------------------------------------------------------------------------- */

APART void softcap_scores_double(double *z, int count, double softcap) {
    enum { STEP = CAPPED * VD_LANES };
    for (int j = 0; j < count; j += STEP) {
        double last[STEP] = {0}, *at = j + STEP <= count ? z + j : last;
        vd x[CAPPED];
        if (at == last) memcpy(last, z + j, (size_t)(count - j) * sizeof *z);
        EACH x[i] = vd_load(at + i * VD_LANES);
        softcap_vectors(x, vd_set(softcap));
        EACH vd_store(at + i * VD_LANES, x[i]);
        if (at == last) memcpy(z + j, last, (size_t)(count - j) * sizeof *z);
    }
}

/* softcap_derivative of x, where |x| / c <= 40 or x is NaN. */
static ALWAYS_INLINE void softcap_slope_vectors(const vd *x, const vd_pair *u, vd_pair *slope) {
    const vd zero = vd_set(0.0), one = vd_set(1.0), four = vd_set(4.0), least = vd_set(0x1p-500);
    const vd_pair ones = {one, zero}, twos = {vd_set(2.0), zero};
    vd_pair e[CAPPED], below[CAPPED];
    expm1_twice_vectors(u, e);
    EACH below[i] = pair_add_vectors(twos, e[i]);
    EACH e[i] = pair_divide_vectors(pair_add_vectors(ones, e[i]), below[i]);
    EACH e[i] = pair_divide_vectors(e[i], below[i]);
    EACH slope[i].hi = vd_select(u[i].hi, least, vd_mul(e[i].hi, four), vd_select(u[i].hi, zero, one, x[i]));
    EACH slope[i].lo = vd_select(u[i].hi, least, vd_mul(e[i].lo, four), zero);
}

/* softcap_derivative of `count` scores. Scores beyond 40 caps, where it is next to nothing, one by one. */
APART void softcap_slopes(const double *x, int count, double softcap, double *hi, double *lo) {
    enum { STEP = CAPPED * VD_LANES };
    const vd beyond = vd_set(SOFTCAP_BEYOND);
    for (int j = 0; j < count; j += STEP) {
        int n = count - j < STEP ? count - j : STEP;
        double given[STEP] = {0}, slope_hi[STEP], slope_lo[STEP];
        vd z[CAPPED];
        vd_pair u[CAPPED], slope[CAPPED];
        vm far = vm_none();
        memcpy(given, x + j, (size_t)n * sizeof *x);
        EACH z[i] = vd_load(given + i * VD_LANES);
        over_cap(z, vd_set(softcap), u);
        softcap_slope_vectors(z, u, slope);
        EACH far = vd_or_at_least(far, u[i].hi, beyond);
        EACH vd_store(slope_hi + i * VD_LANES, slope[i].hi);
        EACH vd_store(slope_lo + i * VD_LANES, slope[i].lo);
        for (int k = 0; vm_any(far) && k < n; k++) {
            pair one = softcap_derivative(given[k], softcap);
            slope_hi[k] = one.hi;
            slope_lo[k] = one.lo;
        }
        memcpy(hi + j, slope_hi, (size_t)n * sizeof *hi);
        memcpy(lo + j, slope_lo, (size_t)n * sizeof *lo);
    }
}

#undef EACH
#endif
