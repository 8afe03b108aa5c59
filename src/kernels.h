/* The border between the calls and the kernels: a job, checked and laid out by src/api*.c, and the table of kernels that each
 * instruction set fills. Nothing in a job is checked again. */
#ifndef SOFTMAX_KERNELS_H
#define SOFTMAX_KERNELS_H

#include <softmax.h>

#include "numerics/readout.h"
#include "numerics/state.h"

#ifdef __cplusplus /* for CUDA */
extern "C" {
#endif

/* What an array holds: the first four are softmax_type's values. */
typedef enum element {
    ELEMENT_NONE = 0,
    ELEMENT_FLOAT32 = SOFTMAX_FLOAT32,
    ELEMENT_FLOAT64 = SOFTMAX_FLOAT64,
    ELEMENT_FLOAT16 = SOFTMAX_FLOAT16,
    ELEMENT_BFLOAT16 = SOFTMAX_BFLOAT16,
    ELEMENT_INT32 = 5,
    ELEMENT_INT64 = 6,
    ELEMENT_UINT8 = 7 /* also DLPack's bool */
} element;

typedef enum operation {
    OPERATION_SOFTMAX,
    OPERATION_LOG_SOFTMAX,
    OPERATION_LOGSUMEXP,
    OPERATION_SOFTMAX_BACKWARD,
    OPERATION_LOG_SOFTMAX_BACKWARD,
    OPERATION_CROSS_ENTROPY,
    OPERATION_STATE_UPDATE,       /* x into states */
    OPERATION_STATE_NORMALISE,    /* x by states into out */
    OPERATION_STATE_LOG_NORMALISE
} operation;

/* An array as rows and columns: element (r, j) is at data + sum_d coordinate_d(r) row_stride[d] + j column_stride, in bytes.
 * Strides of broadcast dimensions are 0. Arrays without columns (one value a row) have column_stride 0. */
typedef struct operand {
    char *data; /* NULL: absent */
    element type;
    int64_t column_stride;
    int64_t row_stride[SOFTMAX_MAX_DIMENSIONS];
} operand;

typedef struct softmax_job {
    operation op;
    arithmetic kind; /* by the output's type: float32 output ARITHMETIC_32, float64 _64, and so on; cross-entropy of 16-bit
                        logits and logsumexp into float32: _32 */
    int64_t rows;    /* product of shape[0 .. dimensions) */
    int64_t columns;
    int dimensions; /* of the rows: the input's without the axis, neighbours that are contiguous in every operand joined;
                       row r's coordinates are r in C order */
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];

    operand x;   /* the scores; backwards: the forward's output y */
    operand dy;  /* backwards */
    operand out; /* y, logsumexp, dx; cross-entropy: the gradient, or absent */

    operand bias;    /* float of any type (ARITHMETIC_64: also float64) */
    operand mask;    /* UINT8 */
    operand lengths; /* INT32 or INT64, no columns */
    int causal;
    int query_dimension; /* which of shape is the input's dimension -2 (it is then not joined with others) */
    int64_t causal_offset;
    int64_t first_column; /* added to a column's index for causal and lengths */
    double softcap;       /* 0: none */
    double scale;
    int empty_zero;

    softmax_state *states; /* state operations: one per row, in the order of rows (dimensions are then any, r counts) */

    /* cross-entropy */
    operand targets;          /* INT32, INT64 without columns; or probabilities with columns (float types) */
    operand weights;          /* float32/64; row strides 0 */
    operand loss;             /* reduction none: no columns, a value a row; else data points at the one element; or absent */
    operand row_logsumexp;    /* no columns */
    operand grad_output;      /* no columns; row strides 0 when it is one element */
    operand targets_gradient; /* with columns */
    int64_t ignore_index;
    double label_smoothing;
    double z_loss;
    softmax_reduction reduction;

    int streaming;                      /* softmax_streaming */
    int threads;                        /* 0: choose */
    const struct softmax_kernels *kernels; /* the instruction set's table, from softmax_kernels_find */

    /* SOFTMAX_ERROR_TARGET: filled by softmax_run_cpu */
    int64_t *bad_row;
    int64_t *bad_target;

    /* CUDA: every pointer above is the device's */
    int on_cuda;
    int device;
    void *stream;
    int64_t *device_status;
    void *scratch;
    size_t scratch_bytes;
    size_t *scratch_needed; /* not NULL: only tell */
    const char *cuda_kernel;
} softmax_job;

/* Results over rows that cross-entropy reduces; merged in any order. */
typedef struct loss_totals {
    accumulator terms;  /* first two terms */
    accumulator z_loss; /* third */
    int64_t nans;
    int64_t infinities;
} loss_totals;

/* What every row of a cross-entropy is divided by. */
typedef struct loss_divisors {
    double terms;
    double z_loss;
} loss_divisors;

/* What a row, or a part of one, adds up to. */
typedef struct row_partial {
    row_state state;  /* forwards and cross-entropy */
    accumulator sum;  /* backwards: sum dy y or sum dy */
    uint32_t flags;   /* STATE_NAN of the sum */
    double target_score;           /* cross-entropy: z of the target, by the part that has it; -inf by the others */
    const loss_divisors *divisors; /* ... what its finish needs, and where it adds the loss */
    loss_totals *totals;
} row_partial;

typedef struct softmax_kernels {
    const char *name;
    /* rows [first, last), whole; cross-entropy adds to totals (never NULL there) */
    void (*rows)(const softmax_job *job, int64_t first, int64_t last, const loss_divisors *divisors, loss_totals *totals);
    /* columns [first, last) of one row, first a multiple of SOFTMAX_BLOCK_COLUMNS: added to partial (which the caller began) */
    void (*reduce)(const softmax_job *job, int64_t row, int64_t first, int64_t last, row_partial *partial);
    /* and the results of these columns, by the whole row's partial */
    void (*finish)(const softmax_job *job, int64_t row, int64_t first, int64_t last, const row_partial *partial);
} softmax_kernels;

extern const softmax_kernels softmax_kernels_portable;
extern const softmax_kernels softmax_kernels_avx2;
extern const softmax_kernels softmax_kernels_avx512;
extern const softmax_kernels softmax_kernels_neon;

/* The table of an instruction set, NULL name for $SOFTMAX_ISA or the best; NULL if unknown or not available. src/dispatch.c */
const softmax_kernels *softmax_kernels_find(const char *name);

/* Runs a checked job on the CPU, over threads: src/cpu/run.c. Returns SOFTMAX_OK, or SOFTMAX_ERROR_TARGET before anything is written. */
softmax_status softmax_run_cpu(const softmax_job *job);

/* States alone, in device memory: what softmax_cuda_state_* check. */
typedef enum state_work { STATES_INIT, STATES_MERGE, STATES_LOGSUMEXP } state_work;
typedef struct softmax_state_job {
    state_work work;
    softmax_state *states;
    const softmax_state *from; /* STATES_MERGE */
    void *logsumexp;           /* STATES_LOGSUMEXP: double for SOFTMAX_FLOAT64, else float */
    int64_t count;
    softmax_type type;
    int device;
    void *stream;
} softmax_state_job;

/* Puts it on its stream: SOFTMAX_OK or SOFTMAX_ERROR_DEVICE. */
softmax_status softmax_run_cuda_states(const softmax_state_job *job);

/* Puts a checked job on its stream: src/cuda/run.c, or src/cuda_absent.c. On an error words say why. */
softmax_status softmax_run_cuda(const softmax_job *job, char *words, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
