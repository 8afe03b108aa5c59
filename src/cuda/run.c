/* A checked job onto its stream: the device, the choice of a kernel, the launch. Nothing is allocated, waited for or kept. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "choice.h"
#include "launch.h"
#include "gradient.h"

/* ---- Devices ------------------------------------------------------------------------------------------------------ */

static softmax_status refuse(cudaError_t error, const char *what, char *words, size_t bytes)
{
    cudaGetLastError(); /* the caller's own checks need not find it */
    snprintf(words, bytes, "%s: %s", what, cudaGetErrorString(error));
    return SOFTMAX_ERROR_DEVICE;
}

int softmax_cuda_device_count(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess)
        return count;
    cudaGetLastError();
    return 0;
}

softmax_status softmax_cuda_device_words(int device, char *words, size_t bytes)
{
    struct cudaDeviceProp properties;
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        return refuse(error ? error : cudaErrorNoDevice, "no CUDA device can be used here", words, bytes);
    if (device < 0 || device >= count) {
        snprintf(words, bytes, "0 to %d are there", count - 1);
        return SOFTMAX_ERROR_DEVICE;
    }
    error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess)
        return refuse(error, "its properties cannot be read", words, bytes);
    snprintf(words, bytes, "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB", properties.name,
             properties.major, properties.minor, properties.multiProcessorCount,
             (double)properties.totalGlobalMem * 0x1p-30);
    return SOFTMAX_OK;
}

static cudaError_t read_device(int index, cuda_device *device)
{
    int major = 0, minor = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, index);
    device->capability = softmax_cuda_capability(10 * major + minor, SOFTMAX_CUDA_CAPABILITY);
    return error;
}

/* ---- The job ------------------------------------------------------------------------------------------------------ */

static size_t scratch_of(const softmax_job *job, const cuda_shape *shape)
{
    return softmax_cuda_is_gradient(job->op) ? softmax_cuda_gradient_scratch(job) : softmax_cuda_split_scratch(job, shape);
}

static int has_scratch(const softmax_job *job, const cuda_shape *shape)
{
    size_t needed = scratch_of(job, shape);
    return job->scratch_needed || needed == 0 || (job->scratch && job->scratch_bytes >= needed);
}

/* How the job is launched: by the option's kernel, by $SOFTMAX_CUDA_KERNEL's where that can run it, or by the best. */
static softmax_status choose(const softmax_job *job, const cuda_device *device, cuda_shape *shape, char *words,
                             size_t bytes)
{
    const char *variable = getenv("SOFTMAX_CUDA_KERNEL");
    const char *name = job->cuda_kernel ? job->cuda_kernel : variable && *variable ? variable : NULL;
    int named = name ? softmax_cuda_kernel_named(name) : CUDA_ANY_KERNEL;
    if (named < 0) {
        snprintf(words, bytes, "%s is %.40s; a name that softmax_cuda_kernel_name lists is allowed",
                 job->cuda_kernel ? "cuda_kernel" : "SOFTMAX_CUDA_KERNEL", name);
        return SOFTMAX_ERROR_OPTION;
    }
    if (softmax_cuda_choose(job, device, (cuda_kernel)named, shape) && (job->cuda_kernel || has_scratch(job, shape)))
        return SOFTMAX_OK;
    if (!softmax_cuda_choose(job, device, CUDA_ANY_KERNEL, shape)) {
        snprintf(words, bytes, "the tensors are on cuda:%d; this operation has no CUDA kernel yet: the CPU is allowed",
                 job->device);
        return SOFTMAX_ERROR_DEVICE;
    }
    if (job->cuda_kernel) {
        snprintf(words, bytes, "cuda_kernel is %.40s; a kernel that can run this call on this GPU is allowed", name);
        return SOFTMAX_ERROR_OPTION;
    }
    return SOFTMAX_OK;
}

typedef cudaError_t (*launcher)(const softmax_job *job, const cuda_shape *shape);

static cudaError_t launch(const softmax_job *job, const cuda_shape *shape)
{
    static const launcher shorts[] = {[ELEMENT_FLOAT32] = softmax_cuda_short_float32,
                                      [ELEMENT_FLOAT16] = softmax_cuda_short_float16,
                                      [ELEMENT_BFLOAT16] = softmax_cuda_short_bfloat16};
    static const launcher rows[] = {[ELEMENT_FLOAT32] = softmax_cuda_rows_float32,
                                    [ELEMENT_FLOAT16] = softmax_cuda_rows_float16,
                                    [ELEMENT_BFLOAT16] = softmax_cuda_rows_bfloat16};
    static const launcher noted[] = {[ELEMENT_FLOAT32] = softmax_cuda_noted_float32,
                                     [ELEMENT_FLOAT16] = softmax_cuda_noted_float16,
                                     [ELEMENT_BFLOAT16] = softmax_cuda_noted_bfloat16};
    static const launcher scores[] = {[ARITHMETIC_32] = softmax_cuda_scores_float32,
                                      [ARITHMETIC_FLOAT16] = softmax_cuda_scores_float16,
                                      [ARITHMETIC_BFLOAT16] = softmax_cuda_scores_bfloat16};
    static const launcher options[] = {[ELEMENT_FLOAT32] = softmax_cuda_options_float32,
                                       [ELEMENT_FLOAT16] = softmax_cuda_options_float16,
                                       [ELEMENT_BFLOAT16] = softmax_cuda_options_bfloat16};
    if (job->op == OPERATION_CROSS_ENTROPY)
        return softmax_cuda_cross_entropy(job, shape);
    if (softmax_cuda_is_gradient(job->op))
        return softmax_cuda_backward(job, shape);
    if (job->op >= OPERATION_STATE_UPDATE)
        return softmax_cuda_state_tile(job, shape);
    switch (shape->kernel) {
    case CUDA_THREE_PASS:
        return softmax_cuda_three_pass(job, shape);
    case CUDA_ONLINE:
        return softmax_cuda_online(job, shape);
    case CUDA_SPLIT:
        return softmax_cuda_split(job, shape);
    case CUDA_STRIPS:
        return softmax_cuda_strips(job, shape);
    case CUDA_WARP:
        return shorts[job->x.type](job, shape);
    case CUDA_BLOCK:
    case CUDA_CLUSTER:
        if (shape->options)
            return options[job->x.type](job, shape);
        if (shape->scores)
            return scores[job->kind](job, shape);
        return shape->noted ? noted[job->x.type](job, shape) : rows[job->x.type](job, shape);
    default:
        return softmax_cuda_generic_forward(job, shape);
    }
}

/* Tells how much scratch the job needs, or sees that it has been given. */
static softmax_status take_scratch(const softmax_job *job, const cuda_shape *shape, char *words, size_t bytes)
{
    size_t needed = scratch_of(job, shape);
    if (job->scratch_needed) {
        *job->scratch_needed = needed;
        return SOFTMAX_OK;
    }
    if (has_scratch(job, shape))
        return SOFTMAX_OK;
    snprintf(words, bytes, "scratch_bytes is %zu; %s takes %zu or more, on the device", job->scratch ? job->scratch_bytes : 0,
             softmax_cuda_is_gradient(job->op) ? "the sum over rows" : "cuda_kernel split", needed);
    return SOFTMAX_ERROR_OPTION;
}

softmax_status softmax_run_cuda_states(const softmax_state_job *job)
{
    int current;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != job->device)
        error = cudaSetDevice(job->device);
    if (error == cudaSuccess) {
        error = softmax_cuda_states_alone(job);
        if (current != job->device)
            cudaSetDevice(current);
    }
    if (error == cudaSuccess)
        return SOFTMAX_OK;
    cudaGetLastError();
    return SOFTMAX_ERROR_DEVICE;
}

softmax_status softmax_run_cuda(const softmax_job *job, char *words, size_t bytes)
{
    cuda_device device;
    cuda_shape shape;
    int current;
    softmax_status status;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != job->device)
        error = cudaSetDevice(job->device);
    if (error == cudaSuccess)
        error = read_device(job->device, &device);
    if (error != cudaSuccess)
        return refuse(error, "the device cannot be used", words, bytes);
    status = choose(job, &device, &shape, words, bytes);
    if (status == SOFTMAX_OK)
        status = take_scratch(job, &shape, words, bytes);
    if (status == SOFTMAX_OK && !job->scratch_needed) {
        error = launch(job, &shape);
        if (error != cudaSuccess)
            status = refuse(error, "the launch failed", words, bytes);
    }
    if (current != job->device)
        cudaSetDevice(current);
    return status;
}
