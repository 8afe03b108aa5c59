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

/* Whether results are values times the factor without its bias: they are calm, and `most` need not be put in the place of what reaches `cut`, for all
 * that lies between them, or may be above, has the same rounding. spread: as results_are_calm has it. */
static inline int half_results_are_level(const factor_float *f, double spread, arithmetic kind) {
    const float off = two_to_float(-64), cut = f->cut * off, most = f->most * off;
    const float above = cut * (1.0f + (kind == ARITHMETIC_FLOAT16 ? HALF_ABOVE_FLOAT16 : HALF_ABOVE_BFLOAT16));
    return results_are_calm_float(f, spread) && round_to_half(cut < most ? cut : most, kind) == round_to_half(above > most ? above : most, kind);
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

/* A block whose factor is none of the usual: through floats in the usual order. */
static NOINLINE void unusual_half_results(const late_half *late, arithmetic kind) {
    float v[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64))) = {0};
    const int bfloat16 = kind == ARITHMETIC_BFLOAT16;
    for (int i = 0; i < late->count; i++) {
        const int at = i % VH_LANES, place = bfloat16 ? at / 2 + at % 2 * VF_LANES : at;
        v[i] = late->v[i - at + place];
    }
    block_results_float(late->row, kind, v, late->count, late->place, v, 0, NULL);
    scatter_float((char *)late->y, bfloat16 ? ELEMENT_BFLOAT16 : ELEMENT_FLOAT16, 2, late->count, v);
}

static void finish_half(const late_half *late, int streams, arithmetic kind) {
    if (late->place)
        unusual_half_results(late, kind);
    else
        half_results(late->v, late->count, &late->factor, late->y, late->level, streams && (uintptr_t)late->y % 64 == 0, kind);
}

/* Terms of rows or blocks in turn with the results of as many of the same lengths (NULL: none) whose values are where these terms go. */
static void half_terms_in_turn(half_row *row, int rows, const late_half *late, int streams, arithmetic kind) {
    if (!late) half_terms(row, rows, 1, kind);
    for (int i = 0, more; late && i < rows; i += more) {
        for (more = 0; i + more < rows && late[i + more].level; more++)
            if (late[i + more].count % VH_LANES || row[i + more].count != late[i + more].count || (streams && (uintptr_t)late[i + more].y % 64)) break;
        if (more) {
            half_terms_and_results(&row[i], more, &late[i], streams, kind);
        } else {
            finish_half(&late[i], streams, kind);
            half_terms(&row[i], more = 1, 1, kind);
        }
    }
}

#endif
