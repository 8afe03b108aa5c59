/* Starting kernels, by blocks, clusters and shared memory; and what a launch must know of arrays. */
#ifndef SOFTMAX_CUDA_LAUNCH_CUH
#define SOFTMAX_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "launch.h"

typedef struct launch_shape {
    int64_t blocks;
    int threads;
    int cluster;
    size_t shared;
    cudaStream_t stream;
} launch_shape;

static inline launch_shape launch_of(int64_t blocks, int threads, int cluster, size_t shared, cudaStream_t stream) {
    launch_shape l = {blocks, threads, cluster, shared, stream};
    return l;
}

/* Kernels that loop over rows need no more blocks than this. */
static inline int64_t launch_blocks(int64_t wanted) { return wanted < (1 << 24) ? wanted : 1 << 24; }

template <typename... P, typename... A> static cudaError_t launch(const launch_shape &l, void (*kernel)(P...), const A &...arguments) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute;
    config.gridDim = dim3((unsigned)l.blocks);
    config.blockDim = dim3((unsigned)l.threads);
    config.dynamicSmemBytes = l.shared;
    config.stream = l.stream;
    if (l.cluster > 1) {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)l.cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        config.attrs = &attribute;
        config.numAttrs = 1;
        if (l.cluster > 8) {
            cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            if (error != cudaSuccess) return error;
        }
    }
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------------------------------- */

static inline int64_t bytes_of(element type) {
    return type == ELEMENT_FLOAT32 || type == ELEMENT_INT32 ? 4 : type == ELEMENT_FLOAT64 || type == ELEMENT_INT64 ? 8 : type == ELEMENT_UINT8 ? 1 : 2;
}

/* Elements of a row lie side by side, on addresses that they may have. */
static inline bool is_row_contiguous(const operand *a) {
    return a->column_stride == bytes_of(a->type) && (uintptr_t)a->data % (uintptr_t)bytes_of(a->type) == 0;
}

/* Every row begins on a 16-byte address. */
static inline bool has_vector_rows(const softmax_job *job, const operand *a) {
    if ((uintptr_t)a->data % 16) return false;
    for (int d = 0; d < job->dimensions; d++)
        if (a->row_stride[d] % 16) return false;
    return true;
}

#endif
