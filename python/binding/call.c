/* Arguments by name, and arrays of a call. */
#include "call.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#define ARGUMENT_STRING(name) #name
static const char *const upper_names[] = {ARGUMENT_NAMES(ARGUMENT_STRING)};
static PyObject *names[ARGUMENT_COUNT]; /* interned: a keyword of a call is nearly always the same object */

bool call_names_begin(void)
{
    for (int i = 0; i < ARGUMENT_COUNT; i++) {
        char lower[32];
        size_t n = strlen(upper_names[i]);
        for (size_t k = 0; k <= n; k++)
            lower[k] = (char)tolower((unsigned char)upper_names[i][k]);
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(lower)))
            return false;
    }
    return true;
}

const char *call_argument_name(argument which)
{
    return PyUnicode_AsUTF8(names[which]);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static uint64_t order_bits(const signature *s)
{
    uint64_t bits = 0;
    for (int i = 0; i < s->positional; i++)
        bits |= (uint64_t)1 << s->order[i];
    return bits;
}

static int find_name(uint64_t takes, PyObject *name)
{
    for (int i = 0; i < ARGUMENT_COUNT; i++)
        if (names[i] == name && takes >> i & 1)
            return i;
    for (int i = 0; i < ARGUMENT_COUNT; i++)
        if (takes >> i & 1 && PyUnicode_Compare(names[i], name) == 0)
            return i;
    return -1;
}

static bool read_named(call *c, PyObject *const *values, PyObject *given_names)
{
    const signature *s = c->signature;
    uint64_t takes = s->takes | order_bits(s);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given_names); i++) {
        PyObject *name = PyTuple_GET_ITEM(given_names, i);
        int which = find_name(takes, name);
        if (which < 0) {
            PyErr_Format(PyExc_TypeError, "%s() has no argument %R", s->name, name);
            return false;
        }
        if (c->given[which]) {
            PyErr_Format(PyExc_TypeError, "%s() was given %U twice", s->name, name);
            return false;
        }
        c->given[which] = values[i];
    }
    return true;
}

bool call_begin(call *c, const signature *s, PyObject *const *arguments, Py_ssize_t count, PyObject *given_names)
{
    static const softmax_options defaults = SOFTMAX_OPTIONS_INIT;
    c->signature = s;
    c->arrays = 0;
    c->stream = NULL;
    c->other_streams = 0;
    c->waits = false;
    c->named = given_names != NULL;
    c->options = defaults;
    memset(c->given, 0, sizeof c->given);
    if (count > s->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments without a name; %zd were given", s->name, s->positional,
                     count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        c->given[s->order[i]] = arguments[i] == Py_None && s->order[i] != ARGUMENT_AXIS ? NULL : arguments[i];
    if (given_names && !read_named(c, arguments + count, given_names))
        return false;
    if (given_names) {
        for (int i = 0; i < ARGUMENT_COUNT; i++)
            if (c->given[i] == Py_None && i != ARGUMENT_AXIS)
                c->given[i] = NULL;
    }
    for (int i = 0; i < s->required; i++) {
        if (!c->given[s->order[i]]) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument %s", s->name, call_argument_name(s->order[i]));
            return false;
        }
    }
    c->options.message = c->message;
    c->options.message_bytes = sizeof c->message;
    return !c->given[ARGUMENT_STREAM] || call_stream(c);
}

void call_end(call *c)
{
    for (int i = 0; i < c->arrays; i++)
        release_array(&c->array[i]);
    c->arrays = 0;
}

/* ---- The axis ---------------------------------------------------------------------------------------------------- */

static axis_kind axis_number(call *c, PyObject *number, int *axis)
{
    long value = PyLong_Check(number) ? PyLong_AsLong(number) : -1;
    if (!PyLong_Check(number)) {
        PyObject *index = PyNumber_Index(number);
        if (!index) {
            PyErr_Format(PyExc_TypeError, "axis is %R; an int, a tuple of ints or None is allowed", number);
            call_refuse(c);
            return AXIS_REFUSED;
        }
        value = PyLong_AsLong(index);
        Py_DECREF(index);
    }
    if (PyErr_Occurred() || value != (int)value) {
        PyErr_Clear();
        value = value < 0 ? INT_MIN : INT_MAX; /* the library names it */
    }
    *axis = (int)value;
    return AXIS_ONE;
}

axis_kind call_axis(call *c, int *axis)
{
    PyObject *given = c->given[ARGUMENT_AXIS];
    *axis = -1;
    if (!given)
        return AXIS_ONE;
    if (given == Py_None)
        return AXIS_SEVERAL;
    if (!PyTuple_Check(given) && !PyList_Check(given))
        return axis_number(c, given, axis);
    if (PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 1)
        return axis_number(c, PyTuple_GET_ITEM(given, 0), axis);
    return AXIS_SEVERAL;
}

PyObject *call_several_axes(const call *c)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._axes"), *words = PyDict_New(), *result = NULL;
    bool filled = module && words;
    for (int i = 0; i < ARGUMENT_COUNT && filled; i++)
        if (c->given[i] && PyDict_SetItem(words, names[i], c->given[i]) != 0)
            filled = false;
    if (filled)
        result = PyObject_CallMethod(module, "along_several", "sO", c->signature->name, words);
    Py_XDECREF(words);
    Py_XDECREF(module);
    return result;
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

int64_t elements_of(const DLTensor *tensor)
{
    int64_t elements = 1;
    for (int d = 0; d < tensor->ndim && d < SOFTMAX_MAX_DIMENSIONS; d++)
        if (__builtin_mul_overflow(elements, tensor->shape[d], &elements))
            return INT64_MAX;
    return elements;
}

held_array *call_array(call *c, argument which, array_use use)
{
    held_array *a = &c->array[c->arrays];
    if (!c->given[which])
        return NULL;
    c->arrays++;
    if (!hold_array(a, call_argument_name(which), c->given[which], use, &c->stream))
        return call_refuse(c);
    return call_joins(c, a, a->family == FAMILY_DLPACK) ? a : NULL;
}

held_array *call_result(call *c, const held_array *like, DLDataType type, int ndim, const int64_t *shape)
{
    held_array *a = &c->array[c->arrays++];
    if (!hold_result(a, like, type, ndim, shape, &c->stream))
        return call_refuse(c);
    return call_joins(c, a, a->family == FAMILY_DLPACK) ? a : NULL;
}

held_array *call_output(call *c, argument which, const held_array *like, DLDataType type, int ndim,
                        const int64_t *shape)
{
    return c->given[which] ? call_array(c, which, ARRAY_OUTPUT) : call_result(c, like, type, ndim, shape);
}

bool call_agrees(call *c, argument which, const held_array *output, DLDataType type)
{
    if (!c->given[which] || !c->given[ARGUMENT_DTYPE] ||
        (output->tensor.dtype.code == type.code && output->tensor.dtype.bits == type.bits))
        return true;
    PyErr_Format(PyExc_TypeError, "%s is %s and dtype %s; the same is required", call_argument_name(which),
                 dtype_name(output->tensor.dtype), dtype_name(type));
    call_refuse(c);
    return false;
}

PyObject *call_returned(call *c, argument which, held_array *output, const held_array *like)
{
    if (c->given[which])
        return Py_NewRef(c->given[which]);
    return result_object(output, like);
}

bool call_dtype(call *c, DLDataType otherwise, DLDataType *type)
{
    *type = otherwise;
    if (!c->given[ARGUMENT_DTYPE] || dtype_argument("dtype", c->given[ARGUMENT_DTYPE], type))
        return true;
    call_refuse(c);
    return false;
}

/* On a stream of the caller's own the memory's library would not know when the work is done: none is taken then. */
bool call_scratch(call *c, const held_array *like, size_t bytes)
{
    static const DLDataType byte = {kDLUInt, 8, 1};
    int64_t shape = (int64_t)bytes;
    held_array *memory;
    if (c->given[ARGUMENT_STREAM])
        return true;
    memory = call_result(c, like, byte, 1, &shape);
    if (memory) {
        c->options.scratch = (char *)memory->tensor.data + memory->tensor.byte_offset;
        c->options.scratch_bytes = bytes;
    }
    return memory != NULL;
}

/* module.name(...) of _interchange; false with an exception. */
static bool interchange(const char *name, const char *format, ...)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._interchange"), *function, *arguments, *none = NULL;
    va_list given;
    va_start(given, format);
    arguments = Py_VaBuildValue(format, given);
    va_end(given);
    function = module && arguments ? PyObject_GetAttrString(module, name) : NULL;
    if (function)
        none = PyObject_CallObject(function, arguments);
    Py_XDECREF(none);
    Py_XDECREF(function);
    Py_XDECREF(arguments);
    Py_XDECREF(module);
    return none != NULL;
}

bool call_joins(call *c, const held_array *a, bool is_ready)
{
    if (a->family == FAMILY_NUMPY || is_on_cpu(a->tensor.device))
        return true;
    c->device = a->tensor.device.device_id;
    c->waits = c->waits || a->waits;
    if (!c->stream)
        c->stream = a->library_stream ? a->library_stream : DEFAULT_STREAM;
    if (c->given[ARGUMENT_STREAM] || !a->library_stream || a->library_stream == c->stream)
        return true;
    c->others[c->other_streams++] = a->library_stream;
    return is_ready || interchange("order", "(iKK)", c->device, (unsigned long long)(uintptr_t)a->library_stream,
                                   (unsigned long long)(uintptr_t)c->stream);
}

bool call_settle(call *c)
{
    for (int i = 0; i < c->other_streams; i++)
        if (!interchange("order", "(iKK)", c->device, (unsigned long long)(uintptr_t)c->stream,
                         (unsigned long long)(uintptr_t)c->others[i]))
            return false;
    return !c->waits || interchange("wait", "(iK)", c->device, (unsigned long long)(uintptr_t)c->stream);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

void *call_refuse(call *c)
{
    PyObject *kind, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError))
        return NULL;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_Format(kind, "%s: %S", c->signature->name, value ? value : Py_None);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return NULL;
}

/* The library names its own function and output; a caller here knows them by other names. */
static void set_words(call *c, PyObject *exception)
{
    const signature *s = c->signature;
    const char *words = strstr(c->message, ": "), *output = NULL;
    size_t n = s->output ? strlen(s->output) : 0;
    words = words ? words + 2 : c->message;
    if (n && strncmp(words, s->output, n) == 0 && words[n] == ' ')
        output = c->given[ARGUMENT_OUT] ? "out" : c->given[ARGUMENT_DTYPE] ? "dtype" : NULL;
    PyErr_Format(exception, "%s: %s%s", s->name, output ? output : "", output ? words + n : words);
}

bool call_succeeded(call *c, softmax_status status)
{
    if (status == SOFTMAX_OK)
        return true;
    if (PyErr_Occurred())
        return false;
    if (!*c->message)
        snprintf(c->message, sizeof c->message, "%s", softmax_status_string(status));
    set_words(c, status == SOFTMAX_ERROR_TYPE ? PyExc_TypeError : PyExc_ValueError);
    return false;
}
