#include "bits_workload.h"

#include "oracle/random_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const options_names[WORKLOAD_OPTIONS] = {"plain",         "options", "causal",
                                                            "probabilities", "sum",     "mean"};

static bool has_options(operation operation, workload_options options)
{
    if (options == PLAIN)
        return true;
    if (operation == CROSS_ENTROPY)
        return options != CAUSAL;
    return operation < SOFTMAX_BACKWARD && options <= CAUSAL;
}

bool workload_choose(int number, workload *made)
{
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int options = 0; options < WORKLOAD_OPTIONS; options++) {
            if (!has_options((enum operation)operation, (workload_options)options))
                continue;
            for (int f = 0; f < 6; f++) {
                if (number-- > 0)
                    continue;
                memset(made, 0, sizeof *made);
                made->operation = (enum operation)operation;
                made->options = (workload_options)options;
                made->input_format = &float_formats[f < 4 ? f : f - 2];
                made->output_format = f < 4 ? made->input_format : &float_formats[0];
                snprintf(made->name, sizeof made->name, "%s %s %s %s", operation_names[operation],
                         made->input_format->name, made->output_format->name, options_names[options]);
                return true;
            }
        }
    }
    return false;
}

bool workload_has_row_outputs(const workload *made)
{
    return made->operation == LOGSUMEXP;
}
bool workload_is_reduced(const workload *made)
{
    return made->options == SUM || made->options == MEAN;
}

static char *allocated(int64_t elements, int bytes)
{
    char *memory = malloc((size_t)(elements * bytes) + 1);
    if (!memory)
        abort();
    return memory;
}

/* Scores of every distribution, and among them rows with -inf, NaN, +inf, nothing but -inf, and scores beyond 2^21 and
 * 2^30. */
static void fill_scores(const workload *made, char *to, random_source *source)
{
    double *row = malloc((size_t)made->columns * sizeof *row);
    if (!row)
        abort();
    for (int64_t r = 0; r < made->rows; r++) {
        int64_t some = random_below(source, made->columns), kind = made->rows < 8 ? -1 : r % 32;
        random_row(source, (distribution)(r % DISTRIBUTIONS), row, made->columns);
        for (int64_t j = 0; j < made->columns; j++) {
            if (kind == 5 && random_below(source, 4) == 0)
                row[j] = -INFINITY;
            if (kind == 6)
                row[j] = -INFINITY;
            if (kind == 7)
                row[j] *= 0x1p20;
            if (kind == 8)
                row[j] *= 0x1p40;
            if (kind == 9)
                row[j] *= 0x1p-40;
        }
        if (kind == 10)
            row[some] = NAN;
        if (kind == 11)
            row[some] = INFINITY;
        for (int64_t j = 0; j < made->columns; j++)
            format_store(made->input_format, to, r * made->columns + j, row[j]);
    }
    free(row);
}

/* A backward's y: shares or their logarithms, from integers alone; some of them exactly 0 or -inf. */
static void fill_forward(const workload *made, random_source *source)
{
    for (int64_t r = 0; r < made->rows; r++) {
        for (int64_t j = 0; j < made->columns; j++) {
            double y = random_uniform(source, 0, 2.0 / (double)made->columns);
            bool none = random_below(source, 16) == 0;
            if (r % 4 == 1)
                y *= 0x1p-30;
            if (made->operation == SOFTMAX_BACKWARD)
                y = none ? 0 : y;
            else
                y = none ? -INFINITY : random_uniform(source, r % 4 == 1 ? -80 : -12, 0);
            format_store(made->input_format, made->x, r * made->columns + j, y);
        }
    }
}

static void fill_upstream(const workload *made, random_source *source)
{
    for (int64_t r = 0; r < made->rows; r++) {
        double size = r % 4 == 2 ? 0x1p10 : 1;
        for (int64_t j = 0; j < made->columns; j++)
            format_store(made->input_format, made->dy, r * made->columns + j, size * random_normal(source));
        if (r % 32 == 9)
            format_store(made->input_format, made->dy, r * made->columns + random_below(source, made->columns),
                         INFINITY);
    }
}

static void fill_loss_inputs(workload *made, random_source *source)
{
    const float_format *losses = float_format_of_losses(made->input_format);
    made->probabilities = allocated(made->rows * made->columns, losses->bytes);
    made->weights = allocated(made->columns, losses->bytes);
    made->upstream = allocated(made->rows, losses->bytes);
    for (int64_t at = 0; at < made->rows * made->columns; at++)
        format_store(losses, made->probabilities, at,
                     random_below(source, 4) == 0 ? 0 : random_uniform(source, 0, 2.0 / (double)made->columns));
    for (int64_t j = 0; j < made->columns; j++)
        format_store(losses, made->weights, j, (double)random_below(source, 128) / 64);
    for (int64_t r = 0; r < made->rows; r++)
        format_store(losses, made->upstream, r, random_normal(source));
}

void workload_make(workload *made, int64_t rows, int64_t columns)
{
    random_source source = random_seed((uint64_t)(rows * 1000003 + columns));
    const float_format *losses = float_format_of_losses(made->input_format);
    int64_t elements = rows * columns;
    made->rows = rows;
    made->columns = columns;
    made->x = allocated(elements, made->input_format->bytes);
    made->dy = allocated(elements, made->input_format->bytes);
    made->bias = allocated(columns, made->input_format->bytes);
    made->mask = (uint8_t *)allocated(elements, 1);
    made->lengths = (int64_t *)allocated(rows, 8);
    made->targets = (int64_t *)allocated(rows, 8);
    made->output = allocated(elements, 8);
    made->loss = allocated(rows, losses->bytes);
    made->row_logsumexp = allocated(rows, losses->bytes);
    made->targets_gradient = allocated(elements, losses->bytes);
    if (made->operation == SOFTMAX_BACKWARD || made->operation == LOG_SOFTMAX_BACKWARD)
        fill_forward(made, &source);
    else
        fill_scores(made, made->x, &source);
    fill_upstream(made, &source);
    for (int64_t j = 0; j < columns; j++)
        format_store(made->input_format, made->bias, j,
                     random_below(&source, 9) == 0 ? -INFINITY : random_normal(&source));
    for (int64_t at = 0; at < elements; at++)
        made->mask[at] = random_below(&source, 5) != 0;
    for (int64_t r = 0; r < rows; r++) {
        made->lengths[r] = r % 3 == 0 ? columns + 5 : random_below(&source, columns + 1) - (r % 7 == 0 ? columns : 0);
        made->targets[r] = r % 9 == 4 ? -100 : random_below(&source, columns);
    }
    fill_loss_inputs(made, &source);
}

void workload_free(workload *made)
{
    char *const arrays[] = {made->x,
                            made->dy,
                            made->bias,
                            made->probabilities,
                            made->weights,
                            made->upstream,
                            (char *)made->mask,
                            (char *)made->lengths,
                            (char *)made->targets,
                            made->output,
                            made->loss,
                            made->row_logsumexp,
                            made->targets_gradient};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

void workload_poison(workload *made)
{
    const float_format *losses = float_format_of_losses(made->input_format);
    memset(made->output, 0xc5, (size_t)(made->rows * made->columns * 8));
    memset(made->loss, 0xc5, (size_t)(made->rows * losses->bytes));
    memset(made->row_logsumexp, 0xc5, (size_t)(made->rows * losses->bytes));
    memset(made->targets_gradient, 0xc5, (size_t)(made->rows * made->columns * losses->bytes));
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t workload_hash(const workload *made, uint64_t hash)
{
    const float_format *losses = float_format_of_losses(made->input_format);
    int64_t elements = workload_has_row_outputs(made) ? made->rows : made->rows * made->columns;
    hash = hash_bytes(hash, made->output, elements * made->output_format->bytes);
    if (made->operation != CROSS_ENTROPY)
        return hash;
    hash = hash_bytes(hash, made->loss, (workload_is_reduced(made) ? 1 : made->rows) * losses->bytes);
    hash = hash_bytes(hash, made->row_logsumexp, made->rows * losses->bytes);
    if (made->options == PROBABILITIES)
        hash = hash_bytes(hash, made->targets_gradient, made->rows * made->columns * losses->bytes);
    return hash;
}
