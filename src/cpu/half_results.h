/* Rows of 16-bit elements become results: from values in half_vectors.h's order, rounded once. Included after block_types.h's templates. */
#ifndef SOFTMAX_HALF_RESULTS_H
#define SOFTMAX_HALF_RESULTS_H

#include "half_pipeline.h"

static inline uint32_t round_to_half(float x, arithmetic kind) { return kind == ARITHMETIC_FLOAT16 ? round_to_float16(x) : round_to_bfloat16(x); }

static inline float widen_half(int bits, arithmetic kind) {
    return kind == ARITHMETIC_FLOAT16 ? widen_float16((uint16_t)bits) : widen_bfloat16((uint16_t)bits);
}

/* The element that half_vectors.h's order has made an integer of. */
static inline float half_in_order(int order, arithmetic kind) { return widen_half(order < 0 ? order ^ 0x7fff : order, kind); }

/* Twice a term's error (term16_power) and more: no other value of a row is further above the maximum's own. */
#define HALF_ABOVE_FLOAT16 0x1p-20f
#define HALF_ABOVE_BFLOAT16 0x1p-16f

/* Whether `most` need not be put in the place of what reaches `cut`: all that lies between them, or may be above, has the same rounding. Of factors
 * without the bias. */
static inline int half_results_are_level(const factor_float *f, arithmetic kind) {
    const float above = f->cut * (1.0f + (kind == ARITHMETIC_FLOAT16 ? HALF_ABOVE_FLOAT16 : HALF_ABOVE_BFLOAT16));
    const float low = f->cut < f->most ? f->cut : f->most, high = above > f->most ? above : f->most;
    return round_to_half(low, kind) == round_to_half(high, kind);
}

static ALWAYS_INLINE void half_results_loop(const float *v, int count, const factor_float *f, uint16_t *y, int level, int streams, arithmetic kind) {
    const vf hi = vf_set(f->hi), lo = vf_set(0.0f);
    int i = 0;
    for (; i < count; i += VH_LANES) {
        vf a = vf_load(v + i), b = vf_load(v + i + VF_LANES);
        vh both;
        if (level) {
            a = vf_mul(a, hi);
            b = vf_mul(b, hi);
        } else {
            a = result_float(a, hi, lo, f, 0, 1);
            b = result_float(b, hi, lo, f, 0, 1);
        }
        both = vh_narrow(a, b, kind);
        if (count - i < VH_LANES)
            vh_store_part(y + i, count - i, both);
        else
            streams ? vh_stream(y + i, both) : vh_store(y + i, both);
    }
}

static NOINLINE void half_results(const float *v, int count, const factor_float *f, uint16_t *y, int level, int streams, arithmetic kind) {
#define RESULTS(its_level, its_kind) streams ? half_results_loop(v, count, f, y, its_level, 1, its_kind) : half_results_loop(v, count, f, y, its_level, 0, its_kind)
    if (kind == ARITHMETIC_FLOAT16 && level)
        RESULTS(1, ARITHMETIC_FLOAT16);
    else if (kind == ARITHMETIC_FLOAT16)
        RESULTS(0, ARITHMETIC_FLOAT16);
    else if (level)
        RESULTS(1, ARITHMETIC_BFLOAT16);
    else
        RESULTS(0, ARITHMETIC_BFLOAT16);
#undef RESULTS
}

#endif
