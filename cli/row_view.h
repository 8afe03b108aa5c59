/* One row of a problem, wherever its elements lie: what the readable references and the judge walk along. */
#ifndef SOFTMAX_CLI_ROW_VIEW_H
#define SOFTMAX_CLI_ROW_VIEW_H

#include "problem.h"

/* Where a tensor's elements of the row are; tensor NULL: absent. */
typedef struct row_line {
    const DLTensor *tensor;
    int64_t offset, stride;
} row_line;

typedef struct row_view {
    int64_t columns;
    int64_t seen; /* columns from here on take no part: causal and valid lengths */
    row_line input, mask, bias, grad, targets;
} row_view;

int64_t row_count(const problem *problem);

/* Row number `row`, counted in C order of the dimensions other than the axis. */
void row_open(const problem *problem, int64_t row, row_view *view);

/* The row's line in a tensor of the input's shape (reduced: without the axis) that may broadcast. */
row_line row_line_in(const problem *problem, int64_t row, const DLTensor *tensor, bool reduced);

double row_value(const row_line *line, int64_t column);

/* Whether the column takes no part. A bias of -inf masks out. */
bool row_masked(const row_view *view, int64_t column);

#endif
