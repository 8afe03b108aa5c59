/* Docstrings. The line before "--" is the signature that inspect shows. */
#ifndef SOFTMAX_PYTHON_DOCS_H
#define SOFTMAX_PYTHON_DOCS_H

#define SCORE_OPTIONS_SIGNATURE                                                                                        \
    "softcap=0.0, scale=1.0, bias=None, mask=None, valid_lengths=None, causal=False, causal_offset=0, "
#define EXECUTION_SIGNATURE "threads=0, isa=None, streaming='choose', stream=None, cuda_kernel=None"

#define SCORE_OPTIONS_DOC                                                                                              \
    "Scores, in this order: z = softcap * tanh(x / softcap), rounded once (0: none); then scale * z + bias, as in "    \
    "real numbers.\n"                                                                                                  \
    "bias           float array that broadcasts to x; -inf masks out\n"                                                \
    "mask           bool or uint8 array that broadcasts to x; true takes part, what is false is never used\n"          \
    "valid_lengths  int32 or int64 array that broadcasts to x without the axis: columns from there on take no part\n"  \
    "causal         the axis is last, the query is dimension -2, column j is seen if j <= i + causal_offset\n"

#define EXECUTION_DOC                                                                                                  \
    "threads        0: as many as are worth it; otherwise at most so many\n"                                           \
    "isa            None: the best, or $SOFTMAX_ISA; otherwise 'portable', 'avx2', 'avx512', 'neon'\n"                 \
    "streaming      CPU: 'always' writes results past the caches, 'never' through them; 'choose': by speed\n"          \
    "stream         CUDA: an int or a stream object; None: the current one of the array's library\n"                   \
    "cuda_kernel    CUDA: None: by shape; otherwise a kernel of docs/cuda.md\n"

#define ARRAYS_DOC                                                                                                     \
    "Arrays: NumPy's, and all that have __dlpack__ (PyTorch, JAX, CuPy), without a copy; lists too. float32, "         \
    "float64,\n"                                                                                                       \
    "float16, bfloat16 (NumPy: ml_dtypes), any strides. The result is a row-major array of the first argument's "      \
    "kind.\n"
#define RAISES_DOC "Raises ValueError and TypeError that name the argument, its value and what is allowed.\n"

#define SOFTMAX_DOC                                                                                                    \
    "softmax($module, x, axis=-1, *, out=None, dtype=None, " SCORE_OPTIONS_SIGNATURE                                   \
    "empty_rows='nan', " EXECUTION_SIGNATURE ")\n--\n\n"                                                               \
    "y_i = exp(z_i) / sum_j exp(z_j) along the axis, z the scores of x after the options.\n\n"                         \
    "x              (..., n, ...) array; returns an array of its shape and type\n"                                     \
    "axis           int, tuple of ints, or None for all: several count as one, in C order\n"                           \
    "out            array to write and return: x's shape; it may be x itself, and may not overlap it otherwise\n"      \
    "dtype          x's type, or float32 for 16-bit x\n"                                                               \
    "empty_rows     'nan' or 'zero': what a row gives that is all -inf or masked\n" EXECUTION_DOC                      \
    "\n" SCORE_OPTIONS_DOC "\n" ARRAYS_DOC                                                                             \
    "Error: float32 and float64 at most 2.5 ULP, 16-bit types 0.51. A row has one result, whatever the threads,\n"     \
    "strides, batch and processor. A row with NaN or +inf gives NaN. Source: docs/numerics.md.\n" RAISES_DOC

#define LOG_SOFTMAX_DOC                                                                                                \
    "log_softmax($module, x, axis=-1, *, out=None, dtype=None, " SCORE_OPTIONS_SIGNATURE                               \
    "empty_rows='nan', " EXECUTION_SIGNATURE ")\n--\n\n"                                                               \
    "y_i = z_i - log sum_j exp(z_j) along the axis, z the scores of x after the options.\n\n"                          \
    "Arguments as softmax. What is masked is -inf. Error: at most 2 ULP relative, also where the probability is\n"     \
    "next to 1.\n" RAISES_DOC

#define LOGSUMEXP_DOC                                                                                                  \
    "logsumexp($module, x, axis=-1, *, out=None, dtype=None, keepdims=False, " SCORE_OPTIONS_SIGNATURE                 \
    "empty_rows='nan', b=None, return_sign=False, " EXECUTION_SIGNATURE ")\n--\n\n"                                    \
    "l = log sum_j exp(z_j) along the axis, z the scores of x after the options.\n\n"                                  \
    "Returns x's shape without the axis (keepdims: with 1 there), of x's type. Other arguments as softmax; b and\n"    \
    "return_sign of scipy.special.logsumexp are not supported. A row without columns, or all -inf, gives -inf.\n"      \
    "Error: at most 1 ULP of the largest of |max z|, |l - max z|, |l|.\n" RAISES_DOC

#define SOFTMAX_BACKWARD_DOC                                                                                           \
    "softmax_backward($module, y, dy, axis=-1, *, out=None, dtype=None, empty_rows='nan', " EXECUTION_SIGNATURE        \
    ")\n--\n\n"                                                                                                        \
    "dx_i = y_i (dy_i - sum_j dy_j y_j) along the axis, from softmax's output y alone.\n\n"                            \
    "y, dy          arrays of one shape and type; out may be either of them\n"                                         \
    "Returns an array like y. Error: at most 2 ULP of y_i (|dy_i| + sum_j |dy_j y_j|). y_i = 0 gives 0 and takes no\n" \
    "part; NaN, or dy infinite, gives a NaN row.\n" RAISES_DOC

#define LOG_SOFTMAX_BACKWARD_DOC                                                                                       \
    "log_softmax_backward($module, y, dy, axis=-1, *, out=None, dtype=None, empty_rows='nan', " EXECUTION_SIGNATURE    \
    ")\n--\n\n"                                                                                                        \
    "dx_i = dy_i - exp(y_i) sum_j dy_j along the axis, from log_softmax's output y alone.\n\n"                         \
    "As softmax_backward. Error: at most 2 ULP of |dy_i| + exp(y_i) sum_j |dy_j|.\n" RAISES_DOC

#define CROSS_ENTROPY_DOC                                                                                              \
    "cross_entropy($module, logits, targets, axis=-1, *, reduction='mean', gradient=None, out=None, dtype=None, "      \
    "ignore_index=-100, label_smoothing=0.0, z_loss=0.0, class_weights=None, grad_output=None, "                       \
    "targets_gradient=None, row_logsumexp=None, softcap=0.0, mask=None, valid_lengths=None, empty_rows='nan', "        \
    "device_status=None, " EXECUTION_SIGNATURE ")\n--\n\n"                                                             \
    "Cross-entropy, and its gradient in the same call. With l = logsumexp(z), target t, V classes, weights w, "        \
    "smoothing e:\n"                                                                                                   \
    "    loss = w_t (1-e) (l - z_t) + (e/V) sum_j w_j (l - z_j) + z_loss l^2\n\n"                                      \
    "logits         (..., V, ...) array\n"                                                                             \
    "targets        int32 or int64, logits' shape without the axis; or probabilities, of the logits' shape\n"          \
    "reduction      'none', 'sum', 'mean' (over the sum of w_t of the rows that are kept)\n"                           \
    "gradient       None; True for a new array; or an array, which may be logits: it is overwritten then\n"            \
    "dtype          of a new gradient: logits' type, or float32 for 16-bit logits\n"                                   \
    "ignore_index   rows with this target give loss 0 and gradient 0\n"                                                \
    "class_weights  (V) float32, float64 for float64 logits\n"                                                         \
    "grad_output    a number, or an array of one element or of the loss's shape: multiplies the gradient\n"            \
    "targets_gradient, row_logsumexp   None, True or an array: the gradient of probability targets; logsumexp of "     \
    "rows\n"                                                                                                           \
    "device_status  CUDA: an int64 on the device that receives the smallest bad row + 1\n" EXECUTION_DOC "\n"          \
    "Returns the loss, float32 (float64 for float64 logits); with gradient, targets_gradient or row_logsumexp the\n"   \
    "tuple (loss, ...) in this order. Error: hard targets without extras at most 2 ULP relative, gradient 3 ULP;\n"    \
    "with extras 3 ULP of the sum of the terms' magnitudes.\n" RAISES_DOC

#define STATE_DOC                                                                                                      \
    "State(shape=(), dtype='float32')\n--\n\n"                                                                         \
    "The online states of an array of rows: what is known of rows whose columns come tile by tile.\n\n"                \
    "shape          int or tuple: a tile's shape without its axis\n"                                                   \
    "dtype          type of the results: float32, float64, float16, bfloat16\n\n"                                      \
    "Sums are exact integers: any order of updates and merges gives the same bits, when tiles start at multiples of\n" \
    "BLOCK_COLUMNS. Pickles and copies. An empty state goes where its first tile is, to a CUDA device too; later\n"    \
    "tiles must be there. One that was filled on the CPU is copied to the device of a CUDA tile.\n"                    \
    "Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.\n"
#define TILE_DOC "tile           (..., columns, ...) array, whose shape without the axis is the state's\n"
#define STATE_UPDATE_DOC                                                                                               \
    "update($self, tile, axis=-1, *, first_column=None, " SCORE_OPTIONS_SIGNATURE EXECUTION_SIGNATURE ")\n--\n\n"      \
    "Takes in a tile; returns the state.\n\n" TILE_DOC                                                                 \
    "first_column   the tile's first column in its row; required with causal and valid_lengths\n" RAISES_DOC
#define STATE_MERGE_DOC                                                                                                \
    "merge($self, other, *, stream=None)\n--\n\n"                                                                      \
    "Becomes the state of both states' columns together; returns itself. other is unchanged. Where one is on a CUDA\n" \
    "device, the result is there.\n"
#define STATE_CPU_DOC                                                                                                  \
    "cpu($self, /)\n--\n\n"                                                                                            \
    "A copy on the CPU. Of a state on a CUDA device, as pickling it: waits for the work that its library has there.\n"
#define STATE_LOGSUMEXP_DOC                                                                                            \
    "logsumexp($self, *, out=None, stream=None)\n--\n\n"                                                               \
    "logsumexp of every row, of the state's shape, float32 (float64 for float64 states): a NumPy array, on a CUDA\n"   \
    "device one of the first tile's kind; or out.\n"
#define STATE_NORMALISE_DOC                                                                                            \
    "normalise($self, tile, axis=-1, *, out=None, first_column=None, " SCORE_OPTIONS_SIGNATURE                         \
    "empty_rows='nan', " EXECUTION_SIGNATURE ")\n--\n\n"                                                               \
    "softmax of a tile by its rows' states: the bits of one call over whole rows. out may be the tile.\n\n" TILE_DOC   \
        RAISES_DOC
#define STATE_LOG_NORMALISE_DOC                                                                                        \
    "log_normalise($self, tile, axis=-1, *, out=None, first_column=None, " SCORE_OPTIONS_SIGNATURE                     \
    "empty_rows='nan', " EXECUTION_SIGNATURE ")\n--\n\n"                                                               \
    "log_softmax of a tile by its rows' states: the bits of one call over whole rows. out may be the "                 \
    "tile.\n\n" TILE_DOC RAISES_DOC

#endif
