/* device.h in a build without CUDA: arguments are refused before any of these is called. */
#include "device.h"

#include "fail.h"

device_problem *device_open(const problem *problem, const operands *x)
{
    (void)problem;
    (void)x;
    fail_usage("--device cuda: this build has no CUDA");
}

softmax_status device_call(device_problem *device, const softmax_options *options, const char *kernel, char *message,
                           size_t message_bytes)
{
    (void)device;
    (void)options;
    (void)kernel;
    (void)message;
    (void)message_bytes;
    return SOFTMAX_ERROR_DEVICE;
}

softmax_status device_fetch(device_problem *device, char *message, size_t message_bytes)
{
    (void)device;
    (void)message;
    (void)message_bytes;
    return SOFTMAX_ERROR_DEVICE;
}

double device_seconds(device_problem *device, const softmax_options *options, const char *kernel, int calls)
{
    (void)device;
    (void)options;
    (void)kernel;
    return calls;
}

double device_copy_seconds(size_t bytes, int calls)
{
    (void)bytes;
    return calls;
}

void device_close(device_problem *device)
{
    (void)device;
}
