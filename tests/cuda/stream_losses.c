/* A mean's rows take another kernel than those of a loss a row, and so do its targets' gradients: both must have the same bits. Here the mean divides by
 * a power of two, which the loss a row gets as its upstream gradient. */
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 20, KEPT = 16, KINDS = 10 };

static double value_of(int64_t row, int64_t columns, int64_t column, random_source *source)
{
    static const double scales[KINDS] = {3, 30, 0.01, 600, 3, 3, 3, 1, 1e5, 0}, offsets[KINDS] = {0, 0, 0, 0, 1e4, -200, 0, 0, 0, -7};
    const int64_t kind = row % KINDS;
    const double x = scales[kind] * random_normal(source) + offsets[kind];
    if (kind == 7 || (kind == 5 && column % 1000 == 3))
        return -INFINITY;
    return kind == 6 && row == 6 && column == columns / 2 ? NAN : x;
}

static char *memory_of(int64_t elements)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 256, (size_t)elements * 4))
        abort();
    memset(memory, 0xc5, (size_t)elements * 4);
    return memory;
}

static void compare(const float_format *format, int64_t columns)
{
    const float_format *losses = float_format_of_losses(format);
    const int64_t elements = ROWS * columns;
    char *x = memory_of(elements), *mean = memory_of(elements), *each = memory_of(elements);
    float loss[ROWS], loss_of_mean, upstream[ROWS];
    int64_t targets[ROWS], at = 0;
    tensor logits, classes, gradient, result, factors;
    random_source source = random_seed((uint64_t)columns);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t j = 0; j < columns; j++)
            format_store(format, x, row * columns + j, value_of(row, columns, j, &source));
        targets[row] = row / (ROWS - KEPT) == 3 ? -100 : (int64_t)random_below(&source, (uint64_t)columns);
        upstream[row] = 1.0f / KEPT;
    }
    library_call call = library_call_of(CROSS_ENTROPY, tensor_matrix(&logits, x, format->dlpack, ROWS, columns),
                                        tensor_vector(&classes, targets, tensor_int64, ROWS),
                                        tensor_matrix(&gradient, mean, format->dlpack, ROWS, columns),
                                        tensor_vector(&result, &loss_of_mean, losses->dlpack, 1), 1);
    call.options.reduction = SOFTMAX_MEAN;
    result.dl.ndim = 0;
    library_run_ok(&call, "a mean");
    call.output = tensor_matrix(&gradient, each, format->dlpack, ROWS, columns);
    call.loss = tensor_vector(&result, loss, losses->dlpack, ROWS);
    call.options.reduction = SOFTMAX_NONE;
    call.options.grad_output = tensor_vector(&factors, upstream, losses->dlpack, ROWS);
    library_run_ok(&call, "a loss a row");
    while (at < elements && memcmp(mean + at * format->bytes, each + at * format->bytes, (size_t)format->bytes) == 0)
        at++;
    CHECK(at == elements, "%s, %ld columns: element (%ld, %ld) is %a in a mean and %a in a loss a row", format->name, (long)columns,
          (long)(at / columns), (long)(at % columns), at < elements ? format_load(format, mean, at) : 0,
          at < elements ? format_load(format, each, at) : 0);
    for (int64_t j = 0; j < columns; j++) /* of the first row: neither zeros nor one value, nor what was there before */
        CHECK(j == targets[0] ? format_load(format, mean, j) < 0 : format_load(format, mean, j) >= 0 && format_load(format, mean, j) < 1.0 / KEPT,
              "%s, %ld columns: the gradient of column %ld is %a, the target is %ld", format->name, (long)columns, (long)j, format_load(format, mean, j),
              (long)targets[0]);
    CHECK(loss_of_mean != loss_of_mean, "%s, %ld columns: a mean over a row with NaN is %a", format->name, (long)columns, (double)loss_of_mean);
    free(x);
    free(mean);
    free(each);
}

int main(void)
{
    static const int64_t widths[] = {3072, 4096, 5128, 17000}; /* too few warps; a thread block; its last block of columns not full; a cluster */
    for (int f = 0; f < 3; f++) /* float32, bfloat16, float16 */
        for (int w = 0; w < 4; w++)
            compare(&float_formats[f == 1 ? 3 : f == 2 ? 2 : 0], widths[w]);
    return check_finish("stream_losses");
}
