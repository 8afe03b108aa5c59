/* softmax_backward and log_softmax_backward against MPFR. y is the library's own forward, or made so that the sums
 * cancel. */
#include "oracle/check.h"
#include "row_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS_PER_CASE = 40000 };

typedef enum upstream {
    UPSTREAM_NORMAL,  /* N(0,1) */
    UPSTREAM_ONES,    /* gradients that are 0 but for rounding */
    UPSTREAM_CANCELS, /* pairs of opposite large values */
    UPSTREAM_ONE_HOT,
    UPSTREAMS
} upstream;

static const char *const upstream_names[UPSTREAMS] = {"dy N(0,1)", "dy 1", "dy cancels", "dy one-hot"};

static int64_t largest(const double *row, int64_t columns)
{
    int64_t at = 0;
    for (int64_t j = 1; j < columns; j++)
        if (row[j] > row[at])
            at = j;
    return at;
}

static void fill_upstream(row_batch *dy, const row_batch *y, random_source *source, upstream which)
{
    double *row = malloc((size_t)dy->columns * sizeof *row);
    if (!row)
        abort();
    for (int64_t r = 0; r < dy->rows; r++) {
        int64_t hot = largest(batch_row(y, r), dy->columns);
        random_row(source, NORMAL, row, dy->columns);
        for (int64_t j = 0; j < dy->columns && which != UPSTREAM_NORMAL; j++) {
            if (which == UPSTREAM_ONES)
                row[j] = 1;
            else if (which == UPSTREAM_ONE_HOT)
                row[j] = j == hot ? -1 : 0;
            else if (j & 1)
                row[j] = -row[j - 1];
            else
                row[j] *= 4096;
        }
        batch_set(dy, r, row);
    }
    free(row);
}

static void run_forward(operation backward, const row_batch *x, row_batch *y)
{
    tensor in, out;
    library_call call = library_call_of(backward == SOFTMAX_BACKWARD ? SOFTMAX : LOG_SOFTMAX, batch_tensor(x, &in),
                                        NULL, batch_tensor(y, &out), NULL, -1);
    library_run_ok(&call, "forward");
    batch_widen(y);
}

static void run_case(operation operation, const float_format *format, const float_format *output_format,
                     int64_t columns, distribution which, upstream upstream)
{
    int64_t rows = 1 + ELEMENTS_PER_CASE / 4 / columns;
    random_source source = random_seed((uint64_t)(columns * 64 + (int)which * 8 + (int)upstream));
    row_batch x = batch_of(format, rows, columns), y = batch_of(format, rows, columns);
    row_batch dy = batch_of(format, rows, columns), dx = batch_of(output_format, rows, columns);
    tensor y_tensor, dy_tensor, dx_tensor;
    judged_case judged =
        case_of(operation, output_format, "%s %s->%s n=%ld %s %s", operation_names[operation], format->name,
                output_format->name, (long)columns, distribution_names[which], upstream_names[upstream]);
    batch_fill(&x, &source, which);
    run_forward(operation, &x, &y);
    fill_upstream(&dy, &y, &source, upstream);
    batch_poison(&dx);
    library_call call = library_call_of(operation, batch_tensor(&y, &y_tensor), batch_tensor(&dy, &dy_tensor),
                                        batch_tensor(&dx, &dx_tensor), NULL, -1);
    library_run_ok(&call, judged.words);
    batch_widen(&dx);
    for (int64_t r = 0; r < rows; r++) {
        row_problem problem = row_problem_of(operation, columns, batch_row(&y, r));
        problem.dy = batch_row(&dy, r);
        case_row(&judged, &problem, batch_row(&dx, r));
    }
    /* With dy 1 a softmax's gradient is nearly 0, and a bound relative to the magnitudes cannot tell zeros. */
    if (upstream == UPSTREAM_ONES)
        judged.fakes &= ~1u;
    case_finish(&judged);
    batch_free(&x);
    batch_free(&y);
    batch_free(&dy);
    batch_free(&dx);
}

int main(void)
{
    static const int64_t widths[] = {2, 3, 8, 16, 33, 64, 100, 128, 300, 512, 513, 4096, 50257};
    printf("instruction set: %s\n", softmax_isa_default());
    for (int operation = SOFTMAX_BACKWARD; operation <= LOG_SOFTMAX_BACKWARD; operation++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            for (int which = 0; which < DISTRIBUTIONS; which++) {
                for (int upstream = 0; upstream < UPSTREAMS; upstream++) {
                    if (widths[w] > 10000 && (which != NORMAL || upstream != UPSTREAM_NORMAL))
                        continue;
                    for (int f = 0; f < 4; f++) {
                        const float_format *format = &float_formats[f];
                        run_case((enum operation)operation, format, format, widths[w], (distribution)which,
                                 (enum upstream)upstream);
                        if (format->bytes == 2)
                            run_case((enum operation)operation, format, &float_formats[0], widths[w],
                                     (distribution)which, (enum upstream)upstream);
                    }
                }
            }
        }
    }
    case_print_totals();
    return check_finish("accuracy_backward");
}
