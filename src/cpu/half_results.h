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

/* The care that results take. `most` need not be put in the place of what reaches `cut` where all that lies between them, or may be above, has the same
 * rounding. spread: as results_are_calm has it. */
static inline int half_care(const factor_float *f, double spread, arithmetic kind) {
    const float off = two_to_float(-64), cut = f->cut * off, most = f->most * off;
    const float above = cut * (1.0f + (kind == ARITHMETIC_FLOAT16 ? HALF_ABOVE_FLOAT16 : HALF_ABOVE_BFLOAT16));
    if (round_to_half(cut < most ? cut : most, kind) != round_to_half(above > most ? above : most, kind)) return HALF_MOST;
    return results_are_calm_float(f, spread) ? HALF_LEVEL : HALF_NORMAL;
}

static ALWAYS_INLINE void half_results_loop(const late_half *late, int care, int streams, arithmetic kind) {
    const factor_float *f = &late->factor;
    const vf hi = vf_set(f->hi), lo = vf_set(0.0f), m = vf_set(late->m), minus_log = vf_set(late->minus_log);
    uint16_t *y = late->y;
    for (int i = 0; i < late->count; i += VH_LANES) {
        vf a, b;
        vh both;
        if (care == HALF_LOG) {
            const int n = late->count - i < VH_LANES ? late->count - i : VH_LANES;
            vh_widen(vh_load_part(late->z + i, n, 0), kind, &a, &b);
            both = vh_narrow(half_log(a, m, minus_log), half_log(b, m, minus_log), kind);
        } else {
            a = vf_load(late->v + i);
            b = vf_load(late->v + i + VF_LANES);
            a = care == HALF_MOST ? result_float(a, hi, lo, f, 0, 1) : half_result(a, hi, care);
            b = care == HALF_MOST ? result_float(b, hi, lo, f, 0, 1) : half_result(b, hi, care);
            both = vh_narrow(a, b, kind);
        }
        if (late->count - i < VH_LANES)
            vh_store_part(y + i, late->count - i, both);
        else
            streams ? vh_stream(y + i, both) : vh_store(y + i, both);
    }
}

static NOINLINE void half_results(const late_half *late, int streams, arithmetic kind) {
#define RESULTS(its_care)                                                                                                                              \
    if (kind == ARITHMETIC_FLOAT16)                                                                                                                    \
        streams ? half_results_loop(late, its_care, 1, ARITHMETIC_FLOAT16) : half_results_loop(late, its_care, 0, ARITHMETIC_FLOAT16);     \
    else                                                                                                                                               \
        streams ? half_results_loop(late, its_care, 1, ARITHMETIC_BFLOAT16) : half_results_loop(late, its_care, 0, ARITHMETIC_BFLOAT16)
    switch (late->care) {
    case HALF_LEVEL: RESULTS(HALF_LEVEL); break;
    case HALF_NORMAL: RESULTS(HALF_NORMAL); break;
    case HALF_LOG: RESULTS(HALF_LOG); break;
    default: RESULTS(HALF_MOST); break;
    }
#undef RESULTS
}

/* A block whose factor is none of the usual: through floats in the usual order. */
static NOINLINE void unusual_half_results(const late_half *late, arithmetic kind) {
    float v[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64))) = {0};
    const int bfloat16 = kind == ARITHMETIC_BFLOAT16;
    for (int i = 0; i < late->count; i += VH_LANES) vh_in_order(late->v + i, kind, v + i);
    block_results_float(late->row, kind, v, late->count, late->place, v, 0, NULL);
    scatter_float((char *)late->y, bfloat16 ? ELEMENT_BFLOAT16 : ELEMENT_FLOAT16, 2, late->count, v);
}

/* Results that may round to 0. */
static NOINLINE void small_half_logs(const late_half *late, arithmetic kind) {
    float z[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64)));
    const element type = kind == ARITHMETIC_BFLOAT16 ? ELEMENT_BFLOAT16 : ELEMENT_FLOAT16;
    gather_float((const char *)late->z, type, 2, late->count, z);
    log_row_float(z, late->count, late->m, late->minus_log, late->y, type, 0, NULL);
}

static void finish_half(const late_half *late, int streams, arithmetic kind) {
    if (late->care == HALF_LOG_SMALL)
        small_half_logs(late, kind);
    else if (late->place)
        unusual_half_results(late, kind);
    else
        half_results(late, streams && (uintptr_t)late->y % 64 == 0, kind);
}

/* Whether they may be written within the loop of the next row's terms. */
static inline int half_may_wait(const late_half *late, const half_row *next) {
    const int pairs = late->count % VH_LANES == 0 && next->count == late->count;
    return pairs && late->care != HALF_MOST && late->care != HALF_LOG_SMALL && !late->place;
}

/* A row of log_softmax. */
static inline int half_log_care(float minus_log) { return minus_log <= -0x1p-13f ? HALF_LOG : HALF_LOG_SMALL; }

/* Terms of rows or blocks in turn with the results of as many of the same lengths (NULL: none) whose values are where these terms go. */
static void half_terms_in_turn(half_row *row, int rows, int stores, const late_half *late, int streams, arithmetic kind) {
    if (!late) half_terms(row, rows, stores, kind);
    for (int i = 0, more; late && i < rows; i += more) {
        const uintptr_t beyond = (uintptr_t)late[i].y % 64;
        for (more = 0; i + more < rows && half_may_wait(&late[i + more], &row[i + more]); more++)
            if (late[i + more].care != late[i].care || (uintptr_t)late[i + more].y % 64 != beyond) break;
        if (more) {
            half_terms_and_results(&row[i], more, &late[i], streams && beyond == 0, kind);
        } else {
            finish_half(&late[i], streams, kind);
            half_terms(&row[i], more = 1, stores, kind);
        }
    }
}

#endif
