/* Starting kernels, by blocks, clusters and shared memory. */
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
    bool early; /* may start while the kernel before it in the stream runs: it waits for that itself */
} launch_shape;

static inline launch_shape launch_of(int64_t blocks, int threads, int cluster, size_t shared, cudaStream_t stream) {
    launch_shape l = {blocks, threads, cluster, shared, stream, false};
    return l;
}

/* Kernels that loop over rows need no more blocks than this. */
static inline int64_t launch_blocks(int64_t wanted) { return wanted < (1 << 24) ? wanted : 1 << 24; }

template <typename... P, typename... A> static cudaError_t launch(const launch_shape &l, void (*kernel)(P...), const A &...arguments) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2];
    config.gridDim = dim3((unsigned)l.blocks);
    config.blockDim = dim3((unsigned)l.threads);
    config.dynamicSmemBytes = l.shared;
    config.stream = l.stream;
    config.attrs = attributes;
    if (l.early) {
        cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    if (l.cluster > 1) {
        cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)l.cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        if (l.cluster > 8) {
            cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            if (error != cudaSuccess) return error;
        }
    }
    return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

#endif
