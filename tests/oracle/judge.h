/* Judges the library's results row by row and keeps the worst error. Long double screens; MPFR judges every row whose
 * screened error comes near the bound, and a sample of the others. */
#ifndef TESTS_JUDGE_H
#define TESTS_JUDGE_H

#include "exact.h"
#include "screen.h"
#include "ulp.h"

#include <stdio.h>

/* The answer's parts in row_problem_values' order: a cross-entropy has its loss, gradient and targets' gradient. */
enum { JUDGE_PARTS = 3, JUDGE_INPUTS = 8 };

typedef struct judge_part {
    const char *name;
    const float_format *format; /* NULL: not judged */
    double bound;               /* ULP */
    double worst;               /* after what a 16-bit result is allowed before its rounding (judge.c) */
    double gross;               /* and before: the distance from the exact value itself */
} judge_part;

typedef struct judge {
    judge_part part[JUDGE_PARTS];
    long rows;
    long exact_rows;
    screen_answer screen;
    exact_answer exact;
    int64_t worst_columns; /* of the row that last set a record, with its first inputs, to print */
    double worst_inputs[JUDGE_INPUTS];
} judge;

/* For an operation whose results have one part; the bound is contract A's for it. */
judge judge_of(operation operation, const float_format *format);
void judge_free(judge *judge);

/* result lists row_problem_values(problem) values. True if the row keeps every bound; the worst errors are updated. */
bool judge_row(judge *judge, const row_problem *problem, const double *result);

/* True if every row kept its bounds. */
bool judge_holds(const judge *judge);
void judge_print(const judge *judge, const char *words);

/* A judge must reject results that a lazy kernel could write: all zeros, uniform 1/n, an untouched output (0xc5 bytes).
 * Counts which of the three pass as right for this row: bit 0, 1, 2. Over a case's rows the AND of these must be 0. */
unsigned judge_fakes(judge *judge, const row_problem *problem);

#endif
