/* A row of any scores, types, strides and options by the first `warps` warps of a thread block (all of it, where there are several): a warp
 * takes a block of columns at a time; scores are fetched again wherever they are needed. */
#ifndef SOFTMAX_CUDA_GENERIC_ROW_CUH
#define SOFTMAX_CUDA_GENERIC_ROW_CUH

#include "results.cuh"

#define GENERIC_WARPS 8

/* The state of the columns that fall to this warp. */
template <typename REAL, bool PLAIN> static __device__ row_state reduce_columns(const softmax_job &job, const row_source<REAL> &source, arithmetic kind, int warp, int warps) {
    const row_scores<REAL, PLAIN> get = {job, source};
    row_state row = row_state_empty();
    for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < job.columns; c += (int64_t)warps * SOFTMAX_BLOCK_COLUMNS) {
        int count = (int)(job.columns - c < SOFTMAX_BLOCK_COLUMNS ? job.columns - c : SOFTMAX_BLOCK_COLUMNS);
        block_sum<REAL> block = block_sum_of<REAL>(get, c, count, kind);
        add_block(&row, block, kind);
    }
    return row;
}

template <typename REAL, bool PLAIN>
static __device__ void write_columns(const softmax_job &job, const row_source<REAL> &source, int64_t row, const row_state &state, int warp, int warps) {
    const bool want_log = job.op == OPERATION_LOG_SOFTMAX;
    const int lane = threadIdx.x & 31;
    const row_scores<REAL, PLAIN> get = {job, source};
    row_result<REAL> r = result_of_state<REAL>(&state, job.kind, want_log, job.empty_zero);
    char *out = row_of(job, job.out, row);
    for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < job.columns; c += (int64_t)warps * SOFTMAX_BLOCK_COLUMNS) {
        int count = (int)(job.columns - c < SOFTMAX_BLOCK_COLUMNS ? job.columns - c : SOFTMAX_BLOCK_COLUMNS);
        block_sum<REAL> block;
        block_factor<REAL> f;
        bool exact = want_log && !r.constant && !r.m_is_value;
        if (want_log && source.has_low) {
            bool nan;
            find_largest<REAL>(get, c, count, nan, block.doubtful);
            exact = block.doubtful || !score_is_near(r.maximum);
        }
        if (!r.constant && !want_log) {
            block = block_sum_of<REAL>(get, c, count, job.kind);
            f = factor_of(r, block, job.kind);
        }
        __syncwarp();
        for (int64_t j = c + lane; j < c + count; j += 32) {
            REAL y = r.constant ? r.value
                     : exact    ? exact_log_result_of(r, get.exact(j))
                     : want_log ? log_result_of(r, get(j), source.has_low)
                                : result_of(f, term_of(block, get, j, job.kind).v);
            store_result(out + j * job.out.column_stride, job.out.type, y);
        }
    }
}

/* What the row's state is read out for, by one warp or several. */
template <typename REAL, bool PLAIN>
static __device__ void write_row(const softmax_job &job, const row_source<REAL> &source, int64_t row, const row_state &state, int warp, int warps) {
    if (job.op != OPERATION_LOGSUMEXP)
        write_columns<REAL, PLAIN>(job, source, row, state, warp, warps);
    else if (warp == 0 && (threadIdx.x & 31) == 0)
        store_rounded(row_of(job, job.out, row), job.out.type, row_state_logsumexp(&state, job.kind));
}

#endif
