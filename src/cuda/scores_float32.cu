#include "rows_launch.cuh"
#include "score_rows.cuh"

template <bool LOG> static __global__ void __maxnreg__(128) scores(const __grid_constant__ softmax_job job, int cluster) { rows_of_scores<float, LOG>(job, cluster); }

cudaError_t softmax_cuda_scores_float32(const softmax_job *job, const cuda_shape *shape) {
    return launch_rows(job->op == OPERATION_SOFTMAX ? scores<false> : scores<true>, job, shape);
}
