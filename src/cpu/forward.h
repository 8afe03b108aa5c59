/* softmax, log_softmax and logsumexp of a row, whole or in parts. A template like block.h. */

#define KEPT_BLOCKS ((int)(TERMS_MOST / (SOFTMAX_BLOCK_COLUMNS * sizeof(REAL)))) /* rows of more never keep their terms */
#define STACK_BLOCKS 8 /* ... so many on the stack, where results cannot hold them */

/* Rows up to so many keep their terms: half of the scratch memory. */
static inline int NAME(kept_blocks)(void) { return (int)(softmax_cpu_scratch_bytes() / 2 / (int64_t)(SOFTMAX_BLOCK_COLUMNS * sizeof(REAL))); }

static void NAME(fill)(const operand *out, char *address, int64_t first, int64_t last, REAL value) {
    REAL buffer[SOFTMAX_BLOCK_COLUMNS];
    int count = (int)(last - first < SOFTMAX_BLOCK_COLUMNS ? last - first : SOFTMAX_BLOCK_COLUMNS);
    for (int i = 0; i < count; i++) buffer[i] = value;
    for (int64_t c = first; c < last; c += count) {
        if (last - c < count) count = (int)(last - c);
        NAME(scatter)(address + c * out->column_stride, out->type, out->column_stride, count, buffer);
    }
}

#define LATER_BYTES (8 << 20) /* of results, as many as a last cache surely keeps of one thread */

/* The terms of a long row, or of a thread's part of it, wait in the results' place for its sum. What they are relative to is in scratch memory. */
typedef struct NAME(later_terms) {
    const char *out; /* whose: nobody's if NULL */
    int64_t first;
    int64_t last;
    int terms; /* 0: only places are kept, and terms are computed again (long_rows.h) */
    NAME(place_of_block) places[];
} NAME(later_terms);

/* Where they may; NULL: they are computed again. */
static NAME(later_terms) *NAME(later_terms_of)(const softmax_job *job, int64_t first, int64_t last) {
    int64_t blocks = (last - first + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    int64_t most = (softmax_cpu_scratch_bytes() - (int64_t)sizeof(NAME(later_terms))) / (int64_t)sizeof(NAME(place_of_block));
    if (job->op != OPERATION_SOFTMAX || job->out.type != REAL_ELEMENT || !is_contiguous(&job->out) || job->out.data == job->x.data) return NULL;
    return blocks > most || (last - first) * (int64_t)sizeof(REAL) > LATER_BYTES ? NULL : (NAME(later_terms) *)softmax_cpu_scratch();
}

static void NAME(forward_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_state *row) {
    NAME(row_sum) sum = NAME(row_sum_begin)(row);
    NAME(later_terms) *later = NAME(later_terms_of)(job, first, last);
    char *out = row_address(job, &job->out, p);
    NAME(block_walk) walk;
    for (NAME(walk_begin)(&walk, job, p, first, last); walk.count > 0; NAME(walk_on)(&walk)) {
        NAME(block) block;
        NAME(walk_terms)(&walk, later ? (REAL *)(void *)out + walk.column : NULL, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
        if (later) later->places[(walk.column - first) / SOFTMAX_BLOCK_COLUMNS] = NAME(place_in_row)(&block);
    }
    NAME(row_sum_end)(&sum);
    if (!later) return;
    later->out = out;
    later->first = first;
    later->last = last;
    later->terms = 1;
}

/* The results of terms that wait; 0 if they do not. */
static int NAME(finish_later_terms)(const softmax_job *job, char *out, int64_t first, int64_t last, const NAME(row_result) *r) {
    NAME(later_terms) *later = NAME(later_terms_of)(job, first, last);
    if (!later || later->out != out || later->first != first || later->last != last || !later->terms) return 0;
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        REAL *y = (REAL *)(void *)out + c;
        NAME(block_results)(r, job->kind, y, NAME(block_columns)(c, last), &later->places[(c - first) / SOFTMAX_BLOCK_COLUMNS], y, 0, NULL);
    }
    later->out = NULL;
    return 1;
}

#define SHARED_LINES_FROM 2048 /* bytes of a row: shorter ones that share their lines do not go past the caches by choice */

/* Results go past the caches, but for lines that are there already. */
static int NAME(forward_streams)(const softmax_job *job) {
    int64_t bytes = job->columns * element_bytes(job->out.type);
    if (job->streaming == SOFTMAX_STREAMING_CHOOSE && bytes % 64 && bytes < SHARED_LINES_FROM) return 0;
    return job->out.data && job->op != OPERATION_LOGSUMEXP && job->out.data != job->x.data && softmax_cpu_streams(job);
}

/* A block's results, contiguous at y; else to where they belong. */
static inline REAL *NAME(results_place)(const operand *out, char *to, REAL *elsewhere) {
    return out->type == REAL_ELEMENT && is_contiguous(out) ? (REAL *)(void *)to : elsewhere;
}

/* log_softmax of columns [first, last). */
static void NAME(finish_logs)(const softmax_job *job, const place *p, int64_t first, int64_t last, const NAME(row_result) *r, int streams,
                              NAME(line) *line) {
    NAME(source) source = NAME(source_of_row)(job, p);
    char *out = row_address(job, &job->out, p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    REAL minus_log = (REAL)(0.0 - r->log.hi), minus_log_low = (REAL)((-r->log.hi - (double)minus_log) - r->log.lo);
    REAL m = (REAL)r->maximum.high, m_low = (REAL)((r->maximum.high - (double)m) + (r->maximum.middle + r->maximum.low));
    int m_is_value = m_low == 0 && score_is_single(r->maximum) && m - m == 0;
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, last), seen = source.limit - c < count ? (int)(source.limit > c ? source.limit - c : 0) : count;
        char *to = out + c * job->out.column_stride;
        REAL *y = NAME(results_place)(&job->out, to, results);
        int direct = streams && y != results;
        NAME(block_view) view;
        NAME(made_view)(&source, c, seen, buffer, low_buffer, &view);
        if (view.low ? source.doubtful || !score_is_near(r->maximum) : !m_is_value)
            NAME(exact_log_values)(view.low ? &source : NULL, view.z, seen, r->maximum, r->log, y);
        else if (view.mask)
            NAME(seen_logs)(view.z, view.mask, seen, m, minus_log, y, direct);
        else if (view.low)
            NAME(log_values_low)(view.z, view.low, seen, m, m_low, minus_log, minus_log_low, y);
        else
            NAME(log_values)(view.z, seen, m, minus_log, y, direct, line);
        NAME(fill_results)(y + seen, count - seen, -(REAL)INFINITY, direct);
        if (y == results) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
}

/* The results of columns [first, last), whose terms are computed anew. */
static void NAME(finish_row)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_state *state, int streams) {
    int want_log = job->op == OPERATION_LOG_SOFTMAX || job->op == OPERATION_STATE_LOG_NORMALISE;
    const NAME(row_result) r = NAME(result_of_state)(state, job->kind, want_log, job->empty_zero);
    char *out = row_address(job, &job->out, p);
    REAL results[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64)));
    NAME(block_walk) walk;
    if (r.constant) {
        NAME(fill)(&job->out, out, first, last, r.value);
        return;
    }
    if (want_log) {
        NAME(finish_logs)(job, p, first, last, &r, streams, NULL);
        return;
    }
    if (NAME(finish_later_terms)(job, out, first, last, &r)) return;
    for (NAME(walk_begin)(&walk, job, p, first, last); walk.count > 0; NAME(walk_on)(&walk)) {
        NAME(block) block;
        NAME(place_of_block) place;
        char *to = out + walk.column * job->out.column_stride;
        REAL *y = NAME(results_place)(&job->out, to, results), *v = streams ? results : y;
        NAME(walk_terms)(&walk, v, &block);
        place = NAME(place_in_row)(&block);
        NAME(block_results)(&r, job->kind, v, walk.count, &place, y, streams && y != results, NULL);
        if (y == results) NAME(scatter)(to, job->out.type, job->out.column_stride, walk.count, results);
    }
}

static void NAME(forward_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_state *state) {
    int streams = NAME(forward_streams)(job);
    NAME(finish_row)(job, p, first, last, state, streams);
    if (streams) stream_end();
}

/* A row of softmax whose terms are kept until its results are written. */
typedef struct NAME(kept_row) {
    int waiting; /* for its results */
    char *out;
    NAME(row_result) r;
    NAME(place_of_block) places[KEPT_BLOCKS];
} NAME(kept_row);

static void NAME(kept_results)(const softmax_job *job, const NAME(kept_row) *row, const REAL *terms, int64_t c, int streams) {
    REAL buffer[SOFTMAX_BLOCK_COLUMNS];
    int count = NAME(block_columns)(c, job->columns);
    char *to = row->out + c * job->out.column_stride;
    REAL *y = NAME(results_place)(&job->out, to, buffer);
    NAME(block_results)(&row->r, job->kind, terms + c, count, &row->places[c / SOFTMAX_BLOCK_COLUMNS], y, streams && y != buffer, NULL);
    if (y == buffer) NAME(scatter)(to, job->out.type, job->out.column_stride, count, y);
}

static void NAME(finish_kept_row)(const softmax_job *job, NAME(kept_row) *row, const REAL *terms, int streams) {
    if (!row->waiting) return;
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS) NAME(kept_results)(job, row, terms, c, streams);
    row->waiting = 0;
}

/* One read of x. The results of the row before are written in turn with the terms of this one, whose place theirs was: many stores past the caches
 * at a time would be waited for. */
static void NAME(softmax_row)(const softmax_job *job, const place *p, REAL *terms, NAME(kept_row) *kept, int streams) {
    row_state row = row_state_empty();
    NAME(row_sum) sum = NAME(row_sum_begin)(&row);
    NAME(block_walk) walk;
    const char *out = row_address(job, &job->out, p);
    for (NAME(walk_begin)(&walk, job, p, 0, job->columns); walk.count > 0; NAME(walk_on)(&walk)) {
        NAME(block) block;
        if (kept->waiting) NAME(kept_results)(job, kept, terms, walk.column, streams);
        if (streams) NAME(fetch_shared_line)(out + walk.column * job->out.column_stride);
        NAME(walk_terms)(&walk, terms + walk.column, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
        kept->places[walk.column / SOFTMAX_BLOCK_COLUMNS] = NAME(place_in_row)(&block);
    }
    NAME(row_sum_end)(&sum);
    kept->out = row_address(job, &job->out, p);
    kept->r = NAME(result_of_state)(&row, job->kind, 0, job->empty_zero);
    kept->waiting = !kept->r.constant;
    if (kept->r.constant) NAME(fill)(&job->out, kept->out, 0, job->columns, kept->r.value);
}

/* Whether a row's terms are kept until its sum is known, and where: in the results' own place (NULL), on the stack, or in scratch memory. 0: they
 * are computed twice. */
static int NAME(terms_place)(const softmax_job *job, int streams, REAL *stack, REAL **terms) {
    int64_t blocks = (job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    *terms = NULL;
    if (job->op != OPERATION_SOFTMAX || blocks > NAME(kept_blocks)()) return 0;
    if (!streams && job->out.type == REAL_ELEMENT && is_contiguous(&job->out)) return 1;
    *terms = blocks <= STACK_BLOCKS ? stack : (REAL *)softmax_cpu_scratch();
    return *terms != NULL;
}

static void NAME(forward_row)(const softmax_job *job, const place *p, int64_t index, int streams) {
    row_state row = row_state_empty();
    if (job->op == OPERATION_STATE_NORMALISE || job->op == OPERATION_STATE_LOG_NORMALISE || job->op == OPERATION_STATE_UPDATE)
        row = softmax_state_to_row(&job->states[index]);
    if (job->op != OPERATION_STATE_NORMALISE && job->op != OPERATION_STATE_LOG_NORMALISE)
        NAME(forward_reduce)(job, p, 0, job->columns, &row);
    if (job->op == OPERATION_STATE_UPDATE)
        softmax_state_from_row(&job->states[index], &row);
    else if (job->op == OPERATION_LOGSUMEXP)
        store_real(row_address(job, &job->out, p), job->out.type, row_state_logsumexp(&row, job->kind));
    else
        NAME(finish_row)(job, p, 0, job->columns, &row, streams);
}

/* Rows [first, last). */
static void NAME(forward_rows)(const softmax_job *job, int64_t first, int64_t last) {
    REAL stack[STACK_BLOCKS * SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64))), *terms;
    NAME(kept_row) waiting;
    int streams = NAME(forward_streams)(job), kept = NAME(terms_place)(job, streams, stack, &terms);
    waiting.waiting = 0;
    for (int64_t row = first; row < last; row++) {
        place p = place_of_row(job, row);
        if (kept) {
            REAL *its_terms = terms ? terms : (REAL *)(void *)row_address(job, &job->out, &p);
            NAME(softmax_row)(job, &p, its_terms, &waiting, streams);
            if (!terms || !streams) NAME(finish_kept_row)(job, &waiting, its_terms, 0);
        } else {
            NAME(forward_row)(job, &p, row, streams);
        }
    }
    NAME(finish_kept_row)(job, &waiting, terms, streams);
    if (streams) stream_end();
}
