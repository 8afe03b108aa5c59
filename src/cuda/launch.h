/* What the host side of the CUDA backend is made of: each kernel file has functions that put a job's work on its stream. */
#ifndef SOFTMAX_CUDA_LAUNCH_H
#define SOFTMAX_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "../kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_device {
    int multiprocessors;
    int capability; /* 90 for 9.0 */
} cuda_device;

cudaError_t softmax_cuda_generic_forward(const softmax_job *job, const cuda_device *device); /* generic.cu */

#ifdef __cplusplus
}
#endif
#endif
