/* What a library without CUDA says of it. */
#include "kernels.h"

#include <stdio.h>

static const char absent[] = "this library was built without CUDA: the CPU is allowed";

softmax_status softmax_run_cuda(const softmax_job *job, char *words, size_t bytes)
{
    snprintf(words, bytes, "the tensors are on cuda:%d; %s", job->device, absent);
    return SOFTMAX_ERROR_DEVICE;
}

softmax_status softmax_run_cuda_states(const softmax_state_job *job)
{
    (void)job;
    return SOFTMAX_ERROR_DEVICE;
}

int softmax_cuda_device_count(void)
{
    return -1;
}

softmax_status softmax_cuda_device_words(int device, char *words, size_t bytes)
{
    (void)device;
    snprintf(words, bytes, "%s", absent);
    return SOFTMAX_ERROR_DEVICE;
}

const char *softmax_cuda_kernel_name(int index)
{
    (void)index;
    return NULL;
}
