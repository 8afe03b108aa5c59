/* As half_rows.h, rows of several blocks: their blocks in batches of up to a vector's lanes, as batch_rows.h has them. */
#ifndef SOFTMAX_HALF_BATCHES_H
#define SOFTMAX_HALF_BATCHES_H

#include "half_rows.h"

#define HALF_BLOCKS ((int)(TERMS_MOST / (SOFTMAX_BLOCK_COLUMNS * sizeof(float)))) /* KEPT_BLOCKS of floats */

/* Rows between the sums of their terms and their results; blocks row by row. */
typedef struct half_batch_rows {
    int64_t row; /* the first */
    int rows;
    int blocks; /* of a row */
    row_result_float r[VF_LANES];
    place_of_block_float place[HALF_BLOCKS];
    late_half late[HALF_BLOCKS];
} half_batch_rows;

/* Blocks whose terms are computed together. */
typedef struct half_batch {
    float first[VF_LANES];
    float least[VF_LANES];
    half_row row[VF_LANES];
    lanes_float lanes;
    uint16_t end[VF_LANES][2 * VH_LANES]; /* the elements of blocks that are too short for the pipeline */
} half_batch;

/* The largest scores of blocks [from, from + blocks) of the group; 0 if some block is not a usual one. */
static int begin_half_batch(half_batch *b, const half_batch_rows *g, int from, int blocks, const softmax_job *job, float *kept) {
    const int together = g->rows * g->blocks;
    float second[VF_LANES];
    int usual = 1;
    for (int j = 0; j < VF_LANES; j++) {
        const int at = from + j, block = at % g->blocks;
        b->first[j] = second[j] = 0;
        if (j >= blocks) continue;
        const int64_t c = (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
        const uint16_t *z = half_row_in(job, g->row + at / g->blocks) + c;
        const int count = block_columns_float(c, job->columns), ahead_of = together > VF_LANES ? blocks * SOFTMAX_BLOCK_COLUMNS : g->rows * (int)job->columns;
        const ahead_lines ahead = {(uintptr_t)(z + ahead_of), 64};
        half_row its = {z, kept + (int64_t)at * SOFTMAX_BLOCK_COLUMNS, count, 0, 0, ahead, 0, 0};
        usual &= find_half_top(z, count, job->kind, &b->first[j], &second[j], &b->least[j]);
        if (count < HALF_ROW_LEAST) {
            for (int i = 0; i < 2 * VH_LANES; i++) b->end[j][i] = i < count ? z[i] : half_nothing(job->kind);
            its.z = b->end[j];
            its.count = 2 * VH_LANES;
        }
        prefetch_ends(ahead, count * 2);
        b->row[j] = its;
    }
    lanes_begin_float(&b->lanes);
    b->lanes.first = vf_load(b->first);
    b->lanes.second = vf_load(second);
    return usual;
}

/* Digits and maxima become parts of the rows' sums. */
static void add_half_batch(half_batch *b, half_batch_rows *g, int from, int blocks, const lane_terms_float *terms, batch_sum_float *sum, arithmetic kind) {
    const float no_low[VF_LANES] = {0};
    float kb[VF_LANES], top[VF_LANES];
    uint32_t high[VF_LANES] = {0}, low[VF_LANES] = {0};
    double e[VF_LANES], k[VF_LANES];
    for (int j = 0; j < blocks; j++) {
        high[j] = b->row[j].high;
        low[j] = b->row[j].low;
    }
    lane_terms_end_float(&b->lanes, terms, high, low);
    vf_store(kb, b->lanes.kb);
    vf_store(top, b->lanes.top);
    vi_store(high, b->lanes.high);
    vi_store(low, b->lanes.low);
    exp_of_firsts_float(b->first, no_low, kind, e, k);
    for (int j = 0; j < blocks; j++) {
        block_float block;
        memset(&block, 0, sizeof block);
        block.maximum = score_of_value((double)b->first[j]);
        block.kb = (int64_t)kb[j];
        block.top = top[j];
        block.least = b->least[j];
        block.margin = 0x1p-14f;
        block.at = -1;
        set_rest_float(&block, high[j], low[j]);
        add_usual_block_float(&sum[(from + j) / g->blocks], &block, e[j], k[j]);
        g->place[from + j] = place_in_row_float(&block);
    }
}

/* How a block's terms become results. */
static void half_block_factor(late_half *late, const row_result_float *r, const place_of_block_float *place, arithmetic kind) {
    int equal, way = factor_of_block_float(r, kind, place, &equal, &late->factor);
    late->place = way == FACTOR_USUAL || way == FACTOR_NOTHING ? NULL : place;
    late->care = HALF_LEVEL;
    if (way == FACTOR_NOTHING) late->factor.hi = 0;
    if (way != FACTOR_USUAL) return;
    late->care = half_care(&late->factor, r->maximum.high - (double)place->least, kind);
    if (late->care == HALF_LEVEL) leave_bias_out_float(&late->factor);
}

/* What all results of the group need. */
static void half_batch_factors(half_batch_rows *g, const batch_sum_float *sum, const softmax_job *job, const float *kept) {
    for (int i = 0; i < g->rows; i++) g->r[i] = result_of_batch_sum_float(&sum[i], job);
    for (int at = 0; at < g->rows * g->blocks; at++) {
        const int i = at / g->blocks;
        const int64_t c = (int64_t)(at % g->blocks) * SOFTMAX_BLOCK_COLUMNS;
        const row_result_float *r = &g->r[i];
        late_half *late = &g->late[at];
        late->v = kept + (int64_t)at * SOFTMAX_BLOCK_COLUMNS;
        late->y = half_row_out(job, g->row + i) + c;
        late->count = block_columns_float(c, job->columns);
        late->row = r;
        late->z = half_row_in(job, g->row + i) + c;
        late->m = (float)r->maximum.high;
        late->minus_log = (float)(0.0 - r->log.hi);
        late->factor.hi = 0;
        late->place = NULL;
        late->care = half_log_care(late->minus_log);
        if (job->op == OPERATION_SOFTMAX) half_block_factor(late, r, &g->place[at], job->kind);
    }
}

static void finish_half_batches(const half_batch_rows *g, int from, int streams, arithmetic kind) {
    for (int at = from; g && at < g->rows * g->blocks; at++) finish_half(&g->late[at], streams, kind);
}

/* Terms and sums of a group in turn with the results of the group before (NULL: none); 0 if a block is not a usual one: then no result of the group
 * is written, those of the group before are. */
static int sum_half_batches(half_batch_rows *g, const softmax_job *job, const half_batch_rows *before, float *kept, int streams) {
    const int all = g->rows * g->blocks, batches = (all + VF_LANES - 1) / VF_LANES, most = (all + batches - 1) / batches;
    batch_sum_float sum[VF_LANES];
    half_batch b;
    lane_terms_float terms;
    for (int i = 0; i < g->rows; i++) {
        sum[i].state = row_state_empty();
        sum[i].usual = 1;
    }
    for (int from = 0; from < all; from += most) {
        const int blocks = all - from < most ? all - from : most;
        if (!begin_half_batch(&b, g, from, blocks, job, kept)) {
            finish_half_batches(before, from, streams, job->kind);
            return 0;
        }
        lane_terms_begin_float(&b.lanes, job->kind, &terms);
        for (int j = 0; j < blocks; j++) {
            b.row[j].magic = terms.magic[j];
            b.row[j].floor_score = terms.floor_score[j];
        }
        half_terms_in_turn(b.row, blocks, job->op == OPERATION_SOFTMAX, before ? &before->late[from] : NULL, streams, job->kind);
        add_half_batch(&b, g, from, blocks, &terms, sum, job->kind);
    }
    half_batch_factors(g, sum, job, kept);
    return 1;
}

static void half_batches(const softmax_job *job, int64_t first, int64_t last, float *kept, int streams) {
    half_batch_rows group[2];
    const half_batch_rows *before = NULL;
    const int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS), rows = blocks > VF_LANES ? 1 : VF_LANES / blocks;
    for (int64_t row = first; row < last; row += rows) {
        half_batch_rows *g = &group[before == &group[0]];
        g->row = row;
        g->rows = last - row < rows ? (int)(last - row) : rows;
        g->blocks = blocks;
        if (before && before->rows > g->rows) {
            finish_half_batches(before, 0, streams, job->kind);
            before = NULL;
        }
        if (sum_half_batches(g, job, before, kept, streams)) {
            before = g;
        } else {
            option_batches_float(job, g->row, g->row + g->rows, kept, streams);
            before = NULL;
        }
    }
    finish_half_batches(before, 0, streams, job->kind);
    if (streams) stream_end();
}

/* Whether rows [first, last) are so computed, and were. */
static int take_half_rows(const softmax_job *job, int64_t first, int64_t last) {
    const int streams = forward_streams_float(job);
    float *kept;
    if (!arithmetic_is_short(job->kind) || job->x.type != job->out.type || job->op > OPERATION_LOG_SOFTMAX || job->columns <= SHORT_COLUMNS) return 0;
    if (job->columns > (int64_t)kept_blocks_float() * SOFTMAX_BLOCK_COLUMNS || (job->columns <= SOFTMAX_BLOCK_COLUMNS && last - first < 2)) return 0;
    if (!is_contiguous(&job->out) || !rows_are_scores_float(job)) return 0;
    kept = (float *)softmax_cpu_scratch();
    if (kept) (job->columns > SOFTMAX_BLOCK_COLUMNS ? half_batches : half_rows)(job, first, last, kept, streams);
    return kept != NULL;
}

#endif
