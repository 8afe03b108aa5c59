/* The oracle's own test: known values (FAULTS.md and by hand), the ULP's edges, the types' conversions, the screen
 * against MPFR, and that the judge rejects what is wrong. */
#include "oracle/check.h"
#include "oracle/judge.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <string.h>

static void check_near(const char *what, const mpfr_t exact, double expected, double relative)
{
    double value = mpfr_get_d(exact, MPFR_RNDN);
    CHECK(fabs(value - expected) <= relative * fabs(expected), "%s: %.17g, expected %.17g", what, value, expected);
}

static void test_known_values(void)
{
    exact_answer answer = {0};
    row_problem problem = row_problem_of(CROSS_ENTROPY, 3, (double[]){40, 0, 0});
    exact_solve(&problem, &answer);
    check_near("loss of [40,0,0]", answer.value[0], 8.4967085e-18, 1e-7);
    check_near("gradient of [40,0,0] at its target", answer.value[1], -8.4967085e-18, 1e-7);
    check_near("gradient of [40,0,0] beside it", answer.value[2], 4.2483542e-18, 1e-7);

    problem = row_problem_of(LOG_SOFTMAX, 2, (double[]){1e8, 1e8});
    exact_solve(&problem, &answer);
    check_near("log_softmax of two equals", answer.value[1], -0.69314718055994531, 1e-16);

    problem = row_problem_of(LOGSUMEXP, 2, (double[]){1, 2});
    exact_solve(&problem, &answer);
    check_near("logsumexp of [1,2]", answer.value[0], 2.3132616875182228, 1e-15);
    check_near("its magnitude", answer.magnitude[0], 2.3132616875182228, 1e-15);

    problem = row_problem_of(SOFTMAX, 2, (double[]){1e8, 1e8 - 8});
    exact_solve(&problem, &answer);
    check_near("softmax at 1e8", answer.value[0], 0.99966464986953352, 1e-15);
    check_near("softmax at 1e8, second", answer.value[1], 3.3535013046647811e-4, 1e-15);

    double sevens[32];
    for (int j = 0; j < 32; j++)
        sevens[j] = 7.640625; /* float16's 7.64 */
    problem = row_problem_of(LOGSUMEXP, 32, sevens);
    exact_solve(&problem, &answer);
    check_near("logsumexp of 32 times 7.64", answer.value[0], 7.640625 + 3.4657359027997265, 1e-15);

    bool seen[3] = {true, false, true};
    problem = row_problem_of(SOFTMAX, 3, (double[]){0, NAN, 0});
    problem.seen = seen;
    exact_solve(&problem, &answer);
    check_near("softmax beside a masked NaN", answer.value[2], 0.5, 0);
    CHECK(mpfr_zero_p(answer.value[1]), "a masked column is 0");

    problem = row_problem_of(SOFTMAX, 2, (double[]){3, 1});
    problem.scale = 0.5;
    problem.bias = (double[]){0, 1};
    exact_solve(&problem, &answer);
    check_near("softmax of 0.5 * [3,1] + [0,1]", answer.value[0], 0.5, 0);
    exact_answer_free(&answer);
}

static void test_backward_values(void)
{
    exact_answer answer = {0};
    row_problem problem = row_problem_of(SOFTMAX_BACKWARD, 2, (double[]){0.25, 0.75});
    problem.dy = (double[]){1, 2};
    exact_solve(&problem, &answer);
    check_near("softmax backward", answer.value[0], 0.25 * (1 - 1.75), 0);
    check_near("its magnitude", answer.magnitude[0], 0.25 * (1 + 1.75), 0);
    problem = row_problem_of(LOG_SOFTMAX_BACKWARD, 2, (double[]){0, -INFINITY});
    problem.dy = (double[]){1, 5};
    exact_solve(&problem, &answer);
    CHECK(mpfr_zero_p(answer.value[0]) && mpfr_zero_p(answer.value[1]), "a column at -inf takes no part");
    exact_answer_free(&answer);
}

/* By the formulas of softmax.h in plain double, for a row where nothing cancels. */
static void test_loss_extras(void)
{
    const double x[3] = {0.5, -1, 2}, weights[3] = {0.5, 2, 1.25}, e = 0.1, z_loss = 0.01;
    double sum = exp(x[0]) + exp(x[1]) + exp(x[2]), l = log(sum), smooth = 0, weight_sum = 3.75;
    exact_answer answer = {0};
    row_problem problem = row_problem_of(CROSS_ENTROPY, 3, x);
    problem.target = 1;
    problem.class_weights = weights;
    problem.label_smoothing = e;
    problem.z_loss = z_loss;
    problem.upstream = 3;
    problem.terms_divisor = 7;
    problem.rows_divisor = 5;
    for (int j = 0; j < 3; j++)
        smooth += weights[j] * (l - x[j]);
    exact_solve(&problem, &answer);
    check_near("loss with extras", answer.value[0], 2 * (1 - e) * (l + 1) + e / 3 * smooth + z_loss * l * l, 1e-14);
    for (int j = 0; j < 3; j++) {
        double p = exp(x[j]) / sum;
        double terms = 2 * (1 - e) * (p - (j == 1)) + e / 3 * (p * weight_sum - weights[j]);
        check_near("gradient with extras", answer.value[1 + j], 3 * (terms / 7 + 2 * z_loss * l * p / 5), 1e-13);
    }
    const double probabilities[3] = {0.2, 0.7, 0.1};
    problem.probabilities = probabilities;
    double loss = z_loss * l * l;
    for (int j = 0; j < 3; j++)
        loss += ((1 - e) * probabilities[j] + e / 3) * weights[j] * (l - x[j]);
    exact_solve(&problem, &answer);
    CHECK(answer.count == 7, "probability targets have a gradient: %ld values", (long)answer.count);
    check_near("loss with probabilities", answer.value[0], loss, 1e-14);
    check_near("their gradient", answer.value[4 + 2], 3.0 / 7 * (1 - e) * weights[2] * (l - x[2]), 1e-14);
    exact_answer_free(&answer);
}

static void check_ulp(const char *what, double result, long double exact, const float_format *format, double low,
                      double high)
{
    mpfr_t value;
    mpfr_init2(value, EXACT_BITS);
    mpfr_set_ld(value, exact, MPFR_RNDN);
    double error = ulp_error(result, value, value, format);
    double screened = ulp_error_screened(result, exact, exact, format);
    CHECK(error >= low && error <= high, "%s: %g ULP, expected [%g, %g]", what, error, low, high);
    CHECK(error == screened, "%s: %g ULP by MPFR, %g by long double", what, error, screened);
    mpfr_clear(value);
}

static void test_ulp_edges(void)
{
    const float_format *f32 = &float_formats[0], *f64 = &float_formats[1], *f16 = &float_formats[2],
                       *b16 = &float_formats[3];
    check_ulp("one ULP above 1", 0x1.000002p0, 1, f32, 1, 1);
    check_ulp("one half ULP below 1 counts by the exact value's unit", 0x1.fffffep-1, 1, f32, 0.5, 0.5);
    check_ulp("float64", 0x1.0000000000001p0, 1, f64, 1, 1);
    check_ulp("+0 below the smallest normal", 0, 0x1.8p-127L, f32, 0, 0);
    check_ulp("-0 is never right", -0.0, 0x1.8p-127L, f32, INFINITY, INFINITY);
    check_ulp("a subnormal is never right", 0x1.8p-127, 0x1.8p-127L, f32, INFINITY, INFINITY);
    check_ulp("+0 at the edge", 0, 0x1.000004p-126L, f32, 0, 0);
    check_ulp("the smallest normal at the edge", 0x1p-126, 0x1.fffffep-127L, f32, 0.5, 0.5);
    check_ulp("+0 well above the edge", 0, 0x1.1p-126L, f32, 1000, 1e9);
    check_ulp("float64's +0", 0, 0x1.8p-1023L, f64, 0, 0);
    check_ulp("bfloat16's +0 well above the edge", 0, 0x1.02p-126L, b16, 100, 1000);
    check_ulp("float16's subnormal", 0x1p-24, 0x1.8p-24L, f16, 0.5, 0.5);
    check_ulp("float16's subnormal is not 0", 0, 0x1p-16L, f16, 256, 256);
    check_ulp("NaN", NAN, 1, f32, INFINITY, INFINITY);
    check_ulp("-inf where -inf is right", -INFINITY, -INFINITY, f32, 0, 0);
    check_ulp("finite where -inf is right", -1e30, -INFINITY, f32, INFINITY, INFINITY);
    check_ulp("float16 overflows to -inf", -INFINITY, -70000, f16, 0, 0);
    check_ulp("float16's -inf for a value in range", -INFINITY, -60000, f16, 100, 1000);
}

static void test_formats(void)
{
    uint64_t store = 0;
    for (int f = 2; f < 4; f++) {
        const float_format *format = &float_formats[f];
        long wrong = 0;
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            uint16_t half = (uint16_t)bits, back;
            double value = format_load(format, &half, 0);
            format_store(format, &back, 0, value);
            wrong += !isnan(value) && back != half;
        }
        CHECK(wrong == 0, "%s: %ld of 65536 bit patterns do not come back", format->name, wrong);
    }
    format_store(&float_formats[2], &store, 0, 1 + 0x1p-11);
    CHECK(format_load(&float_formats[2], &store, 0) == 1, "a tie goes to even");
    format_store(&float_formats[2], &store, 0, 1 + 0x1.000002p-11);
    CHECK(format_load(&float_formats[2], &store, 0) == 1 + 0x1p-10, "no rounding through float32 in between");
    format_store(&float_formats[2], &store, 0, 65520);
    CHECK(isinf(format_load(&float_formats[2], &store, 0)), "float16 overflows at 65520");
    format_store(&float_formats[3], &store, 0, 1);
    CHECK((store & 0xffff) == 0x3f80, "bfloat16's 1 is 0x3f80, not 0x%lx", (unsigned long)(store & 0xffff));
    format_store(&float_formats[2], &store, 0, 0x1.8p-25);
    CHECK((store & 0xffff) == 1, "float16's smallest subnormal");
}

static void fill_problem(random_source *source, operation operation, int variant, double *x, double *dy,
                         double *weights, double *probabilities, row_problem *problem)
{
    int64_t columns = problem->columns;
    distribution which = (distribution)(variant % DISTRIBUTIONS);
    random_row(source, which, x, columns);
    random_row(source, NORMAL, dy, columns);
    *problem = row_problem_of(operation, columns, x);
    problem->dy = dy;
    if (operation == SOFTMAX_BACKWARD || operation == LOG_SOFTMAX_BACKWARD)
        for (int64_t j = 0; j < columns; j++)
            x[j] = operation == SOFTMAX_BACKWARD ? random_uniform(source, 0, 1) : random_uniform(source, -30, 0);
    if (operation < SOFTMAX_BACKWARD && variant & 1) {
        problem->scale = random_uniform(source, -2, 2);
        problem->bias = dy;
    }
    if (operation != CROSS_ENTROPY)
        return;
    problem->target = random_below(source, columns);
    for (int64_t j = 0; j < columns; j++) {
        weights[j] = random_uniform(source, 0, 2);
        probabilities[j] = random_uniform(source, 0, 1);
    }
    problem->class_weights = variant & 1 ? weights : NULL;
    problem->label_smoothing = variant & 2 ? 0.1 : 0;
    problem->z_loss = variant & 4 ? 1e-3 : 0;
    problem->probabilities = variant & 8 ? probabilities : NULL;
    if (variant & 16) {
        problem->softcap = 30;
        problem->raw = dy;
    }
}

/* The screen's promise, SCREEN_ERROR, for every operation and option. */
static void test_screen(void)
{
    enum { COLUMNS = 37, VARIANTS = 320 };
    double x[COLUMNS], dy[COLUMNS], weights[COLUMNS], probabilities[COLUMNS];
    random_source source = random_seed(1);
    screen_answer screen = {0};
    exact_answer exact = {0};
    mpfr_t difference;
    mpfr_init2(difference, EXACT_BITS);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        long double worst = 0;
        for (int variant = 0; variant < VARIANTS; variant++) {
            row_problem problem = {.columns = 1 + variant % COLUMNS};
            fill_problem(&source, (enum operation)operation, variant, x, dy, weights, probabilities, &problem);
            screen_solve(&problem, &screen);
            exact_solve(&problem, &exact);
            for (int64_t i = 0; i < exact.count; i++) {
                mpfr_t ours;
                mpfr_init2(ours, EXACT_BITS);
                mpfr_set_ld(ours, screen.value[i], MPFR_RNDN);
                mpfr_sub(difference, ours, exact.value[i], MPFR_RNDN);
                mpfr_clear(ours);
                if (mpfr_zero_p(difference))
                    continue;
                mpfr_div(difference, difference, exact.magnitude[i], MPFR_RNDN);
                worst = fmaxl(worst, fabsl(mpfr_get_ld(difference, MPFR_RNDN)));
            }
        }
        printf("screen of %s: error 2^%.1Lf of the magnitude\n", operation_names[operation], log2l(worst));
        CHECK(worst < SCREEN_ERROR, "%s", operation_names[operation]);
    }
    mpfr_clear(difference);
    screen_answer_free(&screen);
    exact_answer_free(&exact);
}

/* A right answer passes, one ULP too many does not, and no fake does. */
static void test_judge(void)
{
    enum { COLUMNS = 37 };
    double x[COLUMNS], dy[COLUMNS], weights[COLUMNS], probabilities[COLUMNS], result[1 + 2 * COLUMNS];
    random_source source = random_seed(2);
    exact_answer exact = {0};
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int f = 0; f < 4; f++) {
            row_problem problem = {.columns = COLUMNS};
            judge judge = judge_of((enum operation)operation, &float_formats[f]);
            unsigned fakes = 7;
            if (operation == CROSS_ENTROPY)
                judge.part[1] = (judge_part){"gradient", &float_formats[f], 3, 0, 0};
            fill_problem(&source, (enum operation)operation, 0, x, dy, weights, probabilities, &problem);
            exact_solve(&problem, &exact);
            for (int64_t i = 0; i < exact.count; i++)
                result[i] = format_round(&float_formats[f], mpfr_get_d(exact.value[i], MPFR_RNDN)) + 0.0;
            CHECK(judge_row(&judge, &problem, result), "%s %s: the exact answer is right; worst %g",
                  operation_names[operation], float_formats[f].name, judge.part[0].worst);
            result[0] += 4 * (double)ulp_unit(fabsl(mpfr_get_ld(exact.magnitude[0], MPFR_RNDN)), &float_formats[f]);
            CHECK(!judge_row(&judge, &problem, result), "%s %s: 4 ULP off is wrong", operation_names[operation],
                  float_formats[f].name);
            fakes &= judge_fakes(&judge, &problem);
            CHECK(fakes == 0, "%s %s: a fake passes, mask %u", operation_names[operation], float_formats[f].name,
                  fakes);
            judge_free(&judge);
        }
    }
    exact_answer_free(&exact);
}

int main(void)
{
    test_known_values();
    test_backward_values();
    test_loss_extras();
    test_ulp_edges();
    test_formats();
    test_screen();
    test_judge();
    mpfr_free_cache();
    return check_finish("oracle_test");
}
