#include "device.h"

#include "fail.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARRAYS = 10 };

/* A tensor there: the bytes from its first element to its last, strides as they are here. */
typedef struct device_array {
    DLTensor tensor; /* shape and strides are the host's */
    char *host_first;
    char *memory;
    size_t bytes;
} device_array;

struct device_problem {
    const problem *problem;
    operands operands; /* on the device */
    device_array arrays[ARRAYS];
    int count, inputs; /* arrays from `inputs` on are outputs */
    int64_t *bad_row;  /* of one element, on the device */
    void *scratch;
    size_t scratch_bytes;
    bool scratch_known;
};

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        fail_data("CUDA: %s: %s", what, cudaGetErrorString(error));
}

static DLTensor *send(device_problem *d, const DLTensor *host)
{
    if (!host)
        return NULL;
    device_array *array = &d->arrays[d->count++];
    int64_t first = 0, last = 0, element = host->dtype.bits / 8, step = 1;
    bool empty = false;
    for (int i = host->ndim - 1; i >= 0; i--) {
        int64_t along = (host->shape[i] - 1) * (host->strides ? host->strides[i] : step);
        empty |= host->shape[i] == 0;
        step *= host->shape[i];
        *(along < 0 ? &first : &last) += along;
    }
    char *data = (char *)host->data + host->byte_offset;
    array->tensor = *host;
    array->tensor.device = (DLDevice){kDLCUDA, d->problem->arguments->cuda_device};
    array->host_first = data + first * element;
    array->bytes = empty ? 0 : (size_t)((last - first + 1) * element);
    check(cudaMalloc((void **)&array->memory, array->bytes + 1), "memory for an array");
    check(cudaMemcpy(array->memory, array->host_first, array->bytes, cudaMemcpyHostToDevice), "copy to the device");
    array->tensor.data = array->memory - first * element;
    array->tensor.byte_offset = 0;
    return &array->tensor;
}

device_problem *device_open(const problem *problem, const operands *x)
{
    device_problem *d = calloc(1, sizeof *d);
    if (!d)
        fail_data("memory: %zu bytes are not to be had", sizeof *d);
    d->problem = problem;
    check(cudaSetDevice(problem->arguments->cuda_device), "choosing the device");
    d->operands.input = send(d, x->input);
    d->operands.mask = send(d, x->mask);
    d->operands.bias = send(d, x->bias);
    d->operands.valid_lengths = send(d, x->valid_lengths);
    d->operands.grad = send(d, x->grad);
    d->operands.targets = send(d, x->targets);
    d->operands.grad_output = send(d, x->grad_output);
    d->operands.class_weights = send(d, x->class_weights);
    d->inputs = d->count;
    d->operands.output = send(d, x->output);
    d->operands.gradient = send(d, x->gradient);
    check(cudaMalloc((void **)&d->bad_row, sizeof *d->bad_row), "memory for the status");
    check(cudaMemset(d->bad_row, 0, sizeof *d->bad_row), "clearing the status");
    return d;
}

softmax_status device_call(device_problem *d, const softmax_options *given, const char *kernel, char *message,
                           size_t message_bytes)
{
    softmax_options options = *given;
    options.cuda_kernel = kernel;
    options.device_status = d->problem->arguments->op == OP_CROSS_ENTROPY ? d->bad_row : NULL;
    if (!d->scratch_known) {
        options.scratch_needed = &d->scratch_bytes;
        softmax_status status = problem_call(d->problem, &d->operands, &options, message, message_bytes);
        if (status != SOFTMAX_OK)
            return status;
        check(cudaMalloc(&d->scratch, d->scratch_bytes + 1), "memory for scratch");
        options.scratch_needed = NULL;
        d->scratch_known = true;
    }
    options.scratch = d->scratch;
    options.scratch_bytes = d->scratch_bytes;
    return problem_call(d->problem, &d->operands, &options, message, message_bytes);
}

softmax_status device_fetch(device_problem *d, char *message, size_t message_bytes)
{
    int64_t bad_row = 0;
    check(cudaMemcpy(&bad_row, d->bad_row, sizeof bad_row, cudaMemcpyDeviceToHost), "the call");
    if (bad_row) {
        snprintf(message, message_bytes, "the target of row %lld is neither a class nor ignore_index", (long long)bad_row - 1);
        return SOFTMAX_ERROR_TARGET;
    }
    for (int i = d->inputs; i < d->count; i++)
        check(cudaMemcpy(d->arrays[i].host_first, d->arrays[i].memory, d->arrays[i].bytes, cudaMemcpyDeviceToHost), "copy from the device");
    return SOFTMAX_OK;
}

static double seconds_between(cudaEvent_t from, cudaEvent_t to, int calls)
{
    float milliseconds;
    check(cudaEventSynchronize(to), "waiting for the calls");
    check(cudaEventElapsedTime(&milliseconds, from, to), "the time of the calls");
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return 1e-3 * (double)milliseconds / calls;
}

static void make_events(cudaEvent_t *from, cudaEvent_t *to)
{
    check(cudaEventCreate(from), "an event");
    check(cudaEventCreate(to), "an event");
    check(cudaEventRecord(*from, NULL), "an event");
}

double device_seconds(device_problem *d, const softmax_options *options, const char *kernel, int calls)
{
    char message[300];
    cudaEvent_t from, to;
    make_events(&from, &to);
    for (int i = 0; i < calls; i++) {
        softmax_status status = device_call(d, options, kernel, message, sizeof message);
        if (status != SOFTMAX_OK)
            problem_fail(d->problem, status, message);
    }
    check(cudaEventRecord(to, NULL), "an event");
    return seconds_between(from, to, calls);
}

double device_copy_seconds(size_t bytes, int calls)
{
    void *source, *target;
    cudaEvent_t from, to;
    check(cudaMalloc(&source, bytes + 1), "memory for a copy");
    check(cudaMalloc(&target, bytes + 1), "memory for a copy");
    make_events(&from, &to);
    for (int i = 0; i < calls; i++)
        check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, NULL), "a copy");
    check(cudaEventRecord(to, NULL), "an event");
    double seconds = seconds_between(from, to, calls);
    cudaFree(source);
    cudaFree(target);
    return seconds;
}

void device_close(device_problem *d)
{
    for (int i = 0; i < d->count; i++)
        cudaFree(d->arrays[i].memory);
    cudaFree(d->bad_row);
    cudaFree(d->scratch);
    free(d);
}
