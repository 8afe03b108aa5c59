/* What `softmax compare` compares: ways to compute a problem, each a row of its table. */
#ifndef SOFTMAX_CLI_IMPLEMENTATION_H
#define SOFTMAX_CLI_IMPLEMENTATION_H

#include "problem.h"

#define IMPLEMENTATIONS_MOST 32
#define ROUNDS_MOST 25

typedef void reference_function(const float *x, float *y, int64_t rows, int64_t columns);

typedef struct implementation {
    char name[32];
    npy_array result; /* of the problem's output */
    int rounds;
    double times[ROUNDS_MOST];     /* seconds of one call */
    reference_function *reference; /* or NULL */
    const char *isa;               /* of libsoftmax, or NULL */
    const char *cuda_kernel;       /* on the device, or NULL; "" for the one that the shape chooses */
} implementation;

/* Float32 scores in contiguous rows, with scale, softcap and masks worked in, as a user prepares them for a plain
 * softmax. */
float *prepared_rows(const problem *problem);

/* Stores contiguous rows into the result, rounded to its type. */
void store_rows(const problem *problem, const float *rows, npy_array *result);

/* Runs NumPy's three lines in $SOFTMAX_PYTHON or python3; fills result and times. False, and words, where there is no
 * NumPy. */
bool numpy_compute(const problem *problem, implementation *numpy, char words[120]);

#endif
