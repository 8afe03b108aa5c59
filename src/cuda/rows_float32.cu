#include "rows.cuh"
#include "rows_launch.cuh"

template <typename LANES, bool LOG, int PARTS, bool CLUSTER>
static __global__ void __maxnreg__(LANES::edge && !CLUSTER ? 64 : 56) rows(const __grid_constant__ softmax_job job, int split_into, int ahead) {
    if constexpr (HAS_CLUSTERS || !CLUSTER) rows_of_blocks<float, LANES, LOG, PARTS, CLUSTER, false>(job, split_into, ahead);
}

template <bool LOG, bool CLUSTER> static rows_kernel kernel_of(const cuda_shape *shape) {
    typedef lane_words<float, 4, LANE_COLUMNS> whole;
    typedef edged_words<float, LANE_COLUMNS> edged;
    typedef lane_words<float, 1, LANE_COLUMNS> single;
    if (shape->vectors) return shape->full_blocks ? rows<whole, LOG, 1, CLUSTER> : rows<whole, LOG, 4, CLUSTER>;
    return shape->edges ? rows<edged, LOG, 0, CLUSTER> : rows<single, LOG, 4, CLUSTER>;
}

template <bool LOG> static rows_kernel kernel_for(const cuda_shape *shape) {
    return shape->cluster > 1 ? kernel_of<LOG, true>(shape) : kernel_of<LOG, false>(shape);
}

cudaError_t softmax_cuda_rows_float32(const softmax_job *job, const cuda_shape *shape) {
    return launch_rows(job->op == OPERATION_SOFTMAX ? kernel_for<false>(shape) : kernel_for<true>(shape), job, shape);
}
