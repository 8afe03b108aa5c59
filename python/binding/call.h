/* A call of a Python function on its way into the library: arguments by name, arrays held, options, errors in words. */
#ifndef SOFTMAX_PYTHON_CALL_H
#define SOFTMAX_PYTHON_CALL_H

#include "arrays.h"

/* Every name that an argument may have. */
#define ARGUMENT_NAMES(each)                                                                                           \
    each(X), each(Y), each(DY), each(LOGITS), each(TARGETS), each(TILE), each(OTHER), each(AXIS), each(OUT),           \
        each(DTYPE), each(KEEPDIMS), each(B), each(RETURN_SIGN), each(SOFTCAP), each(SCALE), each(BIAS), each(MASK),   \
        each(VALID_LENGTHS), each(CAUSAL), each(CAUSAL_OFFSET), each(EMPTY_ROWS), each(FIRST_COLUMN),                  \
        each(IGNORE_INDEX), each(LABEL_SMOOTHING), each(Z_LOSS), each(CLASS_WEIGHTS), each(GRAD_OUTPUT),               \
        each(GRADIENT), each(TARGETS_GRADIENT), each(ROW_LOGSUMEXP), each(REDUCTION), each(THREADS), each(ISA),        \
        each(STREAM), each(DEVICE_STATUS), each(CUDA_KERNEL), each(STREAMING)
#define ARGUMENT_ENUM(name) ARGUMENT_##name
typedef enum argument { ARGUMENT_NAMES(ARGUMENT_ENUM), ARGUMENT_COUNT } argument;

#define TAKES(name) ((uint64_t)1 << ARGUMENT_##name)
#define TAKES_EXECUTION (TAKES(THREADS) | TAKES(ISA) | TAKES(STREAM) | TAKES(CUDA_KERNEL) | TAKES(STREAMING))
#define TAKES_SCORES                                                                                                   \
    (TAKES(SOFTCAP) | TAKES(SCALE) | TAKES(BIAS) | TAKES(MASK) | TAKES(VALID_LENGTHS) | TAKES(CAUSAL) |                \
     TAKES(CAUSAL_OFFSET) | TAKES(EMPTY_ROWS) | TAKES_EXECUTION)

typedef struct signature {
    const char *name;
    const char *output;       /* what the library calls out */
    int required, positional; /* the first of `order` must be given; may be given without a name */
    argument order[4];
    uint64_t takes; /* by name, beside `order` */
} signature;

#define ARRAYS_MOST 13

typedef struct call {
    const signature *signature;
    PyObject *given[ARGUMENT_COUNT]; /* borrowed; NULL where absent or None */
    bool named;                      /* some argument came by its name: there may be options */
    softmax_options options;
    void *stream; /* where CUDA work runs: the caller's, else that of the first array's library */
    int arrays;
    held_array array[ARRAYS_MOST];
    void *others[ARRAYS_MOST + 2]; /* streams of arrays' libraries, other than `stream`: they wait for the work */
    int other_streams, device;
    bool waits; /* for the work, as some array's stream is not known */
    char message[400];
} call;

bool call_names_begin(void);
const char *call_argument_name(argument which);
/* Reads the arguments; false with an exception. call_end releases what the call holds, also after a failure. */
bool call_begin(call *c, const signature *signature, PyObject *const *arguments, Py_ssize_t count, PyObject *names);
void call_end(call *c);

/* The axis as a number; AXIS_SEVERAL for a tuple or None that is not one axis. */
typedef enum axis_kind { AXIS_ONE, AXIS_SEVERAL, AXIS_REFUSED } axis_kind;
axis_kind call_axis(call *c, int *axis);
PyObject *call_several_axes(const call *c);

/* Held arrays: NULL with an exception. call_array gives NULL without one where the argument is absent. */
held_array *call_array(call *c, argument which, array_use use);
held_array *call_result(call *c, const held_array *like, DLDataType type, int ndim, const int64_t *shape);
/* out=, or a new array. */
held_array *call_output(call *c, argument which, const held_array *like, DLDataType type, int ndim,
                        const int64_t *shape);
/* An output that was given is of the type that dtype= asks for. */
bool call_agrees(call *c, argument which, const held_array *output, DLDataType type);
/* What the caller gets for it. */
PyObject *call_returned(call *c, argument which, held_array *output, const held_array *like);
/* dtype=, else `otherwise`. */
bool call_dtype(call *c, DLDataType otherwise, DLDataType *type);

/* Device memory for the call, from the library that like is of. */
bool call_scratch(call *c, const held_array *like, size_t bytes);
/* The order between the call's stream and that of a's library, where they are two: the work comes after what has been
 * put on the other, unless a `is_ready`, and what is put there later comes after the work (call_settle). A stream= of
 * the caller is the caller's to order. Takes the stream of the first array that comes. */
bool call_joins(call *c, const held_array *a, bool is_ready);
/* Once the work is on the stream: the other streams wait for it, or the host does where the stream is not known. */
bool call_settle(call *c);

/* Numbers and words among the arguments into options. */
bool call_options(call *c);
bool call_stream(call *c);
bool call_flag(call *c, argument which, bool *flag);

/* Adds the function's name to the exception that is set. */
void *call_refuse(call *c);
/* True for SOFTMAX_OK; else ValueError or TypeError with the library's words. */
bool call_succeeded(call *c, softmax_status status);
/* Work of so many elements is done without the interpreter's lock. */
#define UNLOCKED_FROM_ELEMENTS 1024
int64_t elements_of(const DLTensor *tensor);

#endif
