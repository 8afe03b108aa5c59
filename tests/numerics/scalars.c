/* The scalar functions of src/numerics (exp, log1p, tanh in pairs, the exact accumulator) against MPFR. */
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "hyperbolic.h"
#include "state.h"

static uint64_t seed = 0x9e3779b97f4a7c15u;
static int failures;

static uint64_t next_random(void) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(double low, double high) { return low + (high - low) * ((double)(next_random() >> 11) * 0x1p-53); }

/* log2 |pair / exact - 1| */
static double relative_error(pair value, mpfr_t exact) {
    double result;
    mpfr_t x;
    mpfr_init2(x, 300);
    mpfr_set_d(x, value.hi, MPFR_RNDN);
    mpfr_add_d(x, x, value.lo, MPFR_RNDN);
    mpfr_sub(x, x, exact, MPFR_RNDN);
    mpfr_div(x, x, exact, MPFR_RNDN);
    result = mpfr_zero_p(x) ? -999.0 : (double)mpfr_get_exp(x);
    mpfr_clear(x);
    return result;
}

static void check(const char *name, double worst, double bound) {
    printf("%-34s worst relative error 2^%.0f (bound 2^%.0f)%s\n", name, worst, bound, worst <= bound ? "" : "  FAILED");
    if (!(worst <= bound)) failures++;
}

static void check_exp(const char *name, double low_exponent, double high_exponent, int with_low, double bound) {
    double worst = -999.0;
    mpfr_t e, k;
    int i;
    mpfr_init2(e, 300);
    mpfr_init2(k, 300);
    for (i = 0; i < 20000; i++) {
        double x = uniform(1.0, 2.0) * scale_by_power(1.0, (int64_t)uniform(low_exponent, high_exponent));
        double x_lo = 0.0, error;
        power p;
        if (next_random() & 1) x = -x;
        if (with_low) x_lo = uniform(-0.5, 0.5) * scale_by_power(fabs(x), -53);
        p = exp_pair(x, x_lo);
        if (!(p.f.hi > 0.70 && p.f.hi < 1.42)) failures++, printf("f out of range: %a for %a\n", p.f.hi, x);
        mpfr_set_d(e, x, MPFR_RNDN); /* e^(x - k ln2) */
        mpfr_add_d(e, e, x_lo, MPFR_RNDN);
        mpfr_const_log2(k, MPFR_RNDN);
        mpfr_mul_si(k, k, (long)p.k, MPFR_RNDN);
        mpfr_sub(e, e, k, MPFR_RNDN);
        mpfr_exp(e, e, MPFR_RNDN);
        error = relative_error(p.f, e);
        if (error > worst) worst = error;
    }
    check(name, worst, bound);
    mpfr_clears(e, k, (mpfr_ptr)0);
}

static void check_log(void) {
    double worst = -999.0;
    mpfr_t e;
    int i;
    mpfr_init2(e, 2000);
    for (i = 0; i < 50000; i++) {
        pair x;
        double error;
        x.hi = uniform(1.0, 2.0) * scale_by_power(1.0, (int64_t)uniform(i % 2 ? -1000.0 : -6.0, i % 2 ? 60.0 : 6.0));
        x.lo = uniform(-0.5, 0.5) * scale_by_power(x.hi, -53);
        mpfr_set_d(e, x.hi, MPFR_RNDN);
        mpfr_add_d(e, e, x.lo, MPFR_RNDN);
        mpfr_log1p(e, e, MPFR_RNDN);
        error = relative_error(log1p_pair(x), e);
        if (error > worst) worst = error;
    }
    check("log1p_pair", worst, -56.0);
    mpfr_clear(e);
}

static void check_softcap(void) {
    double worst = -999.0, worst_derivative = -999.0;
    mpfr_t u, t, one;
    int i;
    mpfr_inits2(300, u, t, one, (mpfr_ptr)0);
    mpfr_set_ui(one, 1, MPFR_RNDN);
    for (i = 0; i < 50000; i++) {
        double c = i % 3 == 0 ? 30.0 : uniform(0.5, 100.0);
        double x = c * uniform(-1.0, 1.0) * scale_by_power(1.0, (int64_t)uniform(-40.0, 9.0)), error;
        pair y = {softcap_value(x, c), 0.0}, d = softcap_derivative(x, c);
        mpfr_set_d(u, x, MPFR_RNDN);
        mpfr_div_d(u, u, c, MPFR_RNDN);
        mpfr_tanh(t, u, MPFR_RNDN);
        mpfr_mul_d(t, t, c, MPFR_RNDN);
        error = relative_error(y, t);
        if (error > worst) worst = error;
        mpfr_sech(t, u, MPFR_RNDN);
        mpfr_sqr(t, t, MPFR_RNDN);
        error = relative_error(d, t);
        if (fabs(x / c) < 340.0 && error > worst_derivative) worst_derivative = error;
    }
    check("softcap_value", worst, -52.0); /* one rounding: at most 2^-53, whose exponent MPFR counts as -52 */
    check("softcap_derivative", worst_derivative, -52.0);
    mpfr_clears(u, t, one, (mpfr_ptr)0);
}

static int same(const accumulator *a, const accumulator *b) {
    pair x = accumulator_read(a, 0), y = accumulator_read(b, 0);
    return x.hi == y.hi && x.lo == y.lo;
}

/* Terms of wide range in several orders and groupings: one result, and it is the sum. */
static void check_accumulator(void) {
    enum { TERMS = 200 };
    double worst = -999.0;
    int round, i;
    mpfr_t sum, term;
    mpfr_inits2(600, sum, term, (mpfr_ptr)0);
    for (round = 0; round < 500; round++) {
        int64_t value[TERMS], exponent[TERMS];
        accumulator forward = accumulator_empty(), backward = accumulator_empty(), part[3], merged = accumulator_empty();
        int is_signed = round & 1;
        pair read;
        for (i = 0; i < 3; i++) part[i] = accumulator_empty();
        mpfr_set_zero(sum, 1);
        for (i = 0; i < TERMS; i++) {
            value[i] = (int64_t)(next_random() >> (1 + next_random() % 50));
            exponent[i] = (int64_t)uniform(-200.0, -30.0);
            if (is_signed && (next_random() & 1)) value[i] = -value[i];
            mpfr_set_si_2exp(term, value[i], exponent[i], MPFR_RNDN);
            mpfr_add(sum, sum, term, MPFR_RNDN);
            accumulator_add(&forward, value[i], exponent[i]);
            accumulator_add(&part[next_random() % 3], value[i], exponent[i]);
        }
        for (i = TERMS - 1; i >= 0; i--) accumulator_add(&backward, value[i], exponent[i]);
        accumulator_merge(&merged, &part[2]);
        accumulator_merge(&merged, &part[0]);
        accumulator_merge(&merged, &part[1]);
        if (!same(&forward, &backward) || !same(&forward, &merged)) failures++, printf("the order matters in round %d\n", round);
        read = accumulator_read(&forward, 0);
        if (mpfr_get_exp(sum) > -40) {
            double error = relative_error(read, sum);
            if (error > worst) worst = error;
        }
    }
    check("accumulator, 200 terms", worst, -64.0);
    mpfr_clears(sum, term, (mpfr_ptr)0);
}

int main(void) {
    check_exp("exp_pair, |x| < 2^20", -60.0, 20.0, 1, -56.0);
    check_exp("exp_pair, 2^20 <= |x| < 2^62", 20.0, 62.0, 1, -56.0);
    check_exp("exp_pair, single, to 2^62", 0.0, 62.0, 0, -56.0);
    check_log();
    check_softcap();
    check_accumulator();
    printf("%d failed\n", failures);
    return failures != 0;
}
