/* FAULTS.md's rows that concern the CPU: small inputs that other libraries got wrong, with the right answers. What a
 * row stands for in general (every operation, type, axis) is tested by special.c, bits.c, shapes.c and the accuracy
 * tests; here is the row itself. */
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 8 };

static const char *current_set;

/* ---- One row in, its results out ----------------------------------------------------------------------------------
 */

typedef struct fault_row {
    const char *kind;
    operation operation;
    softmax_type type;
    int empty_rows;
    int64_t columns;
    double x[4];
    double expected[4];
} fault_row;

static const fault_row rows[] = {
    {"all masked", SOFTMAX, SOFTMAX_FLOAT32, 0, 3, {-INFINITY, -INFINITY, -INFINITY}, {NAN, NAN, NAN}},
    {"all masked, zeros", SOFTMAX, SOFTMAX_FLOAT32, 1, 3, {-INFINITY, -INFINITY, -INFINITY}, {0, 0, 0}},
    {"all masked", LOGSUMEXP, SOFTMAX_FLOAT32, 0, 3, {-INFINITY, -INFINITY, -INFINITY}, {-INFINITY}},
    {"all masked", LOGSUMEXP, SOFTMAX_FLOAT32, 1, 2, {-INFINITY, -INFINITY}, {-INFINITY}},
    {"beside all masked", LOGSUMEXP, SOFTMAX_FLOAT32, 0, 2, {1, 2}, {2.3132616875182228}},
    {"infinities", SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {0, INFINITY}, {NAN, NAN}},
    {"infinities", SOFTMAX, SOFTMAX_FLOAT32, 0, 3, {-INFINITY, 0, INFINITY}, {NAN, NAN, NAN}},
    {"infinities", LOGSUMEXP, SOFTMAX_FLOAT32, 0, 3, {-INFINITY, 0, INFINITY}, {INFINITY}},
    {"no shift", SOFTMAX, SOFTMAX_FLOAT64, 0, 3, {800, 1, 1}, {1, 0, 0}}, /* e^-799 is below the smallest normal */
    {"no shift", SOFTMAX, SOFTMAX_FLOAT32, 0, 3, {90, 2, -2}, {1, 6.0546018954e-39, 0}},
    {"no shift", SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {-1000, -1001}, {0.7310585786300049, 0.2689414213699951}},
    {"no shift", LOGSUMEXP, SOFTMAX_FLOAT32, 0, 2, {-1000, -1001}, {-999.68673831248177}},
    {"cancellation", LOG_SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {1e8, 1e8}, {-0.6931471805599453, -0.6931471805599453}},
    {"huge scores", SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {1e8, 1e8 - 8}, {0.99966464986953352, 3.3535013046647811e-4}},
    {"huge scores", SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {-3e6, -3000001}, {0.7310585786300049, 0.2689414213699951}},
    {"huge scores", SOFTMAX, SOFTMAX_FLOAT32, 0, 2, {FLT_MAX, -FLT_MAX}, {1, 0}},
    {"huge scores", LOGSUMEXP, SOFTMAX_FLOAT32, 0, 2, {FLT_MAX, -FLT_MAX}, {FLT_MAX}},
    {"huge scores", SOFTMAX, SOFTMAX_FLOAT64, 0, 2, {DBL_MAX, -DBL_MAX}, {1, 0}},
    {"confident", LOG_SOFTMAX, SOFTMAX_FLOAT32, 0, 3, {40, 0, 0}, {-8.4967085105831797e-18, -40, -40}},
    {"confident", LOG_SOFTMAX, SOFTMAX_FLOAT64, 0, 3, {40, 0, 0}, {-8.4967085105831797e-18, -40, -40}},
    {"widths", SOFTMAX, SOFTMAX_BFLOAT16, 0, 1, {-100}, {1}},
};

static void check_value(const fault_row *row, int64_t column, double value, double expected)
{
    const float_format *format = float_format_of(row->type);
    double unit = ldexp(1, 1 - format->precision);
    bool right = value == expected || fabs(value - expected) <= 2 * unit * fabs(expected);
    if (isnan(expected))
        right = isnan(value);
    else if (fabs(expected) < ldexp(1, format->smallest_exponent))
        right = value == 0;
    CHECK(right, "%s, %s %s [%g, ...] %s: column %ld is %.9g, not %.9g", row->kind, operation_names[row->operation],
          format->name, row->x[0], current_set, (long)column, value, expected);
}

/* The row between two ordinary ones, which must come out as alone. */
static void test_row(const fault_row *row)
{
    const float_format *format = float_format_of(row->type);
    char x[3 * 4 * 8], y[3 * 4 * 8];
    int64_t n = row->columns, outputs = row->operation == LOGSUMEXP ? 1 : n;
    tensor in, out;
    for (int64_t r = 0; r < 3; r++)
        for (int64_t j = 0; j < n; j++)
            format_store(format, x, r * n + j, r == 1 ? row->x[j] : 0);
    library_call call = library_call_of(row->operation, tensor_matrix(&in, x, format->dlpack, 3, n), NULL,
                                        tensor_matrix(&out, y, format->dlpack, 3, n), NULL, 1);
    if (row->operation == LOGSUMEXP)
        tensor_vector(&out, y, format->dlpack, 3);
    call.options.isa = current_set;
    call.options.empty_rows = row->empty_rows;
    library_run_ok(&call, row->kind);
    for (int64_t j = 0; j < outputs; j++) {
        double zeros = row->operation == SOFTMAX     ? 1 / (double)n
                       : row->operation == LOGSUMEXP ? log((double)n)
                                                     : -log((double)n);
        check_value(row, j, format_load(format, y, outputs + j), row->expected[j]);
        check_value(row, j, format_load(format, y, j), zeros);
        check_value(row, j, format_load(format, y, 2 * outputs + j), zeros);
    }
}

/* ---- Constant rows: narrow and serial sums ------------------------------------------------------------------------
 */

static void test_constant_row(softmax_type type, int64_t columns, double value)
{
    const float_format *format = float_format_of(type);
    char *x = malloc((size_t)(columns * format->bytes));
    softmax_options options = library_options(current_set);
    if (!x)
        abort();
    for (int64_t j = 0; j < columns; j++)
        format_store(format, x, j, value);
    softmax_status status = softmax_softmax_rows(type, 1, columns, x, x, &options);
    CHECK(status == SOFTMAX_OK, "constant row: %s", library_message);
    int64_t wrong = 0;
    for (int64_t j = 0; j < columns; j++)
        wrong += format_load(format, x, j) != 1 / (double)columns;
    CHECK(wrong == 0, "%s row of %ld times %g, %s: %ld columns are not 1/n, the first is %g", format->name,
          (long)columns, value, current_set, (long)wrong, format_load(format, x, 0));
    free(x);
}

static void test_constant_rows(bool large)
{
    test_constant_row(SOFTMAX_FLOAT16, 4096, 0);
    test_constant_row(SOFTMAX_FLOAT16, 65536, 0);
    test_constant_row(SOFTMAX_BFLOAT16, 512, 0);
    test_constant_row(SOFTMAX_FLOAT32, 1 << 20, 3.25);
    if (large)
        test_constant_row(SOFTMAX_FLOAT32, 1 << 25, -7);
    float lse;
    uint16_t halves[32];
    softmax_options options = library_options(current_set);
    for (int j = 0; j < 32; j++)
        format_store(&float_formats[2], halves, j, 7.64);
    tensor in, out;
    tensor_matrix(&in, halves, float_formats[2].dlpack, 1, 32);
    tensor_vector(&out, &lse, float_formats[0].dlpack, 1);
    CHECK(softmax_logsumexp(&in.dl, &out.dl, 1, &options) == SOFTMAX_OK, "%s", library_message);
    CHECK(fabsf(lse - 11.106f) < 1e-3f, "float16 range, %s: logsumexp of 32 times 7.64 is %g", current_set, lse);
}

/* ---- Losses -------------------------------------------------------------------------------------------------------
 */

static void test_confident_loss(void)
{
    const float x[3] = {40, 0, 0};
    const int64_t target = 0;
    float loss, gradient[3];
    softmax_options options = library_options(current_set);
    CHECK(softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 1, 3, x, &target, &loss, gradient, &options) == SOFTMAX_OK, "%s",
          library_message);
    CHECK(fabs(loss - 8.4967085e-18) <= 2e-24, "confident loss, %s: %.9g", current_set, loss);
    CHECK(fabs(gradient[0] + 8.4967085e-18) <= 3e-24, "confident gradient, %s: %.9g", current_set, gradient[0]);
    CHECK(x[0] == 40 && x[1] == 0, "the logits are as they were");
}

static void test_bad_targets(void)
{
    static const int64_t bad[] = {100, -1, 2, 3};
    float x[4] = {1, 2, 3, 4}, loss = 77, gradient[4] = {77, 77, 77, 77};
    softmax_options options = library_options(current_set);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t targets[2] = {1, bad[i]};
        char value[32];
        softmax_status status =
            softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 2, 2, x, targets, &loss, gradient, &options);
        CHECK(status == SOFTMAX_ERROR_TARGET, "target %ld, %s: status %d", (long)bad[i], current_set, (int)status);
        snprintf(value, sizeof value, "%ld", (long)bad[i]);
        CHECK(strstr(library_message, value) && strstr(library_message, "row 1"),
              "the message names row and value: '%s'", library_message);
        CHECK(loss == 77 && gradient[0] == 77 && gradient[3] == 77, "target %ld: something was written", (long)bad[i]);
    }
}

/* none with smoothing, an ignored row, and an upstream gradient per row: the gradient scales with it. */
static void test_upstream_per_row(void)
{
    const float x[9] = {1, 2, 3, 0, -1, 2, 4, 4, 1}, upstream[3] = {2, -3, 0.5f};
    const int64_t targets[3] = {0, -100, 2};
    float loss[3], gradient[9], scaled[9];
    tensor grad_output;
    softmax_options options = library_options(current_set);
    options.reduction = SOFTMAX_NONE;
    options.label_smoothing = 0.25;
    softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 3, 3, x, targets, loss, gradient, &options);
    options.grad_output = tensor_vector(&grad_output, (void *)(uintptr_t)upstream, float_formats[0].dlpack, 3);
    softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 3, 3, x, targets, loss, scaled, &options);
    CHECK(loss[1] == 0 && loss[0] > 0 && loss[2] > 0, "options, %s: losses %g %g %g", current_set, loss[0], loss[1],
          loss[2]);
    for (int i = 0; i < 9; i++) {
        float expected = gradient[i] * upstream[i / 3];
        CHECK(fabsf(scaled[i] - expected) <= 1e-6f * fabsf(expected), "options, %s: gradient %d is %g, not %g",
              current_set, i, scaled[i], expected);
    }
}

/* ---- The state's huge scores, and the width padded inside ---------------------------------------------------------
 */

static void test_huge_tiles(void)
{
    float first[1] = {1}, second[1] = {1e30f}, y[2];
    tensor a, b, out;
    softmax_state state;
    softmax_options options = library_options(current_set);
    softmax_state_init(&state, 1, SOFTMAX_FLOAT32);
    softmax_state_update(&state, tensor_matrix(&a, first, float_formats[0].dlpack, 1, 1), 1, &options);
    softmax_state_update(&state, tensor_matrix(&b, second, float_formats[0].dlpack, 1, 1), 1, &options);
    softmax_state_normalise(&state, &a.dl, tensor_matrix(&out, y, float_formats[0].dlpack, 1, 1), 1, &options);
    softmax_state_normalise(&state, &b.dl, tensor_matrix(&out, y + 1, float_formats[0].dlpack, 1, 1), 1, &options);
    CHECK(y[0] == 0 && y[1] == 1, "tiles [1] and [1e30], %s: %g %g", current_set, y[0], y[1]);
}

static void test_padding(void)
{
    for (int f = 0; f < 4; f++) {
        const float_format *format = &float_formats[f];
        char x[5 * 8], y[5 * 8];
        double sum = 0;
        softmax_options options = library_options(current_set);
        for (int j = 0; j < 5; j++)
            format_store(format, x, j, -100);
        softmax_softmax_rows(format->type, 1, 5, x, y, &options);
        for (int j = 0; j < 5; j++)
            sum += format_load(format, y, j);
        CHECK(fabs(sum - 1) <= 5 * ldexp(1, -format->precision), "five times -100, %s %s: sum %g", format->name,
              current_set, sum);
    }
}

/* ---- The same input many times ------------------------------------------------------------------------------------
 */

static void test_determinism(void)
{
    enum { COLUMNS = 30001, TIMES = 30 };
    float *x = malloc(COLUMNS * sizeof *x), *y = malloc(COLUMNS * sizeof *y), *first = malloc(COLUMNS * sizeof *first);
    if (!x || !y || !first)
        abort();
    for (int j = 0; j < COLUMNS; j++)
        x[j] = (float)((j * 7919) % 1000) * 0.01f;
    for (int time = 0; time < TIMES; time++) {
        softmax_options options = library_options(current_set);
        options.threads = (int[]){0, 1, 2, 7}[time % 4];
        softmax_softmax_rows(SOFTMAX_FLOAT32, 1, COLUMNS, x, time ? y : first, &options);
        CHECK(time == 0 || memcmp(y, first, COLUMNS * sizeof *y) == 0, "the same input again, %s: other bits",
              current_set);
    }
    free(x);
    free(y);
    free(first);
}

int main(void)
{
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int s = 0; s < set_count; s++) {
        current_set = sets[s];
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            test_row(&rows[i]);
        test_constant_rows(s == set_count - 1);
        test_confident_loss();
        test_bad_targets();
        test_upstream_per_row();
        test_huge_tiles();
        test_padding();
        test_determinism();
    }
    return check_finish("faults");
}
