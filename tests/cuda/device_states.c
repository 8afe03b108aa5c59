/* The online state in device memory: tiles into two sets of states, merged, read out and normalised, give the bits of one call on the CPU; a state
 * that nobody began is reported, and its row alone is NaN. */
#include "oracle/check.h"
#include "oracle/float_formats.h"
#include "oracle/random_rows.h"
#include "oracle/tensor.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, COLUMNS = 3 * SOFTMAX_BLOCK_COLUMNS + 77, TILE = SOFTMAX_BLOCK_COLUMNS };

static void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "device_states: %s\n", cudaGetErrorString(error));
    exit(1);
}

static void *on_device(const void *from, size_t bytes)
{
    void *to;
    must(cudaMalloc(&to, bytes));
    must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    return to;
}

/* Columns [first, end) of all rows, on the device. */
static DLTensor *columns_of(tensor *t, const float_format *format, char *data, int64_t first, int64_t end)
{
    const int64_t shape[2] = {ROWS, end - first}, strides[2] = {COLUMNS, 1};
    tensor_make(t, data + first * format->bytes, format->dlpack, 2, shape, strides);
    t->dl.device.device_type = kDLCUDA;
    return &t->dl;
}

typedef struct device_arrays {
    char *x, *y;
    softmax_state *states, *others;
    void *logsumexp;
    int64_t *status;
} device_arrays;

/* All tiles but the second into one set of states, last first; that into the others; and what comes out, to y and l. */
static void through_states(const device_arrays *d, const float_format *input, const float_format *output, softmax_type type, char *y, void *l)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    char message[200] = "";
    tensor tile, result;
    options.device_status = d->status;
    options.message = message;
    options.message_bytes = sizeof message;
    CHECK(softmax_cuda_state_init(d->states, ROWS, type, 0, NULL) == SOFTMAX_OK, "init");
    CHECK(softmax_cuda_state_init(d->others, ROWS, type, 0, NULL) == SOFTMAX_OK, "init");
    for (int64_t first = COLUMNS / TILE * TILE; first >= 0; first -= TILE) {
        int64_t end = first + TILE < COLUMNS ? first + TILE : COLUMNS;
        softmax_status status = softmax_state_update(first == TILE ? d->others : d->states, columns_of(&tile, input, d->x, first, end), 1, &options);
        CHECK(status == SOFTMAX_OK, "update: %s", message);
    }
    CHECK(softmax_cuda_state_merge(d->others, d->states, ROWS, type, 0, NULL) == SOFTMAX_OK, "merge");
    CHECK(softmax_cuda_state_logsumexp(d->others, d->logsumexp, ROWS, type, 0, NULL) == SOFTMAX_OK, "logsumexp");
    for (int64_t first = 0; first < COLUMNS; first += TILE) {
        int64_t end = first + TILE < COLUMNS ? first + TILE : COLUMNS;
        softmax_status status =
            softmax_state_normalise(d->others, columns_of(&tile, input, d->x, first, end), columns_of(&result, output, d->y, first, end), 1, &options);
        CHECK(status == SOFTMAX_OK, "normalise: %s", message);
    }
    must(cudaMemcpy(y, d->y, (size_t)(ROWS * COLUMNS * output->bytes), cudaMemcpyDeviceToHost));
    must(cudaMemcpy(l, d->logsumexp, ROWS * sizeof(double), cudaMemcpyDeviceToHost));
}

static void test_type(const float_format *input, const float_format *output, softmax_type type)
{
    static double space[4][ROWS * COLUMNS];
    char *x = (char *)space[0], *expected = (char *)space[1], *y = (char *)space[2];
    double l[ROWS] = {0}, expected_l[ROWS] = {0};
    softmax_state states[ROWS];
    random_source source = random_seed(17);
    tensor a, b;
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        format_store(input, x, i, (i / COLUMNS == 2 ? 300 : 3) * random_normal(&source));
    format_store(input, x, 3 * COLUMNS + 1500, NAN);
    CHECK(softmax_softmax(tensor_matrix(&a, x, input->dlpack, ROWS, COLUMNS), tensor_matrix(&b, expected, output->dlpack, ROWS, COLUMNS), 1, NULL) == SOFTMAX_OK,
          "on the CPU");
    softmax_state_init(states, ROWS, type);
    softmax_state_update(states, &a.dl, 1, NULL);
    softmax_state_logsumexp(states, expected_l, ROWS);
    device_arrays d = {on_device(x, sizeof space[0]), on_device(y, sizeof space[0]), on_device(space, sizeof states), on_device(space, sizeof states),
                       on_device(l, sizeof l), on_device(l, sizeof l)};
    through_states(&d, input, output, type, y, l);
    CHECK(memcmp(y, expected, (size_t)(ROWS * COLUMNS * output->bytes)) == 0, "%s to %s: results differ", input->name, output->name);
    CHECK(memcmp(l, expected_l, ROWS * (type == SOFTMAX_FLOAT64 ? sizeof(double) : sizeof(float))) == 0, "%s to %s: logsumexp differs", input->name,
          output->name);
    must(cudaMemset(d.others + 1, 0x5a, sizeof *d.others)); /* a state that nobody began */
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    int64_t bad = 0;
    options.device_status = d.status;
    softmax_state_normalise(d.others, columns_of(&a, input, d.x, 0, TILE), columns_of(&b, output, d.y, 0, TILE), 1, &options);
    must(cudaMemcpy(&bad, d.status, sizeof bad, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(y, d.y, (size_t)(ROWS * COLUMNS * output->bytes), cudaMemcpyDeviceToHost));
    CHECK(bad == 2, "the status word is %ld, and the bad state is number 1", (long)bad);
    CHECK(isnan(format_load(output, y, COLUMNS)) && memcmp(y, expected, TILE * (size_t)output->bytes) == 0, "%s: the bad state's row, or another", input->name);
    void *all[] = {d.x, d.y, d.states, d.others, d.logsumexp, d.status};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        must(cudaFree(all[i]));
}

static void test_refusals(void)
{
    softmax_state states[2];
    float l[2];
    CHECK(softmax_cuda_state_init(states, -1, SOFTMAX_FLOAT32, 0, NULL) == SOFTMAX_ERROR_SHAPE, "count -1");
    CHECK(softmax_cuda_state_init(NULL, 1, SOFTMAX_FLOAT32, 0, NULL) == SOFTMAX_ERROR_NULL, "NULL");
    CHECK(softmax_cuda_state_init(states, 1, (softmax_type)5, 0, NULL) == SOFTMAX_ERROR_TYPE, "type 5");
    CHECK(softmax_cuda_state_init(states, 1, SOFTMAX_FLOAT32, 1000, NULL) == SOFTMAX_ERROR_DEVICE, "device 1000");
    CHECK(softmax_cuda_state_merge(states, states, 1, SOFTMAX_FLOAT32, 0, NULL) == SOFTMAX_ERROR_ALIAS, "a state with itself");
    CHECK(softmax_cuda_state_logsumexp(states, states, 1, SOFTMAX_FLOAT32, 0, NULL) == SOFTMAX_ERROR_ALIAS, "over the states");
    CHECK(softmax_cuda_state_logsumexp(states, l, 0, SOFTMAX_FLOAT32, 0, NULL) == SOFTMAX_OK, "no states");
}

int main(void)
{
    if (softmax_cuda_device_count() <= 0) {
        puts("there is no GPU here");
        return 77;
    }
    for (int f = 0; f < 6; f++) /* float_formats: float32, float64, float16, bfloat16; then 16 bits into float32 */
        test_type(&float_formats[f < 4 ? f : f - 2], &float_formats[f < 4 ? f : 0], (softmax_type)(f < 4 ? f + 1 : 1));
    test_refusals();
    return check_finish("device_states");
}
