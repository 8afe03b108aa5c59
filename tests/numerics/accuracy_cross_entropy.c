/* cross_entropy against MPFR: loss, gradient and probability targets' gradient, with every option, per row and reduced.
 */
#include "oracle/check.h"
#include "score_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_PER_CASE = 1000, IGNORED_EVERY = 7 };

typedef struct loss_options {
    const char *name;
    double label_smoothing, z_loss, softcap;
    bool weights, probabilities, upstream, mask, lengths;
    softmax_reduction reduction;
} loss_options;

static const loss_options all_options[] = {
    {"plain", 0, 0, 0, false, false, false, false, false, SOFTMAX_NONE},
    {"upstream", 0, 0, 0, false, false, true, false, false, SOFTMAX_NONE},
    {"smoothing", 0.1, 0, 0, false, false, false, false, false, SOFTMAX_NONE},
    {"smoothing 1", 1, 0, 0, false, false, false, false, false, SOFTMAX_NONE},
    {"z_loss", 0, 1e-4, 0, false, false, false, false, false, SOFTMAX_NONE},
    {"weights", 0, 0, 0, true, false, false, false, false, SOFTMAX_NONE},
    {"softcap", 0, 0, 30, false, false, true, false, false, SOFTMAX_NONE},
    {"probabilities", 0, 0, 0, false, true, false, false, false, SOFTMAX_NONE},
    {"mask", 0, 0, 0, false, false, false, true, false, SOFTMAX_NONE},
    {"valid lengths", 0, 0, 0, false, false, false, false, true, SOFTMAX_NONE},
    {"smoothing, weights, z_loss, upstream", 0.1, 1e-3, 0, true, false, true, false, false, SOFTMAX_NONE},
    {"all with probabilities", 0.2, 1e-2, 20, true, true, true, false, false, SOFTMAX_NONE},
    {"sum", 0, 0, 0, false, false, false, false, false, SOFTMAX_SUM},
    {"mean", 0, 0, 0, false, false, false, false, false, SOFTMAX_MEAN},
    {"sum with all", 0.1, 1e-3, 30, true, false, true, false, false, SOFTMAX_SUM},
    {"mean with all", 0.1, 1e-3, 30, true, false, true, false, false, SOFTMAX_MEAN},
    {"mean of probabilities", 0.1, 1e-3, 0, true, true, true, false, false, SOFTMAX_MEAN},
};

/* One batch with its options: what the library gets, and what every row's problem is made of. */
typedef struct loss_batch {
    const loss_options *options;
    row_batch logits, capped, probabilities, weights, upstream;
    row_batch gradient, targets_gradient, loss;
    int64_t *target;
    uint8_t *mask;
    int64_t *lengths;
    bool *seen;
    double weight_sum; /* of the kept rows' targets; the number of rows for probabilities */
    int64_t kept;
    double *result;
} loss_batch;

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (!memory)
        abort();
    return memory;
}

static bool ignored(const loss_batch *batch, int64_t row)
{
    return !batch->options->probabilities && batch->target[row] == -100;
}

/* Targets that take part, every IGNORED_EVERY-th row ignored where the reduction counts rows. */
static void fill_targets(loss_batch *batch, random_source *source)
{
    int64_t rows = batch->logits.rows, columns = batch->logits.columns;
    for (int64_t r = 0; r < rows; r++) {
        batch->lengths[r] = 1 + random_below(source, columns + 2);
        batch->target[r] =
            random_below(source, batch->options->lengths && batch->lengths[r] < columns ? batch->lengths[r] : columns);
        for (int64_t j = 0; j < columns; j++)
            batch->mask[r * columns + j] = j == batch->target[r] || random_below(source, 3) != 0;
        if (rows > 2 && r % IGNORED_EVERY == 1)
            batch->target[r] = -100;
    }
}

/* Multiples of 1/64, so that their sums are exact in every type. */
static void fill_weights(row_batch *weights, random_source *source)
{
    for (int64_t j = 0; j < weights->columns; j++) {
        double weight = (double)random_below(source, 128) / 64;
        format_store(weights->format, weights->stored, j, weight);
        weights->widened[j] = weight;
    }
}

static void fill_probabilities(row_batch *probabilities, random_source *source)
{
    double *row = allocated((size_t)probabilities->columns * sizeof *row);
    for (int64_t r = 0; r < probabilities->rows; r++) {
        for (int64_t j = 0; j < probabilities->columns; j++)
            row[j] = random_below(source, 4) == 0 ? 0 : random_uniform(source, 0, 2.0 / (double)probabilities->columns);
        batch_set(probabilities, r, row);
    }
    free(row);
}

static void count_kept(loss_batch *batch)
{
    batch->kept = 0;
    batch->weight_sum = 0;
    for (int64_t r = 0; r < batch->logits.rows; r++) {
        if (ignored(batch, r))
            continue;
        batch->kept++;
        batch->weight_sum +=
            batch->options->weights && !batch->options->probabilities ? batch->weights.widened[batch->target[r]] : 1;
    }
}

static void loss_batch_make(loss_batch *batch, const loss_options *options, const float_format *format,
                            const float_format *gradient_format, int64_t rows, int64_t columns, distribution which)
{
    random_source source = random_seed((uint64_t)(columns * 64 + (int)which));
    const float_format *losses = float_format_of_losses(format);
    bool reduced = options->reduction != SOFTMAX_NONE;
    memset(batch, 0, sizeof *batch);
    batch->options = options;
    batch->logits = batch_of(format, rows, columns);
    batch->probabilities = batch_of(losses, rows, columns);
    batch->targets_gradient = batch_of(losses, rows, columns);
    batch->gradient = batch_of(gradient_format, rows, columns);
    batch->weights = batch_of(losses, 1, columns);
    batch->upstream = batch_of(losses, reduced ? 1 : rows, 1);
    batch->loss = batch_of(losses, reduced ? 1 : rows, 1);
    batch->target = allocated((size_t)rows * sizeof(int64_t));
    batch->lengths = allocated((size_t)rows * sizeof(int64_t));
    batch->mask = allocated((size_t)(rows * columns));
    batch->seen = allocated((size_t)columns * sizeof(bool));
    batch->result = allocated((size_t)(1 + 2 * columns) * sizeof(double));
    batch_fill(&batch->logits, &source, which);
    batch_fill(&batch->upstream, &source, NORMAL);
    fill_targets(batch, &source);
    fill_weights(&batch->weights, &source);
    fill_probabilities(&batch->probabilities, &source);
    if (options->softcap != 0)
        batch->capped = softcapped_batch(&batch->logits, options->softcap);
    count_kept(batch);
}

static void loss_batch_free(loss_batch *batch)
{
    row_batch *const batches[] = {&batch->logits,   &batch->capped,   &batch->probabilities,    &batch->weights,
                                  &batch->upstream, &batch->gradient, &batch->targets_gradient, &batch->loss};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        batch_free(batches[i]);
    free(batch->target);
    free(batch->lengths);
    free(batch->mask);
    free(batch->seen);
    free(batch->result);
}

static void loss_batch_run(loss_batch *batch, const char *words)
{
    const loss_options *options = batch->options;
    int64_t rows = batch->logits.rows, columns = batch->logits.columns;
    tensor logits, targets, loss, gradient, weights, upstream, targets_gradient, mask, lengths;
    if (options->probabilities)
        batch_tensor(&batch->probabilities, &targets);
    else
        tensor_vector(&targets, batch->target, tensor_int64, rows);
    tensor_vector(&loss, batch->loss.stored, batch->loss.format->dlpack, batch->loss.rows);
    if (options->reduction != SOFTMAX_NONE)
        loss.dl.ndim = 0;
    batch_poison(&batch->loss);
    batch_poison(&batch->gradient);
    batch_poison(&batch->targets_gradient);
    library_call call = library_call_of(CROSS_ENTROPY, batch_tensor(&batch->logits, &logits), &targets.dl,
                                        batch_tensor(&batch->gradient, &gradient), &loss.dl, 1);
    call.options.label_smoothing = options->label_smoothing;
    call.options.z_loss = options->z_loss;
    call.options.softcap = options->softcap;
    call.options.reduction = options->reduction;
    if (options->weights)
        call.options.class_weights =
            tensor_vector(&weights, batch->weights.stored, batch->weights.format->dlpack, columns);
    if (options->upstream)
        call.options.grad_output =
            tensor_vector(&upstream, batch->upstream.stored, batch->upstream.format->dlpack, batch->upstream.rows);
    if (options->probabilities)
        call.options.targets_gradient = batch_tensor(&batch->targets_gradient, &targets_gradient);
    if (options->mask)
        call.options.mask = tensor_matrix(&mask, batch->mask, tensor_bool, rows, columns);
    if (options->lengths)
        call.options.valid_lengths = tensor_vector(&lengths, batch->lengths, tensor_int64, rows);
    library_run_ok(&call, words);
    batch_widen(&batch->loss);
    batch_widen(&batch->gradient);
    batch_widen(&batch->targets_gradient);
}

static row_problem loss_problem(loss_batch *batch, int64_t row)
{
    const loss_options *options = batch->options;
    int64_t columns = batch->logits.columns;
    row_problem problem =
        row_problem_of(CROSS_ENTROPY, columns, batch_row(options->softcap != 0 ? &batch->capped : &batch->logits, row));
    problem.raw = batch_row(&batch->logits, row);
    problem.softcap = options->softcap;
    problem.target = batch->target[row];
    problem.probabilities = options->probabilities ? batch_row(&batch->probabilities, row) : NULL;
    problem.class_weights = options->weights ? batch->weights.widened : NULL;
    problem.label_smoothing = options->label_smoothing;
    problem.z_loss = options->z_loss;
    if (options->upstream)
        problem.upstream = batch->upstream.widened[batch->upstream.rows == 1 ? 0 : row];
    if (options->reduction == SOFTMAX_MEAN) {
        problem.terms_divisor = batch->weight_sum;
        problem.rows_divisor = (double)batch->kept;
    }
    if (options->mask || options->lengths) {
        problem.seen = batch->seen;
        for (int64_t j = 0; j < columns; j++)
            batch->seen[j] = options->mask ? batch->mask[row * columns + j] != 0 : j < batch->lengths[row];
    }
    return problem;
}

/* The reduced loss and its magnitude from the rows' exact ones, whose terms and squares have divisors of their own. */
static void check_reduced_loss(loss_batch *batch, const char *words)
{
    exact_answer answer = {0};
    mpfr_t sum;
    mpfr_init2(sum, EXACT_BITS);
    mpfr_set_zero(sum, 1);
    for (int64_t r = 0; r < batch->logits.rows; r++) {
        if (ignored(batch, r))
            continue;
        row_problem problem = loss_problem(batch, r);
        mpfr_t part;
        mpfr_init2(part, EXACT_BITS);
        exact_solve(&problem, &answer);
        mpfr_set(part, answer.value[0], MPFR_RNDN);
        problem.z_loss = 0;
        exact_solve(&problem, &answer);
        mpfr_sub(part, part, answer.value[0], MPFR_RNDN); /* z_loss l^2 */
        mpfr_div_d(part, part, problem.rows_divisor, MPFR_RNDN);
        mpfr_add(sum, sum, part, MPFR_RNDN);
        mpfr_div_d(part, answer.value[0], problem.terms_divisor, MPFR_RNDN);
        mpfr_add(sum, sum, part, MPFR_RNDN);
        mpfr_clear(part);
    }
    double error = ulp_error(batch->loss.widened[0], sum, sum, batch->loss.format);
    printf("%s: reduced loss %.4f ULP (bound 3)\n", words, error);
    CHECK(error <= 3, "%s: loss %g ULP", words, error);
    CHECK(!(ulp_error(0, sum, sum, batch->loss.format) <= 3), "%s: 0 would pass for the loss", words);
    mpfr_clear(sum);
    exact_answer_free(&answer);
}

static void check_ignored(const loss_batch *batch, int64_t row, const char *words)
{
    bool zero = batch->loss.rows == 1 || batch->loss.widened[row] == 0;
    for (int64_t j = 0; j < batch->logits.columns; j++)
        zero &= batch_row(&batch->gradient, row)[j] == 0;
    CHECK(zero, "%s: row %ld is ignored and must give zeros", words, (long)row);
}

static bool has_extras(const loss_options *options)
{
    return options->label_smoothing != 0 || options->z_loss != 0 || options->weights || options->probabilities;
}

static void run_case(const loss_options *options, const float_format *format, const float_format *gradient_format,
                     int64_t columns, distribution which)
{
    loss_batch batch;
    int64_t rows = 3 + ELEMENTS_PER_CASE / columns;
    const float_format *losses = float_format_of_losses(format);
    judged_case judged = case_of(CROSS_ENTROPY, losses, "%s %s n=%ld %s %s", operation_names[CROSS_ENTROPY],
                                 format->name, (long)columns, distribution_names[which], options->name);
    judge *judge = &judged.judge;
    judge->part[0] =
        (judge_part){"loss", options->reduction == SOFTMAX_NONE ? losses : NULL, has_extras(options) ? 3 : 2, 0, 0};
    judge->part[1] = (judge_part){"gradient", gradient_format, gradient_format->precision < 20 ? 0.51 : 3, 0, 0};
    judge->part[2] = (judge_part){"targets' gradient", options->probabilities ? losses : NULL, 3, 0, 0};
    loss_batch_make(&batch, options, format, gradient_format, rows, columns, which);
    loss_batch_run(&batch, judged.words);
    if (options->reduction != SOFTMAX_NONE)
        check_reduced_loss(&batch, judged.words);
    for (int64_t r = 0; r < rows; r++) {
        if (ignored(&batch, r)) {
            check_ignored(&batch, r, judged.words);
            continue;
        }
        row_problem problem = loss_problem(&batch, r);
        batch.result[0] = batch.loss.widened[batch.loss.rows == 1 ? 0 : r];
        memcpy(batch.result + 1, batch_row(&batch.gradient, r), (size_t)columns * sizeof(double));
        memcpy(batch.result + 1 + columns, batch_row(&batch.targets_gradient, r), (size_t)columns * sizeof(double));
        case_row(&judged, &problem, batch.result);
    }
    case_finish(&judged);
    loss_batch_free(&batch);
}

/* [40,0,0] and its kind: a confident target's loss and gradient, next to 0. */
static void test_confident(void)
{
    for (int f = 0; f < 2; f++) {
        const float_format *format = &float_formats[f];
        judged_case judged = case_of(CROSS_ENTROPY, format, "cross_entropy %s confident", format->name);
        judged.judge.part[1] = (judge_part){"gradient", format, 3, 0, 0};
        for (double top = 8; top < (f ? 700 : 88); top += 0.37) {
            double row[3] = {top, 0, 0}, result[4];
            row_batch logits = batch_of(format, 1, 3), gradient = batch_of(format, 1, 3), loss = batch_of(format, 1, 1);
            int64_t target = 0;
            tensor x, t, g, l;
            batch_set(&logits, 0, row);
            library_call call =
                library_call_of(CROSS_ENTROPY, batch_tensor(&logits, &x), tensor_vector(&t, &target, tensor_int64, 1),
                                batch_tensor(&gradient, &g), tensor_vector(&l, loss.stored, format->dlpack, 1), 1);
            call.options.reduction = SOFTMAX_NONE;
            library_run_ok(&call, judged.words);
            batch_widen(&gradient);
            batch_widen(&loss);
            result[0] = loss.widened[0];
            memcpy(result + 1, gradient.widened, 3 * sizeof *result);
            row_problem problem = row_problem_of(CROSS_ENTROPY, 3, logits.widened);
            case_row(&judged, &problem, result);
            batch_free(&logits);
            batch_free(&gradient);
            batch_free(&loss);
        }
        case_finish(&judged);
    }
}

int main(void)
{
    static const int64_t widths[] = {2, 3, 8, 33, 100, 128, 300, 513, 1024, 4096};
    printf("instruction set: %s\n", softmax_isa_default());
    test_confident();
    for (size_t o = 0; o < sizeof all_options / sizeof *all_options; o++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            for (int which = 0; which < DISTRIBUTIONS; which++) {
                /* Reduced losses take MPFR for every row. */
                if (all_options[o].reduction != SOFTMAX_NONE && (widths[w] > 1000 || which > NORMAL_10))
                    continue;
                for (int f = 0; f < 4; f++) {
                    const float_format *format = &float_formats[f];
                    run_case(&all_options[o], format, format, widths[w], (distribution)which);
                    if (format->bytes == 2)
                        run_case(&all_options[o], format, &float_formats[0], widths[w], (distribution)which);
                }
            }
        }
    }
    run_case(&all_options[0], &float_formats[0], &float_formats[0], 50257, NORMAL);
    run_case(&all_options[0], &float_formats[3], &float_formats[3], 50257, NORMAL);
    case_print_totals();
    return check_finish("accuracy_cross_entropy");
}
