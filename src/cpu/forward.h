/* softmax, log_softmax and logsumexp of a row, whole or in parts. A template like block.h. */

#define STORED_BLOCKS 64 /* rows up to so many blocks keep their terms between the two halves of the work */
#define SCRATCH_BLOCKS 8 /* ... where the output cannot hold them itself: on the stack */

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

static void NAME(forward_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_state *row) {
    NAME(source) source = NAME(source_of_row)(job, p);
    NAME(row_sum) sum = NAME(row_sum_begin)(row);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS];
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        NAME(block) block;
        const REAL *low, *z;
        int count = NAME(block_columns)(c, last);
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        NAME(block_sum)(z, low, count, job->kind, NULL, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
    }
    NAME(row_sum_end)(&sum);
}

/* The results of columns [first, last), whose terms are computed anew. */
static void NAME(forward_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_state *state) {
    NAME(source) source = NAME(source_of_row)(job, p);
    int want_log = job->op == OPERATION_LOG_SOFTMAX || job->op == OPERATION_STATE_LOG_NORMALISE;
    NAME(row_result) r = NAME(result_of_state)(state, job->kind, want_log, job->empty_zero);
    char *out = row_address(job, &job->out, p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    REAL minus_log = (REAL)(0.0 - r.log.hi), minus_log_low = (REAL)((-r.log.hi - (double)minus_log) - r.log.lo);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out);
    if (r.constant) {
        NAME(fill)(&job->out, out, first, last, r.value);
        return;
    }
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        NAME(block) block;
        const REAL *low, *z;
        int count = NAME(block_columns)(c, last);
        char *to = out + c * job->out.column_stride;
        REAL *y = direct ? (REAL *)(void *)to : results;
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        if (!want_log) {
            NAME(place_of_block) place;
            NAME(block_sum)(z, low, count, job->kind, y, &block);
            place = NAME(place_in_row)(&block);
            NAME(block_results)(&r, job->kind, y, count, &place, y, 0);
        } else if (low) {
            NAME(log_values_low)(z, low, count, (REAL)r.maximum, (REAL)r.maximum_low, minus_log, minus_log_low, y);
        } else {
            NAME(log_values)(z, count, (REAL)r.maximum, minus_log, y);
        }
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
}

/* softmax of a row that is short enough to keep its terms: one read of x. */
static void NAME(softmax_row)(const softmax_job *job, const place *p) {
    NAME(source) source = NAME(source_of_row)(job, p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], scratch[SCRATCH_BLOCKS * SOFTMAX_BLOCK_COLUMNS];
    NAME(place_of_block) places[STORED_BLOCKS];
    char *out = row_address(job, &job->out, p);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out), b = 0;
    REAL *terms = direct ? (REAL *)(void *)out : scratch;
    row_state row = row_state_empty();
    NAME(row_sum) sum = NAME(row_sum_begin)(&row);
    NAME(row_result) r;
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS, b++) {
        NAME(block) block;
        const REAL *low, *z;
        int count = NAME(block_columns)(c, job->columns);
        z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        NAME(block_sum)(z, low, count, job->kind, terms + c, &block);
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
        NAME(block_results)(&r, job->kind, terms + c, count, &places[b], terms + c, 0);
        if (!direct) NAME(scatter)(out + c * job->out.column_stride, job->out.type, job->out.column_stride, count, terms + c);
    }
}

static void NAME(forward_row)(const softmax_job *job, const place *p, int64_t index) {
    int64_t kept = job->out.type == REAL_ELEMENT && is_contiguous(&job->out) ? STORED_BLOCKS : SCRATCH_BLOCKS;
    row_state row = row_state_empty();
    if (job->op == OPERATION_SOFTMAX && job->columns <= kept * SOFTMAX_BLOCK_COLUMNS) {
        NAME(softmax_row)(job, p);
        return;
    }
    if (job->op == OPERATION_STATE_NORMALISE || job->op == OPERATION_STATE_LOG_NORMALISE || job->op == OPERATION_STATE_UPDATE)
        row = softmax_state_to_row(&job->states[index]);
    if (job->op != OPERATION_STATE_NORMALISE && job->op != OPERATION_STATE_LOG_NORMALISE)
        NAME(forward_reduce)(job, p, 0, job->columns, &row);
    if (job->op == OPERATION_STATE_UPDATE)
        softmax_state_from_row(&job->states[index], &row);
    else if (job->op == OPERATION_LOGSUMEXP)
        store_real(row_address(job, &job->out, p), job->out.type, row_state_logsumexp(&row, job->kind));
    else
        NAME(forward_finish)(job, p, 0, job->columns, &row);
}
