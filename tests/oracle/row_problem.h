/* One row's question to the oracle: an operation, its inputs widened exactly to double, and its options. The exact
 * answer (exact.h, MPFR) and the quick one (screen.h, long double) read the same problem and list their values in the
 * same order. */
#ifndef TESTS_ROW_PROBLEM_H
#define TESTS_ROW_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum operation {
    SOFTMAX,
    LOG_SOFTMAX,
    LOGSUMEXP,
    SOFTMAX_BACKWARD,
    LOG_SOFTMAX_BACKWARD,
    CROSS_ENTROPY,
    OPERATIONS
} operation;

extern const char *const operation_names[OPERATIONS];

/* Finite rows with at least one column that takes part; special rows have their own table (tests/library/special.c). */
typedef struct row_problem {
    operation operation;
    int64_t columns;
    const double *x;    /* scores (after the softcap); for a backward its y */
    const double *dy;   /* a backward's upstream gradient */
    double scale;       /* scores: scale * x + bias; 1 */
    const double *bias; /* NULL: none */
    const bool *seen;   /* NULL: every column takes part; columns at -inf take no part either */

    /* Cross-entropy. */
    int64_t target;
    const double *probabilities; /* instead of target */
    const double *class_weights; /* NULL: 1 */
    double label_smoothing;
    double z_loss;
    double softcap; /* 0: none; otherwise x = softcap * tanh(raw / softcap) rounded, and the gradient is raw's */
    const double *raw;
    double upstream;      /* multiplies the gradient; 1 */
    double terms_divisor; /* the gradient's first two terms are divided by this, */
    double rows_divisor;  /* and its third by this; 1 */
} row_problem;

/* 1 for everything that has a neutral value. */
row_problem row_problem_of(operation operation, int64_t columns, const double *x);

/* How many values the answer has, in this order: softmax, log_softmax, backwards: the columns; logsumexp: 1;
 * cross_entropy: the loss (before upstream and divisors), its gradient's columns, then, for probability targets,
 * theirs. */
int64_t row_problem_values(const row_problem *problem);

bool row_problem_sees(const row_problem *problem, int64_t column);

/* Every value goes with a magnitude, the one whose ULP is the unit of its error bound (DESIGN.md, contract A):
 * softmax, log_softmax: the value; logsumexp: the largest of |max|, |l - max|, |l|; softmax_backward: y (|dy| + sum |dy
 * y|); log_softmax_backward: |dy| + p sum |dy|; cross_entropy: the sum of its terms' magnitudes, where a hard target
 * without extras leaves one term, the value itself. */

#endif
