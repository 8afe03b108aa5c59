#include "launch.cuh"
#include "fine_rows.cuh"

static_assert(sizeof(row_part) <= SPLIT_PART_BYTES && SPLIT_PART_BYTES - sizeof(row_part) < 8, "the scratch of a part");

#define FINE_THREADS (32 * (FINE_WARPS + 1))

template <typename T, int VEC, bool FINE> static __global__ void __launch_bounds__(FINE ? FINE_THREADS : 32 * COARSE_WARPS, 4)
    split_parts(const __grid_constant__ softmax_job job, int pieces) {
    if (FINE)
        fine_parts<T, VEC>(job, pieces);
    else
        coarse_parts<T, VEC>(job, pieces);
}

template <typename T, int VEC, bool FINE, bool LOG> static __global__ void __launch_bounds__(FINE ? FINE_THREADS : 32 * COARSE_WARPS, 4)
    split_results(const __grid_constant__ softmax_job job, int pieces) {
    if (FINE)
        fine_results<T, VEC, LOG>(job, pieces);
    else
        coarse_results<T, VEC, LOG>(job, pieces);
}

template <typename T, int VEC, bool FINE> static cudaError_t start(const softmax_job *job, const cuda_shape *shape) {
    launch_shape l = launch_of(job->rows * shape->pieces, FINE ? FINE_THREADS : 32 * COARSE_WARPS, 1, 0, (cudaStream_t)job->stream);
    const cudaError_t error = launch(l, split_parts<T, VEC, FINE>, *job, shape->pieces);
    if (error != cudaSuccess) return error;
    l.early = shape->early;
    return job->op == OPERATION_SOFTMAX ? launch(l, split_results<T, VEC, FINE, false>, *job, shape->pieces)
                                        : launch(l, split_results<T, VEC, FINE, true>, *job, shape->pieces);
}

template <typename T> static cudaError_t start(const softmax_job *job, const cuda_shape *shape) {
    const int full = 16 / (int)sizeof(T);
    if (shape->fine) return shape->vectors ? start<T, full, true>(job, shape) : start<T, 1, true>(job, shape);
    return shape->vectors ? start<T, full, false>(job, shape) : start<T, 1, false>(job, shape);
}

cudaError_t softmax_cuda_split(const softmax_job *job, const cuda_shape *shape) {
    if (job->x.type == ELEMENT_FLOAT32) return start<float>(job, shape);
    return job->x.type == ELEMENT_FLOAT16 ? start<float16>(job, shape) : start<bfloat16>(job, shape);
}
