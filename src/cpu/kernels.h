/* The table of one instruction set, from the templates. Included by each kernels_*.c after its vector_*.h. */
#include "block_types.h"
#if defined(VECTOR_HALVES)
#include "half_batches.h"
#else
static inline int take_half_rows(const softmax_job *job, int64_t first, int64_t last) { return (void)job, (void)first, (void)last, 0; }
#endif

#define KERNELS_(name) softmax_kernels_##name

static int is_double(const softmax_job *job) { return job->kind == ARITHMETIC_64; }

static int is_backward(const softmax_job *job) {
    return job->op == OPERATION_SOFTMAX_BACKWARD || job->op == OPERATION_LOG_SOFTMAX_BACKWARD;
}

static int is_forward(const softmax_job *job) {
    return job->op == OPERATION_SOFTMAX || job->op == OPERATION_LOG_SOFTMAX || job->op == OPERATION_LOGSUMEXP;
}

#define FEW_ROWS 2 /* a vector of rows costs as much as so many on their own */

/* lane_scores.h */
static int lanes_take_scale(const softmax_job *job) { return job->scale >= 0x1p-100 && job->scale <= 0x1p100; }

/* Rows that are worked on as many at a time as a vector has lanes. */
static int are_short_rows(const softmax_job *job) {
    return is_forward(job) && job->columns > 0 && job->columns <= SHORT_COLUMNS && lanes_take_scale(job);
}

/* Neighbouring rows lie side by side, element by element. */
static int are_side_by_side(const softmax_job *job, const operand *a) {
    int64_t bytes = element_bytes(a->type);
    return a->row_stride[job->dimensions - 1] == bytes && (uintptr_t)a->data % (uintptr_t)bytes == 0 && a->column_stride % bytes == 0;
}

/* ... or have one element in common. */
static int are_together(const softmax_job *job, const operand *a) {
    return !a->data || a->row_stride[job->dimensions - 1] == 0 || are_side_by_side(job, a);
}

/* A scale or bias: rows of one block, whose low parts have room. */
static int are_strips(const softmax_job *job) {
    int64_t neighbours = job->shape[job->dimensions - 1];
    if (!lanes_take_scale(job) || !are_together(job, &job->bias) || !are_together(job, &job->mask)) return 0;
    if (is_double(job) && job->bias.data && job->bias.type != ELEMENT_FLOAT64) return 0;
    if ((job->scale != 1.0 || job->bias.data) && job->columns > SOFTMAX_BLOCK_COLUMNS) return 0;
    return is_forward(job) && job->columns > 1 && neighbours >= (is_double(job) ? VD_LANES : VF_LANES) / 2 && !job->causal &&
           are_side_by_side(job, &job->x) && are_side_by_side(job, &job->out);
}

/* Backwards of rows that lie side by side, a few of which have room in scratch memory. */
static int are_backward_strips(const softmax_job *job) {
    if (!is_backward(job) || job->columns < 4 || job->shape[job->dimensions - 1] < (is_double(job) ? VD_LANES : VF_LANES) / 2) return 0;
    return are_side_by_side(job, &job->x) && are_side_by_side(job, &job->dy) && are_side_by_side(job, &job->out) && !is_contiguous(&job->x) &&
           (is_double(job) ? rows_can_turn_double(job) : rows_can_turn_float(job));
}

static void run_rows(const softmax_job *job, int64_t first, int64_t last, const loss_divisors *divisors, loss_totals *totals) {
    if (are_strips(job)) {
        is_double(job) ? strips_double(job, first, last) : strips_float(job, first, last);
        return;
    }
    if (last - first > FEW_ROWS && are_short_rows(job)) {
        is_double(job) ? short_rows_double(job, first, last) : short_rows_float(job, first, last);
        return;
    }
    if (job->op == OPERATION_CROSS_ENTROPY)
        is_double(job) ? cross_entropy_rows_double(job, first, last, divisors, totals)
                       : cross_entropy_rows_float(job, first, last, divisors, totals);
    else if (are_backward_strips(job))
        is_double(job) ? backward_strips_double(job, first, last) : backward_strips_float(job, first, last);
    else if (is_backward(job))
        is_double(job) ? backward_rows_double(job, first, last) : backward_rows_float(job, first, last);
    else if (!take_half_rows(job, first, last))
        is_double(job) ? all_rows_double(job, first, last) : all_rows_float(job, first, last);
}

static void reduce_columns(const softmax_job *job, int64_t row, int64_t first, int64_t last, row_partial *partial) {
    place p = place_of_row(job, row);
    if (is_backward(job))
        is_double(job) ? backward_reduce_double(job, &p, first, last, partial) : backward_reduce_float(job, &p, first, last, partial);
    else if (job->op == OPERATION_CROSS_ENTROPY)
        is_double(job) ? cross_entropy_reduce_double(job, &p, first, last, partial)
                       : cross_entropy_reduce_float(job, &p, first, last, partial);
    else if (rows_are_long_float(job, first, last))
        long_reduce_float(job, row, first, last, &partial->state);
    else
        is_double(job) ? forward_reduce_double(job, &p, first, last, &partial->state)
                       : forward_reduce_float(job, &p, first, last, &partial->state);
}

static void finish_columns(const softmax_job *job, int64_t row, int64_t first, int64_t last, const row_partial *partial) {
    place p = place_of_row(job, row);
    if (is_backward(job))
        is_double(job) ? backward_finish_double(job, &p, first, last, partial) : backward_finish_float(job, &p, first, last, partial);
    else if (job->op == OPERATION_CROSS_ENTROPY)
        is_double(job) ? cross_entropy_finish_double(job, &p, first, last, partial)
                       : cross_entropy_finish_float(job, &p, first, last, partial);
    else if (job->op == OPERATION_LOGSUMEXP)
        store_real(row_address(job, &job->out, &p), job->out.type, row_state_logsumexp(&partial->state, job->kind));
    else if (rows_are_long_float(job, first, last))
        long_finish_float(job, row, first, last, &partial->state);
    else
        is_double(job) ? forward_finish_double(job, &p, first, last, &partial->state)
                       : forward_finish_float(job, &p, first, last, &partial->state);
}
