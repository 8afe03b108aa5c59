/* The terms of whole vectors of floats, ARITHMETIC_32 without low parts: term_vectors.h's operations in another order. Five vectors are on
 * their way, each in a stage of its own, so that no operation waits for the one before it: the chain of one vector is 70 cycles long,
 * the work of one 13, and a processor's window does not reach that far. For sets with registers enough (VECTOR_PIPELINE).
 * Measured on Zen 4 with AVX-512: 12.9 cycles a vector, of which 12 are the fused multiply-adds; two vectors side by side 15.3. */
#ifndef SOFTMAX_TERM_PIPELINE_H
#define SOFTMAX_TERM_PIPELINE_H

#include "term_vectors.h"

/* terms_loop's beginning: whole vectors, how many columns of them; 0 where this set or kind has no such form. magic and floors may differ
 * from lane to lane. */
static ALWAYS_INLINE int piped_vectors_double(const double *z, const double *low_parts, const uint8_t *mask, int count, vd magic, vd floors, ahead_lines ahead,
                                              double *v, arithmetic kind, vl *high, vl *low) {
    (void)z, (void)low_parts, (void)mask, (void)count, (void)magic, (void)floors, (void)ahead, (void)v, (void)kind, (void)high, (void)low;
    return 0;
}

/* Scores whose terms are wanted; what terms_loop has. */
typedef struct term_row_float {
    const float *z;
    const uint8_t *mask; /* through which z is seen, or NULL */
    float *v;
    int count;
    float magic;
    float floor_score;
    ahead_lines ahead;
    uint32_t high;
    uint32_t low;
} term_row_float;

typedef struct term_row_double {
    const double *z;
    const uint8_t *mask;
    double *v;
    int count;
    double magic;
    double floor_score;
    ahead_lines ahead;
    uint64_t high;
    uint64_t low;
} term_row_double;

/* A row of log_softmax that waits for its results: y = (z - m) + minus_log, none of which is below the smallest normal number. */
typedef struct late_log_float {
    const float *z;
    float *y; /* may be z */
    float m;
    float minus_log;
} late_log_float;

typedef struct late_log_double {
    const double *z;
    double *y;
    double m;
    double minus_log;
} late_log_double;

/* Terms v that wait for their row's factor: y = v factor, past the caches, a factor without the bias. The largest of them does not come from its term. */
typedef struct late_result_float {
    const float *v; /* where the terms of the row beside it go: a vector is read before it is overwritten */
    float *y;
    float hi;
    float lo;
    float most;
    int at; /* the largest's column; -1: in no column of this row */
} late_result_float;

typedef struct late_result_double {
    const double *v;
    double *y;
    double hi;
    double lo;
    double most;
    int at;
} late_result_double;

static inline void piped_rows_and_results_double(term_row_double *row, int rows, const late_result_double *late) { (void)row, (void)rows, (void)late; }

static inline void piped_rows_and_logs_double(term_row_double *row, int rows, const late_log_double *log, int streams) {
    (void)row, (void)rows, (void)log, (void)streams;
}

/* Vectors that lie one after another, a row in each lane. */
typedef struct term_piece_float {
    const float *z;
    float *v; /* may be z */
    int vectors;
    vf magics;
    vf floors;
    vi *high; /* to which digits are added */
    vi *low;
    ahead_lines ahead;
} term_piece_float;

typedef struct term_piece_double {
    const double *z;
    double *v;
    int vectors;
    vd magics;
    vd floors;
    vl *high;
    vl *low;
    ahead_lines ahead;
} term_piece_double;

static inline int piped_pieces_double(const term_piece_double *piece, int pieces, int stores, arithmetic kind) {
    (void)piece, (void)pieces, (void)stores, (void)kind;
    return 0;
}

#if defined(VECTOR_PIPELINE)

#define PIPELINE_STAGES 5

/* What a vector takes along from stage to stage; the index is the stage that it enters. */
typedef struct term_pipeline {
    vf magic, floors;
    vf t1, r1, low1, rr1;
    vf s2, p2, rr2, r2, low2;
    vf s3, w3, q3, r3;
    vf s4, w4, r4, a4;
    vi high, low;
} term_pipeline;

/* Nothing is on its way. */
static ALWAYS_INLINE term_pipeline empty_pipeline(void) {
    term_pipeline p;
    p.magic = p.floors = vf_set(0.0f);
    p.t1 = p.r1 = p.low1 = p.rr1 = p.s2 = p.p2 = p.rr2 = p.r2 = p.low2 = p.s3 = p.w3 = p.q3 = p.r3 = p.s4 = p.w4 = p.r4 = p.a4 = vf_set(0.0f);
    p.high = p.low = vi_zero();
    return p;
}

/* One step: a vector of scores enters, the one that entered three steps ago leaves `stored` values at v. Only stages [first, last] have a vector.
 * lows: NULL, or the scores' low parts. */
static ALWAYS_INLINE void term_pipeline_step_low(term_pipeline *p, vf z, const vf *lows, float *v, int stored, int first, int last) {
    const term_pipeline in = *p;
    vf x, k, d = in.a4, q = in.q3, square = in.rr2, s = in.t1, g = d, more = s, b = d, value = d;
#define STAGE(n) if (first <= n && n <= last)
    STAGE(0) x = vf_max(z, in.floors);
    STAGE(4) d = vf_sub(in.a4, vf_set(TERM32_BOTH));
    STAGE(3) value = vf_fma(in.q3, in.s3, in.s3);
    STAGE(2) square = vf_mul(in.rr2, in.rr2);
    STAGE(1) s = vf_exponent(in.t1);
    STAGE(0) p->t1 = vf_fma(x, vf_set(TERM32_LOG2E), in.magic);
    STAGE(4) g = vf_sub(in.s4, d);
    STAGE(3) if (stored == VF_LANES) vf_store(v, value);
    STAGE(3) if (stored > 0 && stored < VF_LANES) vf_store_part(v, stored, value);
    STAGE(2) q = vf_fma(in.p2, in.rr2, vf_set(0.5f));
    STAGE(1) more = vf_fma(vf_set(TERM32_C5), in.rr1, vf_set(TERM32_C4));
    STAGE(0) k = vf_sub(p->t1, in.magic);
    STAGE(4) b = vf_fma(in.r4, in.s4, g);
    STAGE(0) p->r1 = vf_fma(k, vf_set(-TERM32_LN2_HI), x);
    STAGE(3) p->a4 = vf_add(value, vf_set(TERM32_HIGH));
    STAGE(2) p->w3 = vf_fma(q, square, in.low2);
    STAGE(1) more = vf_fma(more, in.rr1, vf_set(TERM32_C3));
    STAGE(4) b = vf_fma(in.w4, in.s4, b);
    STAGE(0) p->low1 = lows ? vf_fma(k, vf_set(TERM32_LN2_MINUS), vf_keep_from(z, in.floors, *lows)) : vf_mul(k, vf_set(TERM32_LN2_MINUS));
    STAGE(3) p->high = vi_add_bits(in.high, p->a4);
    STAGE(2) p->q3 = vf_add(p->w3, in.r2);
    STAGE(1) p->p2 = vf_fma(more, in.rr1, vf_set(TERM32_C2));
    STAGE(4) p->low = vi_add_bits(in.low, b);
    STAGE(0) p->rr1 = vf_add(p->r1, p->low1);
#undef STAGE
    p->s2 = s, p->rr2 = in.rr1, p->r2 = in.r1, p->low2 = in.low1;
    p->s3 = in.s2, p->r3 = in.r2;
    p->s4 = in.s3, p->w4 = in.w3, p->r4 = in.r3;
}

static ALWAYS_INLINE void term_pipeline_step(term_pipeline *p, vf z, float *v, int stored, int first, int last) {
    term_pipeline_step_low(p, z, NULL, v, stored, first, last);
}

/* The step of vector i in memory, low parts or mask (NULL: none) too. */
static ALWAYS_INLINE void term_pipeline_take(term_pipeline *p, const float *z, const float *low_parts, const uint8_t *mask, int i, float *v, int stored,
                                             int last) {
    const vf lows = low_parts ? vf_load(low_parts + i * VF_LANES) : vf_set(0.0f);
    const vf raw = mask ? vf_load_where(z + i * VF_LANES, seen_f(mask + i * VF_LANES), p->floors) : vf_load(z + i * VF_LANES);
    term_pipeline_step_low(p, raw, low_parts ? &lows : NULL, v, stored, 0, last);
}

static ALWAYS_INLINE int piped_vectors_float(const float *z, const float *low_parts, const uint8_t *mask, int count, vf magic, vf floors,
                                             ahead_lines ahead, float *v, arithmetic kind, vi *high, vi *low) {
    term_pipeline p = empty_pipeline();
    const int step = VF_LANES, stores = v != NULL, stored = stores ? step : 0, vectors = count / step;
    if (kind != ARITHMETIC_32 || vectors < 8) return 0;
    p.magic = vf_add(magic, vf_set(127.0f)); /* an integer more: the exponent's bits come out biased */
    p.floors = floors;
    p.high = *high, p.low = *low;
    for (int i = 0; i < PIPELINE_STAGES - 1; i++) prefetch_next(&ahead);
    term_pipeline_take(&p, z, low_parts, mask, 0, v, stored, 0);
    term_pipeline_take(&p, z, low_parts, mask, 1, v, stored, 1);
    term_pipeline_take(&p, z, low_parts, mask, 2, v, stored, 2);
    term_pipeline_take(&p, z, low_parts, mask, 3, v, stored, 3);
    for (int i = 4; i < vectors; i++) {
        if (stores) v += step;
        prefetch_next(&ahead);
        term_pipeline_take(&p, z, low_parts, mask, i, v, stored, 4);
    }
    term_pipeline_step(&p, p.floors, stores ? v + step : v, stored, 1, 4);
    term_pipeline_step(&p, p.floors, stores ? v + 2 * step : v, stored, 2, 4);
    term_pipeline_step(&p, p.floors, stores ? v + 3 * step : v, stored, 3, 4);
    term_pipeline_step(&p, p.floors, v, 0, 4, 4);
    *high = p.high;
    *low = p.low;
    return vectors * step;
}

/* A vector of a row of log_softmax: its additions take turns on other pipes than the multiply-adds of terms. */
static ALWAYS_INLINE void late_log_step(late_log_float *log, int streams) {
    const vf y = vf_add(vf_sub(vf_load(log->z), vf_set(log->m)), vf_set(log->minus_log));
    streams ? vf_stream(log->y, y) : vf_store(log->y, y);
    log->z += VF_LANES;
    log->y += VF_LANES;
}

/* A vector's mask of which `count` bytes are there: in place, or in `part` with zeros after it. */
static ALWAYS_INLINE const uint8_t *whole_mask(const uint8_t *mask, int count, uint8_t *part) {
    if (count == VF_LANES) return mask;
    memset(part, 0, VF_LANES);
    memcpy(part, mask, (size_t)count);
    return part;
}

static ALWAYS_INLINE void late_result_step(const late_result_float *late, int64_t i) {
    const vf v = vf_load(late->v + i);
    vf_stream(late->y + i, vf_fma(v, vf_set(late->hi), vf_mul(v, vf_set(late->lo))));
}

static ALWAYS_INLINE void late_result_next(late_result_float *late) {
    late_result_step(late, 0);
    late->v += VF_LANES, late->y += VF_LANES;
}

/* The vectors that go along with those a row's pipeline takes before its loop: the last, which enters first, at column last_at, and three more. */
static ALWAYS_INLINE void late_results_begin(late_result_float *late, int last_at) {
    late_result_step(late, last_at);
    for (int j = 0; j < 3; j++) late_result_next(late);
}

/* Rows one after another without emptying the pipeline between them: the next one's vectors enter while the last of this one leave. A row's
 * last vector, which may be shorter, is the first that enters. masked: all are seen through masks. logs: NULL, or as many rows that wait for their
 * results, of as many columns. */
static ALWAYS_INLINE void piped_rows_loop(term_row_float *row, int rows, int stores, int masked, const late_log_float *logs, int streams,
                                          const late_result_float *results) {
    static const float nothing[4 * VF_LANES];
    uint8_t end_mask[VF_LANES] = {0};
    float nowhere[4 * VF_LANES], *v = nowhere;
    const int step = VF_LANES, stored = stores ? VF_LANES : 0;
    term_pipeline p = empty_pipeline();
    for (int i = 0; i <= rows; i++) { /* at `rows` nothing enters, for the last to leave */
        const float *z = nothing, *end = nothing;
        const uint8_t *mask = masked ? (const uint8_t *)nothing : NULL, *last = mask;
        int rest = VF_LANES;
        ahead_lines ahead = {(uintptr_t)nothing, 0};
        late_log_float log = {0};
        const int late = logs && i < rows;
        late_result_float result = {0};
        const int finishes = results && i < rows;
        if (late) log = logs[i];
        if (finishes) result = results[i];
        if (i < rows) {
            rest = (row[i].count - 1) % VF_LANES + 1;
            z = row[i].z;
            end = z + (row[i].count - rest);
            ahead = row[i].ahead;
            p.magic = vf_set(row[i].magic + 127.0f);
            p.floors = vf_set(row[i].floor_score);
            if (masked) {
                mask = row[i].mask;
                last = whole_mask(mask + (end - z), rest, end_mask);
            }
        }
        for (int j = 0; j < 4; j++) prefetch_next(&ahead);
        const vf rest_z = vf_load_part(end, rest, -INFINITY);
        if (finishes) late_results_begin(&result, (int)(end - z));
        term_pipeline_step(&p, masked ? vf_masked(rest_z, last) : rest_z, v, stored, 0, 4);
        term_pipeline_step(&p, masked ? vf_load_where(z, seen_f(mask), p.floors) : vf_load(z), v + step, stored, 0, 4);
        term_pipeline_step(&p, masked ? vf_load_where(z + step, seen_f(mask + step), p.floors) : vf_load(z + step), v + 2 * step, stored, 0, 4);
        for (int j = 0; late && j < 3; j++) late_log_step(&log, streams);
        if (i) row[i - 1].high = vi_sum(p.high);
        p.high = vi_zero();
        v = stores && i < rows ? row[i].v : nowhere;
        term_pipeline_step(&p, masked ? vf_load_where(z + 2 * step, seen_f(mask + 2 * step), p.floors) : vf_load(z + 2 * step),
                           stores ? v + (end - z) : v, stores ? rest : 0, 0, 4);
        if (i) row[i - 1].low = vi_sum(p.low);
        p.low = vi_zero();
        if (late) late_log_step(&log, streams);
        z += 3 * step;
        if (masked) mask += 3 * step;
        vm seen = masked && z < end ? seen_f(mask) : vm_none();
        for (; z < end; z += step) {
            const vf next = masked ? vf_load_where(z, seen, p.floors) : vf_load(z);
            if (masked) mask += z + step < end ? step : 0;
            if (masked) seen = seen_f(mask); /* a step ahead, for a mask's way is long */
            prefetch_next(&ahead);
            term_pipeline_step(&p, next, v, stored, 0, 4);
            if (logs) late_log_step(&log, streams);
            if (results) late_result_next(&result);
            if (stores) v += step;
        }
    }
}

/* Pieces one after another, as piped_rows. */
static ALWAYS_INLINE void piped_pieces_loop(const term_piece_float *piece, int pieces, int stores) {
    static const float nothing[4 * VF_LANES];
    float nowhere[4 * VF_LANES], *v = nowhere;
    const int step = VF_LANES, stored = stores ? VF_LANES : 0;
    term_pipeline p = empty_pipeline();
    for (int i = 0; i <= pieces; i++) { /* at `pieces` nothing enters, for the last to leave */
        const term_piece_float *its = i < pieces ? &piece[i] : NULL;
        const float *z = its ? its->z : nothing, *end = its ? z + its->vectors * step : z;
        ahead_lines ahead = {(uintptr_t)nothing, 0};
        if (its) {
            ahead = its->ahead;
            p.magic = vf_add(its->magics, vf_set(127.0f));
            p.floors = its->floors;
        }
        for (int j = 0; j < 4; j++) prefetch_next(&ahead);
        term_pipeline_step(&p, vf_load(z), v, stored, 0, 4);
        term_pipeline_step(&p, vf_load(z + step), v + step, stored, 0, 4);
        term_pipeline_step(&p, vf_load(z + 2 * step), v + 2 * step, stored, 0, 4);
        if (i) *piece[i - 1].high = p.high;
        p.high = its ? *its->high : vi_zero();
        v = stores && its ? its->v : nowhere;
        term_pipeline_step(&p, vf_load(z + 3 * step), v, stored, 0, 4);
        if (i) *piece[i - 1].low = p.low;
        p.low = its ? *its->low : vi_zero();
        if (stores) v += step;
        for (z += 4 * step; z < end; z += step) {
            prefetch_next(&ahead);
            term_pipeline_step(&p, vf_load(z), v, stored, 0, 4);
            if (stores) v += step;
        }
    }
}

static NOINLINE void piped_pieces(const term_piece_float *piece, int pieces, int stores) {
    stores ? piped_pieces_loop(piece, pieces, 1) : piped_pieces_loop(piece, pieces, 0);
}

/* 0 where this set, kind or length has no such form. */
static inline int piped_pieces_float(const term_piece_float *piece, int pieces, int stores, arithmetic kind) {
    if (kind != ARITHMETIC_32) return 0;
    for (int i = 0; i < pieces; i++)
        if (piece[i].vectors < PIPELINE_STAGES - 1) return 0;
    piped_pieces(piece, pieces, stores);
    return 1;
}

#define PIPED_ROW_LEAST (3 * VF_LANES + 1) /* columns: three whole vectors after the first to enter */

static NOINLINE void piped_rows(term_row_float *row, int rows, int stores) {
    stores ? piped_rows_loop(row, rows, 1, 0, NULL, 0, NULL) : piped_rows_loop(row, rows, 0, 0, NULL, 0, NULL);
}

/* All seen through masks. */
static NOINLINE void piped_seen_rows(term_row_float *row, int rows, int stores) {
    stores ? piped_rows_loop(row, rows, 1, 1, NULL, 0, NULL) : piped_rows_loop(row, rows, 0, 1, NULL, 0, NULL);
}

static NOINLINE void piped_rows_and_results_float(term_row_float *row, int rows, const late_result_float *late) {
    piped_rows_loop(row, rows, 1, 0, NULL, 0, late);
}

static NOINLINE void piped_rows_and_logs_float(term_row_float *row, int rows, const late_log_float *logs, int streams) {
    streams ? piped_rows_loop(row, rows, 0, 0, logs, 1, NULL) : piped_rows_loop(row, rows, 0, 0, logs, 0, NULL);
}

#else

static inline int piped_pieces_float(const term_piece_float *piece, int pieces, int stores, arithmetic kind) {
    (void)piece, (void)pieces, (void)stores, (void)kind;
    return 0;
}

static inline void piped_rows_and_results_float(term_row_float *row, int rows, const late_result_float *late) { (void)row, (void)rows, (void)late; }

static inline void piped_rows_and_logs_float(term_row_float *row, int rows, const late_log_float *logs, int streams) {
    (void)row, (void)rows, (void)logs, (void)streams;
}

static ALWAYS_INLINE int piped_vectors_float(const float *z, const float *low_parts, const uint8_t *mask, int count, vf magic, vf floors, ahead_lines ahead,
                                             float *v, arithmetic kind, vi *high, vi *low) {
    (void)z, (void)low_parts, (void)mask, (void)count, (void)magic, (void)floors, (void)ahead, (void)v, (void)kind, (void)high, (void)low;
    return 0;
}

#endif
#endif
