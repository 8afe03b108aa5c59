/* Arrays whose type offers DLPack's table of C functions: a view of the tensor in some 30 ns, where `__dlpack__` takes
 * 2 us (PyTorch). */
#include "arrays.h"
#include "blocks.h"

#include <stdio.h>
#include <string.h>

/* ---- The table of a type ----------------------------------------------------------------------------------------- */

#define TYPES_MOST 16

static struct {
    PyTypeObject *type; /* kept alive, so that its address stays its own */
    const exchange_api *api;
} known[TYPES_MOST];
static int known_count;

static const exchange_api *read_api(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const exchange_header *header;
    if (!capsule) {
        PyErr_Clear();
        return NULL;
    }
    header =
        PyCapsule_IsValid(capsule, "dlpack_exchange_api") ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    Py_DECREF(capsule);
    while (header && header->version.major != 1)
        header = header->previous;
    return (const exchange_api *)header;
}

const exchange_api *exchange_of(PyTypeObject *type)
{
    const exchange_api *api;
    for (int i = 0; i < known_count; i++)
        if (known[i].type == type)
            return known[i].api;
    api = read_api(type);
    if (known_count < TYPES_MOST) {
        Py_INCREF(type);
        known[known_count].type = type;
        known[known_count++].api = api;
    }
    return api;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* The first line of the exception that is set, in words of ours: producers add traces of their own code. */
static void refuse_tensor(const char *name, PyTypeObject *type)
{
    PyObject *kind, *value, *trace, *words;
    const char *text;
    char line[200] = "";
    PyErr_Fetch(&kind, &value, &trace);
    words = value ? PyObject_Str(value) : NULL;
    text = words ? PyUnicode_AsUTF8(words) : NULL;
    if (text)
        snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is a %.100s that cannot be passed by DLPack: %s", name, type->tp_name, line);
    Py_XDECREF(words);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* object.name, or object.name(): 1 for true, 0 for false or absent, -1 with an exception. */
static int truth_of(PyObject *object, PyObject *name, bool call)
{
    PyObject *value = call ? PyObject_CallMethodNoArgs(object, name) : PyObject_GetAttr(object, name);
    int truth;
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return 0;
    }
    if (!value)
        return -1;
    truth = value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* Within torch.no_grad and autograd.Function.forward no graph is expected. */
static int is_grad_enabled(void)
{
    PyObject *torch = PyImport_ImportModule("torch"), *name = PyUnicode_FromString("is_grad_enabled");
    int enabled = torch && name ? truth_of(torch, name, true) : -1;
    Py_XDECREF(name);
    Py_XDECREF(torch);
    return enabled;
}

/* DLPack's view does not know of a graph that must be recorded, nor of a negation that is yet to be done. */
static bool check_meaning(held_array *a, const char *name)
{
    static PyObject *requires_grad, *is_neg;
    int grad, negated;
    if (!requires_grad)
        requires_grad = PyUnicode_InternFromString("requires_grad");
    if (!is_neg)
        is_neg = PyUnicode_InternFromString("is_neg");
    if (!requires_grad || !is_neg)
        return false;
    grad = truth_of(a->object, requires_grad, false);
    if (grad > 0)
        grad = is_grad_enabled();
    if (grad > 0)
        PyErr_Format(PyExc_ValueError,
                     "%s requires grad; libsoftmax.torch has the functions that autograd knows, and %s.detach() is "
                     "allowed here",
                     name, name);
    if (grad != 0)
        return false;
    negated = truth_of(a->object, is_neg, true);
    if (negated > 0)
        PyErr_Format(PyExc_ValueError, "%s is a negated view; %s.resolve_neg() is allowed", name, name);
    return negated == 0;
}

bool hold_exchange(held_array *a, const char *name, array_use use, void **stream)
{
    const exchange_api *api = a->exchange;
    a->family = FAMILY_EXCHANGE;
    if (api->borrow_tensor) {
        if (api->borrow_tensor(a->object, &a->tensor) != 0) {
            refuse_tensor(name, Py_TYPE(a->object));
            return false;
        }
    } else {
        if (api->export_tensor(a->object, &a->versioned) != 0) {
            a->versioned = NULL;
            refuse_tensor(name, Py_TYPE(a->object));
            return false;
        }
        a->tensor = a->versioned->dl_tensor;
        if (use == ARRAY_OUTPUT && a->versioned->flags & DLPACK_READ_ONLY) {
            PyErr_Format(PyExc_ValueError, "%s is read-only; a writable array is required", name);
            return false;
        }
    }
    if (!find_library_stream(a))
        return false;
    if (!*stream)
        *stream = a->library_stream;
    return check_meaning(a, name);
}

bool exchange_stream(held_array *a)
{
    void *stream = NULL;
    const exchange_api *api = a->exchange;
    if (api->current_stream &&
        api->current_stream(a->tensor.device.device_type, a->tensor.device.device_id, &stream) != 0)
        return false;
    a->library_stream = stream ? stream : DEFAULT_STREAM;
    a->waits = !api->current_stream;
    return true;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void set_error(void *context, const char *kind, const char *message)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    char line[200];
    (void)context;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(message, "\n"), message);
    PyErr_Format(PyExc_MemoryError, "%s: %s", kind, line);
    PyGILState_Release(gil);
}

bool new_exchange(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape)
{
    const exchange_api *api = like->exchange;
    versioned_tensor *made = NULL;
    void *object;
    if (is_on_cpu(like->tensor.device)) {
        made = block_versioned(type, ndim, shape);
        if (!made)
            return false;
    } else {
        DLTensor prototype = {NULL, like->tensor.device, ndim, type, (int64_t *)shape, NULL, 0};
        if (api->allocate(&prototype, &made, NULL, set_error) != 0 || !made) {
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            return false;
        }
    }
    a->family = FAMILY_EXCHANGE;
    a->exchange = api;
    a->tensor = made->dl_tensor;
    if (api->import_tensor(made, &object) != 0)
        return false;
    a->object = object;
    return (!api->borrow_tensor || api->borrow_tensor(a->object, &a->tensor) == 0) && find_library_stream(a);
}
