#include "launch.cuh"
#include "online_rows.cuh"

template <typename T, int VEC, bool LOG> static __global__ void __launch_bounds__(32 * ONLINE_WARPS, 4) online(const __grid_constant__ softmax_job job) {
    online_rows<T, VEC, LOG>(job);
}

template <typename T> static cudaError_t start(const softmax_job *job, const cuda_shape *shape) {
    const int full = 16 / (int)sizeof(T);
    const launch_shape l = launch_of(launch_blocks(job->rows), 32 * ONLINE_WARPS, 1, 0, (cudaStream_t)job->stream);
    if (job->op == OPERATION_SOFTMAX) return shape->vectors ? launch(l, online<T, full, false>, *job) : launch(l, online<T, 1, false>, *job);
    return shape->vectors ? launch(l, online<T, full, true>, *job) : launch(l, online<T, 1, true>, *job);
}

cudaError_t softmax_cuda_online(const softmax_job *job, const cuda_shape *shape) {
    if (job->x.type == ELEMENT_FLOAT32) return start<float>(job, shape);
    return job->x.type == ELEMENT_FLOAT16 ? start<float16>(job, shape) : start<bfloat16>(job, shape);
}
