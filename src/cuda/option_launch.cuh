/* The kernels of one type of rows with options, and their launch. */
#ifndef SOFTMAX_CUDA_OPTION_LAUNCH_CUH
#define SOFTMAX_CUDA_OPTION_LAUNCH_CUH

#include "launch.cuh"
#include "option_rows.cuh"

template <typename T, int VEC, int N, bool LOG, bool SCALED, bool CLUSTER>
static __global__ void __maxnreg__(CLUSTER && sizeof(T) == 2 ? 64 : 80) options(const __grid_constant__ softmax_job job, int split_into, int ahead) {
    if constexpr (HAS_CLUSTERS || !CLUSTER) rows_with_options<T, VEC, N, LOG, SCALED, CLUSTER>(job, split_into, ahead);
}

typedef void (*option_kernel)(softmax_job job, int split_into, int ahead);

template <typename T, int VEC, bool LOG, bool SCALED> static option_kernel option_kernel_of(const cuda_shape *shape) {
    if (shape->cluster > 1) return options<T, VEC, LANE_COLUMNS, LOG, SCALED, true>;
    return shape->lane_columns < LANE_COLUMNS ? options<T, VEC, 8, LOG, SCALED, false> : options<T, VEC, LANE_COLUMNS, LOG, SCALED, false>;
}

template <typename T, int VEC> static option_kernel option_kernel_for(const softmax_job *job, const cuda_shape *shape) {
    const bool log = job->op != OPERATION_SOFTMAX;
    if (job->scale != 1.0) return log ? option_kernel_of<T, VEC, true, true>(shape) : option_kernel_of<T, VEC, false, true>(shape);
    return log ? option_kernel_of<T, VEC, true, false>(shape) : option_kernel_of<T, VEC, false, false>(shape);
}

template <typename T> static cudaError_t launch_options(const softmax_job *job, const cuda_shape *shape) {
    const option_kernel kernel = shape->vectors ? option_kernel_for<T, 16 / (int)sizeof(T)>(job, shape) : option_kernel_for<T, 1>(job, shape);
    const int64_t blocks = (job->rows + shape->rows - 1) / shape->rows * shape->cluster;
    return launch(launch_of(blocks, 32 * shape->warps * shape->rows, shape->cluster, 0, (cudaStream_t)job->stream), kernel, *job,
                  shape->cluster > 1 ? shape->cluster : shape->warps, shape->ahead);
}

#endif
