#include "exact.h"

#include <mpfr.h>
#include <stdlib.h>

/* Grows an array of numbers; those that are there keep their values. */
static mpfr_t *grown(mpfr_t *numbers, int64_t from, int64_t to)
{
    numbers = realloc(numbers, (size_t)to * sizeof *numbers);
    if (!numbers)
        abort();
    for (int64_t i = from; i < to; i++)
        mpfr_init2(numbers[i], EXACT_BITS);
    return numbers;
}

static void answer_reserve(exact_answer *answer, int64_t count)
{
    answer->count = count;
    if (count <= answer->capacity)
        return;
    answer->value = grown(answer->value, answer->capacity, count);
    answer->magnitude = grown(answer->magnitude, answer->capacity, count);
    answer->capacity = count;
}

void exact_answer_free(exact_answer *answer)
{
    for (int64_t i = 0; i < answer->capacity; i++)
        mpfr_clears(answer->value[i], answer->magnitude[i], (mpfr_ptr)NULL);
    free(answer->value);
    free(answer->magnitude);
    *answer = (exact_answer){0};
}

void exact_softcap(mpfr_t z, double x, double softcap)
{
    mpfr_set_d(z, x, MPFR_RNDN);
    mpfr_div_d(z, z, softcap, MPFR_RNDN);
    mpfr_tanh(z, z, MPFR_RNDN);
    mpfr_mul_d(z, z, softcap, MPFR_RNDN);
}

static void scores_reserve(exact_scores *scores, int64_t columns)
{
    if (scores->capacity == 0) {
        mpfr_inits2(EXACT_BITS, scores->rest, scores->total, scores->log_total, (mpfr_ptr)NULL);
        mpfr_inits2(SCORE_BITS, scores->maximum, scores->one, (mpfr_ptr)NULL);
    }
    scores->columns = columns;
    if (columns <= scores->capacity)
        return;
    scores->score = grown(scores->score, scores->capacity, columns);
    scores->weight = grown(scores->weight, scores->capacity, columns);
    scores->capacity = columns;
}

static void exact_score(mpfr_t score, const row_problem *problem, int64_t column)
{
    mpfr_set_d(score, problem->x[column], MPFR_RNDN);
    mpfr_mul_d(score, score, problem->scale, MPFR_RNDN);
    if (problem->bias)
        mpfr_add_d(score, score, problem->bias[column], MPFR_RNDN);
}

const exact_scores *exact_scores_of(const row_problem *problem)
{
    static _Thread_local exact_scores scores;
    scores_reserve(&scores, problem->columns);
    scores.top = -1;
    for (int64_t j = 0; j < problem->columns; j++) {
        if (!row_problem_sees(problem, j))
            continue;
        exact_score(scores.one, problem, j);
        if (scores.top >= 0 && !mpfr_greater_p(scores.one, scores.maximum))
            continue;
        mpfr_set(scores.maximum, scores.one, MPFR_RNDN);
        scores.top = j;
    }
    if (scores.top < 0)
        abort(); /* an empty row: the caller's mistake */
    mpfr_set_zero(scores.rest, 1);
    for (int64_t j = 0; j < problem->columns; j++) {
        if (!row_problem_sees(problem, j)) {
            mpfr_set_zero(scores.weight[j], 1);
            mpfr_set_inf(scores.score[j], -1);
            continue;
        }
        exact_score(scores.one, problem, j);
        mpfr_sub(scores.score[j], scores.one, scores.maximum, MPFR_RNDN);
        mpfr_exp(scores.weight[j], scores.score[j], MPFR_RNDN);
        if (j != scores.top)
            mpfr_add(scores.rest, scores.rest, scores.weight[j], MPFR_RNDN);
    }
    mpfr_add_ui(scores.total, scores.rest, 1, MPFR_RNDN);
    mpfr_log1p(scores.log_total, scores.rest, MPFR_RNDN);
    return &scores;
}

static void solve_logsumexp(const exact_scores *scores, exact_answer *answer)
{
    mpfr_add(answer->value[0], scores->maximum, scores->log_total, MPFR_RNDN);
    mpfr_set(answer->magnitude[0], answer->value[0], MPFR_RNDN);
    if (mpfr_cmpabs(scores->maximum, answer->magnitude[0]) > 0)
        mpfr_set(answer->magnitude[0], scores->maximum, MPFR_RNDN);
    if (mpfr_cmpabs(scores->log_total, answer->magnitude[0]) > 0)
        mpfr_set(answer->magnitude[0], scores->log_total, MPFR_RNDN);
}

void exact_solve(const row_problem *problem, exact_answer *answer)
{
    answer_reserve(answer, row_problem_values(problem));
    if (problem->operation == SOFTMAX_BACKWARD || problem->operation == LOG_SOFTMAX_BACKWARD) {
        exact_backward(problem, answer);
        return;
    }
    if (problem->operation == CROSS_ENTROPY) {
        exact_cross_entropy(problem, answer);
        return;
    }
    const exact_scores *scores = exact_scores_of(problem);
    if (problem->operation == LOGSUMEXP) {
        solve_logsumexp(scores, answer);
        return;
    }
    for (int64_t j = 0; j < problem->columns; j++) {
        if (problem->operation == SOFTMAX)
            mpfr_div(answer->value[j], scores->weight[j], scores->total, MPFR_RNDN);
        else
            mpfr_sub(answer->value[j], scores->score[j], scores->log_total, MPFR_RNDN);
        mpfr_set(answer->magnitude[j], answer->value[j], MPFR_RNDN);
    }
}
