#include "rows.cuh"
#include "rows_launch.cuh"

template <int VEC> static __global__ void __maxnreg__(64) rows(const __grid_constant__ softmax_job job, int cluster) {
    rows_of_blocks<float, VEC>(job, cluster);
}

cudaError_t softmax_cuda_rows_float32(const softmax_job *job, const cuda_shape *shape) { return launch_rows(shape->vectors ? rows<4> : rows<1>, job, shape); }
