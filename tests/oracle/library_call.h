/* One call of any operation of the library, as data: what the tables of the tests loop over. */
#ifndef TESTS_LIBRARY_CALL_H
#define TESTS_LIBRARY_CALL_H

#include "row_problem.h"
#include "tensor.h"

typedef struct library_call {
    operation operation;
    int axis;
    const DLTensor *input;   /* x, y of a backward, logits */
    const DLTensor *second;  /* dy of a backward, targets */
    DLTensor *output;        /* y, l, dx, gradient (may be NULL) */
    DLTensor *loss;          /* cross-entropy's, may be NULL */
    softmax_options options; /* a message buffer is set by library_run where there is none */
} library_call;

library_call library_call_of(operation operation, const DLTensor *input, const DLTensor *second, DLTensor *output,
                             DLTensor *loss, int axis);

/* The defaults, for an instruction set; words about errors go to library_message. */
softmax_options library_options(const char *isa);

/* Calls; the message of the last call is in library_message. */
softmax_status library_run(library_call *call);
extern char library_message[512];

/* Runs and checks for SOFTMAX_OK; false, with a failed check, otherwise. */
bool library_run_ok(library_call *call, const char *words);

/* The names of the instruction sets that run here, best last; says on standard output which do and which are skipped.
 */
int library_instruction_sets(const char *names[], int capacity);

#endif
