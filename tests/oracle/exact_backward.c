#include "exact.h"

#include <math.h>
#include <mpfr.h>

/* softmax: S = sum dy_j y_j and M = sum |dy_j y_j|; log_softmax: S = sum dy_j and M = sum |dy_j|. Columns without a
 * share take no part. */
static void sum_upstream(const row_problem *problem, mpfr_t sum, mpfr_t magnitude)
{
    mpfr_t term;
    mpfr_init2(term, EXACT_BITS);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(magnitude, 1);
    for (int64_t j = 0; j < problem->columns; j++) {
        double y = problem->x[j];
        if (problem->operation == SOFTMAX_BACKWARD ? y == 0 : y == -INFINITY)
            continue;
        mpfr_set_d(term, problem->dy[j], MPFR_RNDN);
        if (problem->operation == SOFTMAX_BACKWARD)
            mpfr_mul_d(term, term, y, MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
        mpfr_abs(term, term, MPFR_RNDN);
        mpfr_add(magnitude, magnitude, term, MPFR_RNDN);
    }
    mpfr_clear(term);
}

void exact_backward(const row_problem *problem, exact_answer *answer)
{
    mpfr_t sum, sum_magnitude, share;
    mpfr_inits2(EXACT_BITS, sum, sum_magnitude, share, (mpfr_ptr)NULL);
    sum_upstream(problem, sum, sum_magnitude);
    for (int64_t j = 0; j < problem->columns; j++) {
        mpfr_ptr value = answer->value[j], magnitude = answer->magnitude[j];
        mpfr_set_d(share, problem->x[j], MPFR_RNDN);
        if (problem->operation == SOFTMAX_BACKWARD) {
            mpfr_d_sub(value, problem->dy[j], sum, MPFR_RNDN);
            mpfr_mul(value, value, share, MPFR_RNDN);
            mpfr_add_d(magnitude, sum_magnitude, fabs(problem->dy[j]), MPFR_RNDN);
            mpfr_mul(magnitude, magnitude, share, MPFR_RNDN);
            continue;
        }
        if (problem->x[j] == -INFINITY) {
            mpfr_set_zero(value, 1);
            mpfr_set_zero(magnitude, 1);
            continue;
        }
        mpfr_exp(share, share, MPFR_RNDN);
        mpfr_mul(value, share, sum, MPFR_RNDN);
        mpfr_d_sub(value, problem->dy[j], value, MPFR_RNDN);
        mpfr_mul(magnitude, share, sum_magnitude, MPFR_RNDN);
        mpfr_add_d(magnitude, magnitude, fabs(problem->dy[j]), MPFR_RNDN);
    }
    mpfr_clears(sum, sum_magnitude, share, (mpfr_ptr)NULL);
}
