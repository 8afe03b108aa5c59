/* The exact results of one row by the definitions in softmax.h, special rows included, in the judge's arithmetic. */
#ifndef SOFTMAX_CLI_EXACT_ROW_H
#define SOFTMAX_CLI_EXACT_ROW_H

#include "real.h"
#include "row_view.h"

/* exact and magnitude: one element per column, or one for logsumexp and for a row's loss (before reduction). magnitude
 * is the size whose ULP the contract counts in. scores: room for a row. */
void exact_row(const problem *problem, int64_t row, real *scores, real *exact, real *magnitude);

#endif
