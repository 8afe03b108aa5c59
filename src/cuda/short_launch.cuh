/* The kernels of one type of short rows, by the columns in a lane, and their launch. */
#ifndef SOFTMAX_CUDA_SHORT_LAUNCH_CUH
#define SOFTMAX_CUDA_SHORT_LAUNCH_CUH

#include "launch.h"
#include "short_rows.cuh"

#define SHORT_WARPS 4

template <typename T, int N, int VEC> static __global__ void __launch_bounds__(32 * SHORT_WARPS, 8) warp_rows(const __grid_constant__ softmax_job job) {
    short_rows<T, N, VEC>(job);
}

template <typename T> static cudaError_t launch_short(const softmax_job *job, const cuda_shape *shape) {
    typedef void (*short_kernel)(softmax_job);
    const int full = 16 / (int)sizeof(T), n = shape->lane_columns;
    const int64_t rows_of_block = SHORT_WARPS * 32 / n, blocks = (job->rows + rows_of_block - 1) / rows_of_block;
    short_kernel kernel = !shape->vectors ? warp_rows<T, 32, 1>
                          : n == 2        ? warp_rows<T, 2, 2>
                          : n == 4        ? warp_rows<T, 4, 4>
                          : n == 8        ? warp_rows<T, 8, full>
                          : n == 16       ? warp_rows<T, 16, full>
                                          : warp_rows<T, 32, full>;
    kernel<<<(unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff), 32 * SHORT_WARPS, 0, (cudaStream_t)job->stream>>>(*job);
    return cudaGetLastError();
}

#endif
