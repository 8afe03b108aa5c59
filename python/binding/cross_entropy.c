/* Cross-entropy and what it gives beside the loss. */
#include "functions.h"

static const signature cross_entropy_signature = {
    "cross_entropy",
    "loss",
    2,
    3,
    {ARGUMENT_LOGITS, ARGUMENT_TARGETS, ARGUMENT_AXIS},
    TAKES_EXECUTION | TAKES(OUT) | TAKES(DTYPE) | TAKES(SOFTCAP) | TAKES(MASK) | TAKES(VALID_LENGTHS) |
        TAKES(EMPTY_ROWS) | TAKES(IGNORE_INDEX) | TAKES(LABEL_SMOOTHING) | TAKES(Z_LOSS) | TAKES(CLASS_WEIGHTS) |
        TAKES(GRAD_OUTPUT) | TAKES(REDUCTION) | TAKES(GRADIENT) | TAKES(TARGETS_GRADIENT) | TAKES(ROW_LOGSUMEXP) |
        TAKES(DEVICE_STATUS)};

/* What is asked for beside the loss: False or None, True for a new array, or an array to write. */
typedef struct extra {
    argument which;
    bool wanted;
    held_array *array;
} extra;

enum { EXTRA_GRADIENT, EXTRA_TARGETS_GRADIENT, EXTRA_ROW_LOGSUMEXP, EXTRAS };

static void read_extra(call *c, extra *e, argument which)
{
    PyObject *given = c->given[which];
    e->which = which;
    e->array = NULL;
    e->wanted = given && given != Py_False;
    if (given == Py_True || given == Py_False)
        c->given[which] = NULL;
}

static bool hold_extra(call *c, extra *e, const held_array *like, DLDataType type, int ndim, const int64_t *shape)
{
    if (e->wanted)
        e->array = call_output(c, e->which, like, type, ndim, shape);
    return !e->wanted || e->array;
}

/* The number as an array of one element beside like, on its device. */
static bool number_on_device(call *c, const held_array *like, DLDataType type)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._interchange"), *made = NULL;
    const held_array *array = NULL;
    if (module)
        made = PyObject_CallMethod(module, "number", "OOs", like->object, c->given[ARGUMENT_GRAD_OUTPUT],
                                   dtype_name(type));
    if (made) {
        c->given[ARGUMENT_GRAD_OUTPUT] = made;
        array = call_array(c, ARGUMENT_GRAD_OUTPUT, ARRAY_INPUT);
        c->options.grad_output = array ? &array->tensor : NULL;
    }
    Py_XDECREF(made); /* the held array keeps it */
    Py_XDECREF(module);
    return array != NULL;
}

/* A number as grad_output: one element of the loss's type. */
static bool scalar_grad_output(call *c, const held_array *like, DLDataType loss, DLTensor *tensor, double *memory)
{
    PyObject *given = c->given[ARGUMENT_GRAD_OUTPUT];
    const held_array *array;
    if (!given)
        return true;
    if ((PyFloat_Check(given) || PyLong_Check(given)) && !is_on_cpu(like->tensor.device))
        return number_on_device(c, like, loss);
    if (PyFloat_Check(given) || PyLong_Check(given)) {
        double number = PyFloat_AsDouble(given);
        if (number == -1 && PyErr_Occurred())
            return false;
        if (loss.bits == 64)
            *memory = number;
        else
            *(float *)memory = (float)number;
        *tensor = (DLTensor){memory, {kDLCPU, 0}, 0, loss, NULL, NULL, 0};
        c->options.grad_output = tensor;
        return true;
    }
    array = call_array(c, ARGUMENT_GRAD_OUTPUT, ARRAY_INPUT);
    c->options.grad_output = array ? &array->tensor : NULL;
    return array != NULL;
}

static bool device_status(call *c)
{
    held_array *word = call_array(c, ARGUMENT_DEVICE_STATUS, ARRAY_OUTPUT);
    if (!c->given[ARGUMENT_DEVICE_STATUS])
        return true;
    if (word && (word->tensor.dtype.code != kDLInt || word->tensor.dtype.bits != 64 ||
                 elements_of(&word->tensor) != 1 || is_on_cpu(word->tensor.device))) {
        PyErr_SetString(PyExc_ValueError, "device_status must be one int64 on the CUDA device");
        return call_refuse(c);
    }
    if (word)
        c->options.device_status = (int64_t *)((char *)word->tensor.data + word->tensor.byte_offset);
    return word != NULL;
}

/* loss, or (loss, gradient, …) with what was asked for, in this order. */
static PyObject *returned(call *c, held_array *loss, const extra *extras, const held_array *like)
{
    PyObject *values[EXTRAS + 1], *tuple;
    int count = 0;
    bool whole = true;
    values[count++] = call_returned(c, ARGUMENT_OUT, loss, like);
    for (int i = 0; i < EXTRAS; i++)
        if (extras[i].wanted)
            values[count++] = call_returned(c, extras[i].which, extras[i].array, like);
    if (count == 1)
        return values[0];
    tuple = PyTuple_New(count);
    for (int i = 0; i < count; i++) {
        whole = whole && values[i];
        if (tuple)
            PyTuple_SET_ITEM(tuple, i, values[i]);
        else
            Py_XDECREF(values[i]);
    }
    if (!whole)
        Py_CLEAR(tuple);
    return tuple;
}

static PyObject *loss_of(call *c, held_array *logits, held_array *targets, int axis)
{
    DLDataType real = {kDLFloat, logits->tensor.dtype.bits == 64 ? 64 : 32, 1}, type;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    int ndim = shape_without(&logits->tensor, axis, shape);
    extra extras[EXTRAS];
    held_array *loss;
    DLTensor grad_output;
    double grad_memory;
    softmax_status status;
    if (!call_options(c) || !call_dtype(c, logits->tensor.dtype, &type) ||
        !scalar_grad_output(c, logits, real, &grad_output, &grad_memory) || !device_status(c))
        return NULL;
    read_extra(c, &extras[EXTRA_GRADIENT], ARGUMENT_GRADIENT);
    read_extra(c, &extras[EXTRA_TARGETS_GRADIENT], ARGUMENT_TARGETS_GRADIENT);
    read_extra(c, &extras[EXTRA_ROW_LOGSUMEXP], ARGUMENT_ROW_LOGSUMEXP);
    if (ndim < 0) {
        call_succeeded(c, softmax_cross_entropy(&logits->tensor, &targets->tensor, NULL, NULL, axis, &c->options));
        return NULL;
    }
    loss = call_output(c, ARGUMENT_OUT, logits, real, c->options.reduction == SOFTMAX_NONE ? ndim : 0, shape);
    if (!loss || !hold_extra(c, &extras[EXTRA_GRADIENT], logits, type, logits->tensor.ndim, logits->tensor.shape) ||
        !hold_extra(c, &extras[EXTRA_TARGETS_GRADIENT], logits, targets->tensor.dtype, targets->tensor.ndim,
                    targets->tensor.shape) ||
        !hold_extra(c, &extras[EXTRA_ROW_LOGSUMEXP], logits, real, ndim, shape))
        return NULL;
    if (extras[EXTRA_GRADIENT].array && !call_agrees(c, ARGUMENT_GRADIENT, extras[EXTRA_GRADIENT].array, type))
        return NULL;
    if (extras[EXTRA_TARGETS_GRADIENT].array)
        c->options.targets_gradient = &extras[EXTRA_TARGETS_GRADIENT].array->tensor;
    if (extras[EXTRA_ROW_LOGSUMEXP].array)
        c->options.row_logsumexp = &extras[EXTRA_ROW_LOGSUMEXP].array->tensor;
    held_array *gradient = extras[EXTRA_GRADIENT].array;
    RUN(c, logits, status,
        softmax_cross_entropy(&logits->tensor, &targets->tensor, &loss->tensor, gradient ? &gradient->tensor : NULL,
                              axis, &c->options));
    return call_succeeded(c, status) ? returned(c, loss, extras, logits) : NULL;
}

PyObject *python_cross_entropy(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    int axis;
    (void)module;
    if (call_begin(&c, &cross_entropy_signature, arguments, count, names)) {
        axis_kind kind = call_axis(&c, &axis);
        held_array *logits = kind == AXIS_ONE ? call_array(&c, ARGUMENT_LOGITS, ARRAY_SCORES) : NULL;
        held_array *targets = logits ? call_array(&c, ARGUMENT_TARGETS, ARRAY_INPUT) : NULL;
        if (kind == AXIS_SEVERAL)
            PyErr_Format(PyExc_TypeError, "cross_entropy: axis is %R; an int is allowed", c.given[ARGUMENT_AXIS]);
        else if (targets)
            result = loss_of(&c, logits, targets, axis);
    }
    call_end(&c);
    return result;
}
