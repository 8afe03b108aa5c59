/* Jobs that the library would run on the processor, run by the CUDA kernels in the emulator: linked with --wrap=softmax_run_cpu. */
#include <cuda_runtime.h> /* the emulator's, before anything asks for CUDA's */

#include "../../src/cuda/backward.cu"

#include <stdlib.h>

extern "C" softmax_status __real_softmax_run_cpu(const softmax_job *job);
extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job);

static long runs;

extern "C" softmax_status __wrap_softmax_run_cpu(const softmax_job *job) {
    static const char *wanted = getenv("SOFTMAX_CUDA_KERNEL");
    cuda_device device = {132, 90};
    if (job->op == OPERATION_SOFTMAX_BACKWARD || job->op == OPERATION_LOG_SOFTMAX_BACKWARD) {
        if (!runs++) atexit([]() { fprintf(stderr, "%ld runs in the emulator\n", runs); });
        return softmax_cuda_backward(job, &device, wanted && strcmp(wanted, "generic") == 0) == cudaSuccess ? SOFTMAX_OK : SOFTMAX_ERROR_DEVICE;
    }
    return __real_softmax_run_cpu(job);
}
