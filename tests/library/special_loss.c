/* Contract C for cross_entropy: ignored rows, targets and columns at -inf, NaN, weights and probabilities of 0, no rows
 * at all; every type and instruction set. */
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SETS = 8, MAX_COLUMNS = 600, MAX_ROWS = 8 };

typedef struct loss_case {
    const float_format *format; /* of the logits */
    const float_format *losses;
    int64_t rows, columns;
    char logits[MAX_ROWS * MAX_COLUMNS * 8], gradient[MAX_ROWS * MAX_COLUMNS * 8];
    char loss[MAX_ROWS * 8], weights[MAX_COLUMNS * 8], probabilities[MAX_ROWS * MAX_COLUMNS * 8];
    int64_t targets[MAX_ROWS];
    tensor logits_tensor, targets_tensor, loss_tensor, gradient_tensor, weights_tensor;
    library_call call;
} loss_case;

static loss_case now;
static const char *current_set;
static char words[160];

/* Rows of zeros, target 0, reduction none; the caller changes what it tests. */
static void begin(const float_format *format, int64_t rows, int64_t columns, const char *what)
{
    now.format = format;
    now.losses = float_format_of_losses(format);
    now.rows = rows;
    now.columns = columns;
    memset(now.logits, 0, sizeof now.logits);
    memset(now.gradient, 0xc5, sizeof now.gradient);
    memset(now.loss, 0xc5, sizeof now.loss);
    memset(now.probabilities, 0, sizeof now.probabilities);
    memset(now.targets, 0, sizeof now.targets);
    for (int64_t j = 0; j < columns; j++)
        format_store(now.losses, now.weights, j, 1);
    now.call =
        library_call_of(CROSS_ENTROPY, tensor_matrix(&now.logits_tensor, now.logits, format->dlpack, rows, columns),
                        tensor_vector(&now.targets_tensor, now.targets, tensor_int64, rows),
                        tensor_matrix(&now.gradient_tensor, now.gradient, format->dlpack, rows, columns),
                        tensor_vector(&now.loss_tensor, now.loss, now.losses->dlpack, rows), 1);
    tensor_vector(&now.weights_tensor, now.weights, now.losses->dlpack, columns);
    now.call.options.reduction = SOFTMAX_NONE;
    now.call.options.isa = current_set;
    snprintf(words, sizeof words, "%s, %s n=%ld %s", what, format->name, (long)columns, current_set);
}

static void reduce(softmax_reduction reduction)
{
    now.call.options.reduction = reduction;
    now.loss_tensor.dl.ndim = 0;
}

static void set_logit(int64_t row, int64_t column, double value)
{
    format_store(now.format, now.logits, row * now.columns + column, value);
}

static double gradient(int64_t row, int64_t column)
{
    return format_load(now.format, now.gradient, row * now.columns + column);
}
static double loss(int64_t row)
{
    return format_load(now.losses, now.loss, row);
}
static void run(void)
{
    library_run_ok(&now.call, words);
}

static void check_loss(int64_t row, double expected)
{
    bool right =
        isnan(expected) ? isnan(loss(row)) && !signbit(loss(row)) : loss(row) == expected && !signbit(loss(row));
    CHECK(right, "%s: loss of row %ld is %a, not %a", words, (long)row, loss(row), expected);
}

/* Ordinary: finite, and log n where all logits are 0. */
static void check_log(int64_t row, double seen)
{
    CHECK(fabs(loss(row) - log(seen)) <= 1e-6 * (1 + log(seen)), "%s: loss of row %ld is %a, not log %g", words,
          (long)row, loss(row), seen);
}

static void check_gradient_row(int64_t row, double expected)
{
    for (int64_t j = 0; j < now.columns; j++) {
        double g = gradient(row, j);
        bool right = isnan(expected) ? isnan(g) && !signbit(g) : g == expected && !signbit(g);
        if (!CHECK(right, "%s: gradient of row %ld, column %ld is %a, not %a", words, (long)row, (long)j, g, expected))
            return;
    }
}

static void check_gradient(int64_t row, int64_t column, double expected)
{
    double g = gradient(row, column), unit = ldexp(1, 1 - now.format->precision);
    bool right = expected == 0 ? g == 0 && !signbit(g) : fabs(g - expected) <= unit * fabs(expected);
    CHECK(right, "%s: gradient of row %ld, column %ld is %a, not %a", words, (long)row, (long)column, g, expected);
}

static void test_rows(const float_format *format, int64_t n)
{
    begin(format, 8, n, "ignored, NaN, infinities");
    now.targets[1] = -100; /* ignored */
    now.targets[2] = -100; /* ignored, with a NaN in the row */
    set_logit(2, n - 1, NAN);
    set_logit(3, n - 1, NAN);
    set_logit(4, 0, INFINITY);
    set_logit(5, 0, -INFINITY); /* target at -inf */
    set_logit(6, n - 1, -INFINITY);
    run();
    check_log(0, (double)n);
    check_gradient(0, 0, 1 / (double)n - 1);
    check_gradient(0, n - 1, 1 / (double)n);
    check_loss(1, 0);
    check_gradient_row(1, 0);
    check_loss(2, 0);
    check_gradient_row(2, 0);
    check_loss(3, NAN);
    check_gradient_row(3, NAN);
    check_loss(4, NAN);
    check_gradient_row(4, NAN);
    check_loss(5, INFINITY);
    check_gradient(5, 0, -1);
    check_gradient(5, n - 1, 1 / (double)(n - 1));
    check_log(6, (double)(n - 1));
    check_gradient(6, n - 1, 0);
    check_log(7, (double)n);
}

static void test_extras(const float_format *format, int64_t n)
{
    begin(format, 2, n, "smoothing over an unmasked -inf");
    now.call.options.label_smoothing = 0.1;
    set_logit(0, n - 1, -INFINITY);
    run();
    check_loss(0, INFINITY);
    check_log(1, (double)n);

    begin(format, 2, n, "smoothing over a masked -inf");
    uint8_t mask[2 * MAX_COLUMNS];
    tensor mask_tensor;
    memset(mask, 1, sizeof mask);
    mask[n - 1] = 0;
    now.call.options.label_smoothing = 0.1;
    now.call.options.mask = tensor_matrix(&mask_tensor, mask, tensor_uint8, 2, n);
    set_logit(0, n - 1, -INFINITY);
    run();
    CHECK(isfinite(loss(0)), "%s: loss %a", words, loss(0));
    check_gradient(0, n - 1, 0);

    static const double hidden[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        begin(format, 2, n, "a softcap and a masked logit that is no number");
        now.call.options.softcap = 3;
        now.call.options.label_smoothing = i == 2 ? 0.1 : 0;
        now.call.options.mask = tensor_matrix(&mask_tensor, mask, tensor_uint8, 2, n);
        set_logit(0, n - 1, hidden[i]);
        run();
        CHECK(isfinite(loss(0)), "%s: loss %a", words, loss(0));
        check_gradient(0, n - 1, 0);
        CHECK(gradient(0, 0) <= 0, "%s: gradient %a at the target", words, gradient(0, 0));
    }

    begin(format, 2, n, "weight 0 at a target of -inf");
    set_logit(0, 0, -INFINITY);
    format_store(now.losses, now.weights, 0, 0);
    now.call.options.class_weights = &now.weights_tensor.dl;
    run();
    check_loss(0, 0);
    check_gradient_row(0, 0);

    begin(format, 2, n, "probability 0 at -inf");
    tensor probabilities;
    now.call.second = tensor_matrix(&probabilities, now.probabilities, now.losses->dlpack, 2, n);
    set_logit(0, 0, -INFINITY);
    format_store(now.losses, now.probabilities, n - 1, 1);     /* row 0 */
    format_store(now.losses, now.probabilities, n + n - 1, 1); /* row 1 */
    run();
    check_log(1, (double)n);
    if (n == 2)
        check_loss(0, 0);
    else
        check_log(0, (double)(n - 1));
    for (int64_t j = 0; j < n; j++)
        CHECK(isfinite(gradient(0, j)), "%s: gradient %a in column %ld", words, gradient(0, j), (long)j);
}

static void test_reductions(const float_format *format, int64_t n)
{
    static const softmax_reduction reductions[] = {SOFTMAX_SUM, SOFTMAX_MEAN};
    for (int i = 0; i < 2; i++) {
        begin(format, 4, n, i ? "mean, one row ignored" : "sum, one row ignored");
        reduce(reductions[i]);
        now.targets[2] = -100;
        run();
        double expected = (i ? 1 : 3) * log((double)n);
        CHECK(fabs(loss(0) - expected) <= 1e-6 * expected, "%s: %a, not %a", words, loss(0), expected);
        check_gradient(0, 0, (1 / (double)n - 1) / (i ? 3 : 1));
        check_gradient_row(2, 0);

        begin(format, 4, n, i ? "mean, NaN in a row" : "sum, NaN in a row");
        reduce(reductions[i]);
        set_logit(1, n - 1, NAN);
        run();
        check_loss(0, NAN);
        check_gradient_row(1, NAN);
        check_gradient(0, n - 1, 1 / (double)n / (i ? 4 : 1));

        begin(format, 4, n, i ? "mean, a target at -inf" : "sum, a target at -inf");
        reduce(reductions[i]);
        set_logit(1, 0, -INFINITY);
        run();
        check_loss(0, INFINITY);
    }
    for (int empty = 0; empty < 2; empty++) {
        begin(format, 4, n, empty ? "mean over no rows, zero asked for" : "mean over no rows");
        reduce(SOFTMAX_MEAN);
        now.call.options.empty_rows = empty ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
        for (int r = 0; r < 4; r++)
            now.targets[r] = -100;
        run();
        check_loss(0, empty ? 0 : NAN);
        for (int r = 0; r < 4; r++)
            check_gradient_row(r, 0);
    }
    begin(format, 4, n, "sum over no rows");
    reduce(SOFTMAX_SUM);
    for (int r = 0; r < 4; r++)
        now.targets[r] = -100;
    run();
    check_loss(0, 0);
    begin(format, 0, n, "mean of an empty batch");
    reduce(SOFTMAX_MEAN);
    run();
    check_loss(0, NAN);
}

int main(void)
{
    static const int64_t widths[] = {2, 3, 8, 17, 33, 64, 129, 513, 600};
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int s = 0; s < set_count; s++) {
        current_set = sets[s];
        for (int f = 0; f < 4; f++) {
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                test_rows(&float_formats[f], widths[w]);
                test_extras(&float_formats[f], widths[w]);
                test_reductions(&float_formats[f], widths[w]);
            }
        }
    }
    return check_finish("special_loss");
}
