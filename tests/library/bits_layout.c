/* Calls the library on a workload under a layout: copies the inputs into it, calls, and copies the results back. */
#include "bits_workload.h"

#include "oracle/check.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- The caller's floating-point modes ----------------------------------------------------------------------------
 */

#if defined(__x86_64__)
static unsigned long modes_get(void)
{
    return _mm_getcsr() & ~0x3fu; /* without the sticky flags */
}
static void modes_flush(void)
{
    _mm_setcsr(_mm_getcsr() | 0x8040u);
}
static void modes_keep_subnormals(void)
{
    _mm_setcsr(_mm_getcsr() & ~0x8040u);
}
#elif defined(__aarch64__)
static unsigned long modes_get(void)
{
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void modes_flush(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(modes_get() | 1ul << 24));
}
static void modes_keep_subnormals(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(modes_get() & ~(1ul << 24)));
}
#else
static unsigned long modes_get(void)
{
    return 0;
}
static void modes_flush(void)
{
}
static void modes_keep_subnormals(void)
{
}
#endif

static void run_in_modes(library_call *call, const workload *made, const bits_layout *layout)
{
    if (layout->rounding != FE_TONEAREST)
        fesetround(layout->rounding);
    if (layout->flush)
        modes_flush();
    unsigned long before = modes_get();
    softmax_status status = library_run(call);
    unsigned long after = modes_get();
    int rounding = fegetround();
    if (layout->flush)
        modes_keep_subnormals();
    fesetround(FE_TONEAREST);
    CHECK(status == SOFTMAX_OK, "%s, %s: %s: %s", made->name, layout->name, softmax_status_string(status),
          library_message);
    CHECK(before == after, "%s, %s: the caller's modes were %lx and came back %lx", made->name, layout->name, before,
          after);
    CHECK(rounding == layout->rounding, "%s, %s: the caller's rounding did not come back", made->name, layout->name);
}

/* ---- Matrices in a layout -----------------------------------------------------------------------------------------
 */

typedef struct laid_out {
    tensor tensor;
    char *memory;
    char *first; /* element (0, 0) */
    int bytes;
    int64_t row_stride, column_stride; /* elements */
    int64_t rows, columns;
} laid_out;

static void lay_out(laid_out *made, const bits_layout *layout, const float_format *format, int64_t rows,
                    int64_t columns)
{
    int64_t step = layout->column_stride ? llabs(layout->column_stride) : 1;
    int64_t pitch = layout->transposed ? 1 : columns * step + layout->row_gap;
    int64_t column_stride = layout->transposed ? (rows + layout->row_gap) * step : step;
    int64_t elements = (layout->transposed ? columns * column_stride : rows * pitch) + layout->offset + 64;
    bool backwards = layout->column_stride < 0;
    made->bytes = format->bytes;
    made->rows = rows;
    made->columns = columns;
    if (posix_memalign((void **)&made->memory, 64, (size_t)(elements * format->bytes)))
        abort();
    memset(made->memory, 0xc5, (size_t)(elements * format->bytes));
    made->first = made->memory + layout->offset * format->bytes;
    if (backwards)
        made->first += (columns - 1) * column_stride * format->bytes;
    made->row_stride = pitch;
    made->column_stride = backwards ? -column_stride : column_stride;
    if (layout->transposed)
        tensor_make(&made->tensor, made->first, format->dlpack, 2, (int64_t[]){columns, rows},
                    (int64_t[]){made->column_stride, made->row_stride});
    else
        tensor_make(&made->tensor, made->first, format->dlpack, 2, (int64_t[]){rows, columns},
                    (int64_t[]){made->row_stride, made->column_stride});
}

static char *element(const laid_out *matrix, int64_t row, int64_t column)
{
    return matrix->first + (row * matrix->row_stride + column * matrix->column_stride) * matrix->bytes;
}

static void copy_in(const laid_out *to, const char *from)
{
    for (int64_t r = 0; r < to->rows; r++)
        for (int64_t j = 0; j < to->columns; j++)
            memcpy(element(to, r, j), from + (r * to->columns + j) * to->bytes, (size_t)to->bytes);
}

static void copy_out(const laid_out *from, char *to)
{
    for (int64_t r = 0; r < from->rows; r++)
        for (int64_t j = 0; j < from->columns; j++)
            memcpy(to + (r * from->columns + j) * from->bytes, element(from, r, j), (size_t)from->bytes);
}

/* ---- The call -----------------------------------------------------------------------------------------------------
 */

/* Tensors beside the input, views of the workload's own arrays from this row on. */
typedef struct side_tensors {
    tensor bias, mask, lengths, targets, loss, row_logsumexp, weights, upstream, targets_gradient;
} side_tensors;

/* (rows, columns) of the canonical arrays, as the layout's axes want it. */
static DLTensor *side_matrix(tensor *made, void *data, DLDataType type, int64_t rows, int64_t columns, bool transposed)
{
    if (transposed)
        return tensor_make(made, data, type, 2, (int64_t[]){columns, rows}, (int64_t[]){1, columns});
    return tensor_matrix(made, data, type, rows, columns);
}

static void set_score_options(library_call *call, const workload *made, side_tensors *sides, int64_t first,
                              int64_t rows, bool transposed)
{
    softmax_options *options = &call->options;
    int64_t columns = made->columns;
    if (made->options == CAUSAL) {
        options->causal = 1;
        options->causal_offset = first + columns / 2 - made->rows / 2;
        options->empty_rows = SOFTMAX_EMPTY_ZERO;
        return;
    }
    options->softcap = 25;
    options->scale = 0.7;
    options->bias = side_matrix(&sides->bias, made->bias, made->input_format->dlpack, 1, columns, transposed);
    options->mask = side_matrix(&sides->mask, made->mask + first * columns, tensor_uint8, rows, columns, transposed);
    options->valid_lengths = tensor_vector(&sides->lengths, made->lengths + first, tensor_int64, rows);
}

static void set_loss_options(library_call *call, const workload *made, side_tensors *sides, int64_t first, int64_t rows,
                             bool transposed)
{
    const float_format *losses = float_format_of_losses(made->input_format);
    softmax_options *options = &call->options;
    bool reduced = workload_is_reduced(made);
    call->loss = tensor_vector(&sides->loss, made->loss + first * losses->bytes, losses->dlpack, reduced ? 1 : rows);
    if (reduced)
        sides->loss.dl.ndim = 0;
    options->reduction = made->options == SUM ? SOFTMAX_SUM : made->options == MEAN ? SOFTMAX_MEAN : SOFTMAX_NONE;
    options->row_logsumexp =
        tensor_vector(&sides->row_logsumexp, made->row_logsumexp + first * losses->bytes, losses->dlpack, rows);
    call->second = tensor_vector(&sides->targets, made->targets + first, tensor_int64, rows);
    if (made->options == PROBABILITIES) {
        call->second = side_matrix(&sides->targets, made->probabilities + first * made->columns * losses->bytes,
                                   losses->dlpack, rows, made->columns, transposed);
        options->targets_gradient =
            side_matrix(&sides->targets_gradient, made->targets_gradient + first * made->columns * losses->bytes,
                        losses->dlpack, rows, made->columns, transposed);
    }
    if (made->options == PLAIN)
        return;
    options->softcap = 25;
    options->label_smoothing = 0.125;
    options->z_loss = 0x1p-10;
    options->class_weights = tensor_vector(&sides->weights, made->weights, losses->dlpack, made->columns);
    options->grad_output =
        tensor_vector(&sides->upstream, made->upstream + first * losses->bytes, losses->dlpack, reduced ? 1 : rows);
}

/* Rows [first, first + rows) of the workload in one call. */
static void run_rows(workload *made, const bits_layout *layout, int64_t first, int64_t rows)
{
    laid_out input, second, output;
    side_tensors sides;
    int64_t at = first * made->columns, columns = made->columns;
    bool backward = made->operation == SOFTMAX_BACKWARD || made->operation == LOG_SOFTMAX_BACKWARD;
    bool row_outputs = workload_has_row_outputs(made);
    lay_out(&input, layout, made->input_format, rows, columns);
    lay_out(&second, layout, made->input_format, rows, columns);
    lay_out(&output, layout, made->output_format, rows, row_outputs ? 1 : columns);
    copy_in(&input, made->x + at * made->input_format->bytes);
    copy_in(&second, made->dy + at * made->input_format->bytes);
    library_call call = library_call_of(made->operation, &input.tensor.dl, &second.tensor.dl, &output.tensor.dl, NULL,
                                        layout->transposed ? 0 : -1);
    if (row_outputs) {
        tensor_make(&output.tensor, output.first, made->output_format->dlpack, 1, &rows, &output.row_stride);
        call.axis = layout->transposed ? 0 : 1;
    }
    if (layout->in_place)
        call.output = backward && first % 2 ? &second.tensor.dl : &input.tensor.dl;
    call.options.threads = layout->threads;
    call.options.streaming = layout->streaming;
    call.options.isa = layout->isa;
    call.options.streaming = layout->streaming;
    if (made->operation == CROSS_ENTROPY)
        set_loss_options(&call, made, &sides, first, rows, layout->transposed);
    else if (made->options != PLAIN)
        set_score_options(&call, made, &sides, first, rows, layout->transposed);
    run_in_modes(&call, made, layout);
    copy_out(call.output == &input.tensor.dl    ? &input
             : call.output == &second.tensor.dl ? &second
                                                : &output,
             made->output + first * (row_outputs ? 1 : columns) * made->output_format->bytes);
    free(input.memory);
    free(second.memory);
    free(output.memory);
}

bool workload_run(workload *made, const bits_layout *layout)
{
    if (layout->in_place && (made->input_format != made->output_format || workload_has_row_outputs(made)))
        return false;
    if (layout->rows_per_call && workload_is_reduced(made))
        return false;
    if (layout->transposed && made->options == CAUSAL)
        return false;
    workload_poison(made);
    int64_t step = layout->rows_per_call ? layout->rows_per_call : made->rows;
    for (int64_t first = (made->rows - 1) / step * step; first >= 0; first -= step)
        run_rows(made, layout, first, step < made->rows - first ? step : made->rows - first);
    return true;
}
