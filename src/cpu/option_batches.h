/* Rows of several blocks with options, of 16-bit types or with gaps, results in float32 or 16 bits: as batch_rows.h, blocks in batches. Scores
 * that are not elements of memory are made in the search for the largest and wait nearby for their terms; columns beyond a row's limit are not
 * looked at. A template like block.h; the bits are forward.h's. */

#define MADE_BLOCKS 4 /* of made scores at a time: they stay in the first two caches */

/* Rows between the sums of their terms and their results. */
typedef struct NAME(option_group) {
    int rows;
    int blocks; /* of a row */
    place p[LANES];
    NAME(source) source[LANES];
    char *out[LANES];
    NAME(row_result) r[LANES];
    NAME(place_of_block) place[KEPT_BLOCKS]; /* row by row */
} NAME(option_group);

/* Blocks of the group's rows whose terms are computed together: block at[j] of row of[j]. */
typedef struct NAME(option_batch) {
    int blocks;
    int usual; /* all of them have fast terms, or none */
    int of[LANES];
    int at[LANES];
    NAME(block_view) view[LANES];
    NAME(top) top[LANES];
    REAL first[LANES];
    REAL first_low[LANES];
    BITS high[LANES];
    BITS low[LANES];
    NAME(lanes) lanes;
    REAL z[MADE_BLOCKS * SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64)));
    REAL lows[MADE_BLOCKS * SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64)));
} NAME(option_batch);

/* e 2^k of as many scores as there are lanes: lane_readout.h. */
static void NAME(exp_of_firsts)(const REAL *first, const REAL *first_low, arithmetic kind, double *e, double *k);

/* Columns of a row's block below its limit. */
static inline int NAME(seen_columns)(const NAME(option_group) *g, const softmax_job *job, int i, int block) {
    const int64_t c = (int64_t)block * SOFTMAX_BLOCK_COLUMNS, seen = g->source[i].limit - c;
    const int count = NAME(block_columns)(c, job->columns);
    return seen < 0 ? 0 : seen < count ? (int)seen : count;
}

static inline REAL *NAME(option_terms)(const NAME(option_group) *g, REAL *kept, int i, int block) {
    if (!kept) return (REAL *)(void *)g->out[i] + (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
    return kept + ((int64_t)i * g->blocks + block) * SOFTMAX_BLOCK_COLUMNS;
}

static void NAME(finish_option_block)(const NAME(option_group) *g, const softmax_job *job, REAL *kept, int i, int block, int streams) {
    const int64_t c = (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
    const int count = NAME(block_columns)(c, job->columns), seen = NAME(seen_columns)(g, job, i, block);
    const NAME(row_result) *r = &g->r[i];
    char *to = g->out[i] + c * job->out.column_stride;
    REAL results[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64))), *y = NAME(results_place)(&job->out, to, results);
    if (r->constant) {
        NAME(fill)(&job->out, g->out[i], c, c + count, r->value);
        return;
    }
    if (job->op == OPERATION_LOG_SOFTMAX) {
        NAME(finish_logs)(job, &g->p[i], c, c + count, r, streams, NULL);
        return;
    }
    if (seen == count && arithmetic_is_short(job->kind) && is_contiguous(&job->out) && job->out.type != REAL_ELEMENT &&
        NAME(block_halves)(r, job->kind, NAME(option_terms)(g, kept, i, block), count, &g->place[i * g->blocks + block], to, job->out.type, streams))
        return;
    if (seen) NAME(block_results)(r, job->kind, NAME(option_terms)(g, kept, i, block), seen, &g->place[i * g->blocks + block], y, streams && y != results,
                                  NULL);
    NAME(fill_results)(y + seen, count - seen, 0, streams && y != results);
    if (y == results) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
}

static void NAME(finish_option_group)(const NAME(option_group) *g, const softmax_job *job, REAL *kept, int streams) {
    for (int i = 0; g && i < g->rows; i++)
        for (int block = 0; block < g->blocks; block++) NAME(finish_option_block)(g, job, kept, i, block, streams);
}

/* The largest scores of the batch's blocks, and what their terms need. */
static void NAME(begin_option_batch)(NAME(option_batch) *b, NAME(option_group) *g, const softmax_job *job) {
    REAL second[LANES];
    NAME(lanes) *s = &b->lanes;
    b->usual = 1;
    for (int j = 0; j < LANES; j++) {
        const int made = j < MADE_BLOCKS ? j : 0;
        NAME(top) *top = &b->top[j];
        NAME(block_view) *view = &b->view[j];
        b->first[j] = b->first_low[j] = second[j] = 0;
        b->high[j] = b->low[j] = 0;
        if (j >= b->blocks) continue;
        NAME(source) *source = &g->source[b->of[j]];
        const int count = NAME(seen_columns)(g, job, b->of[j], b->at[j]);
        *top = NAME(scores_and_top)(source, (int64_t)b->at[j] * SOFTMAX_BLOCK_COLUMNS, count, b->z + made * SOFTMAX_BLOCK_COLUMNS,
                                    b->lows + made * SOFTMAX_BLOCK_COLUMNS, view);
        b->usual &= NAME(top_is_usual)(top) && !source->doubtful;
        if (top->first == -(REAL)INFINITY || !b->usual) continue;
        b->first[j] = top->first;
        second[j] = top->second;
        if (view->low) b->first_low[j] = top->at >= 0 ? view->low[top->at] : NAME(top_low)(view->z, view->low, count, top->first);
    }
    if (!b->usual) return;
    NAME(lanes_begin)(s);
    s->first = V(load)(b->first);
    s->second = V(load)(second);
    s->first_low = V(load)(b->first_low);
}

static ahead_lines NAME(option_ahead)(const NAME(source) *source, int64_t c) {
    const operand *x = &source->job->x;
    ahead_lines ahead = {(uintptr_t)source->x, 0};
    if (is_contiguous(x)) {
        ahead.line = (uintptr_t)(source->x + c * x->column_stride) + GROUP_BYTES;
        ahead.step = LANES * x->column_stride;
    }
    return ahead;
}

/* Digits and maxima of a usual batch become parts of their rows' sums. */
static void NAME(add_option_batch)(NAME(option_batch) *b, NAME(option_group) *g, NAME(batch_sum) *sum, const softmax_job *job) {
    double e[LANES], k[LANES];
    REAL kb[LANES], top[LANES];
    V(store)(kb, b->lanes.kb);
    V(store)(top, b->lanes.top);
    NAME(exp_of_firsts)(b->first, b->first_low, job->kind, e, k);
    for (int j = 0; j < b->blocks; j++) {
        const NAME(top) *largest = &b->top[j];
        NAME(batch_sum) *row = &sum[b->of[j]];
        NAME(block) block;
        block.kb = 0;
        block.top = 0;
        block.least = largest->least;
        block.holes = largest->holes && arithmetic_is_short(job->kind);
        block.margin = b->view[j].low ? 1 : TERMS_APART;
        block.at = largest->first - largest->second >= block.margin ? largest->at : -1;
        block.flags = 0;
        block.maximum = b->view[j].low && largest->first != -(REAL)INFINITY ? score_of_pair((double)b->first[j], (double)b->first_low[j])
                                                                            : score_of_value((double)largest->first);
        if (largest->first != -(REAL)INFINITY) {
            block.kb = (int64_t)kb[j];
            block.top = top[j];
            NAME(set_rest)(&block, b->high[j], b->low[j]);
            if (row->usual)
                NAME(add_usual_block)(row, &block, e[j], k[j]);
            else
                NAME(add_unusual_block)(row, &block, job->kind);
        }
        g->place[b->of[j] * g->blocks + b->at[j]] = NAME(place_in_row)(&block);
    }
}

/* A block of a batch with unusual ones. */
static void NAME(run_unusual_block)(NAME(option_batch) *b, int j, NAME(option_group) *g, NAME(batch_sum) *sum, const softmax_job *job, REAL *v) {
    NAME(source) *source = &g->source[b->of[j]];
    const int64_t c = (int64_t)b->at[j] * SOFTMAX_BLOCK_COLUMNS;
    const int count = NAME(seen_columns)(g, job, b->of[j], b->at[j]);
    NAME(block) block;
    NAME(block_view) view;
    NAME(top) top = NAME(scores_and_top)(source, c, count, b->z, b->lows, &view);
    NAME(block_terms)(source, &view, count, job->kind, &top, NAME(option_ahead)(source, c), v, &block);
    NAME(add_unusual_block)(&sum[b->of[j]], &block, job->kind);
    g->place[b->of[j] * g->blocks + b->at[j]] = NAME(place_in_row)(&block);
}

/* The terms of blocks of[], seen through masks. */
static void NAME(piped_terms)(NAME(option_batch) *b, NAME(term_row) *row, const int *of, int rows, int stores, arithmetic kind) {
    NAME(terms_of_rows)(row, rows, stores, kind);
    for (int i = 0; i < rows; i++) {
        b->high[of[i]] = row[i].high;
        b->low[of[i]] = row[i].low;
    }
}

/* Terms and sums of a batch, in turn with the results of the group before (NULL: none). */
static void NAME(run_option_batch)(NAME(option_batch) *b, NAME(option_group) *g, NAME(batch_sum) *sum, const softmax_job *job,
                                   const NAME(option_group) *before, REAL *kept, int streams) {
    const int keep = job->op == OPERATION_SOFTMAX;
    NAME(lane_terms) terms;
    NAME(term_row) row[LANES]; /* those seen through a mask */
    int of[LANES], piped = 0;
    NAME(begin_option_batch)(b, g, job);
    if (!b->usual) {
        for (int j = 0; j < b->blocks; j++) {
            if (before) NAME(finish_option_block)(before, job, kept, b->of[j], b->at[j], streams);
            NAME(run_unusual_block)(b, j, g, sum, job, keep ? NAME(option_terms)(g, kept, b->of[j], b->at[j]) : NULL);
        }
        return;
    }
    NAME(lane_terms_begin)(&b->lanes, job->kind, &terms);
    for (int j = 0; j < b->blocks; j++) {
        const NAME(block_view) *view = &b->view[j];
        const int i = b->of[j], block = b->at[j], count = NAME(seen_columns)(g, job, i, block);
        REAL *v = keep ? NAME(option_terms)(g, kept, i, block) : NULL;
        const ahead_lines ahead = NAME(option_ahead)(&g->source[i], (int64_t)block * SOFTMAX_BLOCK_COLUMNS);
        if (before) NAME(finish_option_block)(before, job, kept, i, block, streams);
        if (b->top[j].first == -(REAL)INFINITY) continue;
        if (!view->mask) {
            NAME(terms)(view->z, view->low, count, terms.magic[j], terms.floor_score[j], ahead, v, job->kind, &b->high[j], &b->low[j]);
            continue;
        }
        NAME(term_row) its = {view->z, view->mask, v, count, terms.magic[j], terms.floor_score[j], ahead, 0, 0};
        of[piped] = j;
        row[piped++] = its;
        if (!streams && j < b->blocks - 1) continue;
        NAME(piped_terms)(b, row, of, piped, keep, job->kind);
        piped = 0;
    }
    NAME(piped_terms)(b, row, of, piped, keep, job->kind);
    NAME(lane_terms_end)(&b->lanes, &terms, b->high, b->low);
    I(store)(b->high, b->lanes.high);
    I(store)(b->low, b->lanes.low);
    NAME(add_option_batch)(b, g, sum, job);
}

/* All blocks of the group, `most` at a time; those that no column of is seen are left out. */
static void NAME(sum_option_group)(NAME(option_group) *g, NAME(batch_sum) *sum, int most, const softmax_job *job, const NAME(option_group) *before,
                                   REAL *kept, int streams) {
    NAME(option_batch) b;
    b.blocks = 0;
    for (int i = 0; i < g->rows; i++)
        for (int block = 0; block < g->blocks; block++) {
            if (NAME(seen_columns)(g, job, i, block)) {
                b.of[b.blocks] = i;
                b.at[b.blocks++] = block;
            } else if (before) {
                NAME(finish_option_block)(before, job, kept, i, block, streams);
            }
            if (b.blocks == most || (b.blocks && i == g->rows - 1 && block == g->blocks - 1)) {
                NAME(run_option_batch)(&b, g, sum, job, before, kept, streams);
                b.blocks = 0;
            }
        }
}

static void NAME(begin_option_group)(NAME(option_group) *g, NAME(batch_sum) *sum, const softmax_job *job, place *p) {
    for (int i = 0; i < g->rows; i++, next_place(job, p)) {
        g->p[i] = *p;
        g->source[i] = NAME(source_of_row)(job, p);
        g->out[i] = row_address(job, &job->out, p);
        sum[i].state = row_state_empty();
        sum[i].usual = 1;
    }
}

/* kept: room for the terms; NULL: in the results' place, or there are none. */
static void NAME(option_batches)(const softmax_job *job, int64_t first, int64_t last, REAL *kept, int streams) {
    NAME(option_group) group[2];
    NAME(batch_sum) sum[LANES];
    const NAME(option_group) *before = NULL;
    const int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    place p = place_of_row(job, first);
    const int most = streams || !NAME(source_of_row)(job, &p).through ? MADE_BLOCKS : LANES, rows = blocks > most ? 1 : most / blocks;
    for (int64_t row = first; row < last; row += rows) {
        NAME(option_group) *g = &group[before == &group[0]];
        g->rows = last - row < rows ? (int)(last - row) : rows;
        g->blocks = blocks;
        if (before && before->rows > g->rows) {
            NAME(finish_option_group)(before, job, kept, streams);
            before = NULL;
        }
        NAME(begin_option_group)(g, sum, job, &p);
        NAME(sum_option_group)(g, sum, most, job, before, kept, streams);
        for (int i = 0; i < g->rows; i++) {
            if (sum[i].state.maximum.high == -(double)INFINITY) sum[i].usual = 0;
            if (job->op == OPERATION_LOGSUMEXP)
                store_real(g->out[i], job->out.type, row_state_logsumexp(&sum[i].state, job->kind));
            else
                g->r[i] = NAME(result_of_batch_sum)(&sum[i], job);
        }
        before = g;
        if (!streams || job->op != OPERATION_SOFTMAX) {
            if (job->op != OPERATION_LOGSUMEXP) NAME(finish_option_group)(g, job, kept, streams);
            before = NULL;
        }
    }
    NAME(finish_option_group)(before, job, kept, streams);
    if (streams) stream_end();
}

/* Whether rows are so computed. */
static int NAME(rows_take_option_batches)(const softmax_job *job) {
    return sizeof(REAL) == 4 && job->columns > SOFTMAX_BLOCK_COLUMNS && job->columns <= (int64_t)NAME(kept_blocks)() * SOFTMAX_BLOCK_COLUMNS &&
           job->op <= OPERATION_LOGSUMEXP;
}
