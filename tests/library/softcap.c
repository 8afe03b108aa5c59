/* The softcap in vectors is numerics/hyperbolic.h's, bit for bit, on every instruction set. A row of one column is its own logsumexp, which
 * shows the value; with a probability of 0 and z_loss 1/2 its loss is z^2 / 2, whose gradient z tanh' shows the derivative. */
#include <float.h>
#include <math.h>
#include <softmax.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hyperbolic.h"

enum { ROWS = 20000, COLUMNS = 1029 };

static int failures, checks;
static double x[ROWS], got[ROWS];
static float x_float[ROWS], got_float[ROWS];
static uint64_t seed = 1;

static uint64_t next(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return seed >> 11;
}

/* |x / c| of every size that matters, and both ends. */
static double some(double c, int i)
{
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, DBL_MAX, 0x1p-1074, 40.0, 1.0, 0x1.4000000000001p5, 0x1p-500};
    double u = ldexp(1.0 + (double)next() * 0x1p-53, (int)(next() % 60) - 52), sign = next() % 2 ? 1.0 : -1.0;
    if (i < 20) return special[i / 2] * (i % 2 ? c : 1.0);
    if (i % 3 == 0) u = (double)next() * 0x1p-53 * 42.0;
    if (i % 5 == 0) u = (double)next() * 0x1p-53 * 0.4; /* e^2u - 1 without a power of two */
    return sign * u * c;
}

static double positive(double value, double least) { return fabs(value) < least ? 0.0 : value; }

static void check(const char *isa, const char *what, double c, int i, double given, double result, double right)
{
    checks++;
    if (result == right && !signbit(result) == !signbit(right)) return;
    if (failures++ < 20) printf("FAILED %s, %s, softcap %a, row %d: %a gave %a, not %a\n", isa, what, c, i, given, result, right);
}

static void check_values(const char *isa, double c)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    softmax_status status;
    options.isa = isa;
    options.softcap = c;
    for (int i = 0; i < ROWS; i++) {
        x[i] = some(c, i);
        x_float[i] = (float)x[i];
    }
    status = softmax_logsumexp_rows(SOFTMAX_FLOAT64, ROWS, 1, x, got, &options);
    for (int i = 0; i < ROWS; i++) check(isa, "float64", c, i, x[i], status ? NAN : got[i], positive(softcap_value(x[i], c), DBL_MIN));
    status = softmax_logsumexp_rows(SOFTMAX_FLOAT32, ROWS, 1, x_float, got_float, &options);
    for (int i = 0; i < ROWS; i++)
        check(isa, "float32", c, i, (double)x_float[i], status ? NAN : (double)got_float[i],
              positive((double)(float)softcap_value((double)x_float[i], c), FLT_MIN));
}

/* Rows of one column go one by one: the vectors have one lane that counts. Wide rows have all, and the gradient of each column is
 * p_j tanh'; p_j does not depend on the derivative, and comes from the call without the softcap on capped scores. */
static void check_slopes(const char *isa, double c)
{
    static float capped[COLUMNS], given[COLUMNS], p[COLUMNS], dz[COLUMNS];
    static double capped_double[COLUMNS], given_double[COLUMNS], p_double[COLUMNS], dz_double[COLUMNS];
    int64_t target = 0;
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    softmax_status status, status_double;
    options.isa = isa;
    for (int i = 0; i < COLUMNS; i++) {
        given_double[i] = 4.0 * c * ((double)next() * 0x1p-53 - 0.5);
        given[i] = (float)given_double[i];
        capped_double[i] = softcap_value(given_double[i], c);
        capped[i] = (float)softcap_value((double)given[i], c);
    }
    status = softmax_softmax_rows(SOFTMAX_FLOAT32, 1, COLUMNS, capped, p, &options);
    status_double = softmax_softmax_rows(SOFTMAX_FLOAT64, 1, COLUMNS, capped_double, p_double, &options);
    options.softcap = c;
    if (status == SOFTMAX_OK) status = softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 1, COLUMNS, given, &target, NULL, dz, &options);
    if (status_double == SOFTMAX_OK)
        status_double = softmax_cross_entropy_rows(SOFTMAX_FLOAT64, 1, COLUMNS, given_double, &target, NULL, dz_double, &options);
    for (int i = 1; i < COLUMNS; i++) {
        pair f = softcap_derivative((double)given[i], c);
        double d = fma((double)p[i], f.hi, (double)p[i] * f.lo);
        check(isa, "float32 gradient", c, i, (double)given[i], status ? NAN : (double)dz[i], positive((double)(float)d, FLT_MIN));
        f = softcap_derivative(given_double[i], c);
        d = fma(p_double[i], f.hi, p_double[i] * f.lo);
        check(isa, "float64 gradient", c, i, given_double[i], status_double ? NAN : dz_double[i], positive(d, DBL_MIN));
    }
}

int main(void)
{
    static const double caps[] = {30.0, 50.0, 1.0, 0.7, 3e4, 0x1.000001p0, 0x1p-60, 1e30, 1e200, 1e-200}; /* one between two floats */
    for (int i = 0; i < softmax_isa_count(); i++) {
        const char *isa = softmax_isa_name(i);
        if (!softmax_isa_available(i)) {
            printf("isa %s: not available here\n", isa);
            continue;
        }
        for (size_t k = 0; k < sizeof caps / sizeof *caps; k++) check_values(isa, caps[k]);
        for (int k = 0; k < 7; k++) check_slopes(isa, caps[k]);
        printf("isa %s: compared\n", isa);
    }
    printf("softcap: %d checks, %d failed\n", checks, failures);
    return failures != 0 || checks == 0;
}
