/* Contiguous float32 rows of several blocks whose elements are the scores: their blocks in batches (block_batch.h), a few rows at a time. A short
 * last block is in a batch of the rows' last blocks. A template like block.h; the bits are forward.h's. */

/* Rows between the sums of their terms and their results. */
typedef struct NAME(batch_rows) {
    int64_t row; /* the first */
    int rows;
    int blocks; /* of a row */
    int full;   /* those that are long enough for the pipeline */
    int keeps;  /* terms are kept */
    int ahead;  /* bytes from a block to what is fetched meanwhile */
    int first;  /* the block whose place is the first */
    int places; /* ... and how many of them there are, row by row; others are not asked for */
    NAME(place_of_block) *place;
    NAME(row_result) r[LANES];
    int usual[LANES]; /* all of a row's blocks are */
} NAME(batch_rows);

/* A row's sum while its blocks are added. */
typedef struct NAME(batch_sum) {
    row_state state;
    int usual;     /* all blocks so far; then: */
    power maximum; /* the largest score's exponential */
} NAME(batch_sum);

static inline char *NAME(batch_out)(const softmax_job *job, int64_t row, int block) {
    return job->out.data + row * job->out.row_stride[0] + (int64_t)block * SOFTMAX_BLOCK_COLUMNS * (int64_t)sizeof(REAL);
}

static inline const REAL *NAME(batch_scores)(const softmax_job *job, int64_t row, int block) {
    return (const REAL *)(const void *)job->x.data + row * job->columns + (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
}

/* Where the terms of the group's row i wait; kept NULL: in the results' place. */
static inline REAL *NAME(batch_terms)(const NAME(batch_rows) *g, const softmax_job *job, REAL *kept, int i, int block) {
    if (!kept) return (REAL *)(void *)NAME(batch_out)(job, g->row + i, block);
    return kept + ((int64_t)i * g->blocks + block) * SOFTMAX_BLOCK_COLUMNS;
}

static void NAME(finish_batch_block)(const NAME(batch_rows) *g, const softmax_job *job, REAL *kept, int i, int block, int streams,
                                     NAME(line) *line) {
    const int64_t c = (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
    const int count = NAME(block_columns)(c, job->columns);
    const NAME(row_result) *r = &g->r[i];
    REAL *y = (REAL *)(void *)NAME(batch_out)(job, g->row + i, block);
    if (r->constant) {
        for (int j = 0; j < count; j++) y[j] = r->value;
    } else if (job->op == OPERATION_LOG_SOFTMAX) {
        place p = place_of_row(job, g->row + i);
        NAME(finish_logs)(job, &p, c, c + count, r, streams, line);
    } else {
        NAME(block_results)(r, job->kind, NAME(batch_terms)(g, job, kept, i, block), count, &g->place[i * g->blocks + block], y, streams, line);
    }
}

static void NAME(finish_batch_rows)(const NAME(batch_rows) *g, const softmax_job *job, REAL *kept, int streams, NAME(line) *line) {
    for (int i = 0; g && i < g->rows; i++)
        for (int block = 0; block < g->blocks; block++) NAME(finish_batch_block)(g, job, kept, i, block, streams, line);
}

static inline void NAME(keep_place)(NAME(batch_rows) *g, int i, int block, const NAME(block) *its) {
    const int index = i * g->blocks + block - g->first;
    if (index < g->places) g->place[index] = NAME(place_in_row)(its);
}

static void NAME(add_unusual_block)(NAME(batch_sum) *sum, const NAME(block) *block, arithmetic kind) {
    NAME(row_sum) s = NAME(row_sum_begin)(&sum->state);
    NAME(row_sum_add)(&s, block, kind);
    NAME(row_sum_end)(&s);
    sum->usual = 0;
}

/* row_sum_add of a block whose maximum's exponential is e 2^k. */
static ALWAYS_INLINE void NAME(add_usual_block)(NAME(batch_sum) *sum, const NAME(block) *block, double e, double k) {
    row_state *row = &sum->state;
    const power its = {(int64_t)k, {e, 0.0}};
    power lower = its;
    NAME(add_rest)(&row->rest, block);
    if (row->maximum.high == -(double)INFINITY || score_is_above(block->maximum, row->maximum)) {
        const int was_empty = row->maximum.high == -(double)INFINITY;
        lower = sum->maximum;
        row->maximum = block->maximum;
        sum->maximum = its;
        if (was_empty) return;
    }
    accumulator_add(&row->rest, (int64_t)(lower.f.hi * 0x1p52), lower.k - 52);
}

/* Blocks of the batch become parts of their rows' sums: block at[j] of row of[j] of the group. */
static void NAME(add_batch)(NAME(batch) *b, const int *of, const int *at, NAME(batch_rows) *g, NAME(batch_sum) *sum, arithmetic kind) {
    REAL kb[LANES], top[LANES];
    BITS high[LANES], low[LANES];
    double first[LANES], e[LANES], k[LANES];
    NAME(batch_digits)(b);
    V(store)(kb, b->lanes.kb);
    V(store)(top, b->lanes.top);
    I(store)(high, b->lanes.high);
    I(store)(low, b->lanes.low);
    for (int j = 0; j < LANES; j++) first[j] = j < b->blocks ? (double)b->top[j].first : 0.0;
    for (int j = 0; j < LANES; j += VD_LANES) exp_of_maxima(first + j, e + j, k + j);
    for (int j = 0; j < b->blocks; j++) {
        const NAME(top) *largest = &b->top[j];
        NAME(block) block;
        block.maximum = score_of_value(first[j]);
        block.kb = (int64_t)kb[j];
        block.top = top[j];
        block.least = largest->least;
        block.holes = largest->holes;
        block.margin = TERMS_APART;
        block.at = largest->first - largest->second >= TERMS_APART ? largest->at : -1;
        block.flags = 0;
        NAME(set_rest)(&block, high[j], low[j]);
        if (sum[of[j]].usual)
            NAME(add_usual_block)(&sum[of[j]], &block, e[j], k[j]);
        else
            NAME(add_unusual_block)(&sum[of[j]], &block, kind);
        NAME(keep_place)(g, of[j], at[j], &block);
    }
}

/* The results of the blocks of the group before, where they may be written within the loop of the batch's terms; else 0. */
static int NAME(batch_logs)(const NAME(batch) *b, const int *of, const int *at, const NAME(batch_rows) *before, const softmax_job *job, int streams,
                            NAME(late_log) *log) {
    if (!before || job->op != OPERATION_LOG_SOFTMAX || !b->usual) return 0;
    for (int j = 0; j < b->blocks; j++) {
        const NAME(row_result) *r = &before->r[of[j]];
        const int64_t row = before->row + of[j];
        NAME(late_log) its = {NAME(batch_scores)(job, row, at[j]), (REAL *)(void *)NAME(batch_out)(job, row, at[j]), (REAL)r->maximum.high,
                              (REAL)(0.0 - r->log.hi)};
        if (r->constant || !before->usual[of[j]] || !NAME(logs_may_wait)(b->row[j].count, its.y, streams, job->kind)) return 0;
        if (!(its.minus_log <= -SMALLEST_NORMAL)) return 0;
        log[j] = its;
    }
    return 1;
}

/* The same of softmax, past the caches. */
static int NAME(batch_results)(const NAME(batch) *b, const int *of, const int *at, const NAME(batch_rows) *before, const softmax_job *job, REAL *kept,
                               NAME(late_result) *late) {
    if (!before || job->op != OPERATION_SOFTMAX || !b->usual || !kept) return 0;
    for (int j = 0; j < b->blocks; j++) {
        const NAME(row_result) *r = &before->r[of[j]];
        const NAME(place_of_block) *place = &before->place[of[j] * before->blocks + at[j]];
        NAME(late_result) its = {NAME(batch_terms)(before, job, kept, of[j], at[j]), (REAL *)(void *)NAME(batch_out)(job, before->row + of[j], at[j]), 0, 0, 0, -1};
        NAME(factor) f;
        int equal;
        if (r->constant || !NAME(logs_may_wait)(b->row[j].count, its.y, 1, job->kind)) return 0;
        if (NAME(factor_of_block)(r, job->kind, place, &equal, &f) != FACTOR_USUAL || NAME(care_of_block)(r, &f, place, equal) != CALM) return 0;
        NAME(leave_bias_out)(&f);
        its.hi = f.hi;
        its.lo = f.lo;
        its.most = f.most;
        if (equal) its.at = place->at;
        late[j] = its;
    }
    return 1;
}

/* Terms and sums of a batch, in turn with the results of the group before (NULL: none). */
static void NAME(run_batch)(NAME(batch) *b, const int *of, const int *at, NAME(batch_rows) *g, NAME(batch_sum) *sum, const softmax_job *job,
                            const NAME(batch_rows) *before, REAL *kept, int streams, NAME(line) *line) {
    const int keep = g->keeps;
    NAME(late_log) log[LANES];
    NAME(batch_begin)(b, job->kind);
    if (NAME(batch_logs)(b, of, at, before, job, streams, log)) {
        NAME(terms_and_logs)(b->row, b->blocks, log, streams);
        NAME(add_batch)(b, of, at, g, sum, job->kind);
        return;
    }
    NAME(late_result) late[LANES];
    if (streams && NAME(batch_results)(b, of, at, before, job, kept, late)) {
        NAME(terms_and_results)(b->row, b->blocks, late);
        NAME(add_batch)(b, of, at, g, sum, job->kind);
        return;
    }
    for (int j = 0; j < b->blocks; j++) {
        NAME(block) block;
        if (before) NAME(finish_batch_block)(before, job, kept, of[j], at[j], streams, line);
        if (b->usual && streams) NAME(terms_of_rows)(&b->row[j], 1, keep, job->kind);
        if (b->usual) continue;
        const NAME(block_view) view = {b->row[j].z, NULL, NULL};
        NAME(block_terms)(NULL, &view, b->row[j].count, job->kind, &b->top[j], b->row[j].ahead, keep ? b->row[j].v : NULL, &block);
        NAME(add_unusual_block)(&sum[of[j]], &block, job->kind);
        NAME(keep_place)(g, of[j], at[j], &block);
    }
    if (!b->usual) return;
    if (!streams) NAME(terms_of_rows)(b->row, b->blocks, keep, job->kind);
    NAME(add_batch)(b, of, at, g, sum, job->kind);
}

/* Blocks [first, last) of every row of the group, `most` at a time. */
static void NAME(sum_batches)(NAME(batch_rows) *g, NAME(batch_sum) *sum, int first, int last, int most, const softmax_job *job,
                              const NAME(batch_rows) *before, REAL *kept, int streams, NAME(line) *line) {
    NAME(batch) b;
    int of[LANES], at[LANES], row = 0, block = first;
    while (row < g->rows && first < last) {
        for (b.blocks = 0; b.blocks < most && row < g->rows; b.blocks++) {
            NAME(term_row) *r = &b.row[b.blocks];
            const ahead_lines ahead = {(uintptr_t)NAME(batch_scores)(job, g->row + row, block) + (uintptr_t)g->ahead, LANES * sizeof(REAL)};
            r->z = NAME(batch_scores)(job, g->row + row, block);
            r->mask = NULL;
            r->v = g->keeps ? NAME(batch_terms)(g, job, kept, row, block) : NULL;
            r->count = NAME(block_columns)((int64_t)block * SOFTMAX_BLOCK_COLUMNS, job->columns);
            r->ahead = ahead;
            prefetch_ends(ahead, r->count * (int64_t)sizeof(REAL));
            of[b.blocks] = row;
            at[b.blocks] = block;
            if (++block == last) {
                block = first;
                row++;
            }
        }
        NAME(run_batch)(&b, of, at, g, sum, job, before, kept, streams, line);
    }
}

/* result_of_state. */
static NAME(row_result) NAME(result_of_batch_sum)(const NAME(batch_sum) *sum, const softmax_job *job) {
    const int want_log = job->op == OPERATION_LOG_SOFTMAX;
    NAME(row_result) r;
    row_total total;
    if (!sum->usual) return NAME(result_of_state)(&sum->state, job->kind, want_log, job->empty_zero);
    memset(&r, 0, sizeof r);
    r.maximum = sum->state.maximum;
    r.threshold = SMALLEST_NORMAL;
    r.k = total.k = sum->maximum.k;
    total.e_max = sum->maximum.f;
    total.rest.hi = accumulator_read_first(&sum->state.rest, total.k);
    total.rest.lo = 0.0;
    if (want_log)
        r.log = row_total_log(&total, job->kind);
    else
        r.factor = row_total_inverse(&total, job->kind);
    r.most = pair_multiply(total.e_max, r.factor);
    return r;
}

#if !defined(BATCH_BYTES)
#define BATCH_BYTES 65536 /* of a batch's terms where results go past the caches */
#endif

#define PIPED_COLUMNS 128 /* blocks from so many on are in batches with whole ones */

static void NAME(rows_in_batches)(const softmax_job *job, int64_t first, int64_t last, REAL *kept, int streams) {
    NAME(batch_rows) group[2];
    NAME(place_of_block) place[2][KEPT_BLOCKS];
    NAME(batch_sum) sum[LANES];
    const NAME(batch_rows) *before = NULL;
    NAME(line) line;
    const int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    const int full = blocks - (job->columns - (int64_t)(blocks - 1) * SOFTMAX_BLOCK_COLUMNS < PIPED_COLUMNS);
    const int block_bytes = (int)(SOFTMAX_BLOCK_COLUMNS * sizeof(REAL)), most = streams && BATCH_BYTES / block_bytes < LANES ? BATCH_BYTES / block_bytes : LANES;
    const int rows = full > most ? 1 : most / full;
    line.at = NULL;
    for (int64_t row = first; row < last; row += rows) {
        NAME(batch_rows) *g = &group[before == &group[0]];
        g->keeps = job->op == OPERATION_SOFTMAX;
        g->ahead = streams ? most * block_bytes : AHEAD_BYTES;
        g->first = 0;
        g->places = KEPT_BLOCKS;
        g->place = place[g == &group[1]];
        g->row = row;
        g->rows = last - row < rows ? (int)(last - row) : rows;
        g->blocks = blocks;
        g->full = full;
        if (before && before->rows > g->rows) {
            NAME(finish_batch_rows)(before, job, kept, streams, &line);
            before = NULL;
        }
        for (int i = 0; i < g->rows; i++) {
            sum[i].state = row_state_empty();
            sum[i].usual = 1;
        }
        NAME(sum_batches)(g, sum, 0, full, most, job, before, kept, streams, &line);
        NAME(sum_batches)(g, sum, full, blocks, most, job, before, kept, streams, &line);
        for (int i = 0; i < g->rows; i++) {
            if (job->op == OPERATION_LOGSUMEXP) {
                store_real(job->out.data + (g->row + i) * job->out.row_stride[0], job->out.type, row_state_logsumexp(&sum[i].state, job->kind));
            } else {
                g->r[i] = NAME(result_of_batch_sum)(&sum[i], job);
                g->usual[i] = sum[i].usual;
            }
        }
        before = g;
        if ((!streams && job->op != OPERATION_LOG_SOFTMAX) || job->op == OPERATION_LOGSUMEXP) {
            if (job->op != OPERATION_LOGSUMEXP) NAME(finish_batch_rows)(g, job, kept, streams, &line);
            before = NULL;
        }
    }
    NAME(finish_batch_rows)(before, job, kept, streams, &line);
    NAME(line_end)(&line);
    if (streams) stream_end();
}

/* Whether they are so computed. */
static int NAME(rows_take_batches)(const softmax_job *job) {
    if (sizeof(REAL) != 4 || job->kind != ARITHMETIC_32 || job->columns <= SOFTMAX_BLOCK_COLUMNS) return 0;
    if (job->columns > (int64_t)NAME(kept_blocks)() * SOFTMAX_BLOCK_COLUMNS || job->x.type != REAL_ELEMENT || !NAME(rows_are_scores)(job)) return 0;
    return job->op == OPERATION_LOGSUMEXP || (job->op <= OPERATION_LOGSUMEXP && job->out.type == REAL_ELEMENT && is_contiguous(&job->out));
}
