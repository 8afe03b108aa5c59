/* Jobs that the library would run on the processor, run by its CUDA kernels in the emulator: linked with --wrap=softmax_run_cpu, so that every
 * test of the library is one of the kernels too. Jobs take the kernel of their shape, or $SOFTMAX_CUDA_KERNEL. */
#include <cuda_runtime.h>

#include "cuda/gradient.h"
#include "cuda/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" bool through_device;
extern "C" softmax_status __real_softmax_run_cpu(const softmax_job *job);
extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job);

bool through_device = true; /* through_device.h's, for tests that compare the emulated kernels with the processor's */

static long runs[CUDA_KERNELS];

static void report()
{
    for (int kernel = 0; kernel < CUDA_KERNELS; kernel++)
        if (runs[kernel])
            printf("emulated: %ld runs of kernel %s\n", runs[kernel], softmax_cuda_kernel_name(kernel));
}

typedef cudaError_t (*launcher)(const softmax_job *, const cuda_shape *);

static cudaError_t with_scratch(const softmax_job *job, const cuda_shape *shape, launcher launch)
{
    softmax_job given = *job;
    const size_t bytes = softmax_cuda_gradient_scratch(job) + softmax_cuda_split_scratch(job, shape) + 256;
    given.scratch = malloc(bytes);
    memset(given.scratch, 0xa5, bytes);
    cudaError_t error = launch(&given, shape);
    free(given.scratch);
    return error;
}

static cudaError_t launch_forward(const softmax_job *job, const cuda_shape *shape)
{
    const element type = job->x.type;
    const arithmetic kind = job->kind;
    if (shape->kernel == CUDA_THREE_PASS)
        return softmax_cuda_three_pass(job, shape);
    if (shape->kernel == CUDA_ONLINE)
        return softmax_cuda_online(job, shape);
    if (shape->kernel == CUDA_SPLIT)
        return with_scratch(job, shape, softmax_cuda_split);
    if (shape->kernel == CUDA_STRIPS)
        return softmax_cuda_strips(job, shape);
    if (shape->kernel == CUDA_GENERIC)
        return softmax_cuda_generic_forward(job, shape);
    if (shape->options)
        return type == ELEMENT_FLOAT32   ? softmax_cuda_options_float32(job, shape)
               : type == ELEMENT_FLOAT16 ? softmax_cuda_options_float16(job, shape)
                                         : softmax_cuda_options_bfloat16(job, shape);
    if (shape->scores)
        return kind == ARITHMETIC_32       ? softmax_cuda_scores_float32(job, shape)
               : kind == ARITHMETIC_FLOAT16 ? softmax_cuda_scores_float16(job, shape)
                                            : softmax_cuda_scores_bfloat16(job, shape);
    if (shape->kernel == CUDA_WARP)
        return type == ELEMENT_FLOAT32   ? softmax_cuda_short_float32(job, shape)
               : type == ELEMENT_FLOAT16 ? softmax_cuda_short_float16(job, shape)
                                         : softmax_cuda_short_bfloat16(job, shape);
    if (shape->noted)
        return type == ELEMENT_FLOAT32   ? softmax_cuda_noted_float32(job, shape)
               : type == ELEMENT_FLOAT16 ? softmax_cuda_noted_float16(job, shape)
                                         : softmax_cuda_noted_bfloat16(job, shape);
    return type == ELEMENT_FLOAT32   ? softmax_cuda_rows_float32(job, shape)
           : type == ELEMENT_FLOAT16 ? softmax_cuda_rows_float16(job, shape)
                                     : softmax_cuda_rows_bfloat16(job, shape);
}

static cudaError_t launch(const softmax_job *job, const cuda_shape *shape)
{
    runs[shape->kernel]++;
    if (job->op >= OPERATION_STATE_UPDATE)
        return softmax_cuda_state_tile(job, shape);
    if (!softmax_cuda_is_gradient(job->op))
        return launch_forward(job, shape);
    if (job->op != OPERATION_CROSS_ENTROPY)
        return softmax_cuda_backward(job, shape);
    return with_scratch(job, shape, softmax_cuda_cross_entropy);
}

extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job)
{
    static const char *wanted = getenv("SOFTMAX_CUDA_KERNEL");
    static bool reports = atexit(report) == 0;
    const int named = wanted && *wanted ? softmax_cuda_kernel_named(wanted) : CUDA_ANY_KERNEL;
    const cuda_device device = {90, softmax_cuda_is_gradient(job->op) ? 3 : 132};
    cuda_shape shape;
    if (!reports || !through_device)
        return __real_softmax_run_cpu(job);
    if (!softmax_cuda_choose(job, &device, (cuda_kernel)named, &shape))
        softmax_cuda_choose(job, &device, CUDA_ANY_KERNEL, &shape);
    return launch(job, &shape) == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
}
