/* The options that make scores of inputs, as the accuracy tests combine them, and what a row's problem becomes under
 * them. */
#ifndef TESTS_SCORE_OPTIONS_H
#define TESTS_SCORE_OPTIONS_H

#include "row_batch.h"

typedef struct score_options {
    const char *name;
    double scale;
    double softcap;
    bool bias;    /* one row of it, broadcast over the batch; some columns -inf */
    bool mask;    /* uint8, of the batch's shape */
    bool lengths; /* int64, one per row */
    bool causal;  /* offset columns / 3 */
} score_options;

/* The options' tensors for one batch, and the scores after the softcap as the library rounds them. */
typedef struct score_inputs {
    const score_options *options;
    const row_batch *batch;
    row_batch capped; /* z of the batch; empty without a softcap */
    row_batch bias;   /* one row */
    uint8_t *mask;
    int64_t *lengths;
    bool *seen; /* of the row that score_problem was last asked for */
    tensor bias_tensor, mask_tensor, lengths_tensor;
} score_inputs;

void score_inputs_make(score_inputs *inputs, const score_options *options, const row_batch *batch,
                       random_source *source);
void score_inputs_free(score_inputs *inputs);
void score_inputs_set(score_inputs *inputs, softmax_options *call_options);

/* The row as a problem of this operation; false if no column takes part. Pointers hold until the next call. */
bool score_problem(score_inputs *inputs, operation operation, int64_t row, row_problem *problem);

/* z = softcap * tanh(x / softcap) as the library rounds it: its logsumexp over rows of one column. Checked to 1 ULP. */
row_batch softcapped_batch(const row_batch *batch, double softcap);

#endif
