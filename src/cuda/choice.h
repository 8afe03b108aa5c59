/* Which kernel a job takes: by its shape alone. Needs no GPU and no CUDA header. */
#ifndef SOFTMAX_CUDA_CHOICE_H
#define SOFTMAX_CUDA_CHOICE_H

#include "../kernels.h"

typedef enum cuda_kernel {
    CUDA_KERNEL_NONE = -1,
    CUDA_GENERIC, /* anything */
    CUDA_KERNELS
} cuda_kernel;

/* The kernel of that name, CUDA_KERNEL_NONE if there is none. */
cuda_kernel softmax_cuda_kernel_named(const char *name);

/* Whether a kernel can run a job. */
int softmax_cuda_kernel_can(cuda_kernel kernel, const softmax_job *job, int capability);

/* The best kernel for a job on a GPU of this compute capability (90 for 9.0) with so many multiprocessors. */
cuda_kernel softmax_cuda_choose(const softmax_job *job, int capability, int multiprocessors);

#endif
