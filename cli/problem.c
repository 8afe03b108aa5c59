#include "problem.h"

#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "(3, 4)", as NumPy writes it. */
static const char *shape_text(char text[200], int ndim, const int64_t *shape)
{
    int at = snprintf(text, 200, "(");
    for (int d = 0; d < ndim && at < 170; d++)
        at += snprintf(text + at, (size_t)(200 - at), "%lld%s", (long long)shape[d],
                       d + 1 < ndim ? ", "
                       : ndim == 1  ? ","
                                    : "");
    snprintf(text + at, (size_t)(200 - at), ")");
    return text;
}

static void open_beside(problem *p, npy_array *array, const char *name, const DLTensor **operand)
{
    if (!name)
        return;
    npy_open(array, name, p->arguments->bfloat16);
    *operand = &array->tensor;
}

static void require_kind(const npy_array *array, bool allowed, const char *option, const char *words)
{
    if (!allowed)
        fail_data("%s: holds type '%s'; allowed for %s are %s", array->name, npy_kind_descr(array->header.kind), option,
                  words);
}

static bool same_shape(const npy_array *array, int ndim, const int64_t *shape)
{
    return array->header.ndim == ndim && memcmp(array->header.shape, shape, (size_t)ndim * sizeof *shape) == 0;
}

static void require_shape(const npy_array *array, const char *option, int ndim, const int64_t *shape)
{
    char holds[200], allowed[200];
    if (!same_shape(array, ndim, shape))
        fail_data("%s: has shape %s; allowed for %s is %s", array->name,
                  shape_text(holds, array->header.ndim, array->header.shape), option, shape_text(allowed, ndim, shape));
}

static void require_broadcast(const npy_array *array, const char *option, int ndim, const int64_t *shape)
{
    bool fits = array->header.ndim <= ndim;
    for (int d = 0; fits && d < array->header.ndim; d++) {
        int64_t size = array->header.shape[d];
        fits = size == 1 || size == shape[ndim - array->header.ndim + d];
    }
    char holds[200], allowed[200];
    if (!fits)
        fail_data("%s: has shape %s; allowed for %s is what broadcasts to %s", array->name,
                  shape_text(holds, array->header.ndim, array->header.shape), option, shape_text(allowed, ndim, shape));
}

static void open_input(problem *p)
{
    const arguments *a = p->arguments;
    npy_array *input = &p->input;
    open_beside(p, input, a->input, &p->operands.input);
    npy_header *header = &input->header;
    if (a->bfloat16)
        require_kind(input, header->kind == NPY_UINT16, "--dtype bfloat16", "<u2");
    else
        require_kind(input, npy_is_float(header->kind), "INPUT.npy", "<f2 <f4 <f8, and <u2 with --dtype bfloat16");
    if (header->ndim == 0)
        fail_data("%s: has 0 dimensions; allowed are 1 to %d", a->input, SOFTMAX_MAX_DIMENSIONS);
    if (a->axis < -header->ndim || a->axis >= header->ndim)
        fail_usage("--axis %d: %s has %d dimension%s; allowed is %d to %d", a->axis, a->input, header->ndim,
                   header->ndim == 1 ? "" : "s", -header->ndim, header->ndim - 1);
    p->axis = a->axis < 0 ? a->axis + header->ndim : a->axis;
    for (int d = 0; d < header->ndim; d++) {
        if (d != p->axis)
            p->reduced_shape[p->reduced_ndim++] = header->shape[d];
    }
    if (a->options.causal && (header->ndim < 2 || p->axis != header->ndim - 1))
        fail_usage("--causal: needs 2 dimensions and the last axis; %s has %d, and --axis is %d", a->input,
                   header->ndim, a->axis);
    p->loss_kind = header->kind == NPY_FLOAT64 ? NPY_FLOAT64 : NPY_FLOAT32;
}

static void open_mask(problem *p)
{
    const DLTensor *tensor = NULL;
    open_beside(p, &p->mask, p->arguments->mask, &tensor);
    if (!tensor)
        return;
    npy_kind kind = p->mask.header.kind;
    bool boolean = kind == NPY_BOOL || kind == NPY_UINT8;
    require_kind(&p->mask, boolean || npy_is_float(kind), "--mask",
                 "|b1 and |u1 (nonzero takes part) and floats (added)");
    if (!boolean && p->arguments->op == OP_CROSS_ENTROPY)
        fail_data("%s: holds type '%s'; allowed for --mask with --op cross_entropy are |b1 and |u1", p->mask.name,
                  npy_kind_descr(kind));
    require_broadcast(&p->mask, "--mask", p->input.header.ndim, p->input.header.shape);
    *(boolean ? &p->operands.mask : &p->operands.bias) = tensor;
}

static void open_loss_arrays(problem *p)
{
    const arguments *a = p->arguments;
    const npy_header *input = &p->input.header;
    open_beside(p, &p->targets, a->targets, &p->operands.targets);
    npy_kind kind = p->targets.header.kind;
    require_kind(&p->targets, kind == NPY_INT32 || kind == NPY_INT64 || npy_is_float(kind), "--targets",
                 "<i4 <i8 (classes) and floats (probabilities)");
    if (npy_is_float(kind))
        require_shape(&p->targets, "--targets (probabilities)", input->ndim, input->shape);
    else
        require_shape(&p->targets, "--targets", p->reduced_ndim, p->reduced_shape);
    if (a->class_weights) {
        open_beside(p, &p->class_weights, a->class_weights, &p->operands.class_weights);
        require_kind(&p->class_weights, p->class_weights.header.kind == p->loss_kind, "--class-weights",
                     npy_kind_descr(p->loss_kind));
        require_shape(&p->class_weights, "--class-weights", 1, &input->shape[p->axis]);
    }
    if (a->grad_output) {
        open_beside(p, &p->grad_output, a->grad_output, &p->operands.grad_output);
        require_kind(&p->grad_output, p->grad_output.header.kind == p->loss_kind, "--grad-output",
                     npy_kind_descr(p->loss_kind));
        bool per_row = a->options.reduction == SOFTMAX_NONE;
        if (p->grad_output.header.elements != 1)
            require_shape(&p->grad_output, "--grad-output", per_row ? p->reduced_ndim : 0, p->reduced_shape);
    }
}

void problem_open(problem *p, const arguments *a)
{
    *p = (problem){.arguments = a};
    open_input(p);
    open_mask(p);
    if (a->valid_lengths) {
        open_beside(p, &p->valid_lengths, a->valid_lengths, &p->operands.valid_lengths);
        npy_kind kind = p->valid_lengths.header.kind;
        require_kind(&p->valid_lengths, kind == NPY_INT32 || kind == NPY_INT64, "--valid-lengths", "<i4 and <i8");
        require_broadcast(&p->valid_lengths, "--valid-lengths", p->reduced_ndim, p->reduced_shape);
    }
    if (a->grad) {
        open_beside(p, &p->grad, a->grad, &p->operands.grad);
        require_kind(&p->grad, p->grad.header.kind == p->input.header.kind, "--grad",
                     npy_kind_descr(p->input.header.kind));
        require_shape(&p->grad, "--grad", p->input.header.ndim, p->input.header.shape);
    }
    if (a->op == OP_CROSS_ENTROPY)
        open_loss_arrays(p);
    if (!a->options.isa && !softmax_isa_default()) {
        const char *isa = getenv("SOFTMAX_ISA");
        fail_usage("SOFTMAX_ISA=%s: is no instruction set of this machine; softmax info lists what is allowed",
                   isa ? isa : "");
    }
}

int problem_output(const problem *p, npy_kind *kind, int64_t *shape)
{
    const npy_header *input = &p->input.header;
    operation op = p->arguments->op;
    bool reduced = op == OP_LOGSUMEXP || op == OP_CROSS_ENTROPY;
    *kind = reduced ? p->loss_kind : input->kind;
    int ndim = reduced ? p->reduced_ndim : input->ndim;
    if (op == OP_CROSS_ENTROPY && p->arguments->options.reduction != SOFTMAX_NONE)
        ndim = 0;
    memcpy(shape, reduced ? p->reduced_shape : input->shape, (size_t)ndim * sizeof *shape);
    return ndim;
}

softmax_status problem_call(const problem *p, const operands *x, const softmax_options *given, char *message,
                            size_t message_bytes)
{
    softmax_options options = *given;
    options.mask = x->mask;
    options.bias = x->bias;
    options.valid_lengths = x->valid_lengths;
    options.class_weights = x->class_weights;
    options.grad_output = x->grad_output;
    options.message = message;
    options.message_bytes = message_bytes;
    int axis = p->axis;
    switch (p->arguments->op) {
    case OP_LOG_SOFTMAX: return softmax_log_softmax(x->input, x->output, axis, &options);
    case OP_LOGSUMEXP: return softmax_logsumexp(x->input, x->output, axis, &options);
    case OP_SOFTMAX_BACKWARD: return softmax_softmax_backward(x->input, x->grad, x->output, axis, &options);
    case OP_LOG_SOFTMAX_BACKWARD: return softmax_log_softmax_backward(x->input, x->grad, x->output, axis, &options);
    case OP_CROSS_ENTROPY: return softmax_cross_entropy(x->input, x->targets, x->output, x->gradient, axis, &options);
    default: return softmax_softmax(x->input, x->output, axis, &options);
    }
}

void problem_fail(const problem *p, softmax_status status, const char *message)
{
    const char *words = *message ? message : softmax_status_string(status);
    if (status == SOFTMAX_ERROR_TARGET)
        fail_data("%s: %s", p->arguments->targets, words);
    if (status == SOFTMAX_ERROR_AXIS || status == SOFTMAX_ERROR_OPTION || status == SOFTMAX_ERROR_ISA)
        fail_usage("--op %s on %s: %s", operation_name(p->arguments->op), p->input.name, words);
    fail_data("%s: --op %s: %s", p->input.name, operation_name(p->arguments->op), words);
}
