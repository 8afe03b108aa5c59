/* More than 2^31 elements, rows and strides: 64-bit offsets throughout. Inputs of stride 0 and reserved address space
 * keep it in a small memory. */
#define _GNU_SOURCE
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BEYOND ((INT64_C(1) << 31) + 5)

static void test_long_row(void)
{
    float x = 3.5f, l = 0;
    tensor in, out;
    tensor_make(&in, &x, float_formats[0].dlpack, 2, (int64_t[]){1, BEYOND}, (int64_t[]){0, 0});
    tensor_vector(&out, &l, float_formats[0].dlpack, 1);
    library_call call = library_call_of(LOGSUMEXP, &in.dl, NULL, &out.dl, NULL, 1);
    library_run_ok(&call, "one row beyond 2^31 columns");
    double expected = 3.5 + log((double)BEYOND);
    CHECK(fabs(l - expected) <= 0x1p-19, "logsumexp of 2^31 + 5 equal scores: %.9g, not %.9g", l, expected);
}

/* Rows whose distance is beyond 2^31 elements, in reserved memory of which only the rows themselves are ever touched.
 */
static void test_far_rows(void)
{
    enum { COLUMNS = 9 };
    int64_t stride = BEYOND;
    size_t bytes = (size_t)(2 * stride + COLUMNS) * sizeof(float);
    float *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        printf("SKIPPED: rows 2^31 elements apart; no address space of %zu bytes\n", bytes);
        return;
    }
    tensor in;
    int64_t targets[3] = {0, 8, 4};
    float losses[3];
    tensor target, loss;
    for (int64_t r = 0; r < 3; r++)
        for (int j = 0; j < COLUMNS; j++)
            memory[r * stride + j] = (float)(r + 1) * (float)j;
    tensor_make(&in, memory, float_formats[0].dlpack, 2, (int64_t[]){3, COLUMNS}, (int64_t[]){stride, 1});
    library_call call = library_call_of(CROSS_ENTROPY, &in.dl, tensor_vector(&target, targets, tensor_int64, 3), NULL,
                                        tensor_vector(&loss, losses, float_formats[0].dlpack, 3), 1);
    call.options.reduction = SOFTMAX_NONE;
    library_run_ok(&call, "losses of far rows");
    CHECK(losses[0] > 8 && losses[0] < 9 && losses[1] > 0 && losses[1] < 0.2f, "losses of far rows: %g %g %g",
          losses[0], losses[1], losses[2]);
    call = library_call_of(SOFTMAX, &in.dl, NULL, &in.dl, NULL, -1);
    library_run_ok(&call, "far rows in place");
    for (int64_t r = 0; r < 3; r++) {
        double ratio = memory[r * stride + 8] / memory[r * stride + 7], expected = exp((double)(r + 1));
        CHECK(fabs(ratio - expected) <= 1e-5 * expected, "far row %ld: neighbours' ratio %g, not %g", (long)r, ratio,
              expected);
    }
    munmap(memory, bytes);
}

/* Many rows, by broadcast: more elements than 2^31 in one call, and rows * columns beyond any 32-bit index. */
static void test_many_rows(void)
{
    const int64_t rows = (INT64_C(1) << 24) + 1, columns = 129;
    uint16_t *l = malloc((size_t)rows * sizeof *l);
    tensor in, out;
    if (!l) {
        printf("SKIPPED: 2^24 rows; no memory for their results\n");
        return;
    }
    memset(l, 0xc5, (size_t)rows * sizeof *l);
    uint16_t zeros[129] = {0};
    tensor_make(&in, zeros, float_formats[2].dlpack, 2, (int64_t[]){rows, columns}, (int64_t[]){0, 1});
    tensor_vector(&out, l, float_formats[2].dlpack, rows);
    library_call call = library_call_of(LOGSUMEXP, &in.dl, NULL, &out.dl, NULL, 1);
    library_run_ok(&call, "2^24 rows of 129");
    double expected = format_round(&float_formats[2], log((double)columns));
    int64_t wrong = 0;
    for (int64_t r = 0; r < rows; r++)
        wrong += l[r] != l[0];
    CHECK(wrong == 0 && format_load(&float_formats[2], l, 0) == expected,
          "2^24 rows of 129: %ld differ from the first, %g", (long)wrong, format_load(&float_formats[2], l, 0));
    free(l);
}

int main(void)
{
    printf("instruction set: %s\n", softmax_isa_default());
    test_far_rows();
    test_long_row();
    test_many_rows();
    return check_finish("index_width");
}
