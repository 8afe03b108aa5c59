#include "through_device.h"

#include "oracle/check.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <softmax.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool through_device = true, through_device_bad_targets_refused = true;
const char *through_device_kernel;
long through_device_calls, through_device_forced;
int64_t through_device_status;

enum { MOST_TENSORS = 12, GUARD = 256, GUARD_BYTE = 0x5a, SCRATCH_BYTE = 0xa5 };

/* ---- The image: what travels -------------------------------------------------------------------------------------- */

static struct {
    char *host, *device;
    size_t bytes;
    cudaStream_t stream;
    bool graphs; /* every call is captured and replayed */
} machine;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "through_device: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static void report(void)
{
    printf("on the GPU: %ld calls%s\n", through_device_calls, machine.graphs ? ", each captured in a graph" : "");
}

static void begin_machine(void)
{
    const char *graphs = getenv("SOFTMAX_TEST_GRAPHS");
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        puts("there is no GPU here");
        exit(77);
    }
    machine.graphs = graphs && *graphs;
    must(cudaStreamCreateWithFlags(&machine.stream, cudaStreamNonBlocking), "a stream");
    atexit(report);
}

static void hold(size_t bytes)
{
    if (machine.bytes >= bytes)
        return;
    cudaFree(machine.device);
    cudaFreeHost(machine.host);
    machine.bytes = bytes > ((size_t)64 << 20) ? bytes + bytes / 4 : (size_t)64 << 20;
    must(cudaMalloc((void **)&machine.device, machine.bytes), "device memory");
    must(cudaHostAlloc((void **)&machine.host, machine.bytes, 0), "pinned memory");
}

typedef struct span {
    char *first, *end;
    bool written;
    size_t place; /* in the image */
} span;

typedef struct moved {
    span spans[MOST_TENSORS];
    int spans_count;
    DLTensor tensors[MOST_TENSORS];
    int tensors_count;
    size_t scratch, status; /* places */
    size_t scratch_bytes, bytes;
    bool odd; /* a tensor that the library will refuse, or memory that is the GPU's already: no business of ours */
} moved;

static void add_range(moved *m, char *first, char *end, bool written)
{
    for (int i = 0; i < m->spans_count; i++) {
        span *s = &m->spans[i];
        if (end <= s->first || s->end <= first)
            continue;
        first = first < s->first ? first : s->first;
        end = end > s->end ? end : s->end;
        written |= s->written;
        *s = m->spans[--m->spans_count];
        i = -1; /* what is larger now may meet others */
    }
    m->spans[m->spans_count++] = (span){first, end, written, 0};
}

/* The tensor as it will be on the device; its data is set later. */
static DLTensor *add_tensor(moved *m, const DLTensor *tensor, bool written)
{
    int64_t lowest = 0, highest = 0, contiguous = 1, bytes;
    DLTensor *copy = &m->tensors[m->tensors_count];
    if (!tensor)
        return NULL;
    m->tensors_count++;
    *copy = *tensor;
    copy->device = (DLDevice){kDLCUDA, 0};
    bytes = tensor->dtype.bits / 8;
    m->odd |= tensor->device.device_type != kDLCPU || tensor->ndim < 0 || tensor->ndim > SOFTMAX_MAX_DIMENSIONS ||
              (tensor->ndim > 0 && !tensor->shape) || bytes == 0;
    for (int d = tensor->ndim - 1; !m->odd && d >= 0; d--) {
        int64_t stride = tensor->strides ? tensor->strides[d] : contiguous;
        m->odd |= tensor->shape[d] < 0 || llabs(stride) > (int64_t)1 << 40 || tensor->shape[d] > (int64_t)1 << 40;
        if (tensor->shape[d] == 0)
            return copy; /* no element */
        if (stride > 0)
            highest += (tensor->shape[d] - 1) * stride;
        else
            lowest += (tensor->shape[d] - 1) * stride;
        contiguous *= tensor->shape[d];
    }
    if (m->odd || !tensor->data || highest - lowest > (int64_t)1 << 32) {
        m->odd = true;
        return copy;
    }
    char *at = (char *)tensor->data + tensor->byte_offset;
    add_range(m, at + lowest * bytes, at + (highest + 1) * bytes, written);
    return copy;
}

static void lay_out(moved *m)
{
    m->bytes = 0;
    for (int i = 0; i < m->spans_count; i++) {
        span *s = &m->spans[i];
        s->place = m->bytes + GUARD + (uintptr_t)s->first % 256;
        m->bytes = (s->place + (size_t)(s->end - s->first) + GUARD + 255) / 256 * 256;
    }
    m->status = m->bytes + GUARD;
    m->scratch = m->status + GUARD + 256;
    m->bytes = m->scratch + (m->scratch_bytes + 255) / 256 * 256 + GUARD;
    hold(m->bytes);
    for (int i = 0; i < m->tensors_count; i++) {
        DLTensor *t = &m->tensors[i];
        char *at = (char *)t->data + t->byte_offset;
        for (int k = 0; k < m->spans_count; k++) {
            const span *s = &m->spans[k];
            if (s->first <= at && at < s->end) {
                t->data = machine.device + s->place + (at - s->first) - t->byte_offset;
                break;
            }
        }
    }
}

static void send(const moved *m)
{
    memset(machine.host, GUARD_BYTE, m->bytes);
    memset(machine.host + m->scratch, SCRATCH_BYTE, m->scratch_bytes);
    memset(machine.host + m->status, 0, sizeof(int64_t));
    for (int i = 0; i < m->spans_count; i++)
        memcpy(machine.host + m->spans[i].place, m->spans[i].first, (size_t)(m->spans[i].end - m->spans[i].first));
    must(cudaMemcpyAsync(machine.device, machine.host, m->bytes, cudaMemcpyHostToDevice, machine.stream), "copy in");
}

/* Bytes [from, to) of the image are as they were sent. */
static bool untouched(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (machine.host[i] != GUARD_BYTE)
            return false;
    return true;
}

static void receive(moved *m, const char *call)
{
    size_t at = 0;
    must(cudaMemcpyAsync(machine.host, machine.device, m->bytes, cudaMemcpyDeviceToHost, machine.stream), "copy out");
    must(cudaStreamSynchronize(machine.stream), call);
    memcpy(&through_device_status, machine.host + m->status, sizeof through_device_status);
    for (int i = 0; i < m->spans_count; i++) {
        const span *s = &m->spans[i];
        size_t bytes = (size_t)(s->end - s->first);
        CHECK(untouched(at, s->place), "%s: bytes before an array were written", call);
        at = s->place + bytes;
        if (!s->written)
            CHECK(memcmp(machine.host + s->place, s->first, bytes) == 0, "%s: an input was written", call);
    }
    CHECK(untouched(at, m->status) && untouched(m->status + sizeof(int64_t), m->scratch) &&
              untouched(m->scratch + m->scratch_bytes, m->bytes),
          "%s: bytes behind the arrays, the status word or the scratch were written", call);
}

static void give_back(const moved *m)
{
    for (int i = 0; i < m->spans_count; i++)
        if (m->spans[i].written)
            memcpy(m->spans[i].first, machine.host + m->spans[i].place, (size_t)(m->spans[i].end - m->spans[i].first));
}

/* ---- A call ------------------------------------------------------------------------------------------------------- */

typedef softmax_status real_call(const DLTensor *const tensors[4], int axis, const softmax_options *options);

typedef struct device_call {
    const DLTensor *tensors[4];
    softmax_options options;
} device_call;

/* The call over the image's tensors, with room for so much scratch. Which tensors are written: bits of `written`. */
static void prepare(moved *m, device_call *made, const DLTensor *const tensors[4], unsigned int written,
                    const softmax_options *given, size_t scratch_bytes)
{
    const softmax_options defaults = SOFTMAX_OPTIONS_INIT;
    softmax_options *options = &made->options;
    memset(m, 0, sizeof *m);
    m->scratch_bytes = scratch_bytes;
    *options = defaults;
    if (given && given->size <= sizeof *options)
        memcpy(options, given, given->size);
    m->odd = given && (given->size == 0 || given->size > sizeof *options);
    options->size = sizeof *options;
    for (int i = 0; i < 4; i++)
        made->tensors[i] = add_tensor(m, tensors[i], written >> i & 1u);
    options->bias = add_tensor(m, options->bias, false);
    options->mask = add_tensor(m, options->mask, false);
    options->valid_lengths = add_tensor(m, options->valid_lengths, false);
    options->class_weights = add_tensor(m, options->class_weights, false);
    options->grad_output = add_tensor(m, options->grad_output, false);
    options->targets_gradient = add_tensor(m, options->targets_gradient, true);
    options->row_logsumexp = add_tensor(m, options->row_logsumexp, true);
    if (m->odd)
        return;
    lay_out(m);
    options->stream = machine.stream;
    options->cuda_kernel = through_device_kernel;
    options->scratch = machine.device + m->scratch;
    options->scratch_bytes = scratch_bytes;
    options->device_status = (int64_t *)(void *)(machine.device + m->status);
}

static softmax_status launch(real_call *real, const device_call *made, int axis)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    softmax_status status;
    if (!machine.graphs)
        return real(made->tensors, axis, &made->options);
    must(cudaStreamBeginCapture(machine.stream, cudaStreamCaptureModeGlobal), "begin of a capture");
    status = real(made->tensors, axis, &made->options);
    must(cudaStreamEndCapture(machine.stream, &graph), "end of a capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "a graph");
    must(cudaGraphLaunch(executable, machine.stream), "the graph's launch");
    must(cudaStreamSynchronize(machine.stream), "the graph");
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    return status;
}

/* How much scratch the call wants; whether the forced kernel can run it, else it is freed of it. */
static softmax_status ask(real_call *real, device_call *made, int axis, size_t *scratch, bool *forced)
{
    softmax_status status;
    *scratch = 0;
    made->options.scratch_needed = scratch;
    status = real(made->tensors, axis, &made->options);
    *forced = made->options.cuda_kernel && status == SOFTMAX_OK;
    if (status == SOFTMAX_OK || !made->options.cuda_kernel)
        return status;
    made->options.cuda_kernel = NULL;
    return real(made->tensors, axis, &made->options);
}

static softmax_status run_on_device(const char *name, real_call *real, const DLTensor *const tensors[4], unsigned int written,
                                    int axis, const softmax_options *given, bool *odd)
{
    moved m;
    device_call made;
    size_t scratch;
    bool forced;
    softmax_status status;
    prepare(&m, &made, tensors, written, given, 0);
    *odd = m.odd;
    if (m.odd)
        return SOFTMAX_ERROR_DEVICE;
    status = ask(real, &made, axis, &scratch, &forced);
    if (status != SOFTMAX_OK)
        return status;
    prepare(&m, &made, tensors, written, given, scratch);
    if (!forced)
        made.options.cuda_kernel = NULL;
    send(&m);
    status = launch(real, &made, axis);
    receive(&m, name);
    through_device_calls++;
    through_device_forced += forced;
    if (status == SOFTMAX_OK && through_device_status && through_device_bad_targets_refused)
        return SOFTMAX_ERROR_TARGET;
    if (status == SOFTMAX_OK)
        give_back(&m);
    return status;
}

static softmax_status run(const char *name, real_call *real, const DLTensor *const tensors[4], unsigned int written, int axis,
                          const softmax_options *given)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    softmax_status status, expected;
    bool odd;
    if (!through_device)
        return real(tensors, axis, given);
    pthread_once(&once, begin_machine);
    pthread_mutex_lock(&one_at_a_time);
    status = run_on_device(name, real, tensors, written, axis, given, &odd);
    pthread_mutex_unlock(&one_at_a_time);
    if (status == SOFTMAX_OK)
        return status;
    expected = real(tensors, axis, given); /* the words, about host tensors, are the CPU's */
    CHECK(odd || expected != SOFTMAX_OK, "%s: the GPU refuses (%s) what the CPU does", name,
          softmax_status_string(status));
    return expected;
}

/* ---- The public calls --------------------------------------------------------------------------------------------- */

#define FORWARD(name)                                                                                                  \
    softmax_status __real_##name(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options);            \
    softmax_status __wrap_##name(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options);            \
    static softmax_status real_##name(const DLTensor *const t[4], int axis, const softmax_options *options)            \
    {                                                                                                                  \
        return __real_##name(t[0], (DLTensor *)t[1], axis, options);                                                   \
    }                                                                                                                  \
    softmax_status __wrap_##name(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options)             \
    {                                                                                                                  \
        const DLTensor *const tensors[4] = {x, y, NULL, NULL};                                                         \
        return run(#name, real_##name, tensors, 2u, axis, options);                                                    \
    }
FORWARD(softmax_softmax)
FORWARD(softmax_log_softmax)
FORWARD(softmax_logsumexp)

#define BACKWARD(name)                                                                                                 \
    softmax_status __real_##name(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,                        \
                                 const softmax_options *options);                                                      \
    softmax_status __wrap_##name(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,                        \
                                 const softmax_options *options);                                                      \
    static softmax_status real_##name(const DLTensor *const t[4], int axis, const softmax_options *options)            \
    {                                                                                                                  \
        return __real_##name(t[0], t[1], (DLTensor *)t[2], axis, options);                                             \
    }                                                                                                                  \
    softmax_status __wrap_##name(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,                        \
                                 const softmax_options *options)                                                       \
    {                                                                                                                  \
        const DLTensor *const tensors[4] = {y, dy, dx, NULL};                                                          \
        return run(#name, real_##name, tensors, 4u, axis, options);                                                    \
    }
BACKWARD(softmax_softmax_backward)
BACKWARD(softmax_log_softmax_backward)

softmax_status __real_softmax_cross_entropy(const DLTensor *logits, const DLTensor *targets, DLTensor *loss, DLTensor *gradient,
                                            int axis, const softmax_options *options);
softmax_status __wrap_softmax_cross_entropy(const DLTensor *logits, const DLTensor *targets, DLTensor *loss, DLTensor *gradient,
                                            int axis, const softmax_options *options);

static softmax_status real_cross_entropy(const DLTensor *const t[4], int axis, const softmax_options *options)
{
    return __real_softmax_cross_entropy(t[0], t[1], (DLTensor *)t[2], (DLTensor *)t[3], axis, options);
}

softmax_status __wrap_softmax_cross_entropy(const DLTensor *logits, const DLTensor *targets, DLTensor *loss, DLTensor *gradient,
                                            int axis, const softmax_options *options)
{
    const DLTensor *const tensors[4] = {logits, targets, loss, gradient};
    return run("softmax_cross_entropy", real_cross_entropy, tensors, 12u, axis, options);
}
