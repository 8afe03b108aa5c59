/* The judge of `softmax compare`: exact results of some rows, and how far an implementation's are from them. */
#ifndef SOFTMAX_CLI_VERDICT_H
#define SOFTMAX_CLI_VERDICT_H

#include "real.h"
#include "row_view.h"

typedef struct exact_sample {
    const problem *problem;
    npy_kind kind; /* of the results */
    bool reduced;  /* one result per row */
    int64_t rows;  /* judged */
    int64_t *row;  /* their numbers */
    int64_t results_per_row;
    real *exact;     /* rows x results_per_row */
    real *magnitude; /* the size whose ULP is the unit of error */
} exact_sample;

typedef struct verdict {
    int64_t wrong_rows; /* NaN, infinity or 0 where a number is right, or the other way round */
    int64_t compared;   /* numbers that have an error in ULP */
    double max_ulp, mean_ulp;
} verdict;

/* Chooses all rows, or rows spread evenly if they hold more than some 2^18 elements, and computes their exact results.
 */
void exact_sample_open(exact_sample *sample, const problem *problem, npy_kind kind, bool reduced);

void exact_sample_close(exact_sample *sample);

/* results: C order, of the kind and shape that the problem's output has. */
verdict verdict_of(const exact_sample *sample, const DLTensor *results);

#endif
