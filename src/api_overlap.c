/* May an output share memory with another array: only if it is exactly that array and the operation allows it, or if no
 * element of one touches an element of the other.
 *
 * Arrays whose address ranges are apart are disjoint. Where the ranges cross, as those of two halves of a matrix with
 * one pitch do, the elements decide: the addresses' difference is a sum of strides times bounded integers, and a search
 * with a budget looks for one that is smaller than an element. Pitches and interleavings of real arrays are decided in
 * a few steps; what the budget does not decide is refused, and so is any crossing with states or between arrays with
 * spans above 2^60 bytes. */
#include "api_call.h"

#include <stdlib.h>

#define SEARCH_STEPS 4096
#define SPAN_LIMIT ((uint64_t)1 << 60)
#define TERMS_MOST (2 * (SOFTMAX_MAX_DIMENSIONS + 1))

/* The difference of two elements' addresses is `start` plus stride[i] times an integer in [least[i], most[i]] for every
 * term i. */
typedef struct difference {
    int terms;
    int64_t stride[TERMS_MOST]; /* positive, largest first */
    int64_t least[TERMS_MOST];
    int64_t most[TERMS_MOST];
    int64_t low[TERMS_MOST + 1]; /* the least and the most that terms i and later add */
    int64_t high[TERMS_MOST + 1];
    int64_t below; /* elements touch where the difference is in (below, above) */
    int64_t above;
    int steps;
} difference;

static void add_term(difference *d, int64_t stride, int64_t least, int64_t most)
{
    int i = d->terms;
    if (stride == 0 || (least == 0 && most == 0))
        return;
    if (stride < 0) {
        int64_t swapped = -least;
        stride = -stride;
        least = -most;
        most = swapped;
    }
    for (; i > 0 && d->stride[i - 1] < stride; i--) {
        d->stride[i] = d->stride[i - 1];
        d->least[i] = d->least[i - 1];
        d->most[i] = d->most[i - 1];
    }
    d->stride[i] = stride;
    d->least[i] = least;
    d->most[i] = most;
    d->terms++;
}

/* One dimension of both arrays: the same stride needs one term, for the difference of the indices. */
static void add_dimension(difference *d, int64_t a_stride, int64_t b_stride, int64_t size)
{
    if (a_stride == b_stride) {
        add_term(d, a_stride, -(size - 1), size - 1);
    } else {
        add_term(d, b_stride, 0, size - 1);
        add_term(d, -a_stride, 0, size - 1);
    }
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool touches(difference *d, int term, int64_t so_far)
{
    int64_t stride, k, last;
    if (--d->steps < 0)
        return true;
    if (term == d->terms)
        return so_far > d->below && so_far < d->above;
    stride = d->stride[term];
    k = -floor_divide(so_far + d->high[term + 1] - d->below - 1, stride);
    last = floor_divide(d->above - 1 - so_far - d->low[term + 1], stride);
    if (k < d->least[term])
        k = d->least[term];
    if (last > d->most[term])
        last = d->most[term];
    for (; k <= last; k++)
        if (touches(d, term + 1, so_far + k * stride))
            return true;
    return false;
}

static bool elements_touch(const softmax_job *job, const call_array *a, const call_array *b)
{
    difference d;
    if (!a->place || !b->place || a->end - a->first > SPAN_LIMIT || b->end - b->first > SPAN_LIMIT)
        return true;
    d.terms = 0;
    d.steps = SEARCH_STEPS;
    add_dimension(&d, a->place->column_stride, b->place->column_stride, job->columns);
    for (int i = 0; i < job->dimensions; i++)
        add_dimension(&d, a->place->row_stride[i], b->place->row_stride[i], job->shape[i]);
    d.low[d.terms] = d.high[d.terms] = 0;
    for (int i = d.terms - 1; i >= 0; i--) {
        d.low[i] = d.low[i + 1] + d.stride[i] * d.least[i];
        d.high[i] = d.high[i + 1] + d.stride[i] * d.most[i];
    }
    d.below = -softmax_element_bytes(b->place->type);
    d.above = softmax_element_bytes(a->place->type);
    return touches(&d, 0, (int64_t)((uintptr_t)b->place->data - (uintptr_t)a->place->data));
}

/* The same elements in the same places; strides of dimensions of size 1 are 0 in both. */
static bool exactly(const softmax_job *job, const operand *a, const operand *b)
{
    if (a->data != b->data || a->type != b->type || a->column_stride != b->column_stride)
        return false;
    for (int i = 0; i < job->dimensions; i++)
        if (a->row_stride[i] != b->row_stride[i])
            return false;
    return true;
}

/* y over x, dx over y or dy, the gradient over the logits. logsumexp has another shape than its input. */
static bool may_be(const softmax_job *job, const call_array *output, const call_array *other)
{
    return output->place == &job->out && job->op != OPERATION_LOGSUMEXP &&
           (other->place == &job->x || other->place == &job->dy);
}

static softmax_status check_pair(const api_call *call, const call_array *output, const call_array *other)
{
    bool allowed;
    if (output->first >= other->end || other->first >= output->end || output->first == output->end ||
        other->first == other->end)
        return SOFTMAX_OK;
    allowed = may_be(&call->job, output, other);
    if (allowed && exactly(&call->job, output->place, other->place))
        return SOFTMAX_OK;
    if (!elements_touch(&call->job, output, other))
        return SOFTMAX_OK;
    return softmax_refuse(call, SOFTMAX_ERROR_ALIAS, "%s overlaps %s; %s", output->name, other->name,
                          allowed ? "the same address, type, shape and strides are allowed, or no overlap"
                                  : "no overlap is allowed");
}

softmax_status softmax_check_overlap(const api_call *call)
{
    for (int i = 0; i < call->arrays; i++) {
        const call_array *output = &call->array[i];
        for (int j = 0; output->output && j < call->arrays; j++) {
            softmax_status status;
            if (j == i || (call->array[j].output && j > i)) /* two outputs: once */
                continue;
            status = check_pair(call, output, &call->array[j]);
            if (status != SOFTMAX_OK)
                return status;
        }
    }
    return SOFTMAX_OK;
}
