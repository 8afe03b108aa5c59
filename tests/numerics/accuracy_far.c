/* Scores scale x + bias of every size against MPFR: scales and biases of any exponent, products that a bias cancels, ties, scores beyond the
 * type's range, scores whose difference is far below their last bit. One bit for every instruction set; states of tiles, merged in any order, the
 * same bits as one call.
 *   accuracy_far [rows of each kind] */
#include "oracle/check.h"
#include "oracle/random_rows.h"
#include "row_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 9, TILE = SOFTMAX_BLOCK_COLUMNS, LONG_COLUMNS = 2 * TILE + 300, MAX_SETS = 8 };

/* x, scale and bias of one row. */
typedef struct far_row {
    double x[LONG_COLUMNS];
    double bias[LONG_COLUMNS];
    double scale;
} far_row;

typedef enum far_kind {
    ANY_SCALE,       /* no bias; any exponents */
    ANY_BIAS,        /* all three of any exponents */
    CANCELLED,       /* bias = -scale x, but for what it cannot hold */
    EQUAL_PRODUCTS,  /* one x of any size, small biases */
    EQUAL_BIASES,    /* one bias of any size, small products */
    NEIGHBOURS,      /* x a few units of its last place apart, which scale makes about 1 */
    TINY_SCALE,      /* large x, and scale brings them to about 1 */
    HUGE_SCALE,      /* the opposite */
    TIES,            /* few values of x and of bias, of any size */
    BOTH_SIDES,      /* the first block's scores just below 2^21, others also above: two ways of computing terms in one row */
    KINDS
} far_kind;

static const char *const kind_names[KINDS] = {"any scale",    "any scale and bias", "cancelled",  "equal products", "equal biases",
                                              "neighbours",   "tiny scale",         "huge scale", "ties",
                                              "both sides of 2^21"};

static double any_double(random_source *source, int low, int high)
{
    return ldexp(random_uniform(source, 1, 2) * (random_bits(source) & 1 ? 1 : -1), low + (int)random_below(source, high - low));
}

/* Values of a format's whole range but its ends, where rounding would overflow. */
static double any_value(random_source *source, const float_format *format)
{
    return format_round(format, any_double(source, format->smallest_exponent, format->largest_exponent));
}

static void make_row(far_row *row, far_kind kind, const float_format *format, int64_t columns, random_source *source)
{
    const int most = format->largest_exponent, precision = format->precision;
    double any = any_value(source, format), values[4], biases[4];
    int exponent = (int)random_below(source, most);
    row->scale = kind == TINY_SCALE   ? any_double(source, -most, 2 - most)
                 : kind == BOTH_SIDES ? 0x1p21
                 : kind == HUGE_SCALE ? any_double(source, most - 4, most)
                 : kind == NEIGHBOURS ? any_double(source, precision - exponent - 3, precision - exponent + 1)
                 : kind == ANY_SCALE || kind == ANY_BIAS || kind == TIES ? any_double(source, -1000, 1000)
                                                                         : any_double(source, -20, 20);
    for (int i = 0; i < 4; i++) {
        values[i] = any_value(source, format);
        biases[i] = any_value(source, format);
    }
    for (int64_t j = 0; j < columns; j++) {
        double small = random_normal(source) * 4, x = small, bias = 0;
        switch (kind) {
        case ANY_SCALE: x = any_value(source, format); break;
        case ANY_BIAS: x = any_value(source, format), bias = any_value(source, format); break;
        case CANCELLED:
            x = format_round(format, any_double(source, -10, most - 22 < 40 ? most - 22 : 40));
            bias = small - x * row->scale;
            break;
        case EQUAL_PRODUCTS: x = any, bias = small; break;
        case EQUAL_BIASES: bias = any; break;
        case NEIGHBOURS: x = ldexp(1, exponent) + ldexp((double)random_below(source, 40), exponent - precision + 1); break;
        case TINY_SCALE: x = ldexp(small, most - 5); break;
        case BOTH_SIDES: x = 1, bias = j < TILE ? -1 - fabs(small) / 8 : small / 8; break;
        case HUGE_SCALE: x = ldexp(small, -most); break;
        default: x = values[random_below(source, 4)], bias = biases[random_below(source, 4)]; break;
        }
        row->x[j] = format_round(format, x);
        row->bias[j] = format_round(format, fabs(bias) > ldexp(1, most) ? ldexp(bias > 0 ? 1 : -1, most) : bias);
    }
}

static bool row_has_bias(far_kind kind) { return kind != ANY_SCALE && kind != NEIGHBOURS && kind != TINY_SCALE && kind != HUGE_SCALE; }

/* The worst errors by operation and format, and what they may be. */
static double worst[3][4];

static double bound_of(int operation, const float_format *format)
{
    return format->precision < 20 ? 0.51 : operation == SOFTMAX ? 2.5 : operation == LOG_SOFTMAX ? 2 : 1;
}

static void judge_row_of(const row_problem *problem, const float_format *format, const double *result, const char *words)
{
    static exact_answer answer;
    double error = 0;
    exact_solve(problem, &answer);
    for (int64_t i = 0; i < row_problem_values(problem); i++)
        error = fmax(error, ulp_error(result[i], answer.value[i], answer.magnitude[i], format));
    CHECK(error <= bound_of((int)problem->operation, format), "%s: %g ULP (scale %a, x %a %a, bias %a %a; results %a %a)", words, error, problem->scale,
          problem->x[0], problem->x[problem->columns - 1], problem->bias ? problem->bias[0] : 0,
          problem->bias ? problem->bias[problem->columns - 1] : 0, result[0], result[row_problem_values(problem) - 1]);
    int f = (int)(format - float_formats);
    if (error > worst[problem->operation][f])
        worst[problem->operation][f] = error;
}

/* One row by one operation; y in the format, widened into result. */
static void run_row(const far_row *row, int operation, bool has_bias, const float_format *format, int64_t columns, const char *isa, void *stored,
                    double *result)
{
    row_batch x = batch_of(format, 1, columns), bias = batch_of(format, 1, columns);
    const float_format *out = operation == LOGSUMEXP ? float_format_of_losses(format) : format;
    tensor in, added, y;
    int64_t values = operation == LOGSUMEXP ? 1 : columns;
    batch_set(&x, 0, row->x);
    batch_set(&bias, 0, row->bias);
    library_call call = library_call_of((enum operation)operation, batch_tensor(&x, &in), NULL,
                                        operation == LOGSUMEXP ? tensor_vector(&y, stored, out->dlpack, 1) : tensor_matrix(&y, stored, out->dlpack, 1, columns),
                                        NULL, 1);
    call.options.scale = row->scale;
    call.options.isa = isa;
    if (has_bias)
        call.options.bias = batch_tensor(&bias, &added);
    memset(stored, 0xc5, (size_t)(values * out->bytes));
    library_run_ok(&call, "far row");
    for (int64_t i = 0; i < values; i++)
        result[i] = format_load(out, stored, i);
    batch_free(&x);
    batch_free(&bias);
}

static void test_kind(far_kind kind, const float_format *format, int64_t columns, int rows, const char *const *sets, int set_count)
{
    static far_row row;
    static double result[LONG_COLUMNS], first[LONG_COLUMNS], second[LONG_COLUMNS];
    random_source source = random_seed((uint64_t)kind * 8 + (uint64_t)(format - float_formats));
    for (int r = 0; r < rows; r++) {
        make_row(&row, kind, format, columns, &source);
        for (int operation = SOFTMAX; operation <= LOGSUMEXP; operation++) {
            char words[128];
            row_problem problem = row_problem_of((enum operation)operation, columns, row.x);
            const float_format *out = operation == LOGSUMEXP ? float_format_of_losses(format) : format;
            size_t bytes = (size_t)((operation == LOGSUMEXP ? 1 : columns) * out->bytes);
            problem.scale = row.scale;
            problem.bias = row_has_bias(kind) ? row.bias : NULL;
            snprintf(words, sizeof words, "%s, %s, %s, %d columns, row %d", operation_names[operation], format->name, kind_names[kind],
                     (int)columns, r);
            run_row(&row, operation, row_has_bias(kind), format, columns, sets[0], first, result);
            judge_row_of(&problem, out, result, words);
            for (int s = 1; s < set_count; s++) {
                run_row(&row, operation, row_has_bias(kind), format, columns, sets[s], second, result);
                CHECK(memcmp(first, second, bytes) == 0, "%s: %s and %s differ", words, sets[0], sets[s]);
            }
        }
    }
}

/* A long row as tiles in states that are merged in two orders, against one call. */
static void test_states(far_kind kind, const float_format *format, int rows)
{
    enum { TILES = 3 };
    static far_row row;
    static double result[LONG_COLUMNS], whole[LONG_COLUMNS], tiled[LONG_COLUMNS], logs[LONG_COLUMNS], tiled_logs[LONG_COLUMNS];
    static const int orders[3][TILES] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    random_source source = random_seed(1000 + (uint64_t)kind * 8 + (uint64_t)(format - float_formats));
    size_t bytes = (size_t)(LONG_COLUMNS * format->bytes);
    for (int r = 0; r < rows; r++) {
        row_batch x = batch_of(format, 1, LONG_COLUMNS), bias = batch_of(format, 1, LONG_COLUMNS);
        make_row(&row, kind, format, LONG_COLUMNS, &source);
        batch_set(&x, 0, row.x);
        batch_set(&bias, 0, row.bias);
        run_row(&row, SOFTMAX, row_has_bias(kind), format, LONG_COLUMNS, NULL, whole, result);
        run_row(&row, LOG_SOFTMAX, row_has_bias(kind), format, LONG_COLUMNS, NULL, logs, result);
        for (int o = 0; o < 3; o++) {
            softmax_state parts[TILES], state;
            softmax_state_init(parts, TILES, format->type);
            softmax_state_init(&state, 1, format->type);
            for (int pass = 0; pass < 3; pass++) /* update and merge; softmax; log_softmax */
                for (int i = 0; i < TILES; i++) {
                    int t = orders[o][i];
                    int64_t columns = t < 2 ? TILE : LONG_COLUMNS - 2 * TILE, at = (int64_t)t * TILE * format->bytes;
                    tensor in, added, y;
                    softmax_options options = library_options(NULL);
                    options.scale = row.scale;
                    tensor_matrix(&in, (char *)x.stored + at, format->dlpack, 1, columns);
                    tensor_matrix(&added, (char *)bias.stored + at, format->dlpack, 1, columns);
                    tensor_matrix(&y, (char *)(pass == 1 ? tiled : tiled_logs) + at, format->dlpack, 1, columns);
                    if (row_has_bias(kind))
                        options.bias = &added.dl;
                    softmax_status status = pass == 0   ? softmax_state_update(&parts[t], &in.dl, 1, &options)
                                            : pass == 1 ? softmax_state_normalise(&state, &in.dl, &y.dl, 1, &options)
                                                        : softmax_state_log_normalise(&state, &in.dl, &y.dl, 1, &options);
                    if (pass == 0 && status == SOFTMAX_OK)
                        status = softmax_state_merge(&state, &parts[t], 1);
                    CHECK(status == SOFTMAX_OK, "states: %s", library_message);
                }
            CHECK(memcmp(whole, tiled, bytes) == 0, "%s, %s, row %d, order %d: softmax by states differs", format->name, kind_names[kind], r, o);
            CHECK(memcmp(logs, tiled_logs, bytes) == 0, "%s, %s, row %d, order %d: log_softmax by states differs", format->name, kind_names[kind], r, o);
        }
        batch_free(&x);
        batch_free(&bias);
    }
}

int main(int count, char **arguments)
{
    int rows = count > 1 ? atoi(arguments[1]) : 40;
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int kind = 0; kind < KINDS; kind++)
        for (int f = 0; f < 4; f++) {
            test_kind((far_kind)kind, &float_formats[f], COLUMNS, rows, sets, set_count);
            test_kind((far_kind)kind, &float_formats[f], 2, rows, sets, set_count);
            test_kind((far_kind)kind, &float_formats[f], LONG_COLUMNS, 1, sets, set_count);
            test_states((far_kind)kind, &float_formats[f], rows > 20 ? 2 : 1);
        }
    for (int operation = SOFTMAX; operation <= LOGSUMEXP; operation++) {
        printf("%-12s", operation_names[operation]);
        for (int f = 0; f < 4; f++)
            printf("  %s %.3f", float_formats[f].name, worst[operation][f]);
        printf(" ULP\n");
    }
    mpfr_free_cache();
    return check_finish("accuracy_far");
}
