/* The judge: exact answers in MPFR. Scores are exact, whatever their exponents: 4400 bits hold any product of two
 * doubles and a third. From their differences on it is 320 bits. */
#ifndef TESTS_EXACT_H
#define TESTS_EXACT_H

#include "row_problem.h"

#include <mpfr.h>

enum { EXACT_BITS = 320, SCORE_BITS = 4400 };

typedef struct exact_answer {
    int64_t count;
    int64_t capacity;
    mpfr_t *value;
    mpfr_t *magnitude;
} exact_answer;

/* An answer may be solved into again and again; {0} is an empty one. Values of columns that take no part: 0, or -inf.
 */
void exact_solve(const row_problem *problem, exact_answer *answer);
void exact_answer_free(exact_answer *answer);

/* softcap * tanh(x / softcap). */
void exact_softcap(mpfr_t z, double x, double softcap);

/* Used by exact_scores.c, exact_backward.c and exact_cross_entropy.c. */
typedef struct exact_scores {
    int64_t columns;
    int64_t capacity;
    int64_t top;    /* the first column that holds the maximum */
    mpfr_t *score;  /* minus the maximum; -inf where a column takes no part */
    mpfr_t *weight; /* exp(score - maximum); 0 where a column takes no part */
    mpfr_t maximum;   /* SCORE_BITS */
    mpfr_t one;       /* SCORE_BITS */
    mpfr_t rest;      /* sum of the weights but the top's, which is 1 */
    mpfr_t total;     /* 1 + rest */
    mpfr_t log_total; /* log1p(rest): right also where rest is next to 0 */
} exact_scores;

const exact_scores *exact_scores_of(const row_problem *problem);
void exact_backward(const row_problem *problem, exact_answer *answer);
void exact_cross_entropy(const row_problem *problem, exact_answer *answer);

#endif
