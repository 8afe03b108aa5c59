/* softmax, log_softmax and logsumexp of rows of any type, stride, option and score: what every faster kernel must equal, bit for bit, and
 * falls back on. A thread block takes a row, a warp a block of columns at a time; scores are fetched again wherever they are needed. */
#include "launch.h"
#include "results.cuh"

#define WARPS 8

template <typename REAL> static __device__ row_state reduce_row(const softmax_job &job, const row_source<REAL> &source) {
    __shared__ row_state parts[WARPS];
    const int warp = threadIdx.x >> 5;
    auto get = [&](int64_t column) { return score_at(job, source, column); };
    row_state row = row_state_empty();
    for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < job.columns; c += WARPS * SOFTMAX_BLOCK_COLUMNS) {
        int count = (int)(job.columns - c < SOFTMAX_BLOCK_COLUMNS ? job.columns - c : SOFTMAX_BLOCK_COLUMNS);
        block_sum<REAL> block = block_sum_of<REAL>(get, c, count, job.kind, source.has_low);
        add_block(&row, block, job.kind);
    }
    if ((threadIdx.x & 31) == 0) parts[warp] = row;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < WARPS; i++) row_state_merge(&row, &parts[i], job.kind);
        parts[0] = row;
    }
    __syncthreads();
    row = parts[0];
    __syncthreads(); /* parts are free for the next row */
    return row;
}

template <typename REAL> static __device__ void write_row(const softmax_job &job, const row_source<REAL> &source, int64_t row, const row_state &state) {
    const bool want_log = job.op == OPERATION_LOG_SOFTMAX;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    auto get = [&](int64_t column) { return score_at(job, source, column); };
    row_result<REAL> r = result_of_state<REAL>(&state, job.kind, want_log, job.empty_zero);
    char *out = row_of(job, job.out, row);
    for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < job.columns; c += WARPS * SOFTMAX_BLOCK_COLUMNS) {
        int count = (int)(job.columns - c < SOFTMAX_BLOCK_COLUMNS ? job.columns - c : SOFTMAX_BLOCK_COLUMNS);
        block_sum<REAL> block;
        block_factor<REAL> f;
        if (!r.constant && !want_log) {
            block = block_sum_of<REAL>(get, c, count, job.kind, source.has_low);
            f = factor_of(r, block, job.kind);
        }
        __syncwarp();
        for (int64_t j = c + lane; j < c + count; j += 32) {
            REAL y = r.constant ? r.value
                     : want_log ? log_result_of(r, get(j), source.has_low)
                                : result_of(f, term_of(block, get(j), job.kind).v);
            store_result(out + j * job.out.column_stride, job.out.type, y);
        }
    }
}

template <typename REAL> static __global__ void __launch_bounds__(32 * WARPS) forward_rows(const __grid_constant__ softmax_job job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        row_source<REAL> source = source_of<REAL>(job, row);
        row_state state = reduce_row<REAL>(job, source);
        if (job.op != OPERATION_LOGSUMEXP)
            write_row<REAL>(job, source, row, state);
        else if (threadIdx.x == 0)
            store_rounded(row_of(job, job.out, row), job.out.type, row_state_logsumexp(&state, job.kind));
    }
}

cudaError_t softmax_cuda_generic_forward(const softmax_job *job, const cuda_device *device) {
    const int64_t most = (int64_t)device->multiprocessors * 16;
    const unsigned blocks = (unsigned)(job->rows < most ? job->rows : most);
    if (job->kind == ARITHMETIC_64)
        forward_rows<double><<<blocks, 32 * WARPS, 0, (cudaStream_t)job->stream>>>(*job);
    else
        forward_rows<float><<<blocks, 32 * WARPS, 0, (cudaStream_t)job->stream>>>(*job);
    return cudaGetLastError();
}
