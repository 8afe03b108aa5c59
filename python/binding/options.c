/* Keywords into softmax_options. */
#include "call.h"

#include <stddef.h>
#include <string.h>

typedef enum option_kind {
    OPTION_NUMBER,
    OPTION_INT64,
    OPTION_INT32,
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_ARRAY
} option_kind;

static const struct {
    argument which;
    option_kind kind;
    size_t offset;
} fields[] = {
#define FIELD(name, kind, field)                                                                                       \
    {                                                                                                                  \
        ARGUMENT_##name, OPTION_##kind, offsetof(softmax_options, field)                                               \
    }
    FIELD(SOFTCAP, NUMBER, softcap),
    FIELD(SCALE, NUMBER, scale),
    FIELD(BIAS, ARRAY, bias),
    FIELD(MASK, ARRAY, mask),
    FIELD(VALID_LENGTHS, ARRAY, valid_lengths),
    FIELD(CAUSAL, FLAG, causal),
    FIELD(CAUSAL_OFFSET, INT64, causal_offset),
    FIELD(FIRST_COLUMN, INT64, first_column),
    FIELD(IGNORE_INDEX, INT64, ignore_index),
    FIELD(LABEL_SMOOTHING, NUMBER, label_smoothing),
    FIELD(Z_LOSS, NUMBER, z_loss),
    FIELD(CLASS_WEIGHTS, ARRAY, class_weights),
    FIELD(THREADS, INT32, threads),
    FIELD(ISA, TEXT, isa),
    FIELD(CUDA_KERNEL, TEXT, cuda_kernel),
};

/* Words instead of numbers. */
static const struct {
    argument which;
    size_t offset;
    const char *allowed;
    struct {
        const char *word;
        int32_t value;
    } choices[3];
} choices[] = {
    {ARGUMENT_EMPTY_ROWS,
     offsetof(softmax_options, empty_rows),
     "'nan' or 'zero'",
     {{"nan", SOFTMAX_EMPTY_NAN}, {"zero", SOFTMAX_EMPTY_ZERO}, {NULL, 0}}},
    {ARGUMENT_REDUCTION,
     offsetof(softmax_options, reduction),
     "'none', 'sum' or 'mean'",
     {{"none", SOFTMAX_NONE}, {"sum", SOFTMAX_SUM}, {"mean", SOFTMAX_MEAN}}},
    {ARGUMENT_STREAMING,
     offsetof(softmax_options, streaming),
     "'choose', 'never' or 'always'",
     {{"choose", SOFTMAX_STREAMING_CHOOSE}, {"never", SOFTMAX_STREAMING_NEVER}, {"always", SOFTMAX_STREAMING_ALWAYS}}},
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool refuse_value(call *c, argument which, PyObject *exception, const char *allowed)
{
    PyErr_Clear();
    PyErr_Format(exception, "%s is %R; %s is allowed", call_argument_name(which), c->given[which], allowed);
    call_refuse(c);
    return false;
}

static bool read_integer(call *c, argument which, int64_t low, int64_t high, int64_t *value)
{
    PyObject *index = PyNumber_Index(c->given[which]);
    int overflow = 0;
    if (!index)
        return refuse_value(c, which, PyExc_TypeError, "an int");
    *value = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow || *value < low || *value > high)
        return refuse_value(c, which, PyExc_ValueError, high == INT64_MAX ? "a 64-bit int" : "a 32-bit int");
    return true;
}

static bool read_number(call *c, argument which, double *number)
{
    *number = PyFloat_AsDouble(c->given[which]);
    return !(*number == -1 && PyErr_Occurred()) || refuse_value(c, which, PyExc_TypeError, "a number");
}

bool call_flag(call *c, argument which, bool *flag)
{
    int truth = c->given[which] ? PyObject_IsTrue(c->given[which]) : *flag;
    if (truth < 0)
        return refuse_value(c, which, PyExc_TypeError, "True or False");
    *flag = truth;
    return true;
}

static bool read_field(call *c, argument which, option_kind kind, void *field)
{
    int64_t integer;
    bool flag;
    const held_array *array;
    switch (kind) {
    case OPTION_NUMBER:
        return read_number(c, which, field);
    case OPTION_INT64:
        return read_integer(c, which, INT64_MIN, INT64_MAX, field);
    case OPTION_INT32:
        if (!read_integer(c, which, INT32_MIN, INT32_MAX, &integer))
            return false;
        *(int32_t *)field = (int32_t)integer;
        return true;
    case OPTION_FLAG:
        if (!call_flag(c, which, &flag))
            return false;
        *(int32_t *)field = flag;
        return true;
    case OPTION_TEXT:
        if (!PyUnicode_Check(c->given[which]))
            return refuse_value(c, which, PyExc_TypeError, "a str");
        *(const char **)field = PyUnicode_AsUTF8(c->given[which]);
        return *(const char **)field != NULL;
    default:
        array = call_array(c, which, ARRAY_INPUT);
        *(const DLTensor **)field = array ? &array->tensor : NULL;
        return array != NULL;
    }
}

static bool read_choices(call *c)
{
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        PyObject *given = c->given[choices[i].which];
        const char *word = given && PyUnicode_Check(given) ? PyUnicode_AsUTF8(given) : NULL;
        bool known = !given;
        for (size_t k = 0; word && k < COUNT_OF(choices[i].choices); k++) {
            if (choices[i].choices[k].word && strcmp(word, choices[i].choices[k].word) == 0) {
                memcpy((char *)&c->options + choices[i].offset, &choices[i].choices[k].value, sizeof(int32_t));
                known = true;
            }
        }
        if (!known)
            return refuse_value(c, choices[i].which, word ? PyExc_ValueError : PyExc_TypeError, choices[i].allowed);
    }
    return true;
}

/* An int, or an object with __cuda_stream__ (PyTorch's and CUDA Python's streams). */
bool call_stream(call *c)
{
    PyObject *given = c->given[ARGUMENT_STREAM], *number = NULL;
    if (PyLong_Check(given)) {
        number = Py_NewRef(given);
    } else {
        PyObject *pair = PyObject_CallMethod(given, "__cuda_stream__", NULL);
        if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2)
            number = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
        Py_XDECREF(pair);
    }
    c->stream = number ? PyLong_AsVoidPtr(number) : NULL;
    if (!c->stream)
        c->stream = DEFAULT_STREAM;
    Py_XDECREF(number);
    if (PyErr_Occurred() || !number)
        return refuse_value(c, ARGUMENT_STREAM, PyExc_TypeError, "an int or a CUDA stream");
    return true;
}

bool call_options(call *c)
{
    if (!c->named)
        return true;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (c->given[fields[i].which] &&
            !read_field(c, fields[i].which, fields[i].kind, (char *)&c->options + fields[i].offset))
            return false;
    return read_choices(c);
}
