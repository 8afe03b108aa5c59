/* Jobs that the library would run on the processor, run by its CUDA kernels in the emulator: linked with --wrap=softmax_run_cpu, so that every
 * test of the library is one of the kernels too. Jobs take the kernel of their shape, or $SOFTMAX_CUDA_KERNEL's where that can run them; a GPU
 * of compute capability 9.0, whose clusters forwards do without here; states run as always. */
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

static cudaError_t forward(const softmax_job *job, const cuda_shape *shape)
{
    typedef cudaError_t (*launcher)(const softmax_job *, const cuda_shape *);
    static const launcher shorts[] = {NULL, softmax_cuda_short_float32, NULL, softmax_cuda_short_float16, softmax_cuda_short_bfloat16};
    static const launcher rows[] = {NULL, softmax_cuda_rows_float32, NULL, softmax_cuda_rows_float16, softmax_cuda_rows_bfloat16};
    switch (shape->kernel) {
    case CUDA_WARP:
        return shorts[job->x.type](job, shape);
    case CUDA_BLOCK:
        if (!shape->scores)
            return rows[job->x.type](job, shape);
        /* fallthrough */
    default:
        return softmax_cuda_generic_forward(job, shape);
    }
}

static cudaError_t launch(const softmax_job *job, const cuda_shape *shape)
{
    runs[shape->kernel]++;
    if (!softmax_cuda_is_gradient(job->op))
        return forward(job, shape);
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
    static const char *name = getenv("SOFTMAX_CUDA_KERNEL");
    static bool reports = atexit(report) == 0;
    const int wanted = name && *name ? softmax_cuda_kernel_named(name) : CUDA_ANY_KERNEL;
    const cuda_device device = {softmax_cuda_is_gradient(job->op) ? 90 : 80, 132};
    cuda_shape shape;
    if (!reports || job->op >= OPERATION_STATE_UPDATE)
        return __real_softmax_run_cpu(job);
    if (!softmax_cuda_choose(job, &device, (cuda_kernel)wanted, &shape))
        softmax_cuda_choose(job, &device, CUDA_ANY_KERNEL, &shape);
    return launch(job, &shape) == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
}
