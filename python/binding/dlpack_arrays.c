/* Arrays that speak DLPack through Python's methods `__dlpack__` and `__dlpack_device__`; and blocks of ours for them.
 */
#include "arrays.h"

#include <string.h>

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static bool device_of(PyObject *object, DLDevice *device)
{
    PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    int type, id;
    bool read = pair && PyArg_ParseTuple(pair, "ii", &type, &id);
    Py_XDECREF(pair);
    if (read)
        *device = (DLDevice){(DLDeviceType)type, id};
    return read;
}

/* None where the library's stream is not known. */
bool dlpack_stream(held_array *a)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._interchange");
    PyObject *number = module ? PyObject_CallMethod(module, "current_stream", "O", a->object) : NULL;
    a->waits = number == Py_None;
    a->library_stream = number && !a->waits ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(module);
    return !PyErr_Occurred();
}

/* object.__dlpack__(), with what this producer understands of max_version and stream. */
static PyObject *capsule_of(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *none = PyTuple_New(0);
    PyObject *words = Py_BuildValue("{s(ii)}", "max_version", 1, 0), *capsule = NULL;
    if (method && none && words && (!stream || PyDict_SetItemString(words, "stream", stream) == 0)) {
        capsule = PyObject_Call(method, none, words);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (PyDict_DelItemString(words, "max_version") == 0)
                capsule = PyObject_Call(method, none, words);
        }
    }
    Py_XDECREF(words);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

static bool open_capsule(held_array *a, PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        a->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (a->versioned->version.major != 1) {
            PyErr_Format(PyExc_ValueError, "DLPack %u is not known; 1 is", a->versioned->version.major);
            a->versioned = NULL;
            return false;
        }
        a->tensor = a->versioned->dl_tensor;
        return PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0;
    }
    a->unversioned = PyCapsule_GetPointer(capsule, "dltensor");
    if (!a->unversioned)
        return false;
    a->tensor = a->unversioned->dl_tensor;
    return PyCapsule_SetName(capsule, "used_dltensor") == 0;
}

bool hold_dlpack(held_array *a, const char *name, array_use use, void **stream)
{
    DLDevice device;
    PyObject *number = NULL, *capsule;
    bool opened;
    a->family = FAMILY_DLPACK;
    if (!device_of(a->object, &device))
        return false;
    if (!is_on_cpu(device)) {
        if (!dlpack_stream(a))
            return false;
        if (!*stream)
            *stream = a->library_stream ? a->library_stream : DEFAULT_STREAM;
        number = PyLong_FromVoidPtr(*stream);
        if (!number)
            return false;
    }
    capsule = capsule_of(a->object, number);
    Py_XDECREF(number);
    opened = capsule && open_capsule(a, capsule);
    Py_XDECREF(capsule);
    if (opened && use == ARRAY_OUTPUT &&
        ((a->versioned && a->versioned->flags & DLPACK_READ_ONLY) ||
         strncmp(Py_TYPE(a->object)->tp_name, "jax", 3) == 0)) {
        PyErr_Format(PyExc_ValueError, "%s is a %.100s that is read-only; a writable array is required", name,
                     Py_TYPE(a->object)->tp_name);
        return false;
    }
    return opened;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* On another device the array's own library makes it: JAX, CuPy. */
static bool new_on_device(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape,
                          void **stream)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._interchange"), *sizes = PyTuple_New(ndim), *made = NULL;
    bool held = false;
    for (int d = 0; sizes && d < ndim; d++)
        PyTuple_SET_ITEM(sizes, d, PyLong_FromLongLong(shape[d]));
    if (module && sizes && !PyErr_Occurred())
        made = PyObject_CallMethod(module, "empty", "OOs", like->object, sizes, dtype_name(type));
    if (made) {
        a->object = Py_NewRef(made);
        held = hold_dlpack(a, "the result", ARRAY_INPUT, stream);
    }
    Py_XDECREF(made);
    Py_XDECREF(sizes);
    Py_XDECREF(module);
    return held;
}

bool new_dlpack(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape, void **stream)
{
    a->family = FAMILY_DLPACK;
    if (!is_on_cpu(like->tensor.device))
        return new_on_device(a, like, type, ndim, shape, stream);
    a->object = block_tensor_new(&a->tensor, type, ndim, shape);
    return a->object != NULL;
}
