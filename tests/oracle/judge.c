#include "judge.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

/* One row of so many goes to MPFR whatever the screen says; not those that take seconds. */
enum { SAMPLE = 997, SAMPLE_COLUMNS = 5000 };

static double contract_bound(operation operation, const float_format *format)
{
    if (format->precision < 20)
        return 0.51;
    switch (operation) {
    case SOFTMAX:
        return 2.1;
    case LOGSUMEXP:
        return 1;
    default:
        return 2;
    }
}

judge judge_of(operation operation, const float_format *format)
{
    judge made = {.part = {{operation_names[operation], format, contract_bound(operation, format), 0, 0}}};
    return made;
}

void judge_free(judge *judge)
{
    screen_answer_free(&judge->screen);
    exact_answer_free(&judge->exact);
}

static int part_of(const row_problem *problem, int64_t index)
{
    if (problem->operation != CROSS_ENTROPY || index == 0)
        return 0;
    return index <= problem->columns ? 1 : 2;
}

/* 16-bit results whose terms cancel are the exact value rounded once, after the error that the contract grants the same
 * operation in float32: 2 ULP of the magnitude, 1 for logsumexp. What is reported beside it is the whole error. */
static double allowed_before_rounding(const row_problem *problem, long double value, long double magnitude,
                                      const float_format *format)
{
    int units = problem->operation >= SOFTMAX_BACKWARD ? 2 : problem->operation == LOGSUMEXP ? 1 : 0;
    if (format->precision >= 20)
        return 0;
    return (double)(units * ulp_unit(fabsl(magnitude), &float_formats[0]) / ulp_unit(fabsl(value), format));
}

/* The whole error of one value, screened or exact. */
static double value_error(const judge *judge, int64_t i, double result, bool exactly, const float_format *format)
{
    bool narrow = format->precision < 20;
    if (exactly)
        return ulp_error(result, judge->exact.value[i], narrow ? judge->exact.value[i] : judge->exact.magnitude[i],
                         format);
    return ulp_error_screened(result, judge->screen.value[i],
                              narrow ? judge->screen.value[i] : judge->screen.magnitude[i], format);
}

/* The worst errors of a row by part: after what is allowed before the rounding, and (gross) before. */
static void row_errors(const judge *judge, const row_problem *problem, const double *result, bool exactly,
                       double errors[JUDGE_PARTS], double gross[JUDGE_PARTS])
{
    int64_t count = row_problem_values(problem);
    memset(errors, 0, JUDGE_PARTS * sizeof *errors);
    memset(gross, 0, JUDGE_PARTS * sizeof *gross);
    for (int64_t i = 0; i < count; i++) {
        int part = part_of(problem, i);
        const float_format *format = judge->part[part].format;
        if (!format)
            continue;
        double error = value_error(judge, i, result[i], exactly, format);
        gross[part] = fmax(gross[part], error);
        /* Where terms cancel to nearly nothing the screen's value is noise: MPFR's own is taken with MPFR's error. */
        long double value = exactly ? mpfr_get_ld(judge->exact.value[i], MPFR_RNDN) : judge->screen.value[i];
        long double magnitude =
            exactly ? mpfr_get_ld(judge->exact.magnitude[i], MPFR_RNDN) : judge->screen.magnitude[i];
        error -= allowed_before_rounding(problem, value, magnitude, format);
        errors[part] = fmax(errors[part], error);
    }
}

static bool near_a_bound(const judge *judge, const double errors[JUDGE_PARTS])
{
    for (int part = 0; part < JUDGE_PARTS; part++) {
        const float_format *format = judge->part[part].format;
        if (!format)
            continue;
        double clear = format->precision < 20 ? 0.999 : 0.8; /* far above what the screen can be wrong by */
        if (!(errors[part] < clear * judge->part[part].bound))
            return true;
    }
    return false;
}

static bool within_bounds(const judge *judge, const double errors[JUDGE_PARTS])
{
    for (int part = 0; part < JUDGE_PARTS; part++)
        if (judge->part[part].format && !(errors[part] <= judge->part[part].bound))
            return false;
    return true;
}

bool judge_row(judge *judge, const row_problem *problem, const double *result)
{
    double errors[JUDGE_PARTS], gross[JUDGE_PARTS];
    screen_solve(problem, &judge->screen);
    row_errors(judge, problem, result, false, errors, gross);
    if (near_a_bound(judge, errors) || (judge->rows % SAMPLE == 0 && problem->columns <= SAMPLE_COLUMNS)) {
        exact_solve(problem, &judge->exact);
        row_errors(judge, problem, result, true, errors, gross);
        judge->exact_rows++;
    }
    judge->rows++;
    for (int part = 0; part < JUDGE_PARTS; part++) {
        judge->part[part].gross = fmax(judge->part[part].gross, gross[part]);
        if (errors[part] > judge->part[part].worst) {
            judge->part[part].worst = errors[part];
            judge->worst_columns = problem->columns;
            for (int64_t j = 0; j < problem->columns && j < JUDGE_INPUTS; j++)
                judge->worst_inputs[j] = problem->x[j];
        }
    }
    return within_bounds(judge, errors);
}

bool judge_holds(const judge *judge)
{
    double worst[JUDGE_PARTS];
    for (int part = 0; part < JUDGE_PARTS; part++)
        worst[part] = judge->part[part].worst;
    return judge->rows > 0 && within_bounds(judge, worst);
}

void judge_print(const judge *judge, const char *words)
{
    printf("%-58s %8ld rows, %6ld by MPFR:", words, judge->rows, judge->exact_rows);
    for (int i = 0; i < JUDGE_PARTS; i++) {
        const judge_part *part = &judge->part[i];
        if (!part->format)
            continue;
        printf(" %s %s %.4f ULP (bound %g)", part->name, part->format->name, part->worst, part->bound);
        if (part->gross != part->worst)
            printf(" [%.4f before the allowance for cancelled terms]", part->gross);
    }
    printf("%s\n", judge_holds(judge) ? "" : "  FAILED");
    fflush(stdout);
}

/* Rows of equal inputs are uniform in truth: they cannot tell that fake. */
static bool is_uniform(const screen_answer *answer)
{
    for (int64_t i = 1; i < answer->count; i++)
        if (answer->value[i] != answer->value[0])
            return false;
    return answer->count > 1;
}

unsigned judge_fakes(judge *judge, const row_problem *problem)
{
    int64_t count = row_problem_values(problem);
    double *fake = malloc((size_t)count * sizeof *fake);
    unsigned passed = 0;
    if (!fake)
        abort();
    screen_solve(problem, &judge->screen);
    for (int which = 0; which < 3; which++) {
        double errors[JUDGE_PARTS], gross[JUDGE_PARTS];
        for (int64_t i = 0; i < count; i++) {
            const float_format *format = judge->part[part_of(problem, i)].format;
            uint64_t untouched = 0xc5c5c5c5c5c5c5c5u;
            fake[i] = which == 0 ? 0 : 1.0 / (double)problem->columns;
            if (format)
                fake[i] = which == 2 ? format_load(format, &untouched, 0) : format_round(format, fake[i]);
        }
        row_errors(judge, problem, fake, false, errors, gross);
        if (within_bounds(judge, errors) && !(which == 1 && is_uniform(&judge->screen)))
            passed |= 1u << which;
    }
    free(fake);
    return passed;
}
