/* The terms of rows of 16-bit elements, widened where they are needed, in one pipeline that is not emptied between rows (term_pipeline.h has
 * float32's), and the results of rows before them within the same loop. The operations are term_vectors.h's. Values are kept in half_vectors.h's order.
 * Of 16 elements the widening takes 1 operation, the terms 15 (7 on the multipliers, 4 additions of floats). */
#ifndef SOFTMAX_HALF_PIPELINE_H
#define SOFTMAX_HALF_PIPELINE_H

#include "half_vectors.h"

/* Scores whose terms are wanted, as term_row has it; v has room for whole pairs. */
typedef struct half_row {
    const uint16_t *z;
    float *v;
    int count;
    float magic;
    float floor_score;
    ahead_lines ahead;
    uint32_t high;
    uint32_t low;
} half_row;

/* How much care results take. LEVEL: they are values times the factor, the bias left out; NORMAL: the bias, as some may lie below the smallest normal
 * number; MOST: as well what reaches `cut` must become `most`. */
#define HALF_LEVEL 0
#define HALF_NORMAL 1
#define HALF_MOST 2
#define HALF_LOG 3       /* log_softmax: (z - m) + minus_log, all of them normal numbers */
#define HALF_LOG_SMALL 4 /* the same next to 0 */

/* A row or block that waits for its results. */
typedef struct late_half {
    const float *v;
    const uint16_t *z; /* log_softmax; may be y */
    float m;
    float minus_log;
    uint16_t *y;
    int count;
    int care;  /* HALF_LEVEL, ... */
    factor_float factor;
    const row_result_float *row; /* where block_results is left to find the factor, else NULL */
    const place_of_block_float *place;
} late_half;

/* Three vectors are on their way; the index is the stage that a value enters. */
typedef struct half_pipeline {
    vf magic, floors;
    vf t1, r1;
    vf t2, r2, p2;
    vi high, low;
} half_pipeline;

/* A vector of scores enters; the values of the one that entered two steps ago leave. */
static ALWAYS_INLINE vf half_pipeline_step(half_pipeline *p, vf z, arithmetic kind) {
    const half_pipeline in = *p;
    vf x = vf_max(z, in.floors), q, v, a;
    p->t1 = vf_fma(x, vf_set(TERM32_LOG2E), in.magic);
    v = vf_move_exponent(vf_fma(in.p2, in.r2, vf_set(1.0f)), in.t2);
    if (kind == ARITHMETIC_FLOAT16) {
        q = vf_fma(vf_set(TERM16_C5), in.r1, vf_set(TERM16_C4));
        q = vf_fma(q, in.r1, vf_set(TERM16_C3));
        q = vf_fma(q, in.r1, vf_set(TERM16_C2));
        p->p2 = vf_fma(q, in.r1, vf_set(TERM16_C1));
    } else {
        q = vf_fma(vf_set(TERMB16_C4), in.r1, vf_set(TERMB16_C3));
        q = vf_fma(q, in.r1, vf_set(TERMB16_C2));
        p->p2 = vf_fma(q, in.r1, vf_set(TERMB16_C1));
    }
    a = vf_add(v, vf_set(TERM32_HIGH));
    p->r1 = vf_fma(vf_sub(p->t1, in.magic), vf_set(-TERM32_LN2_HI), x);
    p->high = vi_add_bits(in.high, a);
    p->low = vi_add_bits(in.low, vf_sub(v, vf_sub(a, vf_set(TERM32_BOTH))));
    p->t2 = in.t1, p->r2 = in.r1;
    return v;
}

/* A pair enters, the one before it leaves for v. */
static ALWAYS_INLINE void half_pipeline_pair(half_pipeline *p, vf x, vf y, float *v, int stores, arithmetic kind) {
    x = half_pipeline_step(p, x, kind);
    y = half_pipeline_step(p, y, kind);
    if (!stores) return;
    vf_store(v, x);
    vf_store(v + VF_LANES, y);
}

static ALWAYS_INLINE vf half_result(vf v, vf factor, int care) {
    const vf w = vf_mul(v, factor);
    return care == HALF_NORMAL ? vf_unbias_positive(w, vf_set(0x1p-62f), 64) : w;
}

static ALWAYS_INLINE vf half_log(vf z, vf m, vf minus_log) { return vf_add(vf_sub(z, m), minus_log); }

/* Where a whole pair's results come from and go, and how. */
typedef struct late_half_pair {
    const float *v;
    const uint16_t *z;
    uint16_t *y;
    vf factor, m, minus_log;
} late_half_pair;

static ALWAYS_INLINE void late_half_step(late_half_pair *p, int care, int streams, arithmetic kind) {
    vf a, b;
    vh both;
    if (care == HALF_LOG) {
        vh_load_wide(p->z, kind, &a, &b);
        a = half_log(a, p->m, p->minus_log);
        b = half_log(b, p->m, p->minus_log);
        p->z += VH_LANES;
    } else {
        a = half_result(vf_load(p->v), p->factor, care);
        b = half_result(vf_load(p->v + VF_LANES), p->factor, care);
        p->v += VH_LANES;
    }
    both = vh_narrow(a, b, kind);
    streams ? vh_stream(p->y, both) : vh_store(p->y, both);
    p->y += VH_LANES;
}

/* -inf */
static inline uint16_t half_nothing(arithmetic kind) { return kind == ARITHMETIC_FLOAT16 ? 0xfc00 : 0xff80; }

/* late: NULL, or as many rows of as many columns, whole pairs, that all take this care; their v may be where the terms of these go. */
static ALWAYS_INLINE void half_rows_loop(half_row *row, int rows, int stores, const late_half *late, int care, int streams, arithmetic kind) {
    float nowhere[VH_LANES], *v = nowhere;
    half_pipeline p;
    vf x, y;
    p.magic = p.floors = p.t1 = p.r1 = p.t2 = p.r2 = p.p2 = vf_set(0.0f);
    p.high = p.low = vi_zero();
    for (int i = 0; i < rows; i++) {
        const uint16_t *z = row[i].z, *end = z + (row[i].count - 1) / VH_LANES * VH_LANES; /* the last pair may be a part */
        const int rest = row[i].count - (int)(end - z);
        ahead_lines ahead = row[i].ahead;
        late_half_pair its = {nowhere, NULL, NULL, p.magic, p.magic, p.magic};
        if (late) {
            const late_half_pair wanted = {late[i].v, late[i].z, late[i].y, vf_set(late[i].factor.hi), vf_set(late[i].m), vf_set(late[i].minus_log)};
            its = wanted;
        }
        p.magic = vf_set(row[i].magic);
        p.floors = vf_set(row[i].floor_score);
        vh_load_wide(z, kind, &x, &y);
        prefetch_next(&ahead);
        half_pipeline_pair(&p, x, y, v, stores, kind);
        if (late) late_half_step(&its, care, streams, kind);
        if (i) row[i - 1].high = vi_sum(p.high);
        if (i) row[i - 1].low = vi_sum(p.low);
        p.high = p.low = vi_zero();
        if (stores) v = row[i].v;
        for (z += VH_LANES; z < end; z += VH_LANES) {
            vh_load_wide(z, kind, &x, &y);
            prefetch_next(&ahead);
            half_pipeline_pair(&p, x, y, v, stores, kind);
            if (late) late_half_step(&its, care, streams, kind);
            if (stores) v += VH_LANES;
        }
        prefetch_next(&ahead);
        vh_widen(vh_load_part(end, rest, half_nothing(kind)), kind, &x, &y);
        half_pipeline_pair(&p, x, y, v, stores, kind);
        if (late) late_half_step(&its, care, streams, kind);
        if (stores) v += VH_LANES;
    }
    half_pipeline_pair(&p, p.floors, p.floors, v, stores, kind);
    row[rows - 1].high = vi_sum(p.high);
    row[rows - 1].low = vi_sum(p.low);
    for (int i = 0; i < rows; i++) {
        const uint32_t padded = (uint32_t)(row[i].count + VH_LANES - 1) / VH_LANES * VH_LANES;
        row[i].high -= padded * float_bits(TERM32_HIGH);
        row[i].low -= padded * float_bits(TERM32_LOW);
    }
}

#define HALF_ROW_LEAST (VH_LANES + 1) /* columns */

static NOINLINE void half_terms(half_row *row, int rows, int stores, arithmetic kind) {
    if (kind == ARITHMETIC_FLOAT16)
        stores ? half_rows_loop(row, rows, 1, NULL, 0, 0, ARITHMETIC_FLOAT16) : half_rows_loop(row, rows, 0, NULL, 0, 0, ARITHMETIC_FLOAT16);
    else
        stores ? half_rows_loop(row, rows, 1, NULL, 0, 0, ARITHMETIC_BFLOAT16) : half_rows_loop(row, rows, 0, NULL, 0, 0, ARITHMETIC_BFLOAT16);
}

/* Terms, kept but for log_softmax, and the results of as many rows before, all of which take the first one's care: LEVEL, NORMAL or LOG. */
static NOINLINE void half_terms_and_results(half_row *row, int rows, const late_half *late, int streams, arithmetic kind) {
#define ROWS(its_care, its_kind)                                                              \
    streams ? half_rows_loop(row, rows, its_care != HALF_LOG, late, its_care, 1, its_kind) \
            : half_rows_loop(row, rows, its_care != HALF_LOG, late, its_care, 0, its_kind)
#define ROWS_OF_CARE(its_kind)                                \
    switch (late->care) {                                     \
        case HALF_LEVEL: ROWS(HALF_LEVEL, its_kind); break;   \
        case HALF_NORMAL: ROWS(HALF_NORMAL, its_kind); break; \
        default: ROWS(HALF_LOG, its_kind); break;             \
    }
    if (kind == ARITHMETIC_FLOAT16)
        ROWS_OF_CARE(ARITHMETIC_FLOAT16)
    else
        ROWS_OF_CARE(ARITHMETIC_BFLOAT16)
#undef ROWS_OF_CARE
#undef ROWS
}

/* The two largest scores and the least of a row, as integers in order. */
static inline void half_top(const uint16_t *z, int count, int *first, int *second, int *least) {
    half_tops t = {vh_set(-0x8000), vh_set(-0x8000), vh_set(0x7fff)};
    half_tops u = t;
    int i = 0;
    for (; i + 2 * VH_LANES <= count; i += 2 * VH_LANES) {
        vh x = vh_order(vh_load(z + i)), y = vh_order(vh_load(z + i + VH_LANES)), high = vh_max(x, y), low = vh_min(x, y);
        t.second = vh_max(t.second, vh_max(low, vh_min(t.first, high)));
        t.first = vh_max(t.first, high);
        t.least = vh_min(t.least, low);
    }
    for (; i < count; i += VH_LANES) {
        const int n = count - i < VH_LANES ? count - i : VH_LANES;
        vh x = vh_order(vh_load_part(z + i, n, 0)), known = vh_keep_part(x, n, -0x8000);
        u.second = vh_max(u.second, vh_min(u.first, known));
        u.first = vh_max(u.first, known);
        u.least = vh_min(u.least, vh_keep_part(x, n, 0x7fff));
    }
    t.second = vh_max(vh_max(t.second, u.second), vh_min(t.first, u.first));
    t.first = vh_max(t.first, u.first);
    t.least = vh_min(t.least, u.least);
    half_tops_meet(t, first, second, least);
}

#endif
