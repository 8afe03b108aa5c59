/* The library under test as a contestant, through its public header. */
#include "work.h"
#include <softmax.h>

BENCH_API bench_contestant bench_libsoftmax;

static DLTensor tensor(const bench_work *work, const void *data, int64_t *shape)
{
    static const uint8_t codes[] = {0, kDLFloat, kDLFloat, kDLFloat, kDLBfloat};
    DLTensor made = {0};
    shape[0] = work->outer;
    shape[1] = work->columns;
    shape[2] = work->inner;
    made.data = (void *)data;
    made.device.device_type = kDLCPU;
    made.ndim = 3;
    made.dtype.code = codes[work->type];
    made.dtype.bits = (uint8_t)(8 * bench_type_bytes(work->type));
    made.dtype.lanes = 1;
    made.shape = shape;
    return made;
}

/* Contiguous rows by the pointer form, as a C program would. */
static softmax_status rows(const bench_work *work, const softmax_options *options)
{
    const softmax_type type = (softmax_type)work->type;
    const int64_t r = work->outer, c = work->columns;
    switch (work->operation) {
    case BENCH_SOFTMAX:
        return softmax_softmax_rows(type, r, c, work->x, work->y, options);
    case BENCH_LOG_SOFTMAX:
        return softmax_log_softmax_rows(type, r, c, work->x, work->y, options);
    case BENCH_LOGSUMEXP:
        return softmax_logsumexp_rows(type, r, c, work->x, work->y, options);
    case BENCH_SOFTMAX_BACKWARD:
        return softmax_softmax_backward_rows(type, r, c, work->x, work->dy, work->y, options);
    case BENCH_LOG_SOFTMAX_BACKWARD:
        return softmax_log_softmax_backward_rows(type, r, c, work->x, work->dy, work->y, options);
    case BENCH_CROSS_ENTROPY:
        return softmax_cross_entropy_rows(type, r, c, work->x, work->targets, work->loss, work->y, options);
    default:
        return SOFTMAX_ERROR_NULL;
    }
}

static softmax_status tensors(const bench_work *work, softmax_options *options)
{
    int64_t shapes[4][3], loss_shape[2] = {work->outer, work->inner};
    DLTensor x = tensor(work, work->x, shapes[0]), y = tensor(work, work->y, shapes[1]);
    DLTensor dy = tensor(work, work->dy, shapes[2]), mask = tensor(work, work->mask, shapes[3]), l = y;
    mask.dtype.code = kDLUInt;
    mask.dtype.bits = 8;
    l.ndim = 2;
    l.shape = loss_shape;
    if (work->type != BENCH_FLOAT64) { /* float32 for 16-bit scores too, as over rows */
        l.dtype.code = kDLFloat;
        l.dtype.bits = 32;
    }
    switch (work->operation) {
    case BENCH_MASKED_SOFTMAX:
        options->mask = &mask;
        return softmax_softmax(&x, &y, 1, options);
    case BENCH_SOFTMAX:
        return softmax_softmax(&x, &y, 1, options);
    case BENCH_LOG_SOFTMAX:
        return softmax_log_softmax(&x, &y, 1, options);
    case BENCH_LOGSUMEXP:
        return softmax_logsumexp(&x, &l, 1, options);
    case BENCH_SOFTMAX_BACKWARD:
        return softmax_softmax_backward(&x, &dy, &y, 1, options);
    case BENCH_LOG_SOFTMAX_BACKWARD:
        return softmax_log_softmax_backward(&x, &dy, &y, 1, options);
    default:
        return SOFTMAX_ERROR_AXIS;
    }
}

int bench_libsoftmax(const bench_work *work)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.threads = work->threads;
    options.isa = work->isa;
    if (work->inner == 1 && work->operation != BENCH_MASKED_SOFTMAX)
        return rows(work, &options);
    return tensors(work, &options);
}
