/* softmax and log_softmax of contiguous rows of 16-bit elements, of one block each, into the same type: as block_rows.h groups of rows are read out together,
 * but no row is widened into memory. The bits are forward.h's. Included after block_types.h. */
#ifndef SOFTMAX_HALF_ROWS_H
#define SOFTMAX_HALF_ROWS_H

#include "half_results.h"

/* Rows between the sums of their terms and their results. */
typedef struct half_group {
    int64_t row; /* the first */
    int rows;
    float first[VF_LANES];
    float least[VF_LANES];
    late_half late[VF_LANES];
} half_group;

static inline const uint16_t *half_row_in(const softmax_job *job, int64_t row) {
    return (const uint16_t *)(const void *)job->x.data + row * job->columns;
}

static inline uint16_t *half_row_out(const softmax_job *job, int64_t row) { return (uint16_t *)(void *)(job->out.data + row * job->out.row_stride[0]); }

static inline int half_pitch(int columns) { return (columns + VH_LANES - 1) / VH_LANES * VH_LANES; }

/* A row's or block's largest scores; 0 if it is not a usual one. */
static inline int find_half_top(const uint16_t *z, int count, arithmetic kind, float *first, float *second, float *least) {
    const int infinity = kind == ARITHMETIC_FLOAT16 ? 0x7c00 : 0x7f80;
    int top, next, last;
    half_top(z, count, &top, &next, &last);
    *first = half_in_order(top, kind) + 0; /* -0 is taken as +0 */
    *second = half_in_order(next, kind);
    *least = half_in_order(last, kind);
    return top < infinity && last >= ~infinity /* no NaN */ && *first < TERM32_LIMIT && *first > -TERM32_LIMIT;
}

/* The largest scores of all rows; 0 if some row is not a usual one. */
static int find_half_tops(half_group *g, lanes_float *s, const softmax_job *job) {
    float second[VF_LANES], used[VF_LANES];
    int usual = 1;
    for (int i = 0; i < VF_LANES; i++) {
        g->first[i] = second[i] = g->least[i] = 0;
        used[i] = i < g->rows;
        if (i >= g->rows) continue;
        usual &= find_half_top(half_row_in(job, g->row + i), (int)job->columns, job->kind, &g->first[i], &second[i], &g->least[i]);
    }
    lanes_begin_float(s);
    s->first = vf_load(g->first);
    s->second = vf_load(second);
    s->usual = vf_load(used);
    return usual;
}

static void half_factors(half_group *g, const lanes_float *s, const softmax_job *job, const float *kept) {
    const int want_log = job->op == OPERATION_LOG_SOFTMAX;
    float hi[VF_LANES], cut[VF_LANES], most[VF_LANES], minus_log[VF_LANES];
    vf_store(minus_log, s->minus_log);
    vf_store(hi, s->factor_hi);
    vf_store(cut, s->cut);
    vf_store(most, s->most);
    for (int i = 0; i < g->rows; i++) {
        factor_float f = {hi[i], 0, 0x1p-126f * two_to_float(64), cut[i], most[i]};
        late_half *late = &g->late[i];
        late->v = kept + i * half_pitch((int)job->columns);
        late->y = half_row_out(job, g->row + i);
        late->count = (int)job->columns;
        late->z = half_row_in(job, g->row + i);
        late->m = g->first[i];
        late->minus_log = minus_log[i];
        late->care = want_log ? half_log_care(minus_log[i]) : half_care(&f, (double)g->first[i] - (double)g->least[i], job->kind);
        late->factor = f;
        late->row = NULL;
        late->place = NULL;
        if (late->care == HALF_LEVEL) leave_bias_out_float(&late->factor);
    }
}

static void finish_half_group(const half_group *g, int streams, arithmetic kind) {
    for (int i = 0; g && i < g->rows; i++) finish_half(&g->late[i], streams, kind);
}

/* Terms and sums of a group in turn with the results of the group before (NULL: none). */
static void sum_half_group(half_group *g, lanes_float *s, const softmax_job *job, const half_group *before, float *kept, int streams) {
    const int columns = (int)job->columns;
    uint32_t high[VF_LANES] = {0}, low[VF_LANES] = {0};
    half_row row[VF_LANES];
    lane_terms_float terms;
    lane_terms_begin_float(s, job->kind, &terms);
    for (int i = 0; i < g->rows; i++) {
        const uint16_t *z = half_row_in(job, g->row + i);
        const ahead_lines ahead = {(uintptr_t)(z + (int64_t)g->rows * columns), 64};
        const half_row its = {z, kept + i * half_pitch(columns), columns, terms.magic[i], terms.floor_score[i], ahead, 0, 0};
        row[i] = its;
        prefetch_ends(ahead, columns * 2);
    }
    half_terms_in_turn(row, g->rows, job->op == OPERATION_SOFTMAX, before ? before->late : NULL, streams, job->kind);
    for (int i = 0; i < g->rows; i++) {
        high[i] = row[i].high;
        low[i] = row[i].low;
    }
    lane_terms_end_float(s, &terms, high, low);
    read_lanes_float(s, 1, job->kind, lane_want_of_float(job->op));
    half_factors(g, s, job, kept);
}

static void half_rows(const softmax_job *job, int64_t first, int64_t last, float *kept, int streams) {
    half_group group[2];
    const half_group *before = NULL;
    lanes_float s;
    const int most = VF_LANES;
    for (int64_t row = first; row < last; row += most) {
        half_group *g = &group[before == &group[0]];
        g->row = row;
        g->rows = last - row < most ? (int)(last - row) : most;
        if (before && before->rows > g->rows) {
            finish_half_group(before, streams, job->kind);
            before = NULL;
        }
        if (!find_half_tops(g, &s, job)) {
            finish_half_group(before, streams, job->kind);
            before = NULL;
            forward_rows_float(job, g->row, g->row + g->rows);
            continue;
        }
        sum_half_group(g, &s, job, before, kept, streams);
        before = g;
    }
    finish_half_group(before, streams, job->kind);
    if (streams) stream_end();
}

#endif
