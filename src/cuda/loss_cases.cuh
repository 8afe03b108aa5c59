/* What is done once per row of a cross-entropy whose scores are in registers: for up to 32 rows at a time, a lane a row, before the first of them
 * and after the last. Calls over shared memory: no score is in a register then. */
#ifndef SOFTMAX_CUDA_LOSS_CASES_CUH
#define SOFTMAX_CUDA_LOSS_CASES_CUH

#include "cross_entropy_any.cuh"
#include "row_merge.cuh"

/* A row: what is known before its scores are, and then what they add up to. */
typedef struct loss_case {
    pair factor; /* of p_j in the gradient, z_loss left out */
    double f, rest; /* e^maximum = f 2^k, and the sum of all else times 2^-k */
    int64_t target; /* 0 where there is none */
    float z;        /* its score */
    float maximum;
    int k;
    bool ignored, bad;
    bool is_plain; /* the factor is in the range of the fast results */
    int way; /* ROW_... */
} loss_case;

/* What a row's scores add up to, in terms of the loss's own words. */
static __device__ __forceinline__ void take_total(loss_row<float> &r, const loss_case &c) {
    r.maximum = (double)c.maximum;
    r.total.k = c.k;
    r.total.e_max.hi = c.f;
    r.total.rest.hi = c.rest;
    r.total.e_max.lo = r.total.rest.lo = 0.0;
}

/* By one warp, rows first_row, first_row + step, ... below end: their cases. */
static __device__ __noinline__ void plan_rows(loss_case *cases, const softmax_job &job, int first_row, int end, int step) {
    const int row = first_row + (int)(threadIdx.x & 31) * step;
    if (row >= end) return;
    loss_case &c = cases[threadIdx.x & 31];
    loss_row<float> r = loss_row_begin<float>(job, row);
    const pair nothing = {0.0, 0.0};
    divide_gradient(job, row, r, divisors_of(job));
    c.factor = pair_add(pair_multiply(r.g, r.on_target), nothing);
    c.target = r.target;
    c.z = r.bad || r.ignored ? 0.0f : load_element<float>(row_of(job, job.x, row) + r.target * job.x.column_stride, job.x.type);
    c.ignored = r.ignored;
    c.bad = r.bad;
    c.is_plain = is_plain_gradient(job, r);
    c.way = ROW_RESULTS;
}

/* The factor with z_loss's part, which takes the row's logarithm; whether it is still in range. By every lane. */
static __device__ __noinline__ pair factor_with_z_loss(const softmax_job &job, int64_t row, const loss_case &c, bool &is_plain) {
    loss_row<float> r = loss_row_begin<float>(job, row);
    divide_gradient(job, row, r, divisors_of(job));
    take_total(r, c);
    r.log = row_total_log(&r.total, ARITHMETIC_32);
    enlarge_by_z_loss(job, r);
    is_plain = is_plain_gradient(job, r);
    return pair_add(pair_multiply(r.g, r.on_target), r.g_z);
}

/* A row's loss; writes what else there is once per row, and its target's gradient, whose other results have been written. */
static __device__ __forceinline__ loss_value finish_row(const loss_case &c, const softmax_job &job, int64_t row) {
    loss_row<float> r = loss_row_begin<float>(job, row);
    loss_value loss = {0.0, 0.0};
    divide_gradient(job, row, r, divisors_of(job));
    r.l = c.maximum != c.maximum ? (double)NAN : (double)c.maximum;
    if (fabsf(c.maximum) < INFINITY) {
        pair sum;
        take_total(r, c);
        r.log = row_total_log(&r.total, ARITHMETIC_32);
        sum = two_sum(r.maximum, r.log.hi);
        r.l = sum.hi + (sum.lo + (r.log.lo + 0.0));
        if (fabs(r.l) < 0x1p-1022) r.l = 0.0;
    }
    if (c.way == ROW_RESULTS) {
        const pair distance = two_sum(r.maximum, -(double)c.z);
        enlarge_by_z_loss(job, r);
        loss = loss_of_target(job, r, distance);
        if (job.out.data) {
            const double at_target = target_gradient(r, row_total_inverse(&r.total, ARITHMETIC_32), c.z, power_of_target(c.z), distance);
            store_real(row_of(job, job.out, row) + r.target * job.out.column_stride, job.out.type, at_target);
        }
    } else if (c.way == ROW_NANS) {
        loss.terms = (double)NAN;
    }
    if (r.bad) report_bad_row(job, row);
    if (job.row_logsumexp.data) store_real(row_of(job, job.row_logsumexp, row), job.row_logsumexp.type, r.l);
    return loss;
}

/* By one warp, as plan_rows, once all of their results are written. Of each row the thread block that holds its target's column, [first, last),
 * does it. */
static __device__ __noinline__ void finish_rows(const loss_case *cases, const softmax_job &job, int first_row, int end, int step, int first, int last) {
    const int row = first_row + (int)(threadIdx.x & 31) * step;
    if (row >= end) return;
    const loss_case &c = cases[threadIdx.x & 31];
    if (c.way != ROW_BY_ANY && c.target >= first && c.target < last) store_loss_of_row(job, row, finish_row(c, job, row));
}

#endif
