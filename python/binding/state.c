/* State: the online states of an array of rows. */
#include "state.h"
#include "docs.h"
#include "functions.h"

#include <string.h>

static PyTypeObject state_type;

static const signature update_signature = {
    "update", NULL, 1, 2, {ARGUMENT_TILE, ARGUMENT_AXIS}, (TAKES_SCORES & ~TAKES(EMPTY_ROWS)) | TAKES(FIRST_COLUMN)};
static const signature normalise_signature = {
    "normalise", "y", 1, 2, {ARGUMENT_TILE, ARGUMENT_AXIS}, TAKES_SCORES | TAKES(FIRST_COLUMN) | TAKES(OUT)};
static const signature log_normalise_signature = {
    "log_normalise", "y", 1, 2, {ARGUMENT_TILE, ARGUMENT_AXIS}, TAKES_SCORES | TAKES(FIRST_COLUMN) | TAKES(OUT)};
static const signature merge_signature = {"merge", NULL, 1, 1, {ARGUMENT_OTHER}, TAKES(STREAM)};
static const signature state_logsumexp_signature = {
    "logsumexp", "l", 0, 0, {ARGUMENT_COUNT}, TAKES(OUT) | TAKES(STREAM)};

/* ---- Making ------------------------------------------------------------------------------------------------------ */

/* shape: an int or a tuple. */
static bool read_shape(state_object *self, PyObject *given)
{
    PyObject *sizes = !given ? PyTuple_New(0) : PyTuple_Check(given) ? Py_NewRef(given) : PyTuple_Pack(1, given);
    bool fits = sizes && PyTuple_GET_SIZE(sizes) < SOFTMAX_MAX_DIMENSIONS;
    self->count = 1;
    self->ndim = fits ? (int)PyTuple_GET_SIZE(sizes) : 0;
    for (int d = 0; fits && d < self->ndim; d++) {
        self->shape[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, d));
        fits = self->shape[d] >= 0 && !__builtin_mul_overflow(self->count, self->shape[d], &self->count);
    }
    fits = fits && !PyErr_Occurred() && self->count < INT64_MAX / (int64_t)sizeof *self->states;
    if (!fits) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError,
                     "State: shape is %R; a size or a tuple of at most %d sizes of 0 or more is allowed", given,
                     SOFTMAX_MAX_DIMENSIONS - 1);
    }
    Py_XDECREF(sizes);
    return fits;
}

static PyObject *state_new(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
    static char *names[] = {"shape", "dtype", NULL};
    PyObject *shape = NULL, *dtype = NULL;
    state_object *self;
    if (!PyArg_ParseTupleAndKeywords(arguments, words, "|OO:State", names, &shape, &dtype))
        return NULL;
    self = (state_object *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->type = (DLDataType){kDLFloat, 32, 1};
    if ((dtype && !dtype_argument("State: dtype", dtype, &self->type)) || !read_shape(self, shape)) {
        Py_DECREF(self);
        return NULL;
    }
    if (!state_begin_on_cpu(self)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void state_free(state_object *self)
{
    state_release(self);
    Py_TYPE(self)->tp_free(self);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* For this call alone, until it sets busy to false: not a second thread, nor what arrays do when they are asked for. */
static bool take(call *c, state_object *self)
{
    if (self->busy) {
        PyErr_Format(PyExc_ValueError, "%s: the state is in use by another thread", c->signature->name);
        return false;
    }
    self->busy = true;
    return true;
}

/* The library trusts that there are as many states as the tile has rows. */
static bool tile_fits(call *c, const state_object *self, const held_array *tile, int axis)
{
    int64_t rows[SOFTMAX_MAX_DIMENSIONS];
    int ndim = shape_without(&tile->tensor, axis, rows);
    PyObject *is, *wanted;
    if (ndim < 0) {
        PyErr_Format(PyExc_ValueError, "%s: axis is %d; tile has %d dimensions", c->signature->name, axis,
                     tile->tensor.ndim);
        return false;
    }
    if (ndim == self->ndim && memcmp(rows, self->shape, (size_t)ndim * sizeof *rows) == 0)
        return true;
    is = PyTuple_New(ndim);
    wanted = PyTuple_New(self->ndim);
    for (int d = 0; is && d < ndim; d++)
        PyTuple_SET_ITEM(is, d, PyLong_FromLongLong(rows[d]));
    for (int d = 0; wanted && d < self->ndim; d++)
        PyTuple_SET_ITEM(wanted, d, PyLong_FromLongLong(self->shape[d]));
    if (is && wanted && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%s: tile has shape %R without axis %d; %R, the state's shape, is required",
                     c->signature->name, is, axis, wanted);
    Py_XDECREF(is);
    Py_XDECREF(wanted);
    return false;
}

static held_array *hold_tile(call *c, state_object *self, int *axis)
{
    axis_kind kind = call_axis(c, axis);
    held_array *tile;
    if (kind == AXIS_SEVERAL)
        PyErr_Format(PyExc_TypeError, "%s: axis is %R; an int is allowed", c->signature->name, c->given[ARGUMENT_AXIS]);
    tile = kind == AXIS_ONE ? call_array(c, ARGUMENT_TILE, ARRAY_SCORES) : NULL;
    if (!tile || !tile_fits(c, self, tile, *axis) || !call_options(c))
        return NULL;
    if ((c->options.causal || c->options.valid_lengths) && !c->given[ARGUMENT_FIRST_COLUMN]) {
        PyErr_Format(PyExc_ValueError,
                     "%s: first_column is None; with causal or valid_lengths the tile's first column in its row is "
                     "required",
                     c->signature->name);
        return NULL;
    }
    return state_follow(c, self, "tile", tile) ? tile : NULL;
}

static PyObject *state_update(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    state_object *self = (state_object *)object;
    call c;
    PyObject *result = NULL;
    int axis;
    if (call_begin(&c, &update_signature, arguments, count, names) && take(&c, self)) {
        held_array *tile = hold_tile(&c, self, &axis);
        softmax_status status = SOFTMAX_OK;
        if (tile)
            RUN(&c, tile, status, softmax_state_update(self->states, &tile->tensor, axis, &c.options));
        self->busy = false;
        if (tile && call_succeeded(&c, status)) {
            self->begun = self->begun || self->count > 0;
            result = Py_NewRef(object);
        }
    }
    call_end(&c);
    return result;
}

static PyObject *normalise(state_object *self, call *c, bool log)
{
    int axis;
    held_array *tile = hold_tile(c, self, &axis), *y;
    softmax_status status;
    if (!tile)
        return NULL;
    y = call_output(c, ARGUMENT_OUT, tile, self->type, tile->tensor.ndim, tile->tensor.shape);
    if (!y)
        return NULL;
    RUN(c, tile, status,
        (log ? softmax_state_log_normalise : softmax_state_normalise)(self->states, &tile->tensor, &y->tensor, axis,
                                                                      &c->options));
    return call_succeeded(c, status) ? call_returned(c, ARGUMENT_OUT, y, tile) : NULL;
}

static PyObject *state_normalise(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    state_object *self = (state_object *)object;
    call c;
    PyObject *result = NULL;
    if (call_begin(&c, &normalise_signature, arguments, count, names) && take(&c, self)) {
        result = normalise(self, &c, false);
        self->busy = false;
    }
    call_end(&c);
    return result;
}

static PyObject *state_log_normalise(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    state_object *self = (state_object *)object;
    call c;
    PyObject *result = NULL;
    if (call_begin(&c, &log_normalise_signature, arguments, count, names) && take(&c, self)) {
        result = normalise(self, &c, true);
        self->busy = false;
    }
    call_end(&c);
    return result;
}

/* ---- Whole states ------------------------------------------------------------------------------------------------ */

static bool is_alike(const state_object *a, const state_object *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

static bool merge_on_cpu(call *c, state_object *self, const state_object *other)
{
    if (!call_succeeded(c, softmax_state_merge(self->states, other->states, self->count)))
        return false;
    self->begun = self->begun || other->begun;
    return true;
}

static bool merge(call *c, state_object *self, state_object *other)
{
    bool merged;
    *c->message = '\0';
    if (other != self && !take(c, other))
        return false;
    merged = state_is_on_cpu(self) && state_is_on_cpu(other) ? merge_on_cpu(c, self, other)
                                                             : state_merge_on_device(c, self, other);
    if (other != self)
        other->busy = false;
    return merged;
}

static PyObject *state_merge(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    state_object *self = (state_object *)object, *other;
    call c;
    PyObject *result = NULL;
    if (call_begin(&c, &merge_signature, arguments, count, names) && take(&c, self)) {
        other = (state_object *)c.given[ARGUMENT_OTHER];
        if (!PyObject_TypeCheck(other, &state_type))
            PyErr_Format(PyExc_TypeError, "merge: other is a %.100s; a State is required", Py_TYPE(other)->tp_name);
        else if (!is_alike(self, other))
            PyErr_Format(PyExc_ValueError, "merge: other is %R; one of the shape of %R is required", other, object);
        else if (state_library_type(self->type) != state_library_type(other->type))
            PyErr_Format(PyExc_ValueError, "merge: other is %R; one of the type of %R is required", other, object);
        else if (merge(&c, self, other))
            result = Py_NewRef(object);
        self->busy = false;
    }
    call_end(&c);
    return result;
}

static bool is_row_major(const DLTensor *tensor)
{
    int64_t stride = 1;
    for (int d = tensor->ndim - 1; tensor->strides && d >= 0; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != stride)
            return false;
        stride *= tensor->shape[d];
    }
    return true;
}

static bool fits_logsumexp(const state_object *self, const DLTensor *l, DLDataType type)
{
    const DLDevice here = state_is_on_cpu(self) ? (DLDevice){kDLCPU, 0} : self->home.tensor.device;
    bool is_there = is_on_cpu(here)
                        ? is_on_cpu(l->device)
                        : l->device.device_type == here.device_type && l->device.device_id == here.device_id;
    return is_there && is_row_major(l) && l->dtype.code == kDLFloat && l->dtype.bits == type.bits &&
           elements_of(l) == self->count;
}

static PyObject *logsumexp(state_object *self, call *c)
{
    const DLDataType type = {kDLFloat, self->type.bits == 64 ? 64 : 32, 1};
    const bool on_cpu = state_is_on_cpu(self);
    held_array numpy = {.family = FAMILY_NUMPY}, *like = on_cpu ? &numpy : &self->home, *l;
    softmax_status status;
    void *values;
    if (!on_cpu && (!find_library_stream(like) || !call_joins(c, like, false)))
        return NULL;
    l = call_output(c, ARGUMENT_OUT, like, type, self->ndim, self->shape);
    if (!l)
        return NULL;
    if (!fits_logsumexp(self, &l->tensor, type)) {
        PyErr_Format(PyExc_ValueError, "logsumexp: out must be a contiguous %s array of the state's shape, where it is",
                     dtype_name(type));
        return NULL;
    }
    *c->message = '\0';
    values = (char *)l->tensor.data + l->tensor.byte_offset;
    status = on_cpu ? softmax_state_logsumexp(self->states, values, self->count)
                    : softmax_cuda_state_logsumexp(self->states, values, self->count, state_library_type(self->type),
                                                   like->tensor.device.device_id, c->stream);
    if (!call_succeeded(c, status) || (!on_cpu && !call_settle(c)))
        return NULL;
    return call_returned(c, ARGUMENT_OUT, l, like);
}

static PyObject *state_logsumexp(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    state_object *self = (state_object *)object;
    call c;
    PyObject *result = NULL;
    if (call_begin(&c, &state_logsumexp_signature, arguments, count, names) && take(&c, self)) {
        result = logsumexp(self, &c);
        self->busy = false;
    }
    call_end(&c);
    return result;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

static state_object *state_like(state_object *self)
{
    state_object *made = (state_object *)Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (!made)
        return NULL;
    made->type = self->type;
    made->count = self->count;
    made->ndim = self->ndim;
    memcpy(made->shape, self->shape, sizeof made->shape);
    if (!state_begin_on_cpu(made))
        Py_CLEAR(made);
    return made;
}

static PyObject *state_cpu(state_object *self, PyObject *none)
{
    state_object *made = state_like(self);
    PyObject *bytes = made ? state_fetched(self) : NULL;
    (void)none;
    if (!bytes) {
        Py_XDECREF(made);
        return NULL;
    }
    memcpy(made->states, PyBytes_AS_STRING(bytes), state_bytes(self));
    made->begun = self->begun;
    Py_DECREF(bytes);
    return (PyObject *)made;
}

/* Where self is; on a device by a merge into empty states, which changes nothing and waits for nothing. */
static PyObject *state_copy(state_object *self, PyObject *memo)
{
    state_object *made;
    PyObject *merged = NULL;
    (void)memo;
    if (state_is_on_cpu(self))
        return state_cpu(self, NULL);
    made = state_like(self);
    if (made)
        merged = PyObject_CallMethod((PyObject *)made, "merge", "O", self);
    Py_XDECREF(made);
    return merged;
}

/* ---- What it is -------------------------------------------------------------------------------------------------- */

static PyObject *state_shape(state_object *self, void *none)
{
    PyObject *shape = PyTuple_New(self->ndim);
    (void)none;
    for (int d = 0; shape && d < self->ndim; d++)
        PyTuple_SET_ITEM(shape, d, PyLong_FromLongLong(self->shape[d]));
    return shape;
}

static PyObject *state_dtype(state_object *self, void *none)
{
    (void)none;
    return PyUnicode_FromString(dtype_name(self->type));
}

static PyObject *state_device(state_object *self, void *none)
{
    (void)none;
    return state_is_on_cpu(self) ? PyUnicode_FromString("cpu")
                                 : PyUnicode_FromFormat("cuda:%d", (int)self->home.tensor.device.device_id);
}

static PyObject *state_repr(state_object *self)
{
    PyObject *shape = state_shape(self, NULL);
    PyObject *words = shape ? PyUnicode_FromFormat("State(shape=%R, dtype='%s')", shape, dtype_name(self->type)) : NULL;
    Py_XDECREF(shape);
    return words;
}

/* Pickles as (State, (shape, dtype), bytes): the states are plain data without pointers. */
static PyObject *state_reduce(state_object *self, PyObject *none)
{
    (void)none;
    PyObject *bytes = state_fetched(self);
    if (!bytes)
        return NULL;
    return Py_BuildValue("O(NN)N", (PyObject *)Py_TYPE(self), state_shape(self, NULL), state_dtype(self, NULL), bytes);
}

static PyObject *state_setstate(state_object *self, PyObject *bytes)
{
    const Py_ssize_t wanted = (Py_ssize_t)state_bytes(self);
    softmax_state fresh;
    if (!PyBytes_Check(bytes) || PyBytes_GET_SIZE(bytes) != wanted) {
        PyErr_Format(PyExc_ValueError, "State: %zd bytes are required, %zd for each row", wanted, sizeof fresh);
        return NULL;
    }
    if (self->busy) {
        PyErr_SetString(PyExc_ValueError, "State: it is in use by another thread");
        return NULL;
    }
    self->begun = false;
    if (!state_begin_on_cpu(self))
        return NULL;
    softmax_state_init(&fresh, 1, state_library_type(self->type));
    memcpy(self->states, PyBytes_AS_STRING(bytes), (size_t)wanted);
    for (int64_t i = 0; i < self->count; i++) {
        if (self->states[i].type != fresh.type) {
            softmax_state_init(self->states, self->count, state_library_type(self->type));
            self->begun = false;
            PyErr_SetString(PyExc_ValueError, "State: the bytes are of states of another type");
            return NULL;
        }
        self->begun = self->begun || memcmp(&self->states[i], &fresh, sizeof fresh) != 0;
    }
    Py_RETURN_NONE;
}

static PyMethodDef state_methods[] = {
    {"update", AS_METHOD(state_update), SOFTMAX_PYTHON_FUNCTION, STATE_UPDATE_DOC},
    {"merge", AS_METHOD(state_merge), SOFTMAX_PYTHON_FUNCTION, STATE_MERGE_DOC},
    {"logsumexp", AS_METHOD(state_logsumexp), SOFTMAX_PYTHON_FUNCTION, STATE_LOGSUMEXP_DOC},
    {"normalise", AS_METHOD(state_normalise), SOFTMAX_PYTHON_FUNCTION, STATE_NORMALISE_DOC},
    {"log_normalise", AS_METHOD(state_log_normalise), SOFTMAX_PYTHON_FUNCTION, STATE_LOG_NORMALISE_DOC},
    {"cpu", AS_METHOD(state_cpu), METH_NOARGS, STATE_CPU_DOC},
    {"__copy__", AS_METHOD(state_copy), METH_NOARGS, NULL},
    {"__deepcopy__", AS_METHOD(state_copy), METH_O, NULL},
    {"__reduce__", AS_METHOD(state_reduce), METH_NOARGS, NULL},
    {"__setstate__", AS_METHOD(state_setstate), METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef state_attributes[] = {
    {"shape", (getter)state_shape, NULL, "The shape of the array of rows: a tile's without its axis.", NULL},
    {"device", (getter)state_device, NULL, "Where it is: 'cpu' or 'cuda:0', …", NULL},
    {"dtype", (getter)state_dtype, NULL, "The type of what normalise writes: 'float32', …", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject state_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libsoftmax.State",
                                  .tp_basicsize = sizeof(state_object),
                                  .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_doc = STATE_DOC,
                                  .tp_new = state_new,
                                  .tp_dealloc = (destructor)state_free,
                                  .tp_repr = (reprfunc)state_repr,
                                  .tp_methods = state_methods,
                                  .tp_getset = state_attributes};

bool state_type_begin(PyObject *module)
{
    return PyType_Ready(&state_type) == 0 && PyModule_AddObjectRef(module, "State", (PyObject *)&state_type) == 0;
}
