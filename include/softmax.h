/* libsoftmax: the softmax family, accurate to the last bits and the same on every machine.
 *
 * Along one axis of length n:
 *   softmax        y_i = exp(x_i) / sum_j exp(x_j)
 *   log_softmax    y_i = x_i - log sum_j exp(x_j)
 *   logsumexp      l   = log sum_j exp(x_j)
 * their backwards, cross-entropy with its gradient, and the online state (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018) that computes them tile by tile.
 *
 * Conventions of every call
 *   Types       float32, float64, float16, bfloat16. 16-bit types are widened and rounded once, at the end.
 *   Tensors     DLPack's DLTensor: any number of dimensions up to SOFTMAX_MAX_DIMENSIONS, any strides
 *               (in elements; 0 for a broadcast input, negative too), strides NULL for row-major.
 *   Device      that of the tensors: the CPU (kDLCPU, kDLCUDAHost) or one CUDA device (kDLCUDA), where a call only puts work on
 *               options->stream: it neither waits nor allocates, and may be captured in a CUDA graph. docs/cuda.md.
 *   Axis        an index in [-ndim, ndim); a "row" is what lies along it. Rows count in C order of the other axes.
 *   Aliasing    an output may be exactly an input (same address, type, shape, strides); otherwise they must not overlap.
 *               An output may not have stride 0 on a dimension longer than 1.
 *   Errors      a softmax_status; nothing has been written then. With options->message set, a line names the
 *               argument, its value and what is allowed.
 *   Special     rows with NaN or +inf give NaN (logsumexp of +inf is +inf); -inf gives exactly 0; a row of -inf alone gives NaN,
 *   rows        or zeros with empty_rows = SOFTMAX_EMPTY_ZERO (its logsumexp is -inf always).
 *   Accuracy    docs/numerics.md; held by tests/numerics/accuracy_*.c against MPFR.
 *   Bits        one row gives one result, bit for bit: whatever the threads, batch, position, alignment, strides,
 *               instruction set, rounding mode and flush flags of the caller, tiles and merge order. Held by tests/library/bits*.c.
 *   Threads     calls with disjoint outputs may run at the same time, in forked children too.
 */
#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SOFTMAX_API __attribute__((visibility("default")))
#else
#define SOFTMAX_API
#endif

#define SOFTMAX_VERSION_MAJOR 0
#define SOFTMAX_VERSION_MINOR 1
#define SOFTMAX_VERSION_PATCH 0

/* Tiles and shards of a row that start at multiples of this many columns give the bits of one call. */
#define SOFTMAX_BLOCK_COLUMNS 1024
#define SOFTMAX_MAX_DIMENSIONS 16

/* The values are part of the ABI. */
typedef enum softmax_status {
    SOFTMAX_OK = 0,
    SOFTMAX_ERROR_NULL = 1,     /* a required pointer is NULL */
    SOFTMAX_ERROR_TYPE = 2,     /* a type that the argument cannot have */
    SOFTMAX_ERROR_SHAPE = 3,    /* a shape that does not fit the others, or a negative size */
    SOFTMAX_ERROR_AXIS = 4,     /* the axis is out of range */
    SOFTMAX_ERROR_STRIDE = 5,   /* an output with stride 0, or an address range beyond 2^63 */
    SOFTMAX_ERROR_ALIAS = 6,    /* an output overlaps another argument, but is not exactly it */
    SOFTMAX_ERROR_OPTION = 7,   /* an option's value is out of its range */
    SOFTMAX_ERROR_TARGET = 8,   /* a target is neither a class nor ignore_index */
    SOFTMAX_ERROR_DEVICE = 9,   /* the device is absent, or tensors are on different ones */
    SOFTMAX_ERROR_ISA = 10,     /* an instruction set that is unknown, not built, or not on this machine */
    SOFTMAX_ERROR_STATE = 11    /* states that were not initialised, or of different types */
} softmax_status;

typedef enum softmax_type {
    SOFTMAX_FLOAT32 = 1,
    SOFTMAX_FLOAT64 = 2,
    SOFTMAX_FLOAT16 = 3,
    SOFTMAX_BFLOAT16 = 4
} softmax_type;

typedef enum softmax_reduction { SOFTMAX_NONE = 0, SOFTMAX_SUM = 1, SOFTMAX_MEAN = 2 } softmax_reduction;

/* What a row gives whose every column is -inf or masked out, and what the mean over no rows gives. */
typedef enum softmax_empty { SOFTMAX_EMPTY_NAN = 0, SOFTMAX_EMPTY_ZERO = 1 } softmax_empty;

/* Whether the CPU writes results past the caches (non-temporal stores): it then need not read the memory that it overwrites, but who reads
 * the results soon finds them in memory. CHOOSE: where there are at least a quarter as many bytes of
 * results as the last cache holds; rows of more than 64 columns only if not in place, and those shorter than 2 KB only if they
 * are whole lines of 64 bytes. */
typedef enum softmax_streaming { SOFTMAX_STREAMING_CHOOSE = 0, SOFTMAX_STREAMING_NEVER = 1, SOFTMAX_STREAMING_ALWAYS = 2 } softmax_streaming;

/* DLPack's boolean type code, which Debian's header does not have yet. */
#define SOFTMAX_DLPACK_BOOL 6

/* Options. Initialise with SOFTMAX_OPTIONS_INIT; where a call takes options, NULL means these defaults. The struct grows
 * at its end only: fields that lie beyond `size` have their defaults. */
typedef struct softmax_options {
    size_t size; /* sizeof(softmax_options) as the caller knows it */

    /* The scores, in this order: z = softcap * tanh(x / softcap), rounded once; then scale * z + bias, as in
     * real numbers, whatever their size. */
    double softcap; /* 0: none; otherwise positive and finite. It makes -inf -softcap, which takes part: mask by mask or bias. */
    double scale;   /* 1; any finite number: 1 / temperature, attention's 1/sqrt(d). 0 is uniform over what is not masked or
                       infinite. Scores of 2^21 or more in size are slower: docs/numerics.md, Limits. */
    const DLTensor *bias;          /* NULL; a float tensor that broadcasts to the input; -inf masks out. */
    const DLTensor *mask;          /* NULL; uint8 or bool, broadcasts to the input; nonzero takes part, zero is never used. */
    const DLTensor *valid_lengths; /* NULL; int32 or int64, broadcasts to the input without the axis: columns at or beyond
                                      it take no part; clamped to [0, n]. */
    int32_t causal;                /* 0; 1: the axis is last, the query is dimension -2, column j is seen if j <= i + causal_offset. */
    int32_t empty_rows;            /* SOFTMAX_EMPTY_NAN; see softmax_empty. */
    int64_t causal_offset;         /* 0 */
    int64_t first_column;          /* 0; state calls: the tile's first column in the row, for causal and valid_lengths. */

    /* Cross-entropy. */
    int64_t ignore_index;          /* -100; rows with this target give loss 0 and gradient 0. */
    double label_smoothing;        /* 0; in [0, 1]. */
    double z_loss;                 /* 0; finite and not negative: adds z_loss * logsumexp^2. */
    const DLTensor *class_weights; /* NULL; float32 (float64 for float64 logits), shape (V). */
    const DLTensor *grad_output;   /* NULL is 1; the upstream gradient, of the loss's type: one element, or the loss's shape. */
    DLTensor *targets_gradient;    /* NULL; gradient of probability targets, their shape and type. */
    DLTensor *row_logsumexp;       /* NULL; logsumexp of every row, shape as the loss with SOFTMAX_NONE. */
    int32_t reduction;             /* SOFTMAX_MEAN; see softmax_reduction. */

    /* Execution. */
    int32_t threads;        /* 0: as many as are worth it, up to the processors; otherwise at most this many. */
    const char *isa;        /* NULL: $SOFTMAX_ISA, else the best; otherwise a name that softmax_isa_name lists. */
    void *stream;           /* NULL; CUDA: the cudaStream_t. */
    int64_t *device_status; /* NULL; CUDA: device memory that receives the smallest bad row + 1, or stays as it is. */

    /* Words about an error. */
    char *message; /* NULL; otherwise receives one line, cut to fit, '\0'-terminated; empty on success. */
    size_t message_bytes;

    /* More of CUDA. */
    void *scratch;           /* NULL; device memory that the call may use until its work on the stream is done, 256-byte aligned. */
    size_t scratch_bytes;    /* 0 */
    size_t *scratch_needed;  /* NULL; otherwise the call checks its arguments, tells here how much scratch serves it best (0 on the CPU),
                                and does nothing else. */
    const char *cuda_kernel; /* NULL: $SOFTMAX_CUDA_KERNEL, else by shape; otherwise a name that softmax_cuda_kernel_name lists. */
    int32_t streaming;       /* SOFTMAX_STREAMING_CHOOSE; see softmax_streaming. The results are the same. */
} softmax_options;

#define SOFTMAX_OPTIONS_INIT                                                                                          \
    {                                                                                                                 \
        sizeof(softmax_options), 0.0, 1.0, NULL, NULL, NULL, 0, SOFTMAX_EMPTY_NAN, 0, 0, -100, 0.0, 0.0, NULL, NULL,   \
            NULL, NULL, SOFTMAX_MEAN, 0, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, NULL,                               \
            SOFTMAX_STREAMING_CHOOSE                                                                                  \
    }

/* ---- The family over DLTensors ------------------------------------------------------------------------------------ */

/* softmax: y_i = exp(z_i) / sum_j exp(z_j), z the scores of x after the options.
 * x        (..., n, ...) any type; y the same shape, of x's type, or float32 for 16-bit x.
 * options  softcap, scale, bias, mask, valid_lengths, causal, empty_rows.
 * aliasing y may be x. Masked columns are exactly 0.
 * error    float32, float64: at most 2.5 ULP; 16-bit: at most 0.51 ULP; values below the type's smallest normal
 *          (float16: subnormals are kept) are +0. tests/numerics/accuracy_scores.c.
 * returns  SOFTMAX_OK or NULL, TYPE, SHAPE, AXIS, STRIDE, ALIAS, OPTION, DEVICE, ISA. Thread-safe. */
SOFTMAX_API softmax_status softmax_softmax(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options);

/* log_softmax: y_i = z_i - log sum_j exp(z_j). As softmax_softmax, but: masked columns are -inf; error at most 2 ULP relative,
 * also where the probability is next to 1. */
SOFTMAX_API softmax_status softmax_log_softmax(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options);

/* logsumexp: l = log sum_j exp(z_j).
 * x        (..., n, ...) any type; l x's shape without the axis, of x's type, or float32 for 16-bit x.
 * options  as softmax_softmax; empty_rows has no effect: a row without columns, or all -inf, gives -inf.
 * error    at most 1 ULP of the largest of |max z|, |l - max z|, |l|. */
SOFTMAX_API softmax_status softmax_logsumexp(const DLTensor *x, DLTensor *l, int axis, const softmax_options *options);

/* softmax backward, from the output alone: dx_i = y_i (dy_i - sum_j dy_j y_j).
 * y, dy    the same shape and type; dx likewise, or float32 for 16-bit types. dx may be y or dy.
 * options  empty_rows (no effect: a row of zeros gives zeros, a row with NaN gives NaN), threads, isa.
 * error    at most 2 ULP of y_i (|dy_i| + sum_j |dy_j y_j|). NaN in y or dy, +-inf in dy: a NaN row. y_i = 0 gives 0 and takes no part. */
SOFTMAX_API softmax_status softmax_softmax_backward(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,
                                                    const softmax_options *options);

/* log_softmax backward, from the output alone: dx_i = dy_i - exp(y_i) sum_j dy_j.
 * As softmax_softmax_backward; y_i = -inf gives 0 and takes no part; error at most 2 ULP of |dy_i| + exp(y_i) sum_j |dy_j|. */
SOFTMAX_API softmax_status softmax_log_softmax_backward(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,
                                                        const softmax_options *options);

/* cross-entropy and its gradient in one call. Per row with z the scores after softcap, l = logsumexp(z), target t, V classes,
 * w the class weights, e label_smoothing:
 *   loss = w_t (1-e) (l - z_t) + (e/V) sum_j w_j (l - z_j) + z_loss l^2
 *   probability targets p: p'_j = (1-e) p_j + e/V; loss = sum_j p'_j w_j (l - z_j) + z_loss l^2
 * SOFTMAX_MEAN divides the first two terms by the sum of w_t over the rows that are kept (probability targets: by the rows), the
 * third by their number. The gradient is with respect to the logits as given: times grad_output, divided likewise, through the softcap,
 * rounded once.
 * logits   (..., V, ...) any type. targets: int32 or int64 of the logits' shape without the axis, or a float tensor of the
 *          logits' shape: probabilities.
 * loss     NULL, or float32 (float64 for float64 logits): the targets' shape for SOFTMAX_NONE, else one element.
 * gradient NULL, or the logits' shape, of their type or float32; may be the logits: they are overwritten then, and only then.
 * options  softcap, class_weights, ignore_index, label_smoothing, z_loss, reduction, grad_output, targets_gradient,
 *          row_logsumexp, valid_lengths, mask; not scale, bias or causal.
 * special  an ignored row: loss 0, gradient 0. A target at -inf: +inf and gradient -1 there. Weight 0 or probability 0 contributes 0.
 * error    hard target without extras: at most 2 ULP relative, gradient 3 ULP with the target's p - 1 relative; extras: 3 ULP of
 *          the sum of the terms' magnitudes.
 * returns  also SOFTMAX_ERROR_TARGET: the message names row and value. */
SOFTMAX_API softmax_status softmax_cross_entropy(const DLTensor *logits, const DLTensor *targets, DLTensor *loss,
                                                 DLTensor *gradient, int axis, const softmax_options *options);

/* ---- The same over contiguous rows -------------------------------------------------------------------------------- */

/* Row-major (rows, columns) arrays of one type on the CPU; otherwise as the calls above. logsumexp and losses: float64 for
 * SOFTMAX_FLOAT64, else float32. Cross-entropy's loss has `rows` elements for SOFTMAX_NONE and one otherwise. */
SOFTMAX_API softmax_status softmax_softmax_rows(softmax_type type, int64_t rows, int64_t columns, const void *x, void *y,
                                                const softmax_options *options);
SOFTMAX_API softmax_status softmax_log_softmax_rows(softmax_type type, int64_t rows, int64_t columns, const void *x,
                                                    void *y, const softmax_options *options);
SOFTMAX_API softmax_status softmax_logsumexp_rows(softmax_type type, int64_t rows, int64_t columns, const void *x, void *l,
                                                  const softmax_options *options);
SOFTMAX_API softmax_status softmax_softmax_backward_rows(softmax_type type, int64_t rows, int64_t columns, const void *y,
                                                         const void *dy, void *dx, const softmax_options *options);
SOFTMAX_API softmax_status softmax_log_softmax_backward_rows(softmax_type type, int64_t rows, int64_t columns,
                                                             const void *y, const void *dy, void *dx,
                                                             const softmax_options *options);
SOFTMAX_API softmax_status softmax_cross_entropy_rows(softmax_type type, int64_t rows, int64_t columns,
                                                      const void *logits, const int64_t *targets, void *loss,
                                                      void *gradient, const softmax_options *options);

/* ---- The online state --------------------------------------------------------------------------------------------- */

/* What is known of a row's scores so far: their maximum, and the exact sum of all other (rounded) terms. Plain data: copy it, send it, store it
 * (little-endian, no pointers). The sum is integers, so any order of updates and merges gives the same bits, when tiles
 * start at multiples of SOFTMAX_BLOCK_COLUMNS. Fields are not for callers. */
typedef struct softmax_state {
    double maximum;
    double maximum_low;
    double maximum_lowest;
    int64_t limb[4];
    int32_t top;
    uint16_t type;
    uint16_t flags;
} softmax_state;

/* States of `count` rows, as of no columns. `type` is the type of the results that normalise will write: logsumexp is of that
 * accuracy too, so take float32 where 16-bit scores need an exact logsumexp. */
SOFTMAX_API softmax_status softmax_state_init(softmax_state *states, int64_t count, softmax_type type);

/* Adds a tile: states[r] takes in row r (C order of the other axes) of tile (..., columns, ...).
 * options: softcap, scale, bias, mask, valid_lengths, causal, first_column. */
SOFTMAX_API softmax_status softmax_state_update(softmax_state *states, const DLTensor *tile, int axis,
                                                const softmax_options *options);

/* into[r] becomes the state of both rows' columns together; from is unchanged. Merging an empty state changes nothing. */
SOFTMAX_API softmax_status softmax_state_merge(softmax_state *into, const softmax_state *from, int64_t count);

/* l[r] = logsumexp of states[r], contiguous: double for float64 states, else float. */
SOFTMAX_API softmax_status softmax_state_logsumexp(const softmax_state *states, void *l, int64_t count);

/* y = softmax (or log_softmax) of the tile by its rows' states: bits as one call over whole rows. y: the states' type, may be the tile. */
SOFTMAX_API softmax_status softmax_state_normalise(const softmax_state *states, const DLTensor *tile, DLTensor *y, int axis,
                                                   const softmax_options *options);
SOFTMAX_API softmax_status softmax_state_log_normalise(const softmax_state *states, const DLTensor *tile, DLTensor *y,
                                                       int axis, const softmax_options *options);

/* The same where the tiles are on a CUDA device: softmax_state_update and _normalise take states in its memory then, one a row. What begins,
 * merges and reads such states is put on the stream (a cudaStream_t), and is told their type. Only the device sees the states: one of another
 * type, or that nobody began, stays as it is, gives NaN, and is reported in options->device_status. A copy of a state's bytes
 * is that state, here or there. Returns SOFTMAX_ERROR_DEVICE also where there is no such device. */
SOFTMAX_API softmax_status softmax_cuda_state_init(softmax_state *states, int64_t count, softmax_type type, int device, void *stream);
SOFTMAX_API softmax_status softmax_cuda_state_merge(softmax_state *into, const softmax_state *from, int64_t count, softmax_type type,
                                                    int device, void *stream);
SOFTMAX_API softmax_status softmax_cuda_state_logsumexp(const softmax_state *states, void *l, int64_t count, softmax_type type,
                                                        int device, void *stream);

/* ---- What this library is ----------------------------------------------------------------------------------------- */

/* "MAJOR.MINOR.PATCH" */
SOFTMAX_API const char *softmax_version(void);
/* A few words; never NULL. */
SOFTMAX_API const char *softmax_status_string(softmax_status status);

/* Instruction sets that this library was built with, best last: names "portable", "avx2", "avx512", "neon".
 * softmax_isa_name gives NULL for an index outside [0, softmax_isa_count()). */
SOFTMAX_API int softmax_isa_count(void);
SOFTMAX_API const char *softmax_isa_name(int index);
/* 1 if this processor and operating system run it. */
SOFTMAX_API int softmax_isa_available(int index);
/* The name that calls use when options->isa is NULL ($SOFTMAX_ISA is read once); NULL if $SOFTMAX_ISA names none that is available. */
SOFTMAX_API const char *softmax_isa_default(void);

/* CUDA devices that calls can use: 0 without a GPU or a driver, -1 if the library was built without CUDA. */
SOFTMAX_API int softmax_cuda_device_count(void);
/* "NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB", cut to fit; SOFTMAX_ERROR_DEVICE and why not otherwise. */
SOFTMAX_API softmax_status softmax_cuda_device_words(int device, char *words, size_t bytes);
/* Names of the kernels that options->cuda_kernel may force; NULL beyond the last one. docs/cuda.md says what each does. */
SOFTMAX_API const char *softmax_cuda_kernel_name(int index);

#ifdef __cplusplus
}
#endif
#endif
