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
    bool balanced; /* clusters over multiprocessors where few thread blocks run */
} launch_shape;

static inline launch_shape launch_of(int64_t blocks, int threads, int cluster, size_t shared, cudaStream_t stream) {
    launch_shape l = {blocks, threads, cluster, shared, stream, false, false};
    return l;
}

/* Kernels that loop over rows need no more blocks than this. */
static inline int64_t launch_blocks(int64_t wanted) { return wanted < (1 << 24) ? wanted : 1 << 24; }

#define ORDINARY_SHARED (32 << 10) /* dynamic shared memory that every kernel may have beside its static variables */
#define MOST_SHARED (208 << 10)    /* that those which ask may have: compute capability 9.0 */

/* A launch's configuration, and the attributes that it points to. */
typedef struct launch_config {
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attributes[3];
} launch_config;

template <typename KERNEL> static cudaError_t configure(const launch_shape &l, KERNEL *kernel, launch_config &c) {
    c.config = cudaLaunchConfig_t();
    c.config.gridDim = dim3((unsigned)l.blocks);
    c.config.blockDim = dim3((unsigned)l.threads);
    c.config.dynamicSmemBytes = l.shared;
    c.config.stream = l.stream;
    c.config.attrs = c.attributes;
    if (l.shared > ORDINARY_SHARED) { /* always the same value: calls of other threads do not count */
        cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MOST_SHARED);
        if (error != cudaSuccess) return error;
    }
    if (l.early) {
        cudaLaunchAttribute &attribute = c.attributes[c.config.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    if (l.cluster > 1) {
        cudaLaunchAttribute &attribute = c.attributes[c.config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)l.cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        if (l.balanced) {
            cudaLaunchAttribute &policy = c.attributes[c.config.numAttrs++];
            policy.id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
            policy.val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
        }
        if (l.cluster > 8) return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
    return cudaSuccess;
}

template <typename... P, typename... A> static cudaError_t launch(const launch_shape &l, void (*kernel)(P...), const A &...arguments) {
    launch_config c;
    cudaError_t error = configure(l, kernel, c);
    return error == cudaSuccess ? cudaLaunchKernelEx(&c.config, kernel, P(arguments)...) : error;
}

/* No more blocks than run at a time: of kernels whose blocks, or clusters of them, take one row after another. */
template <typename... P, typename... A>
static cudaError_t launch_resident(launch_shape l, int multiprocessors, void (*kernel)(P...), const A &...arguments) {
    launch_config c;
    int resident = 0;
    cudaError_t error = configure(l, kernel, c);
    if (error == cudaSuccess && l.cluster > 1) error = cudaOccupancyMaxActiveClusters(&resident, kernel, &c.config);
    if (error == cudaSuccess && l.cluster == 1) {
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, l.threads, l.shared);
        resident *= multiprocessors;
    }
    if (error != cudaSuccess) return error;
    if (l.blocks > (int64_t)resident * l.cluster && resident > 0) c.config.gridDim = dim3((unsigned)(resident * l.cluster));
    return cudaLaunchKernelEx(&c.config, kernel, P(arguments)...);
}

#endif
