/* The table of one instruction set, from the templates. Included by each kernels_*.c after its vector_*.h. */
#include "block_types.h"

#define KERNELS_(name) softmax_kernels_##name

static int is_double(const softmax_job *job) { return job->kind == ARITHMETIC_64; }

static int is_backward(const softmax_job *job) {
    return job->op == OPERATION_SOFTMAX_BACKWARD || job->op == OPERATION_LOG_SOFTMAX_BACKWARD;
}

/* Rows that are worked on as many at a time as a vector has lanes. */
static int are_short_rows(const softmax_job *job) {
    int forward = job->op == OPERATION_SOFTMAX || job->op == OPERATION_LOG_SOFTMAX || job->op == OPERATION_LOGSUMEXP;
    return forward && job->columns > 0 && job->columns <= SHORT_COLUMNS && job->scale == 1.0 && !job->bias.data;
}

static void run_rows_in_lanes(const softmax_job *job, int64_t first, int64_t last) {
    is_double(job) ? short_rows_double(job, first, last) : short_rows_float(job, first, last);
}

static void run_rows(const softmax_job *job, int64_t first, int64_t last, const loss_divisors *divisors, loss_totals *totals) {
    if (are_short_rows(job)) {
        run_rows_in_lanes(job, first, last);
        return;
    }
    if (job->op != OPERATION_CROSS_ENTROPY && !is_backward(job)) {
        is_double(job) ? forward_rows_double(job, first, last) : forward_rows_float(job, first, last);
        return;
    }
    for (int64_t row = first; row < last; row++) {
        place p = place_of_row(job, row);
        if (job->op == OPERATION_CROSS_ENTROPY)
            is_double(job) ? cross_entropy_row_double(job, &p, divisors, totals) : cross_entropy_row_float(job, &p, divisors, totals);
        else
            is_double(job) ? backward_row_double(job, &p) : backward_row_float(job, &p);
    }
}

static void reduce_columns(const softmax_job *job, int64_t row, int64_t first, int64_t last, row_partial *partial) {
    place p = place_of_row(job, row);
    if (is_backward(job))
        is_double(job) ? backward_reduce_double(job, &p, first, last, partial) : backward_reduce_float(job, &p, first, last, partial);
    else
        is_double(job) ? forward_reduce_double(job, &p, first, last, &partial->state)
                       : forward_reduce_float(job, &p, first, last, &partial->state);
}

static void finish_columns(const softmax_job *job, int64_t row, int64_t first, int64_t last, const row_partial *partial) {
    place p = place_of_row(job, row);
    if (is_backward(job))
        is_double(job) ? backward_finish_double(job, &p, first, last, partial) : backward_finish_float(job, &p, first, last, partial);
    else if (job->op == OPERATION_LOGSUMEXP)
        store_real(row_address(job, &job->out, &p), job->out.type, row_state_logsumexp(&partial->state, job->kind));
    else
        is_double(job) ? forward_finish_double(job, &p, first, last, &partial->state)
                       : forward_finish_float(job, &p, first, last, &partial->state);
}
