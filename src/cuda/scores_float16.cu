#include "rows_launch.cuh"
#include "score_rows.cuh"

template <bool LOG, bool CLUSTER> static __global__ void __maxnreg__(128) scores(const __grid_constant__ softmax_job job, int cluster, int) {
    if constexpr (HAS_CLUSTERS || !CLUSTER) rows_of_scores<float16, LOG, CLUSTER>(job, cluster);
}

cudaError_t softmax_cuda_scores_float16(const softmax_job *job, const cuda_shape *shape) {
    if (shape->cluster > 1) return launch_rows(job->op == OPERATION_SOFTMAX ? scores<false, true> : scores<true, true>, job, shape);
    return launch_rows(job->op == OPERATION_SOFTMAX ? scores<false, false> : scores<true, false>, job, shape);
}
