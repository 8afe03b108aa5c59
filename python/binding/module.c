/* The module libsoftmax._core. */
#define SOFTMAX_IMPORTS_NUMPY
#include "blocks.h"
#include "docs.h"
#include "functions.h"

/* ---- The library ------------------------------------------------------------------------------------------------- */

static PyObject *instruction_sets(PyObject *module, PyObject *none)
{
    PyObject *list = PyList_New(0);
    (void)module, (void)none;
    for (int i = 0; list && i < softmax_isa_count(); i++) {
        PyObject *name = softmax_isa_available(i) ? PyUnicode_FromString(softmax_isa_name(i)) : NULL;
        if (name && PyList_Append(list, name) != 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* ---- The cache of freed results ---------------------------------------------------------------------------------- */

static PyObject *cache_info(PyObject *module, PyObject *none)
{
    block_statistics s = block_cache_statistics();
    (void)module, (void)none;
    return Py_BuildValue("{sKsKsKsKsK}", "blocks", (unsigned long long)s.blocks, "bytes", (unsigned long long)s.bytes,
                         "limit_bytes", (unsigned long long)s.limit_bytes, "hits", (unsigned long long)s.hits, "misses",
                         (unsigned long long)s.misses);
}

static PyObject *set_cache_limit(PyObject *module, PyObject *number)
{
    size_t bytes = PyLong_AsSize_t(number);
    (void)module;
    if (bytes == (size_t)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "set_cache_limit: limit_bytes is %R; a number of bytes, 0 or more, is allowed",
                     number);
        return NULL;
    }
    block_limit(bytes);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"softmax", AS_METHOD(python_softmax), SOFTMAX_PYTHON_FUNCTION, SOFTMAX_DOC},
    {"log_softmax", AS_METHOD(python_log_softmax), SOFTMAX_PYTHON_FUNCTION, LOG_SOFTMAX_DOC},
    {"logsumexp", AS_METHOD(python_logsumexp), SOFTMAX_PYTHON_FUNCTION, LOGSUMEXP_DOC},
    {"softmax_backward", AS_METHOD(python_softmax_backward), SOFTMAX_PYTHON_FUNCTION, SOFTMAX_BACKWARD_DOC},
    {"log_softmax_backward", AS_METHOD(python_log_softmax_backward), SOFTMAX_PYTHON_FUNCTION, LOG_SOFTMAX_BACKWARD_DOC},
    {"cross_entropy", AS_METHOD(python_cross_entropy), SOFTMAX_PYTHON_FUNCTION, CROSS_ENTROPY_DOC},
    {"instruction_sets", instruction_sets, METH_NOARGS,
     "instruction_sets($module)\n--\n\nThose that this processor runs, the best last: what isa= takes.\n"},
    {"cache_info", cache_info, METH_NOARGS,
     "cache_info($module)\n--\n\nThe cache of freed results: a dict of blocks, bytes, limit_bytes, hits, misses.\n"},
    {"set_cache_limit", set_cache_limit, METH_O,
     "set_cache_limit($module, limit_bytes, /)\n--\n\n"
     "Sets how many bytes of freed results are kept for the next ones; 0 keeps none. At first an eighth of the\n"
     "memory, 1 GiB at most, or $LIBSOFTMAX_CACHE_BYTES.\n"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "libsoftmax._core", "The C library for Python.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module;
    import_array();
    if (!block_cache_begin())
        return PyErr_Format(PyExc_ValueError,
                            "LIBSOFTMAX_CACHE_BYTES is '%s'; a number of bytes, 0 or more, is allowed",
                            getenv("LIBSOFTMAX_CACHE_BYTES"));
    if (!call_names_begin() || !numpy_memory_begin() || !block_tensor_begin())
        return NULL;
    module = PyModule_Create(&definition);
    if (module &&
        (!state_type_begin(module) || PyModule_AddStringConstant(module, "__version__", softmax_version()) != 0 ||
         PyModule_AddIntConstant(module, "BLOCK_COLUMNS", SOFTMAX_BLOCK_COLUMNS) != 0))
        Py_CLEAR(module);
    return module;
}
