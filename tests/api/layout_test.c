/* The job that calls lay out reaches, for every row and column, exactly the elements that the tensors mean: axis
 * removed, dimensions joined, bias, mask and lengths broadcast, over random shapes and strides. */
#include "api_call.h"
#include "oracle/check.h"
#include "random_tensor.h"

#include <stdio.h>

enum { TRIALS = 20000, MIDDLE = 1 << 16 };

static char memory[2 * MIDDLE]; /* addresses only: nothing is read */

static const char *operand_address(const softmax_job *job, const operand *place, int64_t row, int64_t column)
{
    const char *at = place->data + column * place->column_stride;
    for (int d = job->dimensions - 1; d >= 0; d--) {
        at += row % job->shape[d] * place->row_stride[d];
        row /= job->shape[d];
    }
    return at;
}

/* Of the element that a tensor, broadcast to the input's shape, has at the input's coordinates; without_axis: it lacks
 * that one. */
static const char *tensor_address(const DLTensor *dl, int bytes, const int64_t *coordinates, int ndim, int without_axis)
{
    int64_t kept[SOFTMAX_MAX_DIMENSIONS], offset = 0, contiguous = 1;
    int n = 0;
    for (int d = 0; d < ndim; d++)
        if (d != without_axis)
            kept[n++] = coordinates[d];
    for (int d = dl->ndim - 1; d >= 0; d--) {
        int64_t at = dl->shape[d] == 1 ? 0 : kept[n - dl->ndim + d];
        offset += at * (dl->strides ? dl->strides[d] : contiguous);
        contiguous *= dl->shape[d];
    }
    return (const char *)dl->data + dl->byte_offset + offset * bytes;
}

static void random_tensor(uint64_t *seed, tensor *made, DLDataType type, int ndim, const int64_t *shape, int may_repeat)
{
    int64_t strides[SOFTMAX_MAX_DIMENSIONS];
    random_strides(seed, ndim, shape, strides, may_repeat);
    tensor_make(made, memory + MIDDLE, type, ndim, shape, random_below(seed, 3) ? strides : NULL);
    made->dl.byte_offset = (uint64_t)random_below(seed, 3) * 8;
}

static void random_broadcast(uint64_t *seed, tensor *made, DLDataType type, int ndim, const int64_t *shape)
{
    int64_t smaller[SOFTMAX_MAX_DIMENSIONS];
    int dropped = random_below(seed, ndim + 1);
    for (int d = dropped; d < ndim; d++)
        smaller[d - dropped] = random_below(seed, 3) ? shape[d] : 1;
    random_tensor(seed, made, type, ndim - dropped, smaller, 1);
}

static void check_addresses(const api_call *call, const DLTensor *x, const DLTensor *y, const char *words)
{
    const softmax_job *job = &call->job;
    const softmax_options *o = &call->options;
    int64_t coordinates[SOFTMAX_MAX_DIMENSIONS];
    bool same = true;
    for (int64_t row = 0; row < job->rows; row++)
        for (int64_t column = 0; column < job->columns; column++) {
            int64_t rest = row;
            for (int d = x->ndim - 1; d >= 0; d--) {
                coordinates[d] = d == call->axis ? column : rest % x->shape[d];
                rest /= d == call->axis ? 1 : x->shape[d];
            }
            same &= operand_address(job, &job->x, row, column) == tensor_address(x, 4, coordinates, x->ndim, -1);
            same &= operand_address(job, &job->out, row, column) == tensor_address(y, 4, coordinates, x->ndim, -1);
            if (o->bias)
                same &= operand_address(job, &job->bias, row, column) ==
                        tensor_address(o->bias, 2, coordinates, x->ndim, -1);
            if (o->mask)
                same &= operand_address(job, &job->mask, row, column) ==
                        tensor_address(o->mask, 1, coordinates, x->ndim, -1);
            if (o->valid_lengths)
                same &= operand_address(job, &job->lengths, row, column) ==
                        tensor_address(o->valid_lengths, 8, coordinates, x->ndim, call->axis);
            if (job->causal) {
                int64_t below = 1;
                for (int d = job->query_dimension + 1; d < job->dimensions; d++)
                    below *= job->shape[d];
                same &= job->query_dimension < job->dimensions;
                same &= row / below % job->shape[job->query_dimension] == coordinates[x->ndim - 2];
            }
        }
    CHECK(same, "%s", words);
}

static void trial(uint64_t *seed, int number)
{
    static const DLDataType float32 = {kDLFloat, 32, 1}, bfloat16 = {kDLBfloat, 16, 1};
    int ndim = 1 + random_below(seed, 5), axis = random_below(seed, ndim), rows = 0;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS], row_shape[SOFTMAX_MAX_DIMENSIONS];
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    tensor x, y, bias, mask, lengths;
    char message[200], words[300];
    api_call call;
    softmax_status status;
    for (int d = 0; d < ndim; d++)
        shape[d] = random_below(seed, 30) ? 1 + random_below(seed, 4) : 0;
    for (int d = 0; d < ndim; d++)
        if (d != axis)
            row_shape[rows++] = shape[d];
    random_tensor(seed, &x, float32, ndim, shape, 1);
    random_tensor(seed, &y, float32, ndim, shape, 0);
    random_broadcast(seed, &bias, bfloat16, ndim, shape);
    random_broadcast(seed, &mask, number % 2 ? tensor_uint8 : tensor_bool, ndim, shape);
    random_broadcast(seed, &lengths, tensor_int64, rows, row_shape);
    options.bias = random_below(seed, 2) ? &bias.dl : NULL;
    options.mask = random_below(seed, 2) ? &mask.dl : NULL;
    options.valid_lengths = random_below(seed, 2) ? &lengths.dl : NULL;
    options.causal = axis == ndim - 1 && ndim > 1 && random_below(seed, 2);
    options.message = message;
    options.message_bytes = sizeof message;
    status = softmax_call_begin(&call, OPERATION_SOFTMAX, &options);
    if (status == SOFTMAX_OK)
        status = softmax_forward_arrays(&call, &x.dl, &y.dl, random_below(seed, 2) ? axis : axis - ndim);
    snprintf(words, sizeof words, "trial %d: %s", number, message);
    if (CHECK(status == SOFTMAX_OK, "%s", words)) {
        softmax_join_dimensions(&call);
        check_addresses(&call, &x.dl, &y.dl, words);
    }
}

/* What joins and what does not, by example. */
static void check_joined(int ndim, const int64_t *shape, const int64_t *strides, int axis, int causal, int dimensions)
{
    static const DLDataType float32 = {kDLFloat, 32, 1};
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    tensor x;
    api_call call;
    options.causal = causal;
    tensor_make(&x, memory + MIDDLE, float32, ndim, shape, strides);
    CHECK(softmax_call_begin(&call, OPERATION_SOFTMAX, &options) == SOFTMAX_OK &&
              softmax_forward_arrays(&call, &x.dl, &x.dl, axis) == SOFTMAX_OK,
          "%d dimensions, axis %d", ndim, axis);
    softmax_join_dimensions(&call);
    CHECK(call.job.dimensions == dimensions, "%d dimensions, axis %d, causal %d: %d row dimensions, not %d", ndim, axis,
          causal, call.job.dimensions, dimensions);
}

int main(void)
{
    uint64_t seed = 1;
    const int64_t whole[4] = {2, 3, 4, 5}, ones[4] = {1, 3, 1, 5}, padded[4] = {96, 32, 8, 1};
    for (int i = 0; i < TRIALS; i++)
        trial(&seed, i);
    check_joined(4, whole, NULL, -1, 0, 1);
    check_joined(4, whole, NULL, 0, 0, 1);
    check_joined(4, whole, NULL, 2, 0, 2);
    check_joined(4, whole, NULL, -1, 1, 2);
    check_joined(4, whole, padded, -1, 0, 1);
    check_joined(4, whole, padded, 0, 0, 2);
    check_joined(4, ones, NULL, -1, 0, 1);
    check_joined(4, ones, NULL, -1, 1, 2);
    check_joined(1, whole, NULL, 0, 0, 1);
    return check_finish("layout_test");
}
