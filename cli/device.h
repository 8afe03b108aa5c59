/* A problem's arrays on a CUDA device, for --device cuda. */
#ifndef SOFTMAX_CLI_DEVICE_H
#define SOFTMAX_CLI_DEVICE_H

#include "problem.h"

typedef struct device_problem device_problem;

/* Copies the arrays of x (inputs, and outputs, whose elements beside the call's keep their values) to the device. Fails by fail_data. */
device_problem *device_open(const problem *problem, const operands *x);

/* Puts one call on the device's stream. kernel NULL: chosen by shape; the same in all calls. SOFTMAX_OK, or the status and its words. */
softmax_status device_call(device_problem *device, const softmax_options *options, const char *kernel, char *message,
                           size_t message_bytes);

/* Waits; copies the outputs back. SOFTMAX_ERROR_TARGET, and words, if a target was out of range. */
softmax_status device_fetch(device_problem *device, char *message, size_t message_bytes);

/* Seconds of one of `calls` calls in a row (kernel as above), by the device's clock; of a copy of `bytes` bytes, device to device. */
double device_seconds(device_problem *device, const softmax_options *options, const char *kernel, int calls);
double device_copy_seconds(size_t bytes, int calls);

void device_close(device_problem *device);

#endif
