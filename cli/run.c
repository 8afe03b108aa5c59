#include "run.h"

#include "pieces.h"
#include "print.h"

void run(const arguments *a)
{
    static problem problem; /* not to be moved, and large */
    problem_open(&problem, a);
    npy_kind kind;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    int ndim = problem_output(&problem, &kind, shape);
    npy_array output, gradient;
    npy_create(&output, a->output, kind, problem.input.header.fortran_order, ndim, shape);
    if (a->gradient) {
        const npy_header *logits = &problem.input.header;
        npy_create(&gradient, a->gradient, logits->kind, logits->fortran_order, logits->ndim, logits->shape);
    }
    pieces_compute(&problem, &output, a->gradient ? &gradient : NULL);
    if (a->gradient)
        npy_finish(&gradient);
    npy_finish(&output);
    if (!a->output)
        print_array(&output);
}
