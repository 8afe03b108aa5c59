/* softmax, log_softmax, logsumexp and the backwards: one array of scores in, one result out. */
#include "functions.h"

typedef softmax_status forward_function(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options);
typedef softmax_status backward_function(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,
                                         const softmax_options *options);

static const signature softmax_signature = {
    "softmax", "y", 1, 2, {ARGUMENT_X, ARGUMENT_AXIS}, TAKES_SCORES | TAKES(OUT) | TAKES(DTYPE)};
static const signature log_softmax_signature = {
    "log_softmax", "y", 1, 2, {ARGUMENT_X, ARGUMENT_AXIS}, TAKES_SCORES | TAKES(OUT) | TAKES(DTYPE)};
static const signature logsumexp_signature = {"logsumexp",
                                              "l",
                                              1,
                                              2,
                                              {ARGUMENT_X, ARGUMENT_AXIS},
                                              TAKES_SCORES | TAKES(OUT) | TAKES(DTYPE) | TAKES(KEEPDIMS) | TAKES(B) |
                                                  TAKES(RETURN_SIGN)};
static const signature softmax_backward_signature = {"softmax_backward",
                                                     "dx",
                                                     2,
                                                     3,
                                                     {ARGUMENT_Y, ARGUMENT_DY, ARGUMENT_AXIS},
                                                     TAKES_EXECUTION | TAKES(OUT) | TAKES(DTYPE) | TAKES(EMPTY_ROWS)};
static const signature log_softmax_backward_signature = {"log_softmax_backward",
                                                         "dx",
                                                         2,
                                                         3,
                                                         {ARGUMENT_Y, ARGUMENT_DY, ARGUMENT_AXIS},
                                                         TAKES_EXECUTION | TAKES(OUT) | TAKES(DTYPE) |
                                                             TAKES(EMPTY_ROWS)};

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

static PyObject *elementwise(call *c, forward_function *run)
{
    held_array *x, *y;
    DLDataType type;
    softmax_status status;
    int axis;
    axis_kind kind = call_axis(c, &axis);
    if (kind != AXIS_ONE)
        return kind == AXIS_SEVERAL ? call_several_axes(c) : NULL;
    x = call_array(c, ARGUMENT_X, ARRAY_SCORES);
    if (!x || !call_options(c) || !call_dtype(c, x->tensor.dtype, &type))
        return NULL;
    y = call_output(c, ARGUMENT_OUT, x, type, x->tensor.ndim, x->tensor.shape);
    if (!y || !call_agrees(c, ARGUMENT_OUT, y, type))
        return NULL;
    RUN(c, x, status, run(&x->tensor, &y->tensor, axis, &c->options));
    return call_succeeded(c, status) ? call_returned(c, ARGUMENT_OUT, y, x) : NULL;
}

PyObject *python_softmax(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    (void)module;
    if (call_begin(&c, &softmax_signature, arguments, count, names))
        result = elementwise(&c, softmax_softmax);
    call_end(&c);
    return result;
}

PyObject *python_log_softmax(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    (void)module;
    if (call_begin(&c, &log_softmax_signature, arguments, count, names))
        result = elementwise(&c, softmax_log_softmax);
    call_end(&c);
    return result;
}

/* ---- logsumexp --------------------------------------------------------------------------------------------------- */

/* What scipy.special.logsumexp takes and this one does not. */
static bool refuse_scipy(call *c)
{
    bool sign = false;
    if (c->given[ARGUMENT_B]) {
        PyErr_SetString(PyExc_TypeError, "logsumexp: b is given; it is not supported: bias=log(b) is the same");
        return false;
    }
    if (!call_flag(c, ARGUMENT_RETURN_SIGN, &sign))
        return false;
    if (sign)
        PyErr_SetString(PyExc_TypeError, "logsumexp: return_sign is True; it is not supported: without b, the sum is "
                                         "never negative");
    return !sign;
}

/* x's shape without the axis; -1 where the library will refuse the axis. */
int shape_without(const DLTensor *x, int axis, int64_t shape[SOFTMAX_MAX_DIMENSIONS])
{
    int ndim = 0;
    axis += axis < 0 ? x->ndim : 0;
    if (axis < 0 || axis >= x->ndim || x->ndim > SOFTMAX_MAX_DIMENSIONS)
        return -1;
    for (int d = 0; d < x->ndim; d++)
        if (d != axis)
            shape[ndim++] = x->shape[d];
    return ndim;
}

/* The output has the axis with one element: seen by the library without it. */
static DLTensor without_axis(const held_array *l, int axis, int64_t shape[SOFTMAX_MAX_DIMENSIONS],
                             int64_t strides[SOFTMAX_MAX_DIMENSIONS])
{
    DLTensor tensor = l->tensor;
    int to = 0;
    if (tensor.ndim > SOFTMAX_MAX_DIMENSIONS || axis >= tensor.ndim || tensor.shape[axis] != 1)
        return tensor; /* the library refuses its shape */
    for (int d = 0; d < tensor.ndim; d++) {
        if (d == axis)
            continue;
        shape[to] = tensor.shape[d];
        if (tensor.strides)
            strides[to] = tensor.strides[d];
        to++;
    }
    tensor.ndim = to;
    tensor.shape = shape;
    if (tensor.strides)
        tensor.strides = strides;
    return tensor;
}

static PyObject *logsumexp_of(call *c, held_array *x, int axis)
{
    int64_t shape[SOFTMAX_MAX_DIMENSIONS], strides[SOFTMAX_MAX_DIMENSIONS], kept[SOFTMAX_MAX_DIMENSIONS];
    int ndim = shape_without(&x->tensor, axis, shape), positive = axis < 0 ? axis + x->tensor.ndim : axis;
    bool keep = false;
    DLDataType type;
    held_array *l;
    DLTensor seen;
    softmax_status status;
    if (!call_flag(c, ARGUMENT_KEEPDIMS, &keep) || !call_options(c) || !call_dtype(c, x->tensor.dtype, &type))
        return NULL;
    if (ndim < 0) {
        call_succeeded(c, softmax_logsumexp(&x->tensor, NULL, axis, &c->options));
        return NULL;
    }
    for (int d = 0; keep && d < x->tensor.ndim; d++)
        kept[d] = d == positive ? 1 : x->tensor.shape[d];
    l = call_output(c, ARGUMENT_OUT, x, type, keep ? x->tensor.ndim : ndim, keep ? kept : shape);
    if (!l || !call_agrees(c, ARGUMENT_OUT, l, type))
        return NULL;
    seen = keep ? without_axis(l, positive, shape, strides) : l->tensor;
    RUN(c, x, status, softmax_logsumexp(&x->tensor, &seen, axis, &c->options));
    return call_succeeded(c, status) ? call_returned(c, ARGUMENT_OUT, l, x) : NULL;
}

PyObject *python_logsumexp(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    int axis;
    (void)module;
    if (call_begin(&c, &logsumexp_signature, arguments, count, names) && refuse_scipy(&c)) {
        axis_kind kind = call_axis(&c, &axis);
        held_array *x = kind == AXIS_ONE ? call_array(&c, ARGUMENT_X, ARRAY_SCORES) : NULL;
        if (kind == AXIS_SEVERAL)
            result = call_several_axes(&c);
        else if (x)
            result = logsumexp_of(&c, x, axis);
    }
    call_end(&c);
    return result;
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

static PyObject *backward(call *c, backward_function *run)
{
    held_array *y, *dy, *dx;
    DLDataType type;
    softmax_status status;
    int axis;
    axis_kind kind = call_axis(c, &axis);
    if (kind != AXIS_ONE)
        return kind == AXIS_SEVERAL ? call_several_axes(c) : NULL;
    y = call_array(c, ARGUMENT_Y, ARRAY_SCORES);
    dy = y ? call_array(c, ARGUMENT_DY, ARRAY_SCORES) : NULL;
    if (!dy || !call_options(c) || !call_dtype(c, y->tensor.dtype, &type))
        return NULL;
    dx = call_output(c, ARGUMENT_OUT, y, type, y->tensor.ndim, y->tensor.shape);
    if (!dx || !call_agrees(c, ARGUMENT_OUT, dx, type))
        return NULL;
    RUN(c, y, status, run(&y->tensor, &dy->tensor, &dx->tensor, axis, &c->options));
    return call_succeeded(c, status) ? call_returned(c, ARGUMENT_OUT, dx, y) : NULL;
}

PyObject *python_softmax_backward(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    (void)module;
    if (call_begin(&c, &softmax_backward_signature, arguments, count, names))
        result = backward(&c, softmax_softmax_backward);
    call_end(&c);
    return result;
}

PyObject *python_log_softmax_backward(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    call c;
    PyObject *result = NULL;
    (void)module;
    if (call_begin(&c, &log_softmax_backward_signature, arguments, count, names))
        result = backward(&c, softmax_log_softmax_backward);
    call_end(&c);
    return result;
}
