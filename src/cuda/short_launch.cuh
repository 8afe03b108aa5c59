/* The kernels of one type of short rows, by the columns in a lane, and their launch. */
#ifndef SOFTMAX_CUDA_SHORT_LAUNCH_CUH
#define SOFTMAX_CUDA_SHORT_LAUNCH_CUH

#include "launch.cuh"
#include "short_rows.cuh"

#define SHORT_WARPS 4

template <typename T, int N, int VEC, bool LOG> static __global__ void __launch_bounds__(32 * SHORT_WARPS, sizeof(T) == 4 ? 6 : 7)
    warp_rows(const __grid_constant__ softmax_job job) {
    short_rows<T, N, VEC, LOG>(job);
}

typedef void (*short_kernel)(softmax_job);

template <typename T, bool LOG> static short_kernel short_kernel_of(const cuda_shape *shape) {
    const int full = 16 / (int)sizeof(T);
    if (!shape->vectors) return warp_rows<T, 32, 1, LOG>;
    switch (shape->lane_columns) {
    case 2: return warp_rows<T, 2, 2, LOG>;
    case 4: return warp_rows<T, 4, 4, LOG>;
    case 8: return warp_rows<T, 8, full, LOG>;
    case 16: return warp_rows<T, 16, full, LOG>;
    default: return warp_rows<T, 32, full, LOG>;
    }
}

template <typename T> static cudaError_t launch_short(const softmax_job *job, const cuda_shape *shape) {
    const int64_t rows_of_block = SHORT_WARPS * 32 / shape->lane_columns, blocks = (job->rows + rows_of_block - 1) / rows_of_block;
    short_kernel kernel = job->op == OPERATION_SOFTMAX ? short_kernel_of<T, false>(shape) : short_kernel_of<T, true>(shape);
    return launch(launch_of(blocks < 0x7fffffff ? blocks : 0x7fffffff, 32 * SHORT_WARPS, 1, 0, (cudaStream_t)job->stream), kernel, *job);
}

#endif
