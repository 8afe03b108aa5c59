/* What is to be computed: the arrays of a command line, opened and checked against each other, and the call that
 * computes. */
#ifndef SOFTMAX_CLI_PROBLEM_H
#define SOFTMAX_CLI_PROBLEM_H

#include "arguments.h"
#include "npy_file.h"

/* Pointers to the arrays of a call; those of absent arrays are NULL. */
typedef struct operands {
    const DLTensor *input, *mask, *bias, *valid_lengths, *grad, *targets, *grad_output, *class_weights;
    DLTensor *output, *gradient;
} operands;

typedef struct problem {
    const arguments *arguments;
    npy_array input, mask, valid_lengths, grad, targets, grad_output, class_weights;
    operands operands; /* the inputs: output and gradient are NULL */
    int axis;          /* from 0 */
    int reduced_ndim;  /* the input's shape without the axis */
    int64_t reduced_shape[SOFTMAX_MAX_DIMENSIONS];
    npy_kind loss_kind; /* of logsumexp, losses, class weights, upstream gradients */
} problem;

/* Opens and checks; every failure names the file and what is allowed. A problem is not to be moved. */
void problem_open(problem *problem, const arguments *arguments);

/* The result's type and shape; shape has room for SOFTMAX_MAX_DIMENSIONS. Returns the number of dimensions. */
int problem_output(const problem *problem, npy_kind *kind, int64_t *shape);

/* One call of the library. On failure: the status and its words. */
softmax_status problem_call(const problem *problem, const operands *operands, const softmax_options *options,
                            char *message, size_t message_bytes);

/* Ends the command over a status that is not SOFTMAX_OK. */
_Noreturn void problem_fail(const problem *problem, softmax_status status, const char *message);

#endif
