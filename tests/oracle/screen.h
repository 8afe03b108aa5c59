/* The quick form of exact.h: the same answers in long double, some 60 good bits. It clears rows that are plainly right,
 * so that MPFR need judge only the others and a sample; tests/oracle/oracle_test.c holds it against MPFR. */
#ifndef TESTS_SCREEN_H
#define TESTS_SCREEN_H

#include "row_problem.h"

typedef struct screen_answer {
    int64_t count;
    int64_t capacity;
    long double *value;
    long double *magnitude;
    long double *score;  /* minus the maximum */
    long double *weight; /* its exp */
} screen_answer;

void screen_solve(const row_problem *problem, screen_answer *answer);
void screen_answer_free(screen_answer *answer);

/* What a value of the answer may be off by, relative to its magnitude. */
#define SCREEN_ERROR 0x1p-58L

#endif
