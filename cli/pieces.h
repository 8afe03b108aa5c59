/* A problem computed piece by piece, so that arrays larger than memory need little of it. */
#ifndef SOFTMAX_CLI_PIECES_H
#define SOFTMAX_CLI_PIECES_H

#include "problem.h"

/* Fills output (and gradient, which may be NULL) by calls of the library; fails by problem_fail. Shows progress on a
 * terminal. */
void pieces_compute(const problem *problem, npy_array *output, npy_array *gradient);

#endif
