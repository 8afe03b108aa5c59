#include "choice.h"

#include <string.h>

static const char *const names[CUDA_KERNELS] = {"generic"};

const char *softmax_cuda_kernel_name(int index)
{
    return index >= 0 && index < CUDA_KERNELS ? names[index] : NULL;
}

cuda_kernel softmax_cuda_kernel_named(const char *name)
{
    for (int i = 0; i < CUDA_KERNELS; i++)
        if (strcmp(name, names[i]) == 0)
            return (cuda_kernel)i;
    return CUDA_KERNEL_NONE;
}

static int is_forward(operation op)
{
    return op == OPERATION_SOFTMAX || op == OPERATION_LOG_SOFTMAX || op == OPERATION_LOGSUMEXP;
}

int softmax_cuda_kernel_can(cuda_kernel kernel, const softmax_job *job, int capability)
{
    (void)capability;
    switch (kernel) {
    case CUDA_GENERIC:
        return is_forward(job->op);
    default:
        return 0;
    }
}

cuda_kernel softmax_cuda_choose(const softmax_job *job, int capability, int multiprocessors)
{
    (void)multiprocessors;
    return softmax_cuda_kernel_can(CUDA_GENERIC, job, capability) ? CUDA_GENERIC : CUDA_KERNEL_NONE;
}
