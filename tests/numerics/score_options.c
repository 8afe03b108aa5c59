#include "score_options.h"

#include "oracle/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

row_batch softcapped_batch(const row_batch *batch, double softcap)
{
    enum { CHECKED = 2000 };
    row_batch capped = batch_of(float_format_of_losses(batch->format), batch->rows, batch->columns);
    int64_t elements = batch->rows * batch->columns, step = 1 + elements / CHECKED;
    tensor input, output;
    tensor_matrix(&input, batch->stored, batch->format->dlpack, elements, 1);
    tensor_vector(&output, capped.stored, capped.format->dlpack, elements);
    library_call call = library_call_of(LOGSUMEXP, &input.dl, NULL, &output.dl, NULL, 1);
    call.options.softcap = softcap;
    library_run_ok(&call, "softcap alone");
    batch_widen(&capped);
    double worst = 0;
    mpfr_t exact;
    mpfr_init2(exact, EXACT_BITS);
    for (int64_t at = 0; at < elements; at += step) {
        exact_softcap(exact, batch->widened[at], softcap);
        worst = fmax(worst, ulp_error(capped.widened[at], exact, exact, capped.format));
    }
    mpfr_clear(exact);
    CHECK(worst <= 1, "softcap %g of %s: %g ULP", softcap, batch->format->name, worst);
    return capped;
}

static void *checked(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

void score_inputs_make(score_inputs *inputs, const score_options *options, const row_batch *batch,
                       random_source *source)
{
    int64_t rows = batch->rows, columns = batch->columns;
    memset(inputs, 0, sizeof *inputs);
    inputs->options = options;
    inputs->batch = batch;
    inputs->seen = checked(malloc((size_t)columns * sizeof *inputs->seen));
    if (options->softcap != 0)
        inputs->capped = softcapped_batch(batch, options->softcap);
    if (options->bias) {
        double *bias = checked(malloc((size_t)columns * sizeof *bias));
        random_row(source, NORMAL_10, bias, columns);
        for (int64_t j = 0; j < columns; j++)
            if (random_below(source, 8) == 0)
                bias[j] = -INFINITY;
        inputs->bias = batch_of(batch->format, 1, columns);
        batch_set(&inputs->bias, 0, bias);
        free(bias);
        tensor_vector(&inputs->bias_tensor, inputs->bias.stored, batch->format->dlpack, columns);
    }
    if (options->mask) {
        inputs->mask = checked(malloc((size_t)(rows * columns)));
        for (int64_t at = 0; at < rows * columns; at++)
            inputs->mask[at] = (uint8_t)(random_below(source, 4) * 85);
        tensor_matrix(&inputs->mask_tensor, inputs->mask, tensor_uint8, rows, columns);
    }
    if (options->lengths) {
        inputs->lengths = checked(malloc((size_t)rows * sizeof *inputs->lengths));
        for (int64_t r = 0; r < rows; r++)
            inputs->lengths[r] = random_below(source, columns + 3);
        tensor_vector(&inputs->lengths_tensor, inputs->lengths, tensor_int64, rows);
    }
}

void score_inputs_free(score_inputs *inputs)
{
    batch_free(&inputs->capped);
    batch_free(&inputs->bias);
    free(inputs->mask);
    free(inputs->lengths);
    free(inputs->seen);
}

void score_inputs_set(score_inputs *inputs, softmax_options *call_options)
{
    const score_options *options = inputs->options;
    call_options->scale = options->scale;
    call_options->softcap = options->softcap;
    call_options->bias = options->bias ? &inputs->bias_tensor.dl : NULL;
    call_options->mask = options->mask ? &inputs->mask_tensor.dl : NULL;
    call_options->valid_lengths = options->lengths ? &inputs->lengths_tensor.dl : NULL;
    call_options->causal = options->causal;
    call_options->causal_offset = options->causal ? inputs->batch->columns / 3 : 0;
}

bool score_problem(score_inputs *inputs, operation operation, int64_t row, row_problem *problem)
{
    const score_options *options = inputs->options;
    int64_t columns = inputs->batch->columns;
    bool any = false;
    *problem =
        row_problem_of(operation, columns, batch_row(options->softcap != 0 ? &inputs->capped : inputs->batch, row));
    problem->scale = options->scale;
    problem->bias = options->bias ? inputs->bias.widened : NULL;
    problem->seen = inputs->seen;
    for (int64_t j = 0; j < columns; j++) {
        inputs->seen[j] = (!inputs->mask || inputs->mask[row * columns + j]) &&
                          (!inputs->lengths || j < inputs->lengths[row]) &&
                          (!options->causal || j <= row + columns / 3);
        any |= row_problem_sees(problem, j);
    }
    return any;
}
