/* One public call on its way to the kernels: options read, arrays checked and laid out as rows and columns, then run.
 * Every step returns SOFTMAX_OK, or has put its words into the caller's message. */
#ifndef SOFTMAX_API_CALL_H
#define SOFTMAX_API_CALL_H

#include "kernels.h"

#include <stdbool.h>

/* How an array's shape fits the input's. */
typedef enum array_fit {
    FIT_INPUT,     /* the same */
    FIT_ROWS,      /* without the axis */
    FIT_BROADCAST, /* broadcasts to it, aligned at the last dimension; absent dimensions and those of size 1 repeat */
    FIT_BROADCAST_ROWS, /* likewise, without the axis */
    FIT_COLUMNS,        /* (columns) */
    FIT_ONE,            /* one element, in any number of dimensions */
    FIT_ONE_OR_ROWS
} array_fit;

/* An array that takes part, beside its operand in the job: what the overlap check and the layout need. */
typedef struct call_array {
    const char *name;
    operand *place; /* NULL: states */
    uint64_t first; /* addresses [first, end); equal where it has no element */
    uint64_t end;
    bool output;
} call_array;

typedef struct api_call {
    const char *name; /* the operation, for messages */
    softmax_options options;
    softmax_job job; /* row dimensions are the input's without the axis until softmax_call_run joins them */
    const char *input_name;
    const DLTensor *input;
    int axis; /* in [0, ndim) */
    int arrays;
    call_array array[13];
    bool writes; /* some output has an element */
} api_call;

/* Sets of element types, bit 1 << element. */
typedef unsigned int type_set;
#define TYPE_BIT(element) (1u << (element))
#define TYPES_HALF (TYPE_BIT(ELEMENT_FLOAT16) | TYPE_BIT(ELEMENT_BFLOAT16))
#define TYPES_FLOAT (TYPES_HALF | TYPE_BIT(ELEMENT_FLOAT32) | TYPE_BIT(ELEMENT_FLOAT64))
#define TYPES_INTEGER (TYPE_BIT(ELEMENT_INT32) | TYPE_BIT(ELEMENT_INT64))

/* ---- api_options.c ---------------------------------------------------------------------------------------------- */

/* Reads the options (NULL: defaults), checks those that need no array, finds the instruction set, begins the job. */
softmax_status softmax_call_begin(api_call *call, operation op, const softmax_options *options);

/* Writes "operation: words" into the caller's message and returns status. */
__attribute__((format(printf, 3, 4), cold)) softmax_status softmax_refuse(const api_call *call, softmax_status status,
                                                                          const char *format, ...);

/* ---- api_check.c ------------------------------------------------------------------------------------------------ */

/* The input that everything else is measured by; its axis becomes the job's columns. */
softmax_status softmax_call_input(api_call *call, operand *place, const char *name, const DLTensor *tensor, int axis);

softmax_status softmax_call_array(api_call *call, operand *place, const char *name, const DLTensor *tensor,
                                  type_set allowed, array_fit fit, bool output);

/* The element type of a tensor; ELEMENT_NONE if it is none of ours. */
element softmax_element_of(DLDataType type);
int softmax_element_bytes(element type);

/* What a result may be whose input is of this type: the same, or float32 for 16-bit types. */
static inline type_set softmax_result_types(element input)
{
    type_set same = TYPE_BIT(input);
    return same & TYPES_HALF ? same | TYPE_BIT(ELEMENT_FLOAT32) : same;
}

/* ---- api_overlap.c ---------------------------------------------------------------------------------------------- */

/* No output overlaps another array, but for those that may be exactly it. */
softmax_status softmax_check_overlap(const api_call *call);

/* ---- api_layout.c ----------------------------------------------------------------------------------------------- */

/* Drops row dimensions of size 1 and joins neighbours that are contiguous in every operand. */
void softmax_join_dimensions(api_call *call);

/* The last step: overlaps, layout, and the kernels, unless no output has an element. */
softmax_status softmax_call_run(api_call *call);

/* ---- api_operations.c: the arrays of each operation, checked into the job --------------------------------------- */

softmax_status softmax_forward_arrays(api_call *call, const DLTensor *x, const DLTensor *out, int axis);
softmax_status softmax_backward_arrays(api_call *call, const DLTensor *y, const DLTensor *dy, const DLTensor *dx,
                                       int axis);
softmax_status softmax_cross_entropy_arrays(api_call *call, const DLTensor *logits, const DLTensor *targets,
                                            const DLTensor *loss, const DLTensor *gradient, int axis);

/* softcap, scale, bias, mask, valid_lengths and causal into the job, whose kind is set. */
softmax_status softmax_score_options(api_call *call);

#endif
