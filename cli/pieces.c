#include "pieces.h"

#include "device.h"

#include "progress.h"

/* Bytes of a piece's input: large enough for all threads and for streaming, small beside any memory. */
#define PIECE_BYTES ((int64_t)64 << 20)

typedef struct cut {
    const problem *problem;
    npy_array *output;
    int64_t begin[SOFTMAX_MAX_DIMENSIONS], end[SOFTMAX_MAX_DIMENSIONS]; /* of the input's dimensions */
    progress progress;
} cut;

/* A tensor restricted to a piece. */
typedef struct part {
    DLTensor tensor;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
} part;

/* The part of `whole` that belongs to the piece, or NULL for NULL. whole broadcasts, from the right, to the input's
 * shape, or, if `reduced`, to that without the axis. */
static DLTensor *part_of(const cut *c, const DLTensor *whole, bool reduced, part *part)
{
    if (!whole)
        return NULL;
    part->tensor = *whole;
    part->tensor.shape = part->shape;
    int axis = c->problem->axis;
    int ndim = c->problem->input.header.ndim - reduced;
    char *data = whole->data;
    for (int i = 0; i < whole->ndim; i++) {
        int d = ndim - whole->ndim + i;
        d += reduced && d >= axis;
        part->shape[i] = whole->shape[i];
        if (whole->shape[i] == 1)
            continue;
        part->shape[i] = c->end[d] - c->begin[d];
        data += c->begin[d] * whole->strides[i] * (whole->dtype.bits / 8);
    }
    part->tensor.data = data;
    return &part->tensor;
}

static void release_pages(const cut *c)
{
    const problem *p = c->problem;
    const npy_array *arrays[] = {&p->input, &p->mask, &p->valid_lengths, &p->grad, c->output};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        npy_release_pages(arrays[i]);
}

/* One call, on the CPU or on the device. */
static void compute(const problem *p, const operands *x, const softmax_options *options)
{
    char message[300] = "";
    softmax_status status;
    if (p->arguments->cuda_device < 0) {
        status = problem_call(p, x, options, message, sizeof message);
    } else {
        device_problem *device = device_open(p, x);
        status = device_call(device, options, NULL, message, sizeof message);
        if (status == SOFTMAX_OK)
            status = device_fetch(device, message, sizeof message);
        device_close(device);
    }
    if (status != SOFTMAX_OK)
        problem_fail(p, status, message);
}

static void compute_piece(cut *c, int64_t elements)
{
    const problem *p = c->problem;
    const operands *whole = &p->operands;
    bool reduced = p->arguments->op == OP_LOGSUMEXP;
    part parts[6];
    operands x = {.input = part_of(c, whole->input, false, &parts[0]),
                  .mask = part_of(c, whole->mask, false, &parts[1]),
                  .bias = part_of(c, whole->bias, false, &parts[2]),
                  .valid_lengths = part_of(c, whole->valid_lengths, true, &parts[3]),
                  .grad = part_of(c, whole->grad, false, &parts[4]),
                  .output = part_of(c, &c->output->tensor, reduced, &parts[5])};
    softmax_options options = p->arguments->options;
    int ndim = p->input.header.ndim;
    if (options.causal && __builtin_add_overflow(options.causal_offset, c->begin[ndim - 2], &options.causal_offset))
        options.causal_offset = INT64_MAX;
    compute(p, &x, &options);
    progress_advance(&c->progress, elements);
}

/* Cuts along the widest-spaced dimension that is not the axis until a piece is small enough. Cuts change no bit: rows
 * stay whole. */
static void compute_cut(cut *c)
{
    const npy_header *header = &c->problem->input.header;
    const int64_t *strides = c->problem->input.strides;
    int64_t elements = 1;
    int along = -1;
    for (int d = 0; d < header->ndim; d++) {
        elements *= c->end[d] - c->begin[d];
        if (d != c->problem->axis && c->end[d] - c->begin[d] > 1 && (along < 0 || strides[d] > strides[along]))
            along = d;
    }
    int64_t bytes = elements * npy_kind_bytes(header->kind);
    if (bytes <= PIECE_BYTES || along < 0) {
        compute_piece(c, elements);
        if (elements < header->elements)
            release_pages(c);
        return;
    }
    int64_t begin = c->begin[along], end = c->end[along];
    int64_t pieces = (bytes - 1) / PIECE_BYTES + 1;
    int64_t step = (end - begin - 1) / pieces + 1;
    for (int64_t at = begin; at < end; at += step) {
        c->begin[along] = at;
        c->end[along] = end - at < step ? end : at + step;
        compute_cut(c);
    }
    c->begin[along] = begin;
    c->end[along] = end;
}

void pieces_compute(const problem *p, npy_array *output, npy_array *gradient)
{
    const npy_header *header = &p->input.header;
    if (p->arguments->op == OP_CROSS_ENTROPY) {
        /* One call: a reduction needs all rows, and its messages count them. The kernel drops mapped pages where memory
         * is short. */
        operands x = p->operands;
        x.output = &output->tensor;
        x.gradient = gradient ? &gradient->tensor : NULL;
        compute(p, &x, &p->arguments->options);
        return;
    }
    cut c = {.problem = p, .output = output};
    for (int d = 0; d < header->ndim; d++)
        c.end[d] = header->shape[d];
    progress_begin(&c.progress, header->elements);
    compute_cut(&c);
    progress_end(&c.progress);
}
