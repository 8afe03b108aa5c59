/* Which overlaps are refused: random pairs of strided arrays against a map of their bytes, and the cases that users
 * meet. */
#include "api_call.h"
#include "oracle/check.h"
#include "random_tensor.h"

#include <string.h>

enum { TRIALS = 30000, MIDDLE = 8192 };

static const DLDataType float32 = {kDLFloat, 32, 1};
static char memory[2 * MIDDLE];

static softmax_status overlap_of(const DLTensor *x, const DLTensor *y)
{
    api_call call;
    softmax_status status = softmax_call_begin(&call, OPERATION_SOFTMAX, NULL);
    if (status == SOFTMAX_OK)
        status = softmax_forward_arrays(&call, x, y, -1);
    return status == SOFTMAX_OK ? softmax_check_overlap(&call) : status;
}

/* Marks every byte of a tensor of 4-byte elements; returns whether one was marked already. */
static bool mark(unsigned char *map, const DLTensor *dl)
{
    bool met = false;
    for (int64_t i = 0; i < tensor_elements(dl); i++) {
        unsigned char *at = map + ((char *)dl->data - memory) + (int64_t)dl->byte_offset + 4 * tensor_offset(dl, i);
        for (int b = 0; b < 4; b++)
            met |= at[b] == 1;
    }
    for (int64_t i = 0; i < tensor_elements(dl); i++)
        memset(map + ((char *)dl->data - memory) + (int64_t)dl->byte_offset + 4 * tensor_offset(dl, i), 1, 4);
    return met;
}

static bool same_places(const tensor *x, const tensor *y)
{
    bool same = (char *)x->dl.data + x->dl.byte_offset == (char *)y->dl.data + y->dl.byte_offset;
    for (int d = 0; d < x->dl.ndim; d++)
        same &= x->shape[d] == 1 || x->strides[d] == y->strides[d];
    return same;
}

static void random_trials(void)
{
    static unsigned char map[2 * MIDDLE];
    uint64_t seed = 7;
    long refused = 0, crossing = 0;
    for (int i = 0; i < TRIALS; i++) {
        int ndim = 1 + random_below(&seed, 4);
        int64_t shape[4], x_strides[4], y_strides[4];
        bool equal_strides = random_below(&seed, 2);
        tensor x, y;
        for (int d = 0; d < ndim; d++)
            shape[d] = 1 + random_below(&seed, 4);
        random_strides(&seed, ndim, shape, x_strides, !equal_strides);
        random_strides(&seed, ndim, shape, y_strides, 0);
        tensor_make(&x, memory + MIDDLE, float32, ndim, shape, x_strides);
        tensor_make(&y, memory + MIDDLE + random_below(&seed, 129) - 64, float32, ndim, shape,
                    equal_strides ? x_strides : y_strides);
        y.dl.byte_offset = (uint64_t)random_below(&seed, 2) * 4;
        memset(map, 0, sizeof map);
        mark(map, &x.dl);
        bool touches = mark(map, &y.dl), right = touches && !same_places(&x, &y);
        softmax_status status = overlap_of(&x.dl, &y.dl);
        if (!CHECK((status == SOFTMAX_ERROR_ALIAS) == right && (status == SOFTMAX_OK) == !right,
                   "trial %d: status %d, the bytes %s", i, (int)status, touches ? "touch" : "are apart"))
            return;
        refused += right;
        crossing += !touches;
    }
    CHECK(refused > TRIALS / 10 && crossing > TRIALS / 10, "%ld refused, %ld apart: the trials are too much alike",
          refused, crossing);
}

/* Columns [0, 5) and [from, from + 5) of a matrix with a pitch of 16. */
static softmax_status halves(int64_t from)
{
    const int64_t shape[2] = {40, 5}, strides[2] = {16, 1};
    tensor x, y;
    tensor_make(&x, memory, float32, 2, shape, strides);
    tensor_make(&y, memory + 4 * from, float32, 2, shape, strides);
    return overlap_of(&x.dl, &y.dl);
}

static void what_users_meet(void)
{
    const int64_t square[2] = {8, 8}, transposed[2] = {1, 8}, row[2] = {1, 8}, odd_strides[2] = {99, 1};
    tensor x, y;
    CHECK(halves(8) == SOFTMAX_OK && halves(5) == SOFTMAX_OK && halves(11) == SOFTMAX_OK,
          "disjoint columns of one matrix");
    CHECK(halves(4) == SOFTMAX_ERROR_ALIAS && halves(12) == SOFTMAX_ERROR_ALIAS, "columns that meet");
    CHECK(halves(0) == SOFTMAX_OK, "exactly in place");
    tensor_make(&x, memory, float32, 2, square, NULL);
    tensor_make(&y, memory, float32, 2, square, transposed);
    CHECK(overlap_of(&x.dl, &y.dl) == SOFTMAX_ERROR_ALIAS, "the transpose in place");
    tensor_make(&x, memory, float32, 2, row, NULL);
    tensor_make(&y, memory, float32, 2, row, odd_strides);
    CHECK(overlap_of(&x.dl, &y.dl) == SOFTMAX_OK, "the stride of a dimension of size 1 means nothing");
    x.dl.byte_offset = 8;
    tensor_make(&y, memory + 8, float32, 2, row, NULL);
    CHECK(overlap_of(&x.dl, &y.dl) == SOFTMAX_OK, "in place through byte_offset");
}

/* Outputs may not be bias, mask, grad_output or targets, not even exactly. */
static void others_than_x(void)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    tensor x, y, targets, loss;
    api_call call;
    tensor_matrix(&x, memory, float32, 4, 4);
    tensor_matrix(&y, memory + 1024, float32, 4, 4);
    options.bias = &y.dl;
    CHECK(softmax_softmax(&x.dl, &y.dl, -1, &options) == SOFTMAX_ERROR_ALIAS, "y is bias");
    options.bias = NULL;
    tensor_vector(&targets, memory + 2048, tensor_int32, 4);
    tensor_vector(&loss, memory + 2048, float32, 4);
    options.reduction = SOFTMAX_NONE;
    CHECK(softmax_cross_entropy(&x.dl, &targets.dl, &loss.dl, NULL, -1, &options) == SOFTMAX_ERROR_ALIAS,
          "loss is targets");
    loss.dl.data = memory + 1024;
    CHECK(softmax_cross_entropy(&x.dl, &targets.dl, &loss.dl, &y.dl, -1, &options) == SOFTMAX_ERROR_ALIAS,
          "loss in the gradient");
    loss.dl.data = memory;
    CHECK(softmax_logsumexp(&x.dl, &loss.dl, -1, NULL) == SOFTMAX_ERROR_ALIAS, "l in x");
    CHECK(softmax_call_begin(&call, OPERATION_CROSS_ENTROPY, NULL) == SOFTMAX_OK &&
              softmax_cross_entropy_arrays(&call, &x.dl, &targets.dl, NULL, &x.dl, -1) == SOFTMAX_OK &&
              softmax_check_overlap(&call) == SOFTMAX_OK,
          "the gradient over the logits");
}

int main(void)
{
    random_trials();
    what_users_meet();
    others_than_x();
    return check_finish("overlap_test");
}
