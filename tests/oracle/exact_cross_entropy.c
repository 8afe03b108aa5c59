/* Every form of the loss is sum_k c_k (l - z_k) + z_loss l^2, where c holds the target, the smoothing and the class
 * weights: a hard target t has c_k = w_t (1 - e) [k = t] + (e/V) w_k, probabilities p have c_k = w_k ((1 - e) p_k +
 * e/V). Its gradient is p_k (C - c_k) - c_k (1 - p_k) + 2 z_loss l p_k with C the sum of c: written so, a confident
 * target's p - 1 is minus the others' share, and nothing cancels. Its terms' magnitudes are w_t (1 - e) |p_k - [k =
 * t]|, relative next to 0, then p_k S + s_k with s the smoothing's part of c (for probabilities all of c), and 2 z_loss
 * |l| p_k. */
#include "exact.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

typedef struct loss_numbers {
    mpfr_t sum;       /* C */
    mpfr_t hard;      /* w_t (1 - e); 0 for probabilities */
    mpfr_t spread;    /* S */
    mpfr_t logsumexp; /* l */
    mpfr_t z_slope;   /* 2 z_loss l / rows_divisor */
    mpfr_t share;     /* p_k */
    mpfr_t others;    /* 1 - p_k */
    mpfr_t slope;     /* of the softcap: sech^2(raw / softcap) */
    mpfr_t term, scratch;
} loss_numbers;

static void coefficient(const row_problem *problem, int64_t k, mpfr_t c, mpfr_t scratch)
{
    double weight = problem->class_weights ? problem->class_weights[k] : 1;
    mpfr_set_d(scratch, 1, MPFR_RNDN);
    mpfr_sub_d(scratch, scratch, problem->label_smoothing, MPFR_RNDN);
    if (problem->probabilities)
        mpfr_mul_d(scratch, scratch, problem->probabilities[k], MPFR_RNDN);
    else if (k != problem->target)
        mpfr_set_zero(scratch, 1);
    mpfr_set_d(c, problem->label_smoothing, MPFR_RNDN);
    mpfr_div_si(c, c, (long)problem->columns, MPFR_RNDN);
    mpfr_add(c, c, scratch, MPFR_RNDN);
    mpfr_mul_d(c, c, weight, MPFR_RNDN);
}

/* The part of c_k that the contract's magnitudes take apart: s_k. */
static void spread_coefficient(const row_problem *problem, int64_t k, mpfr_t s, mpfr_t scratch)
{
    coefficient(problem, k, s, scratch);
    if (problem->probabilities)
        return;
    mpfr_set_d(s, problem->label_smoothing, MPFR_RNDN);
    mpfr_div_si(s, s, (long)problem->columns, MPFR_RNDN);
    mpfr_mul_d(s, s, problem->class_weights ? problem->class_weights[k] : 1, MPFR_RNDN);
}

/* 1 - p_k as the sum of the others' weights over the total. */
static void others_share(const exact_scores *scores, int64_t k, mpfr_t others)
{
    if (k != scores->top) {
        mpfr_sub(others, scores->total, scores->weight[k], MPFR_RNDN); /* at least 1 - 1/2: nothing is lost */
    } else {
        mpfr_set(others, scores->rest, MPFR_RNDN);
    }
    mpfr_div(others, others, scores->total, MPFR_RNDN);
}

static void loss_value(const row_problem *problem, const exact_scores *scores, loss_numbers *numbers,
                       exact_answer *answer)
{
    mpfr_ptr loss = answer->value[0], magnitude = answer->magnitude[0];
    mpfr_set_zero(loss, 1);
    mpfr_set_zero(magnitude, 1);
    mpfr_set_zero(numbers->sum, 1);
    mpfr_set_zero(numbers->spread, 1);
    for (int64_t k = 0; k < problem->columns; k++) {
        coefficient(problem, k, numbers->term, numbers->scratch);
        if (mpfr_zero_p(numbers->term) || !row_problem_sees(problem, k))
            continue;
        mpfr_add(numbers->sum, numbers->sum, numbers->term, MPFR_RNDN);
        spread_coefficient(problem, k, numbers->share, numbers->scratch);
        mpfr_add(numbers->spread, numbers->spread, numbers->share, MPFR_RNDN);
        mpfr_sub(numbers->scratch, scores->log_total, scores->score[k], MPFR_RNDN);
        mpfr_mul(numbers->term, numbers->term, numbers->scratch, MPFR_RNDN);
        mpfr_add(loss, loss, numbers->term, MPFR_RNDN);
        mpfr_abs(numbers->term, numbers->term, MPFR_RNDN);
        mpfr_add(magnitude, magnitude, numbers->term, MPFR_RNDN);
    }
    mpfr_sub(numbers->hard, numbers->sum, numbers->spread, MPFR_RNDN);
    mpfr_add(numbers->logsumexp, scores->maximum, scores->log_total, MPFR_RNDN);
    mpfr_sqr(numbers->term, numbers->logsumexp, MPFR_RNDN);
    mpfr_mul_d(numbers->term, numbers->term, problem->z_loss, MPFR_RNDN);
    mpfr_add(loss, loss, numbers->term, MPFR_RNDN);
    mpfr_add(magnitude, magnitude, numbers->term, MPFR_RNDN);
    mpfr_mul_d(numbers->z_slope, numbers->logsumexp, 2 * problem->z_loss, MPFR_RNDN);
    mpfr_div_d(numbers->z_slope, numbers->z_slope, problem->rows_divisor, MPFR_RNDN);
}

static void softcap_slope(const row_problem *problem, int64_t k, mpfr_t slope)
{
    mpfr_set_ui(slope, 1, MPFR_RNDN);
    if (problem->softcap == 0)
        return;
    mpfr_set_d(slope, problem->raw[k], MPFR_RNDN);
    mpfr_div_d(slope, slope, problem->softcap, MPFR_RNDN);
    mpfr_sech(slope, slope, MPFR_RNDN);
    mpfr_sqr(slope, slope, MPFR_RNDN);
}

static void gradient_value(const row_problem *problem, const exact_scores *scores, loss_numbers *numbers, int64_t k,
                           mpfr_t value, mpfr_t magnitude)
{
    coefficient(problem, k, numbers->term, numbers->scratch);
    mpfr_div(numbers->share, scores->weight[k], scores->total, MPFR_RNDN);
    others_share(scores, k, numbers->others);
    mpfr_sub(value, numbers->sum, numbers->term, MPFR_RNDN);
    mpfr_mul(value, value, numbers->share, MPFR_RNDN);                  /* p (C - c) */
    mpfr_mul(numbers->term, numbers->term, numbers->others, MPFR_RNDN); /* c (1 - p) */
    mpfr_sub(value, value, numbers->term, MPFR_RNDN);
    spread_coefficient(problem, k, magnitude, numbers->scratch);
    mpfr_mul(numbers->term, numbers->share, numbers->spread, MPFR_RNDN);
    mpfr_add(magnitude, magnitude, numbers->term, MPFR_RNDN);
    mpfr_mul(numbers->term, numbers->hard, k == problem->target ? numbers->others : numbers->share, MPFR_RNDN);
    mpfr_add(magnitude, magnitude, numbers->term, MPFR_RNDN);
    mpfr_div_d(value, value, problem->terms_divisor, MPFR_RNDN);
    mpfr_div_d(magnitude, magnitude, problem->terms_divisor, MPFR_RNDN);
    mpfr_mul(numbers->term, numbers->share, numbers->z_slope, MPFR_RNDN);
    mpfr_add(value, value, numbers->term, MPFR_RNDN);
    mpfr_abs(numbers->term, numbers->term, MPFR_RNDN);
    mpfr_add(magnitude, magnitude, numbers->term, MPFR_RNDN);
    softcap_slope(problem, k, numbers->slope);
    mpfr_mul_d(numbers->slope, numbers->slope, problem->upstream, MPFR_RNDN);
    mpfr_mul(value, value, numbers->slope, MPFR_RNDN);
    mpfr_mul(magnitude, magnitude, numbers->slope, MPFR_RNDN);
    mpfr_abs(magnitude, magnitude, MPFR_RNDN);
}

/* d loss / d probability_k = (1 - e) w_k (l - z_k) */
static void targets_gradient_value(const row_problem *problem, const exact_scores *scores, loss_numbers *numbers,
                                   int64_t k, mpfr_t value, mpfr_t magnitude)
{
    mpfr_set_ui(value, 1, MPFR_RNDN);
    mpfr_sub_d(value, value, problem->label_smoothing, MPFR_RNDN);
    mpfr_mul_d(value, value, problem->class_weights ? problem->class_weights[k] : 1, MPFR_RNDN);
    mpfr_sub(numbers->term, scores->log_total, scores->score[k], MPFR_RNDN);
    mpfr_mul(value, value, numbers->term, MPFR_RNDN);
    mpfr_mul_d(value, value, problem->upstream, MPFR_RNDN);
    mpfr_div_d(value, value, problem->terms_divisor, MPFR_RNDN);
    mpfr_set(magnitude, value, MPFR_RNDN);
}

void exact_cross_entropy(const row_problem *problem, exact_answer *answer)
{
    const exact_scores *scores = exact_scores_of(problem);
    loss_numbers n;
    mpfr_inits2(EXACT_BITS, n.sum, n.hard, n.spread, n.logsumexp, n.z_slope, n.share, n.others, n.slope, n.term,
                n.scratch, (mpfr_ptr)NULL);
    loss_value(problem, scores, &n, answer);
    for (int64_t k = 0; k < problem->columns; k++) {
        mpfr_ptr value = answer->value[1 + k], magnitude = answer->magnitude[1 + k];
        if (row_problem_sees(problem, k)) {
            gradient_value(problem, scores, &n, k, value, magnitude);
        } else {
            mpfr_set_zero(value, 1);
            mpfr_set_zero(magnitude, 1);
        }
    }
    for (int64_t k = 0; problem->probabilities && k < problem->columns; k++)
        targets_gradient_value(problem, scores, &n, k, answer->value[1 + problem->columns + k],
                               answer->magnitude[1 + problem->columns + k]);
    mpfr_clears(n.sum, n.hard, n.spread, n.logsumexp, n.z_slope, n.share, n.others, n.slope, n.term, n.scratch,
                (mpfr_ptr)NULL);
}
