/* The kernels of rows of blocks of the 16-bit types, and their launch. */
#ifndef SOFTMAX_CUDA_HALF_ROWS_CUH
#define SOFTMAX_CUDA_HALF_ROWS_CUH

#include "rows.cuh"
#include "rows_launch.cuh"

enum rows_form {
    ROW_OF_A_BLOCK,        /* of threads */
    ROWS_OF_A_BLOCK,       /* several */
    ROW_OF_A_CLUSTER,
    ROW_OF_A_WIDE_CLUSTER, /* of more than 8 thread blocks: five of 8 warps at once on a multiprocessor, which takes 48 registers */
};

template <typename T, typename LANES, bool LOG, int PARTS, rows_form FORM>
static __global__ void __maxnreg__(FORM == ROW_OF_A_WIDE_CLUSTER ? 48 : (LANES::folds && FORM < ROW_OF_A_CLUSTER) || (LOG && LANES::edge && cell<T>::kind == ARITHMETIC_BFLOAT16) ? 64 : 56)
    half_rows(const __grid_constant__ softmax_job job, int split_into, int ahead) {
    if constexpr (HAS_CLUSTERS || FORM < ROW_OF_A_CLUSTER) rows_of_blocks<T, LANES, LOG, PARTS, FORM >= ROW_OF_A_CLUSTER, FORM == ROWS_OF_A_BLOCK>(job, split_into, ahead);
}

template <typename T, bool LOG, rows_form FORM> static rows_kernel half_kernel_of(const cuda_shape *shape) {
    typedef lane_words<T, 8, LANE_COLUMNS> whole;
    typedef shifted_words<T, LANE_COLUMNS> shifted;
    typedef edged_words<T, LANE_COLUMNS> edged;
    typedef lane_words<T, 1, LANE_COLUMNS> single;
    const bool is_cluster = FORM >= ROW_OF_A_CLUSTER, full = is_cluster || shape->full_blocks; /* clusters' rows are of many blocks */
    const rows_form wide = FORM == ROW_OF_A_WIDE_CLUSTER ? ROW_OF_A_CLUSTER : FORM, other = is_cluster ? ROW_OF_A_CLUSTER : ROW_OF_A_BLOCK; /* the same kernels */
    if (shape->vectors) return full ? half_rows<T, whole, LOG, 1, FORM> : half_rows<T, whole, LOG, is_cluster ? 1 : 4, FORM>;
    if (shape->edges) return full ? half_rows<T, shifted, LOG, 1, wide> : half_rows<T, edged, LOG, 0, ROW_OF_A_BLOCK>;
    return half_rows<T, single, LOG, 4, other>;
}

template <typename T, bool LOG> static rows_kernel half_kernel_for(const cuda_shape *shape) {
    if (shape->cluster > 8) return half_kernel_of<T, LOG, ROW_OF_A_WIDE_CLUSTER>(shape);
    if (shape->cluster > 1) return half_kernel_of<T, LOG, ROW_OF_A_CLUSTER>(shape);
    return shape->rows > 1 ? half_kernel_of<T, LOG, ROWS_OF_A_BLOCK>(shape) : half_kernel_of<T, LOG, ROW_OF_A_BLOCK>(shape);
}

template <typename T> static cudaError_t launch_half_rows(const softmax_job *job, const cuda_shape *shape) {
    return launch_rows(job->op == OPERATION_SOFTMAX ? half_kernel_for<T, false>(shape) : half_kernel_for<T, true>(shape), job, shape);
}

#endif
