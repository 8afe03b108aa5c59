/* Which way an object goes into the library. */
#include "arrays.h"

bool is_on_cpu(DLDevice device)
{
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
}

static bool has_dlpack(PyTypeObject *type)
{
    static PyObject *name;
    PyObject *method;
    if (!name && !(name = PyUnicode_InternFromString("__dlpack__")))
        return false;
    method = PyObject_GetAttr((PyObject *)type, name);
    if (!method) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(method);
    return true;
}

bool find_library_stream(held_array *a)
{
    a->library_stream = NULL;
    a->waits = false;
    if (a->family == FAMILY_NUMPY || is_on_cpu(a->tensor.device))
        return true;
    return a->family == FAMILY_EXCHANGE ? exchange_stream(a) : dlpack_stream(a);
}

bool hold_array(held_array *a, const char *name, PyObject *object, array_use use, void **stream)
{
    a->exchange = NULL;
    a->versioned = NULL;
    a->unversioned = NULL;
    a->library_stream = NULL;
    a->waits = false;
    a->object = Py_NewRef(object);
    if (PyArray_Check(object))
        return hold_numpy(a, name, (PyArrayObject *)object, use);
    a->exchange = exchange_of(Py_TYPE(object));
    if (a->exchange)
        return hold_exchange(a, name, use, stream);
    if (PyErr_Occurred())
        return false;
    if (has_dlpack(Py_TYPE(object)) && !PyArray_CheckScalar(object))
        return hold_dlpack(a, name, use, stream);
    if (use == ARRAY_OUTPUT) {
        PyErr_Format(PyExc_TypeError, "%s is a %.100s; a NumPy array or one that has __dlpack__ is required", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    Py_SETREF(a->object, numpy_from(name, object, use));
    return a->object && hold_numpy(a, name, (PyArrayObject *)a->object, use);
}

bool hold_result(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape, void **stream)
{
    a->exchange = NULL;
    a->versioned = NULL;
    a->unversioned = NULL;
    a->library_stream = NULL;
    a->waits = false;
    a->object = NULL;
    if (ndim > SOFTMAX_MAX_DIMENSIONS)
        ndim = SOFTMAX_MAX_DIMENSIONS; /* the library refuses the input, and nothing is written */
    switch (like->family) {
    case FAMILY_NUMPY:
        return new_numpy(a, type, ndim, shape);
    case FAMILY_EXCHANGE:
        return new_exchange(a, like, type, ndim, shape);
    default:
        return new_dlpack(a, like, type, ndim, shape, stream);
    }
}

PyObject *result_object(held_array *a, const held_array *like)
{
    PyObject *module, *object;
    if (a->family == FAMILY_NUMPY) /* a number where there are no dimensions, as NumPy's own functions */
        return PyArray_Return((PyArrayObject *)Py_NewRef(a->object));
    if (!is_block_tensor(a->object))
        return Py_NewRef(a->object);
    module = PyImport_ImportModule("libsoftmax._interchange");
    object = module ? PyObject_CallMethod(module, "adopt", "OO", like->object, a->object) : NULL;
    Py_XDECREF(module);
    return object;
}

void release_array(held_array *a)
{
    if (a->versioned && a->versioned->deleter)
        a->versioned->deleter(a->versioned);
    if (a->unversioned && a->unversioned->deleter)
        a->unversioned->deleter(a->unversioned);
    Py_XDECREF(a->object);
}
