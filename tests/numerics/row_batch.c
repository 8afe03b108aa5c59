#include "row_batch.h"

#include "oracle/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static long total_rows, total_exact_rows;

row_batch batch_of(const float_format *format, int64_t rows, int64_t columns)
{
    row_batch batch = {format, rows, columns, NULL, NULL};
    batch.stored = malloc((size_t)(rows * columns * format->bytes) + 1);
    batch.widened = malloc((size_t)(rows * columns) * sizeof(double) + 1);
    if (!batch.stored || !batch.widened)
        abort();
    return batch;
}

void batch_free(row_batch *batch)
{
    free(batch->stored);
    free(batch->widened);
    *batch = (row_batch){0};
}

void batch_set(row_batch *batch, int64_t row, const double *values)
{
    for (int64_t j = 0; j < batch->columns; j++) {
        int64_t at = row * batch->columns + j;
        format_store(batch->format, batch->stored, at, values[j]);
        batch->widened[at] = format_load(batch->format, batch->stored, at);
    }
}

void batch_fill(row_batch *batch, random_source *source, distribution which)
{
    double *row = malloc((size_t)batch->columns * sizeof *row);
    if (!row)
        abort();
    for (int64_t r = 0; r < batch->rows; r++) {
        random_row(source, which, row, batch->columns);
        batch_set(batch, r, row);
    }
    free(row);
}

void batch_poison(row_batch *batch)
{
    memset(batch->stored, 0xc5, (size_t)(batch->rows * batch->columns * batch->format->bytes));
}

void batch_widen(row_batch *batch)
{
    for (int64_t at = 0; at < batch->rows * batch->columns; at++)
        batch->widened[at] = format_load(batch->format, batch->stored, at);
}

const double *batch_row(const row_batch *batch, int64_t row)
{
    return batch->widened + row * batch->columns;
}

DLTensor *batch_tensor(const row_batch *batch, tensor *made)
{
    return tensor_matrix(made, batch->stored, batch->format->dlpack, batch->rows, batch->columns);
}

judged_case case_of(operation operation, const float_format *format, const char *words_format, ...)
{
    judged_case judged = {.judge = judge_of(operation, format), .fakes = 7};
    va_list arguments;
    va_start(arguments, words_format);
    vsnprintf(judged.words, sizeof judged.words, words_format, arguments);
    va_end(arguments);
    return judged;
}

void case_row(judged_case *judged, const row_problem *problem, const double *result)
{
    if (judged->judge.rows < FAKE_ROWS)
        judged->fakes &= judge_fakes(&judged->judge, problem);
    judge_row(&judged->judge, problem, result);
}

static void print_failure(const judge *judge)
{
    printf("  worst row (%ld columns), its first inputs:", (long)judge->worst_columns);
    for (int64_t j = 0; j < judge->worst_columns && j < JUDGE_INPUTS; j++)
        printf(" %a", judge->worst_inputs[j]);
    printf("\n");
}

void case_finish(judged_case *judged)
{
    const judge *judge = &judged->judge;
    judge_print(judge, judged->words);
    if (!CHECK(judge_holds(judge), "%s", judged->words))
        print_failure(judge);
    CHECK(judged->fakes == 0, "%s: the judge lets fakes pass (1 zeros, 2 uniform, 4 untouched): %u", judged->words,
          judged->fakes);
    total_rows += judge->rows;
    total_exact_rows += judge->exact_rows;
    judge_free(&judged->judge);
}

void case_print_totals(void)
{
    printf("%ld rows judged, %ld of them by MPFR\n", total_rows, total_exact_rows);
    mpfr_free_cache();
}
