/* softmax, log_softmax and logsumexp of rows of any type, stride, option and score: what every faster kernel must equal, bit for bit, and
 * falls back on. A thread block takes a row, a warp a block of columns at a time; scores are fetched again wherever they are needed. */
#include "launch.h"
#include "generic_row.cuh"

template <typename REAL> static __global__ void __launch_bounds__(32 * GENERIC_WARPS) forward_rows(const __grid_constant__ softmax_job job) {
    __shared__ row_state parts[GENERIC_WARPS];
    const int warp = threadIdx.x >> 5;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        row_source<REAL> source = source_of<REAL>(job, row);
        row_state state = reduce_columns<REAL, false>(job, source, job.kind, warp, GENERIC_WARPS);
        if ((threadIdx.x & 31) == 0) parts[warp] = state;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < GENERIC_WARPS; i++) row_state_merge(&state, &parts[i], job.kind);
            parts[0] = state;
        }
        __syncthreads();
        state = parts[0];
        __syncthreads(); /* parts are free for the next row */
        write_row<REAL, false>(job, source, row, state, warp, GENERIC_WARPS);
    }
}

cudaError_t softmax_cuda_generic_forward(const softmax_job *job, const cuda_shape *shape) {
    const int64_t most = (int64_t)shape->multiprocessors * 16;
    const unsigned blocks = (unsigned)(job->rows < most ? job->rows : most);
    if (job->kind == ARITHMETIC_64)
        forward_rows<double><<<blocks, 32 * GENERIC_WARPS, 0, (cudaStream_t)job->stream>>>(*job);
    else
        forward_rows<float><<<blocks, 32 * GENERIC_WARPS, 0, (cudaStream_t)job->stream>>>(*job);
    return cudaGetLastError();
}
