#include "rows.cuh"
#include "rows_launch.cuh"

template <int VEC, bool LOG, int PARTS> static __global__ void __maxnreg__(VEC == 1 ? 64 : 56) rows(const __grid_constant__ softmax_job job, int cluster) {
    rows_of_blocks<bfloat16, VEC, LOG, PARTS>(job, cluster);
}

template <bool LOG> static rows_kernel kernel_of(const cuda_shape *shape) {
    if (!shape->vectors) return rows<1, LOG, 4>;
    return shape->full_blocks ? rows<8, LOG, 1> : rows<8, LOG, 4>;
}

cudaError_t softmax_cuda_rows_bfloat16(const softmax_job *job, const cuda_shape *shape) {
    return launch_rows(job->op == OPERATION_SOFTMAX ? kernel_of<false>(shape) : kernel_of<true>(shape), job, shape);
}
