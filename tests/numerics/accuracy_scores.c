/* softmax, log_softmax and logsumexp against MPFR: every type, width, distribution and option. One operation per run:
 *   accuracy_scores softmax|log_softmax|logsumexp */
#include "oracle/check.h"
#include "score_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENTS_PER_CASE = 100000 };

static const score_options plain = {"plain", 1, 0, false, false, false, false};

/* The operation over a batch: rows of values, judged. */
static void judge_scores(judged_case *judged, operation operation, const row_batch *input, const score_options *options,
                         random_source *source)
{
    const float_format *format = judged->judge.part[0].format;
    row_batch output = batch_of(format, input->rows, operation == LOGSUMEXP ? 1 : input->columns);
    tensor in, out;
    score_inputs inputs;
    batch_tensor(input, &in);
    if (operation == LOGSUMEXP)
        tensor_vector(&out, output.stored, format->dlpack, input->rows);
    else
        batch_tensor(&output, &out);
    batch_poison(&output);
    score_inputs_make(&inputs, options, input, source);
    library_call call = library_call_of(operation, &in.dl, NULL, &out.dl, NULL, -1);
    if (operation == LOGSUMEXP)
        call.axis = 1;
    score_inputs_set(&inputs, &call.options);
    library_run_ok(&call, judged->words);
    batch_widen(&output);
    for (int64_t r = 0; r < input->rows; r++) {
        row_problem problem;
        if (score_problem(&inputs, operation, r, &problem))
            case_row(judged, &problem, batch_row(&output, r));
    }
    score_inputs_free(&inputs);
    batch_free(&output);
}

static void run_case(operation operation, const float_format *input_format, const float_format *output_format,
                     int64_t columns, distribution which, const score_options *options, int64_t elements)
{
    random_source source = random_seed((uint64_t)(columns * 64 + (int)which * 8 + (int)operation));
    row_batch input = batch_of(input_format, 1 + elements / columns, columns);
    judged_case judged =
        case_of(operation, output_format, "%s %s->%s n=%ld %s %s", operation_names[operation], input_format->name,
                output_format->name, (long)columns, distribution_names[which], options->name);
    batch_fill(&input, &source, which);
    judge_scores(&judged, operation, &input, options, &source);
    case_finish(&judged);
    batch_free(&input);
}

/* Both result types of a 16-bit input; one otherwise. */
static void run_formats(operation operation, int64_t columns, distribution which, const score_options *options,
                        int64_t elements)
{
    for (int f = 0; f < 4; f++) {
        const float_format *format = &float_formats[f];
        run_case(operation, format, format, columns, which, options, elements);
        if (format->bytes == 2)
            run_case(operation, format, &float_formats[0], columns, which, options, elements);
    }
}

static void test_distributions(operation operation)
{
    static const int64_t widths[] = {2, 3, 7, 8, 9, 16, 17, 33, 64, 100, 128, 300, 511, 512, 513, 1024, 4096};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int which = 0; which < DISTRIBUTIONS; which++)
            run_formats(operation, widths[w], (distribution)which, &plain, ELEMENTS_PER_CASE / 5);
}

static void test_wide_rows(operation operation)
{
    run_formats(operation, 50257, NORMAL_10, &plain, 50257);
    run_formats(operation, 50257, OFFSET_10000, &plain, 0);
    run_formats(operation, 200001, NORMAL, &plain, 0);
}

static void test_options(operation operation)
{
    static const score_options options[] = {
        {"scale 1/8", 0.125, 0, false, false, false, false},
        {"scale -1.7", -1.7, 0, false, false, false, false},
        {"scale 0.1", 0.1, 0, false, false, false, false},
        {"scale 0", 0, 0, false, false, false, false},
        {"bias", 1, 0, true, false, false, false},
        {"scale and bias", 0.0883883476483184405, 0, true, false, false, false},
        {"mask", 1, 0, false, true, false, false},
        {"valid lengths", 1, 0, false, false, true, false},
        {"causal", 1, 0, false, false, false, true},
        {"softcap 30", 1, 30, false, false, false, false},
        {"softcap 0.1", 1, 0.1, false, false, false, false},
        {"all", 0.7, 50, true, true, true, true},
    };
    static const int64_t widths[] = {3, 33, 300, 1025};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t o = 0; o < sizeof options / sizeof *options; o++)
            for (int which = 0; which < TWO_VALUED; which++)
                run_formats(operation, widths[w], (distribution)which, &options[o], ELEMENTS_PER_CASE / 20);
}

/* A row given as a count of each of two values: the bar's named rows. */
static void run_two_values(operation operation, const float_format *format, double first, int64_t first_count,
                           double second, int64_t second_count)
{
    int64_t columns = first_count + second_count;
    row_batch input = batch_of(format, 1, columns);
    random_source source = random_seed(1);
    for (int64_t j = 0; j < columns; j++) {
        format_store(format, input.stored, j, j < first_count ? first : second);
        input.widened[j] = format_load(format, input.stored, j);
    }
    judged_case judged = case_of(operation, format, "%s %s %ld times %.9g, %ld times %.9g", operation_names[operation],
                                 format->name, (long)first_count, first, (long)second_count, second);
    judge_scores(&judged, operation, &input, &plain, &source);
    case_finish(&judged);
    batch_free(&input);
}

static void test_named_rows(operation operation)
{
    for (int f = 0; f < 2; f++) {
        const float_format *format = &float_formats[f];
        run_two_values(operation, format, 0x1.207dccp+2, 1, 0x1.4fa17p+2, 61);
        run_two_values(operation, format, 40, 1, 0, 2);
        run_two_values(operation, format, 90, 1, 2, 1);
        run_two_values(operation, format, 1e8, 1, 1e8 - 8, 1);
        run_two_values(operation, format, -3e6, 1, -3000001, 1);
        run_two_values(operation, format, 0x1.fffffep127, 1, -0x1.fffffep127, 1);
        run_two_values(operation, format, 0x1.fffffep127, 2, 0x1.fffffcp127, 3);
        run_two_values(operation, format, 0x1p30, 3, 0x1p30 - 64, 5);
        run_two_values(operation, format, 0, 1, -26, 1 << 17);
    }
    run_two_values(operation, &float_formats[0], 3.25, 1 << 20, 0, 0);
    run_two_values(operation, &float_formats[0], 0, 1, -26, 1 << 20);
    run_two_values(operation, &float_formats[1], 800, 1, 1, 2);
    run_two_values(operation, &float_formats[1], 1e300, 2, 1e300 - 1, 3);
    run_two_values(operation, &float_formats[2], 0, 4096, 0, 0);
    run_two_values(operation, &float_formats[2], 0, 65536, 0, 0);
    run_two_values(operation, &float_formats[3], 0, 512, 0, 0);
}

/* x - max between -87.3 and -84, where results approach the smallest normal, and past it. */
static void test_deep_tails(operation operation)
{
    for (int f = 0; f < 2; f++) {
        enum { ROWS = 2000, COLUMNS = 24 };
        const float_format *format = &float_formats[f];
        double row[COLUMNS], low = f == 0 ? -90 : -712, high = f == 0 ? -84 : -700;
        random_source source = random_seed(84);
        row_batch input = batch_of(format, ROWS, COLUMNS);
        for (int64_t r = 0; r < ROWS; r++) {
            double top = r & 1 ? random_normal(&source) : 0;
            for (int j = 0; j < COLUMNS; j++)
                row[j] = j == r % COLUMNS ? top : top + random_uniform(&source, low, high);
            batch_set(&input, r, row);
        }
        judged_case judged =
            case_of(operation, format, "%s %s deep tails [%g,%g]", operation_names[operation], format->name, low, high);
        judge_scores(&judged, operation, &input, &plain, &source);
        case_finish(&judged);
        batch_free(&input);
    }
}

/* Every |x| up to the type's limit: the forms for |x| >= 2^21 and 2^30 too. */
static void test_magnitudes(operation operation)
{
    for (int f = 0; f < 4; f++) {
        const float_format *format = &float_formats[f];
        for (int exponent = -30; exponent<format->largest_exponent; exponent += exponent> 40 ? 61 : 3) {
            enum { ROWS = 60, COLUMNS = 21 };
            double row[COLUMNS];
            random_source source = random_seed((uint64_t)(exponent + 100));
            row_batch input = batch_of(format, ROWS, COLUMNS);
            for (int64_t r = 0; r < ROWS; r++) {
                /* Offsets of that size, spread so that several columns keep a share. */
                double offset = ldexp(random_uniform(&source, -1, 1), exponent);
                for (int j = 0; j < COLUMNS; j++)
                    row[j] = r % 3 == 0 ? ldexp(random_normal(&source) / 8, exponent)
                                        : offset + fmax(1, fabs(offset) * ldexp(1, 1 - format->precision)) *
                                                       random_normal(&source);
                batch_set(&input, r, row);
            }
            judged_case judged =
                case_of(operation, format, "%s %s |x| about 2^%d", operation_names[operation], format->name, exponent);
            judge_scores(&judged, operation, &input, &plain, &source);
            case_finish(&judged);
            batch_free(&input);
        }
    }
}

int main(int count, char **arguments)
{
    for (int operation = 0; operation < SOFTMAX_BACKWARD; operation++) {
        if (count != 2 || strcmp(arguments[1], operation_names[operation]) != 0)
            continue;
        printf("instruction set: %s\n", softmax_isa_default());
        test_named_rows((enum operation)operation);
        test_deep_tails((enum operation)operation);
        test_magnitudes((enum operation)operation);
        test_distributions((enum operation)operation);
        test_options((enum operation)operation);
        test_wide_rows((enum operation)operation);
        case_print_totals();
        return check_finish("accuracy_scores");
    }
    fprintf(stderr, "usage: accuracy_scores softmax|log_softmax|logsumexp\n");
    return 2;
}
