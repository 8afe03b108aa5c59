/* What rows of a cross-entropy whose gradients have one factor g leave to the sum over rows: their losses and their targets' gradients, a thread a row. */
#ifndef SOFTMAX_CUDA_LOSS_RECORDS_CUH
#define SOFTMAX_CUDA_LOSS_RECORDS_CUH

#include "loss_row.cuh"

/* target_gradient of such a row: p - 1 as minus the share of all others, times g. */
static __device__ __forceinline__ double recorded_gradient(const loss_record &r, pair g, pair distance) {
    const pair inverse = {1.0 / (r.f + r.rest), 0.0}, rest = {r.rest, 0.0}, minus_one = {-1.0, 0.0};
    power e;
    if (distance.hi == 0.0) return -pair_multiply(pair_multiply(rest, inverse), g).hi; /* the maximum itself, or a tie with it */
    if (!(distance.hi < 690.0)) return -g.hi;                                          /* p is nothing beside 1 */
    e = exp_pair((double)r.z, 0.0);
    const double move = bits_double((uint64_t)(1023 + e.k - r.k) << 52);
    e.f.hi *= move;
    e.f.lo *= move;
    return pair_multiply(g, pair_add(minus_one, pair_multiply(e.f, inverse))).hi;
}

/* A row's loss; writes what else there is once per row, and its target's gradient, whose other results have been written. The operations of
 * loss_cases.cuh's finish_row where weights are 1 and nothing is spread: many fewer, for a kernel that runs them once has to fetch them all. */
static __device__ __forceinline__ loss_value loss_of_record(const softmax_job &job, int64_t row, pair g) {
    const loss_record r = *record_of(job, row);
    const int64_t target = load_index(flat_row(job.targets, row), job.targets.type); /* beside the record, not after it */
    loss_value loss = {r.f, r.rest};
    pair log = {0.0, 0.0};
    if (r.way == ROW_DONE) return loss;
    loss.terms = r.way == ROW_NANS ? (double)NAN : 0.0;
    loss.z_loss = 0.0;
    if (fabsf(r.maximum) < INFINITY) {
        const pair ratio = {r.rest / r.f, 0.0};
        log = log1p_pair(ratio);
    }
    if (r.way == ROW_RESULTS) {
        const pair distance = two_sum((double)r.maximum, -(double)r.z);
        loss.terms = distance.hi <= DBL_MAX ? pair_add(distance, log).hi : distance.hi;
        if (job.out.data) store_real(flat_row(job.out, row) + target * job.out.column_stride, job.out.type, recorded_gradient(r, g, distance));
    } else if (target != job.ignore_index && (target < 0 || target >= job.columns)) {
        report_bad_row(job, row);
    }
    if (job.row_logsumexp.data) {
        const pair sum = two_sum((double)r.maximum, log.hi);
        double l = fabsf(r.maximum) < INFINITY ? sum.hi + (sum.lo + (log.lo + 0.0)) : r.maximum != r.maximum ? (double)NAN : (double)r.maximum;
        store_real(row_of(job, job.row_logsumexp, row), job.row_logsumexp.type, fabs(l) < 0x1p-1022 ? 0.0 : l);
    }
    return loss;
}

#endif
