/* softmax of contiguous rows of 16-bit elements, of one block each, into the same type: as block_rows.h groups of rows are read out together, but no row
 * is widened into memory. The bits are forward.h's. Included after block_types.h. */
#ifndef SOFTMAX_HALF_ROWS_H
#define SOFTMAX_HALF_ROWS_H

#include "half_results.h"

/* Rows between the sums of their terms and their results. */
typedef struct half_group {
    int64_t row; /* the first */
    int rows;
    float first[VF_LANES];
    float least[VF_LANES];
    factor_float factor[VF_LANES];
    int level[VF_LANES]; /* results are values times the factor, the bias left out */
} half_group;

static inline const uint16_t *half_row_in(const softmax_job *job, int64_t row) {
    return (const uint16_t *)(const void *)job->x.data + row * job->columns;
}

static inline uint16_t *half_row_out(const softmax_job *job, int64_t row) { return (uint16_t *)(void *)(job->out.data + row * job->out.row_stride[0]); }

static inline int half_pitch(int columns) { return (columns + VH_LANES - 1) / VH_LANES * VH_LANES; }

/* The largest scores of all rows; 0 if some row is not a usual one. */
static int find_half_tops(half_group *g, lanes_float *s, const softmax_job *job) {
    const int infinity = job->kind == ARITHMETIC_FLOAT16 ? 0x7c00 : 0x7f80;
    float second[VF_LANES], used[VF_LANES];
    int usual = 1;
    for (int i = 0; i < VF_LANES; i++) {
        int top = 0, next = 0, least = 0;
        g->first[i] = second[i] = g->least[i] = used[i] = 0;
        if (i >= g->rows) continue;
        half_top(half_row_in(job, g->row + i), (int)job->columns, &top, &next, &least);
        usual &= top < infinity && least >= ~infinity; /* no NaN */
        g->first[i] = half_in_order(top, job->kind) + 0; /* -0 is taken as +0 */
        second[i] = half_in_order(next, job->kind);
        g->least[i] = half_in_order(least, job->kind);
        used[i] = 1;
        usual &= g->first[i] < TERM32_LIMIT && g->first[i] > -TERM32_LIMIT;
    }
    lanes_begin_float(s);
    s->first = vf_load(g->first);
    s->second = vf_load(second);
    s->usual = vf_load(used);
    return usual;
}

static void half_factors(half_group *g, const lanes_float *s, const softmax_job *job) {
    float hi[VF_LANES], cut[VF_LANES], most[VF_LANES];
    vf_store(hi, s->factor_hi);
    vf_store(cut, s->cut);
    vf_store(most, s->most);
    for (int i = 0; i < g->rows; i++) {
        factor_float f = {hi[i], 0, 0x1p-126f * two_to_float(64), cut[i], most[i]}, plain = f;
        leave_bias_out_float(&plain);
        g->level[i] = results_are_calm_float(&f, (double)g->first[i] - (double)g->least[i]) && half_results_are_level(&plain, job->kind);
        g->factor[i] = g->level[i] ? plain : f;
    }
}

/* The results of row i of the group. */
static void finish_half_row(const half_group *g, const softmax_job *job, const float *kept, int i, int streams) {
    uint16_t *y = half_row_out(job, g->row + i);
    const int columns = (int)job->columns;
    half_results(kept + i * half_pitch(columns), columns, &g->factor[i], y, g->level[i], streams && (uintptr_t)y % 64 == 0, job->kind);
}

static void finish_half_group(const half_group *g, const softmax_job *job, const float *kept, int streams) {
    for (int i = 0; g && i < g->rows; i++) finish_half_row(g, job, kept, i, streams);
}

/* Terms and sums of a group in turn with the results of the group before (NULL: none). */
static void sum_half_group(half_group *g, lanes_float *s, const softmax_job *job, const half_group *before, float *kept, int streams) {
    const int columns = (int)job->columns, pitch = half_pitch(columns);
    uint32_t high[VF_LANES] = {0}, low[VF_LANES] = {0};
    half_row row[VF_LANES];
    late_half late[VF_LANES];
    lane_terms_float terms;
    int waits[VF_LANES];
    lane_terms_begin_float(s, job->kind, &terms);
    for (int i = 0; i < g->rows; i++) {
        const uint16_t *z = half_row_in(job, g->row + i);
        const ahead_lines ahead = {(uintptr_t)(z + (int64_t)g->rows * columns), 64};
        const half_row its = {z, kept + i * pitch, columns, terms.magic[i], terms.floor_score[i], ahead, 0, 0};
        row[i] = its;
        prefetch_ends(ahead, columns * 2);
        waits[i] = before && before->level[i] && columns % VH_LANES == 0;
        if (!waits[i]) continue;
        late[i].v = its.v;
        late[i].y = half_row_out(job, before->row + i);
        late[i].factor = before->factor[i].hi;
        waits[i] = !streams || (uintptr_t)late[i].y % 64 == 0;
    }
    if (!before) half_terms(row, g->rows, 1, job->kind);
    for (int i = 0, more; before && i < g->rows; i += more) { /* as many at a time as wait */
        for (more = 0; i + more < g->rows && waits[i + more];) more++;
        if (more) {
            half_terms_and_results(&row[i], more, &late[i], streams, job->kind);
        } else {
            finish_half_row(before, job, kept, i, streams);
            half_terms(&row[i], more = 1, 1, job->kind);
        }
    }
    for (int i = 0; i < g->rows; i++) {
        high[i] = row[i].high;
        low[i] = row[i].low;
    }
    lane_terms_end_float(s, &terms, high, low);
    read_lanes_float(s, 1, job->kind, LANE_FACTOR);
    half_factors(g, s, job);
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
            finish_half_group(before, job, kept, streams);
            before = NULL;
        }
        if (!find_half_tops(g, &s, job)) {
            finish_half_group(before, job, kept, streams);
            before = NULL;
            forward_rows_float(job, g->row, g->row + g->rows);
            continue;
        }
        sum_half_group(g, &s, job, before, kept, streams);
        before = g;
    }
    finish_half_group(before, job, kept, streams);
    if (streams) stream_end();
}

/* Whether rows [first, last) are so computed, and were: else 0. */
static int take_half_rows(const softmax_job *job, int64_t first, int64_t last) {
    float *kept;
    if (!arithmetic_is_short(job->kind) || job->x.type != job->out.type || job->x.type == ELEMENT_FLOAT32) return 0;
    if (job->op != OPERATION_SOFTMAX || last - first < 2 || job->columns <= SHORT_COLUMNS || job->columns > SOFTMAX_BLOCK_COLUMNS) return 0;
    if (!is_contiguous(&job->out) || !rows_are_scores_float(job)) return 0;
    kept = (float *)softmax_cpu_scratch();
    if (kept) half_rows(job, first, last, kept, forward_streams_float(job));
    return kept != NULL;
}

#endif
