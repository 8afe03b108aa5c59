#include "element.h"
#include "fail.h"
#include "implementation.h"
#include "row_view.h"

#include <math.h>

static float prepared_score(const problem *p, const row_view *view, int64_t column)
{
    const softmax_options *options = &p->arguments->options;
    if (row_masked(view, column))
        return -INFINITY;
    float z = (float)row_value(&view->input, column);
    if (options->softcap > 0)
        z = (float)options->softcap * tanhf(z / (float)options->softcap);
    z *= (float)options->scale;
    return view->bias.tensor ? z + (float)row_value(&view->bias, column) : z;
}

float *prepared_rows(const problem *p)
{
    float *scores = allocate((unsigned long long)p->input.header.elements * sizeof *scores);
    int64_t rows = p->input.header.elements ? row_count(p) : 0;
    for (int64_t row = 0; row < rows; row++) {
        row_view view;
        row_open(p, row, &view);
        for (int64_t column = 0; column < view.columns; column++)
            scores[row * view.columns + column] = prepared_score(p, &view, column);
    }
    return scores;
}

void store_rows(const problem *p, const float *rows, npy_array *result)
{
    int64_t columns = p->input.header.shape[p->axis];
    int64_t count = p->input.header.elements ? row_count(p) : 0;
    for (int64_t row = 0; row < count; row++) {
        row_line line = row_line_in(p, row, &result->tensor, false);
        for (int64_t column = 0; column < columns; column++)
            element_store(&result->tensor, line.offset + column * line.stride, rows[row * columns + column]);
    }
}
