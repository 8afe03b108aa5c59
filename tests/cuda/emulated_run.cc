/* Jobs that the library would run on the processor, run by its CUDA kernels in the emulator: linked with --wrap=softmax_run_cpu, so that every
 * test of the library is one of the kernels too. Backwards and cross-entropy take the kernel of their shape, forwards the generic one; states
 * run as always. */
#include <cuda_runtime.h>

#include "cuda/gradient.h"
#include "cuda/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" softmax_status __real_softmax_run_cpu(const softmax_job *job);
extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job);

static long runs[CUDA_KERNELS];

static void report()
{
    for (int kernel = 0; kernel < CUDA_KERNELS; kernel++)
        if (runs[kernel])
            printf("emulated: %ld runs of kernel number %d\n", runs[kernel], kernel);
}

static cudaError_t launch(const softmax_job *job, const cuda_shape *shape)
{
    runs[shape->kernel]++;
    if (!softmax_cuda_is_gradient(job->op))
        return softmax_cuda_generic_forward(job, shape);
    if (job->op != OPERATION_CROSS_ENTROPY)
        return softmax_cuda_backward(job, shape);
    softmax_job with_scratch = *job;
    with_scratch.scratch = malloc(softmax_cuda_gradient_scratch(job) + 256);
    cudaError_t error = softmax_cuda_cross_entropy(&with_scratch, shape);
    free(with_scratch.scratch);
    return error;
}

extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job)
{
    static const char *wanted = getenv("SOFTMAX_CUDA_KERNEL");
    static bool reports = atexit(report) == 0;
    const bool generic = wanted && strcmp(wanted, "generic") == 0;
    const cuda_device device = {90, 132};
    cuda_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.multiprocessors = device.multiprocessors;
    if (!reports || job->op >= OPERATION_STATE_UPDATE)
        return __real_softmax_run_cpu(job);
    if (softmax_cuda_is_gradient(job->op))
        softmax_cuda_choose_gradient(job, &device, generic ? CUDA_GENERIC : CUDA_ANY_KERNEL, &shape);
    return launch(job, &shape) == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
}
