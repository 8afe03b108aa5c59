#include "screen.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Differences of scores must be good to 2^-60 absolutely, at scores of any size: 113 bits. */
#if LDBL_MANT_DIG >= 113
typedef long double wide;
#else
typedef __float128 wide;
#endif

typedef struct score_sums {
    long double maximum, rest, total, log_total;
    int64_t top;
} score_sums;

static void reserve(screen_answer *answer, int64_t count)
{
    answer->count = count;
    if (count <= answer->capacity)
        return;
    answer->capacity = count;
    answer->value = realloc(answer->value, (size_t)count * sizeof *answer->value);
    answer->magnitude = realloc(answer->magnitude, (size_t)count * sizeof *answer->magnitude);
    answer->score = realloc(answer->score, (size_t)count * sizeof *answer->score);
    answer->weight = realloc(answer->weight, (size_t)count * sizeof *answer->weight);
    if (!answer->value || !answer->magnitude || !answer->score || !answer->weight)
        abort();
}

void screen_answer_free(screen_answer *answer)
{
    free(answer->value);
    free(answer->magnitude);
    free(answer->score);
    free(answer->weight);
    *answer = (screen_answer){0};
}

static wide score_of(const row_problem *problem, int64_t j)
{
    wide score = (wide)problem->x[j] * problem->scale;
    return problem->bias ? score + problem->bias[j] : score;
}

static score_sums sum_scores(const row_problem *problem, screen_answer *answer)
{
    score_sums sums = {.top = -1};
    wide maximum = 0;
    for (int64_t j = 0; j < problem->columns; j++) {
        if (!row_problem_sees(problem, j))
            continue;
        wide score = score_of(problem, j);
        if (sums.top < 0 || score > maximum) {
            maximum = score;
            sums.top = j;
        }
    }
    if (sums.top < 0)
        abort();
    sums.maximum = (long double)maximum;
    for (int64_t j = 0; j < problem->columns; j++) {
        if (!row_problem_sees(problem, j)) {
            answer->score[j] = -INFINITY;
            answer->weight[j] = 0;
            continue;
        }
        wide score = score_of(problem, j) - maximum;
        answer->score[j] = (long double)score;
        long double small = (long double)(score - answer->score[j]);
        answer->weight[j] = expl(answer->score[j]) * (1 + small);
        if (j != sums.top)
            sums.rest += answer->weight[j];
    }
    sums.total = 1 + sums.rest;
    sums.log_total = log1pl(sums.rest);
    return sums;
}

static void solve_logsumexp(const score_sums *sums, screen_answer *answer)
{
    long double value = sums->maximum + sums->log_total;
    answer->value[0] = value;
    answer->magnitude[0] = fmaxl(fabsl(value), fmaxl(fabsl(sums->maximum), fabsl(sums->log_total)));
}

static void solve_backward(const row_problem *problem, screen_answer *answer)
{
    bool of_softmax = problem->operation == SOFTMAX_BACKWARD;
    wide sum = 0, sum_magnitude = 0;
    for (int64_t j = 0; j < problem->columns; j++) {
        double y = problem->x[j];
        if (of_softmax ? y == 0 : y == -INFINITY)
            continue;
        wide term = of_softmax ? (wide)problem->dy[j] * y : (wide)problem->dy[j];
        sum += term;
        sum_magnitude += term < 0 ? -term : term;
    }
    for (int64_t j = 0; j < problem->columns; j++) {
        double y = problem->x[j], dy = problem->dy[j];
        long double share = of_softmax ? y : expl(y);
        if (!of_softmax && y == -INFINITY) {
            answer->value[j] = answer->magnitude[j] = 0;
        } else if (of_softmax) {
            answer->value[j] = (long double)((wide)y * ((wide)dy - sum));
            answer->magnitude[j] = share * (long double)(fabs(dy) + sum_magnitude);
        } else {
            answer->value[j] = (long double)((wide)dy - (wide)share * sum);
            answer->magnitude[j] = fabs(dy) + share * (long double)sum_magnitude;
        }
    }
}

/* See exact_cross_entropy.c for the form. */
static long double coefficient(const row_problem *problem, int64_t k)
{
    long double weight = problem->class_weights ? problem->class_weights[k] : 1;
    long double kept = 1 - (long double)problem->label_smoothing;
    long double share = problem->probabilities ? problem->probabilities[k] : k == problem->target;
    return weight * (kept * share + (long double)problem->label_smoothing / problem->columns);
}

static long double spread_coefficient(const row_problem *problem, int64_t k)
{
    if (problem->probabilities)
        return coefficient(problem, k);
    return (problem->class_weights ? problem->class_weights[k] : 1) *
           ((long double)problem->label_smoothing / problem->columns);
}

static void solve_loss_gradient(const row_problem *problem, const score_sums *sums, long double coefficients,
                                long double spread, screen_answer *answer)
{
    long double hard = 0;
    if (!problem->probabilities)
        hard = (problem->class_weights ? problem->class_weights[problem->target] : 1) *
               (1 - (long double)problem->label_smoothing);
    long double z_slope = 2 * problem->z_loss * (sums->maximum + sums->log_total) / problem->rows_divisor;
    for (int64_t k = 0; k < problem->columns; k++) {
        if (!row_problem_sees(problem, k)) {
            answer->value[1 + k] = answer->magnitude[1 + k] = 0;
            continue;
        }
        long double c = coefficient(problem, k);
        long double share = answer->weight[k] / sums->total;
        long double others = (k == sums->top ? sums->rest : sums->total - answer->weight[k]) / sums->total;
        bool alone = k == problem->target && !problem->probabilities && problem->label_smoothing == 0;
        long double pull = alone ? 0 : share * (coefficients - c);
        long double slope = problem->upstream;
        if (problem->softcap != 0) {
            long double cosh = coshl((long double)problem->raw[k] / problem->softcap);
            slope /= cosh * cosh;
        }
        answer->value[1 + k] = slope * ((pull - c * others) / problem->terms_divisor + share * z_slope);
        long double magnitude = share * spread + spread_coefficient(problem, k);
        magnitude += hard * (k == problem->target ? others : share);
        answer->magnitude[1 + k] = fabsl(slope) * (magnitude / problem->terms_divisor + fabsl(share * z_slope));
    }
}

static void solve_cross_entropy(const row_problem *problem, const score_sums *sums, screen_answer *answer)
{
    long double loss = 0, magnitude = 0, coefficients = 0, spread = 0;
    for (int64_t k = 0; k < problem->columns; k++) {
        long double c = coefficient(problem, k);
        if (c == 0 || !row_problem_sees(problem, k))
            continue;
        coefficients += c;
        spread += spread_coefficient(problem, k);
        loss += c * (sums->log_total - answer->score[k]);
        magnitude += fabsl(c) * (sums->log_total - answer->score[k]);
    }
    long double logsumexp = sums->maximum + sums->log_total;
    answer->value[0] = loss + problem->z_loss * logsumexp * logsumexp;
    answer->magnitude[0] = magnitude + problem->z_loss * logsumexp * logsumexp;
    solve_loss_gradient(problem, sums, coefficients, spread, answer);
    for (int64_t k = 0; problem->probabilities && k < problem->columns; k++) {
        long double weight = problem->class_weights ? problem->class_weights[k] : 1;
        long double slope =
            (1 - (long double)problem->label_smoothing) * weight * problem->upstream / problem->terms_divisor;
        answer->value[1 + problem->columns + k] = slope * (sums->log_total - answer->score[k]);
        answer->magnitude[1 + problem->columns + k] = fabsl(answer->value[1 + problem->columns + k]);
    }
}

void screen_solve(const row_problem *problem, screen_answer *answer)
{
    int64_t count = row_problem_values(problem);
    reserve(answer, count > problem->columns ? count : problem->columns);
    answer->count = count;
    if (problem->operation == SOFTMAX_BACKWARD || problem->operation == LOG_SOFTMAX_BACKWARD) {
        solve_backward(problem, answer);
        return;
    }
    score_sums sums = sum_scores(problem, answer);
    if (problem->operation == LOGSUMEXP)
        solve_logsumexp(&sums, answer);
    if (problem->operation == CROSS_ENTROPY)
        solve_cross_entropy(problem, &sums, answer);
    for (int64_t j = 0; problem->operation <= LOG_SOFTMAX && j < problem->columns; j++) {
        answer->value[j] =
            problem->operation == SOFTMAX ? answer->weight[j] / sums.total : answer->score[j] - sums.log_total;
        answer->magnitude[j] = answer->value[j];
    }
}
