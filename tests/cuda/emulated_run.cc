/* Jobs that the library would run on the processor, run by its CUDA kernels in the emulator: linked with --wrap=softmax_run_cpu, so that every
 * test of the library is one of the kernels too. What no kernel takes (states) runs as always. */
extern "C" {
#include "cuda/choice.h"
}
#include "cuda/launch.h"

#include "cuda/gradient.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" softmax_status __real_softmax_run_cpu(const softmax_job *job);
extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job);

static long runs[CUDA_KERNELS];

static void report()
{
    for (int kernel = 0; kernel < CUDA_KERNELS; kernel++)
        printf("emulated: %ld runs of the kernel %s\n", runs[kernel], softmax_cuda_kernel_name(kernel));
}

extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job)
{
    static const char *wanted = getenv("SOFTMAX_CUDA_KERNEL");
    static bool reports = atexit(report) == 0;
    const cuda_device device = {90, 132};
    cuda_shape shape;
    int named = wanted ? softmax_cuda_kernel_named(wanted) : -1;
    if (!reports || !softmax_cuda_is_gradient(job->op))
        return __real_softmax_run_cpu(job);
    if (named < 0 || !softmax_cuda_choose_gradient(job, &device, (cuda_kernel)named, &shape))
        softmax_cuda_choose_gradient(job, &device, CUDA_ANY_KERNEL, &shape);
    runs[shape.kernel]++;
    if (job->op != OPERATION_CROSS_ENTROPY)
        return softmax_cuda_backward(job, &shape) == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
    softmax_job with_scratch = *job;
    with_scratch.scratch = malloc(softmax_cuda_gradient_scratch(job) + 256);
    cudaError_t error = softmax_cuda_cross_entropy(&with_scratch, &shape);
    free(with_scratch.scratch);
    return error == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
}
