#include "rows.cuh"
#include "rows_launch.cuh"

template <int VEC, bool LOG> static __global__ void __maxnreg__(64) rows(const __grid_constant__ softmax_job job, int cluster) {
    rows_of_blocks<bfloat16, VEC, LOG>(job, cluster);
}

cudaError_t softmax_cuda_rows_bfloat16(const softmax_job *job, const cuda_shape *shape) {
    if (job->op == OPERATION_SOFTMAX) return launch_rows(shape->vectors ? rows<8, false> : rows<1, false>, job, shape);
    return launch_rows(shape->vectors ? rows<8, true> : rows<1, true>, job, shape);
}
