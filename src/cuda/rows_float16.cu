#include "rows.cuh"
#include "rows_launch.cuh"

/* Five thread blocks of 8 warps at once; without edges, for which the registers do not do. */
template <typename LANES, bool LOG, int PARTS, bool CLUSTER>
static __global__ void __maxnreg__(LANES::edge ? 56 : 48) rows(const __grid_constant__ softmax_job job, int cluster) {
    rows_of_blocks<float16, LANES, LOG, PARTS, CLUSTER>(job, cluster);
}

template <bool LOG, bool CLUSTER> static rows_kernel kernel_of(const cuda_shape *shape) {
    typedef lane_words<float16, 8, LANE_COLUMNS> whole;
    typedef edged_words<float16, LANE_COLUMNS> edged;
    typedef lane_words<float16, 1, LANE_COLUMNS> single;
    if (shape->vectors) return shape->full_blocks ? rows<whole, LOG, 1, CLUSTER> : rows<whole, LOG, 4, CLUSTER>;
    if (shape->edges) return shape->full_blocks ? rows<edged, LOG, 1, CLUSTER> : rows<edged, LOG, 4, CLUSTER>;
    return rows<single, LOG, 4, CLUSTER>;
}

cudaError_t softmax_cuda_rows_float16(const softmax_job *job, const cuda_shape *shape) {
    if (shape->cluster > 1) return launch_rows(job->op == OPERATION_SOFTMAX ? kernel_of<false, true>(shape) : kernel_of<true, true>(shape), job, shape);
    return launch_rows(job->op == OPERATION_SOFTMAX ? kernel_of<false, false>(shape) : kernel_of<true, false>(shape), job, shape);
}
