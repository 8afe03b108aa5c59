/* Launching kernels whose thread blocks take some rows each, or clusters of them one. */
#ifndef SOFTMAX_CUDA_ROWS_LAUNCH_CUH
#define SOFTMAX_CUDA_ROWS_LAUNCH_CUH

#include <cuda_runtime_api.h>

#include "launch.h"

typedef void (*rows_kernel)(softmax_job job, int split_into, int ahead);

static cudaError_t launch_rows(rows_kernel kernel, const softmax_job *job, const cuda_shape *shape) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    config.gridDim = dim3((unsigned)((job->rows + shape->rows - 1) / shape->rows) * (unsigned)shape->cluster);
    config.blockDim = dim3(32u * (unsigned)(shape->warps * shape->rows));
    config.stream = (cudaStream_t)job->stream;
    if (shape->cluster > 1) {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)shape->cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        config.attrs = &attribute;
        config.numAttrs = 1;
        if (shape->cluster > 8) {
            cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            if (error != cudaSuccess) return error;
        }
    }
    return cudaLaunchKernelEx(&config, kernel, *job, shape->rows > 1 ? shape->warps : shape->cluster, shape->ahead);
}

#endif
