/* What the bits test computes: one workload per operation, pair of types and set of options, its inputs from the
 * integer generator, and its results in one canonical order whose bytes are hashed. How a run lays the tensors out and
 * in which environment it calls is a bits_layout; none of that may change a bit. */
#ifndef TESTS_BITS_WORKLOAD_H
#define TESTS_BITS_WORKLOAD_H

#include "oracle/library_call.h"

typedef enum workload_options {
    PLAIN,
    OPTIONS, /* scores: softcap, scale, bias, mask, valid lengths; cross_entropy: softcap, smoothing, weights, z_loss,
                upstream */
    CAUSAL,  /* scores: causal, zeros for empty rows */
    PROBABILITIES, /* cross_entropy */
    SUM,
    MEAN,
    WORKLOAD_OPTIONS
} workload_options;

typedef struct workload {
    operation operation;
    const float_format *input_format;
    const float_format *output_format;
    workload_options options;
    char name[96];
    int64_t rows;
    int64_t columns;
    /* Inputs, row-major: x is y for a backward. */
    char *x, *dy, *bias, *probabilities, *weights, *upstream;
    uint8_t *mask;
    int64_t *lengths, *targets;
    /* Results, row-major: y, dx, gradient or l; cross_entropy's others. */
    char *output, *loss, *row_logsumexp, *targets_gradient;
} workload;

/* Which workloads there are: false past the last. */
bool workload_choose(int number, workload *made);
void workload_make(workload *made, int64_t rows, int64_t columns);
void workload_free(workload *made);
void workload_poison(workload *made);
bool workload_has_row_outputs(const workload *made); /* logsumexp: a value per row */
bool workload_is_reduced(const workload *made);      /* its loss is one element: rows cannot be called apart */

/* FNV-1a of the results' bytes, continued from hash (WORKLOAD_HASH to begin with). */
#define WORKLOAD_HASH 0xcbf29ce484222325u
uint64_t workload_hash(const workload *made, uint64_t hash);

typedef struct bits_layout {
    const char *name;
    const char *isa;       /* NULL: the default */
    int threads;           /* 0: the library's choice */
    int streaming;         /* softmax_streaming */
    int64_t rows_per_call; /* 0: all; calls go from the last rows to the first */
    int64_t column_stride; /* 0: 1; may be negative */
    int64_t row_gap;       /* elements between rows */
    int64_t offset;        /* elements by which data pointers are misaligned */
    bool transposed;       /* the axis is first */
    bool in_place;
    int rounding; /* fesetround's value */
    bool flush;   /* subnormals flushed, inputs and results */
} bits_layout;

/* Computes the workload under the layout into its canonical results; false if the layout cannot apply to it. */
bool workload_run(workload *made, const bits_layout *layout);

/* By tiles through the online state: softmax, log_softmax and logsumexp. tile_blocks in SOFTMAX_BLOCK_COLUMNS. */
typedef enum merge_order {
    ONE_STATE, /* every tile into one state */
    CHAIN,     /* a state per tile, merged from the left */
    REVERSED,  /* ... from the right */
    TREE,      /* in pairs, with empty states in between */
    MERGE_ORDERS
} merge_order;
bool workload_run_tiles(workload *made, const char *isa, int64_t tile_blocks, merge_order order);

#endif
