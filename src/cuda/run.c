/* A checked job onto its stream: the device, the choice of a kernel, the launch. Nothing is allocated, waited for or kept. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "choice.h"
#include "launch.h"

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
    device->capability = 10 * major + minor;
    return error;
}

/* ---- The job ------------------------------------------------------------------------------------------------------ */

/* The kernel that runs: the option's, $SOFTMAX_CUDA_KERNEL's where it can run the job, or the best. */
static softmax_status choose(const softmax_job *job, const cuda_device *device, cuda_kernel *kernel, char *words,
                             size_t bytes)
{
    const char *forced = job->cuda_kernel, *variable = getenv("SOFTMAX_CUDA_KERNEL");
    const char *name = forced ? forced : variable && *variable ? variable : NULL;
    *kernel = softmax_cuda_choose(job, device->capability, device->multiprocessors);
    if (*kernel == CUDA_KERNEL_NONE) {
        snprintf(words, bytes, "this operation has no CUDA kernel yet; the CPU is allowed");
        return SOFTMAX_ERROR_DEVICE;
    }
    if (!name)
        return SOFTMAX_OK;
    cuda_kernel named = softmax_cuda_kernel_named(name);
    if (named != CUDA_KERNEL_NONE && softmax_cuda_kernel_can(named, job, device->capability))
        *kernel = named;
    else if (named == CUDA_KERNEL_NONE || forced) {
        snprintf(words, bytes, "%s is %.40s; %s", forced ? "cuda_kernel" : "SOFTMAX_CUDA_KERNEL", name,
                 named == CUDA_KERNEL_NONE ? "a name that softmax_cuda_kernel_name lists is allowed"
                                           : "a kernel that can run this call is allowed");
        return SOFTMAX_ERROR_OPTION;
    }
    return SOFTMAX_OK;
}

static cudaError_t launch(const softmax_job *job, cuda_kernel kernel, const cuda_device *device)
{
    (void)kernel;
    return softmax_cuda_generic_forward(job, device);
}

softmax_status softmax_run_cuda(const softmax_job *job, char *words, size_t bytes)
{
    cuda_device device;
    cuda_kernel kernel;
    int current;
    softmax_status status;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != job->device)
        error = cudaSetDevice(job->device);
    if (error == cudaSuccess)
        error = read_device(job->device, &device);
    if (error != cudaSuccess)
        return refuse(error, "the device cannot be used", words, bytes);
    status = choose(job, &device, &kernel, words, bytes);
    if (status == SOFTMAX_OK && !job->scratch_needed) {
        error = launch(job, kernel, &device);
        if (error != cudaSuccess)
            status = refuse(error, "the launch failed", words, bytes);
    }
    if (current != job->device)
        cudaSetDevice(current);
    return status;
}
