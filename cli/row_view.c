#include "row_view.h"

#include "element.h"

#include <math.h>

int64_t row_count(const problem *p)
{
    int64_t count = 1;
    for (int d = 0; d < p->reduced_ndim; d++)
        count *= p->reduced_shape[d];
    return count;
}

row_line row_line_in(const problem *p, int64_t row, const DLTensor *tensor, bool reduced)
{
    if (!tensor)
        return (row_line){0};
    int64_t offset = 0, stride = 0;
    for (int d = p->input.header.ndim - 1; d >= 0; d--) {
        /* The tensor's dimension that is the input's d; before its first for one that broadcasts. */
        int own = d - (reduced && d > p->axis) - (p->input.header.ndim - reduced - tensor->ndim);
        bool there = own >= 0 && tensor->shape[own] != 1;
        if (d == p->axis) {
            stride = there && !reduced ? tensor->strides[own] : 0;
            continue;
        }
        int64_t size = p->input.header.shape[d];
        offset += there ? row % size * tensor->strides[own] : 0;
        row /= size;
    }
    return (row_line){tensor, offset, stride};
}

double row_value(const row_line *line, int64_t column)
{
    return element_value(line->tensor, line->offset + column * line->stride);
}

void row_open(const problem *p, int64_t row, row_view *view)
{
    const operands *x = &p->operands;
    const softmax_options *options = &p->arguments->options;
    view->columns = p->input.header.shape[p->axis];
    view->input = row_line_in(p, row, x->input, false);
    view->mask = row_line_in(p, row, x->mask, false);
    view->bias = row_line_in(p, row, x->bias, false);
    view->grad = row_line_in(p, row, x->grad, false);
    view->targets = row_line_in(p, row, x->targets, x->targets && !npy_is_float(p->targets.header.kind));
    view->seen = view->columns;
    if (x->valid_lengths) {
        row_line line = row_line_in(p, row, x->valid_lengths, true);
        double length = row_value(&line, 0);
        view->seen = length < 0 ? 0 : length < (double)view->seen ? (int64_t)length : view->seen;
    }
    if (options->causal) {
        int64_t query = row % p->input.header.shape[p->input.header.ndim - 2], last;
        if (__builtin_add_overflow(query, options->causal_offset, &last))
            last = INT64_MAX - 1;
        view->seen = last < 0 ? 0 : last + 1 < view->seen ? last + 1 : view->seen;
    }
}

bool row_masked(const row_view *view, int64_t column)
{
    return column >= view->seen || (view->mask.tensor && row_value(&view->mask, column) == 0) ||
           (view->bias.tensor && row_value(&view->bias, column) == -INFINITY);
}
