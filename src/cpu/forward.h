/* softmax, log_softmax and logsumexp of a row, whole or in parts. A template like block.h. */

#define KEPT_BLOCKS ((int)(SCRATCH_BYTES / (SOFTMAX_BLOCK_COLUMNS * sizeof(REAL)))) /* rows up to so many keep their terms */
#define STACK_BLOCKS 8 /* ... so many on the stack, where results cannot hold them */

/* What a call's rows share. */
typedef struct NAME(work) {
    int streams;     /* results go past the caches */
    int direct;      /* x is contiguous from row to row, and its elements are the scores */
    const REAL *end; /* of x's rows, if direct */
} NAME(work);

static void NAME(fill)(const operand *out, char *address, int64_t first, int64_t last, REAL value) {
    REAL buffer[SOFTMAX_BLOCK_COLUMNS];
    int count = (int)(last - first < SOFTMAX_BLOCK_COLUMNS ? last - first : SOFTMAX_BLOCK_COLUMNS);
    for (int i = 0; i < count; i++) buffer[i] = value;
    for (int64_t c = first; c < last; c += count) {
        if (last - c < count) count = (int)(last - c);
        NAME(scatter)(address + c * out->column_stride, out->type, out->column_stride, count, buffer);
    }
}

static int NAME(block_columns)(int64_t first, int64_t last) {
    return (int)(last - first < SOFTMAX_BLOCK_COLUMNS ? last - first : SOFTMAX_BLOCK_COLUMNS);
}

/* block_sum, while the block after it is fetched. */
static void NAME(block_sum_ahead)(const NAME(work) *work, const NAME(source) *source, const REAL *z, const REAL *low, int count, arithmetic kind,
                                  REAL *v, NAME(block) *block) {
    const NAME(top) top = NAME(block_top)(z, count);
    NAME(block_terms)(source, z, low, count, kind, &top, work->direct && z + 2 * count <= work->end ? z + count : z, v, block);
}

static void NAME(reduce_ahead)(const NAME(work) *work, const softmax_job *job, const place *p, int64_t first, int64_t last, row_state *row) {
    NAME(source) source = NAME(source_of_row)(job, p);
    NAME(row_sum) sum = NAME(row_sum_begin)(row);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS];
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        NAME(block) block;
        const REAL *low, *z;
        int count = NAME(block_columns)(c, last);
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        NAME(block_sum_ahead)(work, &source, z, low, count, job->kind, NULL, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
    }
    NAME(row_sum_end)(&sum);
}

static NAME(work) NAME(work_of_rows)(const softmax_job *job, int64_t first, int64_t last) {
    NAME(work) work;
    place p = place_of_row(job, first);
    NAME(source) source = NAME(source_of_row)(job, &p);
    memset(&work, 0, sizeof work);
    work.streams = job->out.data && job->op != OPERATION_LOGSUMEXP && job->streaming == SOFTMAX_STREAMING_ALWAYS;
    work.direct = source.direct && source.limit == job->columns && !job->causal && !job->lengths.data && job->dimensions == 1 &&
                  (job->rows == 1 || job->x.row_stride[0] == job->columns * (int64_t)sizeof(REAL));
    if (work.direct) work.end = (const REAL *)(const void *)source.x + (last - first) * job->columns;
    return work;
}

/* A part of one row. */
static NAME(work) NAME(work_of_columns)(const softmax_job *job, const place *p, int64_t last) {
    NAME(work) work;
    NAME(source) source = NAME(source_of_row)(job, p);
    memset(&work, 0, sizeof work);
    work.streams = job->out.data && job->op != OPERATION_LOGSUMEXP && job->streaming == SOFTMAX_STREAMING_ALWAYS;
    work.direct = source.direct && source.limit == job->columns;
    if (work.direct) work.end = (const REAL *)(const void *)source.x + last;
    return work;
}

static void NAME(forward_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_state *row) {
    NAME(work) work = NAME(work_of_columns)(job, p, last);
    NAME(reduce_ahead)(&work, job, p, first, last, row);
}

/* The results of columns [first, last), whose terms are computed anew. */
static void NAME(finish_ahead)(const NAME(work) *work, const softmax_job *job, const place *p, int64_t first, int64_t last, const row_state *state) {
    NAME(source) source = NAME(source_of_row)(job, p);
    int want_log = job->op == OPERATION_LOG_SOFTMAX || job->op == OPERATION_STATE_LOG_NORMALISE;
    NAME(row_result) r = NAME(result_of_state)(state, job->kind, want_log, job->empty_zero);
    char *out = row_address(job, &job->out, p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    REAL minus_log = (REAL)(0.0 - r.log.hi), minus_log_low = (REAL)((-r.log.hi - (double)minus_log) - r.log.lo);
    REAL m = (REAL)r.maximum.high, m_low = (REAL)((r.maximum.high - (double)m) + (r.maximum.middle + r.maximum.low));
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out), streams = direct && work->streams;
    int m_is_value = m_low == 0 && score_is_single(r.maximum) && m - m == 0;
    if (r.constant) {
        NAME(fill)(&job->out, out, first, last, r.value);
        return;
    }
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        const REAL *low, *z;
        int count = NAME(block_columns)(c, last);
        char *to = out + c * job->out.column_stride;
        REAL *y = direct ? (REAL *)(void *)to : results;
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        if (!want_log) {
            NAME(block) block;
            NAME(place_of_block) place;
            REAL *v = streams ? results : y;
            NAME(block_sum_ahead)(work, &source, z, low, count, job->kind, v, &block);
            place = NAME(place_in_row)(&block);
            NAME(block_results)(&r, job->kind, v, count, &place, y, streams);
        } else if (low ? source.doubtful || !score_is_near(r.maximum) : !m_is_value) {
            NAME(exact_log_values)(low ? &source : NULL, z, count, r.maximum, r.log, y);
        } else if (low) {
            NAME(log_values_low)(z, low, count, m, m_low, minus_log, minus_log_low, y);
        } else {
            NAME(log_values)(z, count, m, minus_log, y, streams);
        }
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
}

static void NAME(forward_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_state *state) {
    NAME(work) work = NAME(work_of_columns)(job, p, last);
    NAME(finish_ahead)(&work, job, p, first, last, state);
    if (work.streams) stream_end();
}

/* softmax of a row whose terms are kept: one read of x. */
static void NAME(softmax_row)(const NAME(work) *work, const softmax_job *job, const place *p, REAL *terms) {
    NAME(source) source = NAME(source_of_row)(job, p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS];
    NAME(place_of_block) places[KEPT_BLOCKS];
    char *out = row_address(job, &job->out, p);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out), b = 0;
    row_state row = row_state_empty();
    NAME(row_sum) sum = NAME(row_sum_begin)(&row);
    NAME(row_result) r;
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS, b++) {
        NAME(block) block;
        const REAL *low, *z;
        int count = NAME(block_columns)(c, job->columns);
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        NAME(block_sum_ahead)(work, &source, z, low, count, job->kind, terms + c, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
        places[b] = NAME(place_in_row)(&block);
    }
    NAME(row_sum_end)(&sum);
    r = NAME(result_of_state)(&row, job->kind, 0, job->empty_zero);
    if (r.constant) {
        NAME(fill)(&job->out, out, 0, job->columns, r.value);
        return;
    }
    b = 0;
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS, b++) {
        int count = NAME(block_columns)(c, job->columns);
        char *to = out + c * job->out.column_stride;
        REAL *y = direct ? (REAL *)(void *)to : buffer;
        NAME(block_results)(&r, job->kind, terms + c, count, &places[b], y, direct && work->streams);
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, y);
    }
}

/* Whether a row's terms are kept until its sum is known, and where: in the results' own place (NULL), on the stack, or in scratch memory. 0: they
 * are computed twice. */
static int NAME(terms_place)(const NAME(work) *work, const softmax_job *job, REAL *stack, REAL **terms) {
    int64_t blocks = (job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    *terms = NULL;
    if (job->op != OPERATION_SOFTMAX || blocks > KEPT_BLOCKS) return 0;
    if (!work->streams && job->out.type == REAL_ELEMENT && is_contiguous(&job->out)) return 1;
    *terms = blocks <= STACK_BLOCKS ? stack : (REAL *)softmax_cpu_scratch();
    return *terms != NULL;
}

static void NAME(forward_row)(const NAME(work) *work, const softmax_job *job, const place *p, int64_t index) {
    row_state row = row_state_empty();
    if (job->op == OPERATION_STATE_NORMALISE || job->op == OPERATION_STATE_LOG_NORMALISE || job->op == OPERATION_STATE_UPDATE)
        row = softmax_state_to_row(&job->states[index]);
    if (job->op != OPERATION_STATE_NORMALISE && job->op != OPERATION_STATE_LOG_NORMALISE)
        NAME(reduce_ahead)(work, job, p, 0, job->columns, &row);
    if (job->op == OPERATION_STATE_UPDATE)
        softmax_state_from_row(&job->states[index], &row);
    else if (job->op == OPERATION_LOGSUMEXP)
        store_real(row_address(job, &job->out, p), job->out.type, row_state_logsumexp(&row, job->kind));
    else
        NAME(finish_ahead)(work, job, p, 0, job->columns, &row);
}

/* Rows [first, last). */
static void NAME(forward_rows)(const softmax_job *job, int64_t first, int64_t last) {
    REAL stack[STACK_BLOCKS * SOFTMAX_BLOCK_COLUMNS], *terms;
    NAME(work) work;
    int kept;
    if (first >= last) return;
    work = NAME(work_of_rows)(job, first, last);
    kept = NAME(terms_place)(&work, job, stack, &terms);
    for (int64_t row = first; row < last; row++) {
        place p = place_of_row(job, row);
        if (kept)
            NAME(softmax_row)(&work, job, &p, terms ? terms : (REAL *)(void *)row_address(job, &job->out, &p));
        else
            NAME(forward_row)(&work, job, &p, row);
    }
    if (work.streams) stream_end();
}
