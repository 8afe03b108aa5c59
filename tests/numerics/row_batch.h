/* Batches of contiguous rows for the accuracy tests: inputs as stored and as widened doubles, calls, and judged
 * results. */
#ifndef TESTS_ROW_BATCH_H
#define TESTS_ROW_BATCH_H

#include "oracle/judge.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

typedef struct row_batch {
    const float_format *format;
    int64_t rows;
    int64_t columns;
    void *stored; /* (rows, columns) of the format */
    double *widened;
} row_batch;

row_batch batch_of(const float_format *format, int64_t rows, int64_t columns);
void batch_free(row_batch *batch);
void batch_set(row_batch *batch, int64_t row, const double *values); /* rounds them to the format */
void batch_fill(row_batch *batch, random_source *source, distribution which);
void batch_poison(row_batch *batch); /* bytes 0xc5 */
void batch_widen(row_batch *batch);  /* after the library has written `stored` */
const double *batch_row(const row_batch *batch, int64_t row);
DLTensor *batch_tensor(const row_batch *batch, tensor *made);

/* A case of many rows: the judge, which fakes every row let pass, and whether there is one that caught each. */
typedef struct judged_case {
    judge judge;
    unsigned fakes;
    char words[128];
} judged_case;

enum { FAKE_ROWS = 50 }; /* so many rows are also judged with fakes as their results */

judged_case case_of(operation operation, const float_format *format, const char *words_format, ...)
    __attribute__((format(printf, 3, 4)));
void case_row(judged_case *judged, const row_problem *problem, const double *result);
/* Prints, checks the bounds and that no fake passed, frees. Adds to the totals that accuracy programs print at their
 * end. */
void case_finish(judged_case *judged);
void case_print_totals(void);

#endif
