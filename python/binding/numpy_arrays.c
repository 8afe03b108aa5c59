/* NumPy's arrays, by its C interface. */
#include "arrays.h"
#include "blocks.h"

#include <string.h>

/* ---- Types ------------------------------------------------------------------------------------------------------- */

#define FLOAT_TYPES 4
static const struct {
    const char *name;
    DLDataType type;
    int numpy; /* ml_dtypes registers bfloat16 when it is imported */
} float_types[FLOAT_TYPES] = {{"float32", {kDLFloat, 32, 1}, NPY_FLOAT},
                              {"float64", {kDLFloat, 64, 1}, NPY_DOUBLE},
                              {"float16", {kDLFloat, 16, 1}, NPY_HALF},
                              {"bfloat16", {kDLBfloat, 16, 1}, NPY_NOTYPE}};

static int bfloat16_number; /* NumPy's, once known; 0 is bool's */

static bool is_bfloat16(PyArray_Descr *descr)
{
    const char *name, *dot;
    if (descr->type_num == bfloat16_number)
        return bfloat16_number != 0;
    if (descr->type_num < NPY_USERDEF)
        return false;
    name = descr->typeobj->tp_name;
    dot = strrchr(name, '.');
    if (strcmp(dot ? dot + 1 : name, "bfloat16") != 0)
        return false;
    bfloat16_number = descr->type_num;
    return true;
}

/* lanes 0 where the library has no such type. */
static DLDataType type_of(PyArray_Descr *descr, npy_intp bytes)
{
    static const char kinds[] = "iufcb";
    static const uint8_t codes[] = {kDLInt, kDLUInt, kDLFloat, kDLComplex, SOFTMAX_DLPACK_BOOL};
    DLDataType type = {kDLFloat, 32, 1};
    const char *kind;
    if (descr->type_num == NPY_FLOAT)
        return type;
    if (is_bfloat16(descr))
        return float_types[3].type;
    kind = strchr(kinds, descr->kind);
    type.lanes = kind && *kind && bytes <= 16;
    if (type.lanes) {
        type.code = codes[kind - kinds];
        type.bits = (uint8_t)(bytes * 8);
    }
    return type;
}

static int numpy_type(DLDataType type)
{
    for (int i = 0; i < FLOAT_TYPES - 1; i++)
        if (type.code == float_types[i].type.code && type.bits == float_types[i].type.bits)
            return float_types[i].numpy;
    if (!bfloat16_number) {
        PyObject *module = PyImport_ImportModule("ml_dtypes");
        PyObject *scalar = module ? PyObject_GetAttrString(module, "bfloat16") : NULL;
        PyArray_Descr *descr = NULL;
        if (scalar && PyArray_DescrConverter(scalar, &descr))
            is_bfloat16(descr);
        Py_XDECREF(descr);
        Py_XDECREF(scalar);
        Py_XDECREF(module);
        if (!bfloat16_number) {
            PyErr_SetString(PyExc_TypeError, "the result is bfloat16; NumPy has that by the package ml_dtypes, which "
                                             "is missing: pip install ml_dtypes");
            return NPY_NOTYPE;
        }
    }
    return bfloat16_number;
}

const char *dtype_name(DLDataType type)
{
    for (int i = 0; i < FLOAT_TYPES; i++)
        if (type.code == float_types[i].type.code && type.bits == float_types[i].type.bits)
            return float_types[i].name;
    return type.code == kDLUInt && type.bits == 8 ? "uint8" : "of another type";
}

static bool type_named(const char *words, DLDataType *type)
{
    const char *dot = strrchr(words, '.');
    for (int i = 0; i < FLOAT_TYPES; i++) {
        if (strcmp(dot ? dot + 1 : words, float_types[i].name) == 0) {
            *type = float_types[i].type;
            return true;
        }
    }
    return false;
}

bool dtype_argument(const char *name, PyObject *object, DLDataType *type)
{
    PyArray_Descr *descr = NULL;
    PyObject *words = PyObject_Str(object); /* "float32", "torch.float32" */
    const char *text = words ? PyUnicode_AsUTF8(words) : NULL;
    bool found = text && type_named(text, type);
    if (text && !found) {
        if (PyArray_DescrConverter(object, &descr)) {
            *type = type_of(descr, PyDataType_ELSIZE(descr));
            found = type->lanes == 1 && (type->code == kDLFloat || type->code == kDLBfloat);
        }
        Py_XDECREF(descr);
        PyErr_Clear();
        if (!found)
            PyErr_Format(PyExc_TypeError, "%s is %.100s; float32, float64, float16 or bfloat16 is allowed", name, text);
    }
    Py_XDECREF(words);
    return found;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static bool lay_strides(held_array *a, const char *name, PyArrayObject *array)
{
    npy_intp bytes = PyArray_ITEMSIZE(array);
    int ndim = PyArray_NDIM(array);
    a->tensor.strides = NULL;
    if (PyArray_IS_C_CONTIGUOUS(array) || ndim > SOFTMAX_MAX_DIMENSIONS)
        return true;
    for (int d = 0; d < ndim; d++) {
        npy_intp stride = PyArray_STRIDE(array, d);
        if (stride % bytes != 0 && PyArray_DIM(array, d) > 1) {
            PyErr_Format(PyExc_ValueError,
                         "%s has a stride of %zd bytes in dimension %d; a multiple of the element's %zd bytes is "
                         "allowed: copy it first",
                         name, stride, d, bytes);
            return false;
        }
        a->strides[d] = stride / bytes;
    }
    a->tensor.strides = a->strides;
    return true;
}

static bool refuse_masked(const char *name, PyArrayObject *array)
{
    if (PyArray_CheckExact(array) || !PyObject_HasAttrString((PyObject *)array, "_sharedmask"))
        return false;
    PyErr_Format(PyExc_TypeError, "%s is a masked array; its data and mask=~%s.mask are allowed", name, name);
    return true;
}

bool hold_numpy(held_array *a, const char *name, PyArrayObject *array, array_use use)
{
    PyArray_Descr *descr = PyArray_DESCR(array);
    a->family = FAMILY_NUMPY;
    a->tensor.data = PyArray_DATA(array);
    a->tensor.device = (DLDevice){kDLCPU, 0};
    a->tensor.ndim = PyArray_NDIM(array);
    a->tensor.dtype = type_of(descr, PyArray_ITEMSIZE(array));
    a->tensor.shape = (int64_t *)PyArray_DIMS(array);
    a->tensor.byte_offset = 0;
    if (refuse_masked(name, array))
        return false;
    if (a->tensor.dtype.lanes == 0) {
        PyErr_Format(PyExc_TypeError, "%s is %S; float32, float64, float16 or bfloat16 is allowed", name, descr);
        return false;
    }
    if (!PyArray_ISNOTSWAPPED(array)) {
        PyErr_Format(PyExc_TypeError, "%s is %S, of the other byte order; the machine's own is allowed", name, descr);
        return false;
    }
    if (use == ARRAY_OUTPUT && !PyArray_ISWRITEABLE(array)) {
        PyErr_Format(PyExc_ValueError, "%s is read-only; a writable array is required", name);
        return false;
    }
    return lay_strides(a, name, array);
}

PyObject *numpy_from(const char *name, PyObject *object, array_use use)
{
    PyObject *array = PyArray_FROM_O(object), *wide;
    if (!array) {
        PyErr_Format(PyExc_TypeError, "%s is a %.100s; an array or what numpy.asarray takes is required", name,
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    /* Only what Python itself wrote: an array's integers are told apart from scores. */
    if (use != ARRAY_SCORES || !PyTypeNum_ISINTEGER(PyArray_TYPE((PyArrayObject *)array)) ||
        !(PyList_Check(object) || PyTuple_Check(object) || PyLong_Check(object)))
        return array;
    wide = PyArray_Cast((PyArrayObject *)array, NPY_DOUBLE);
    Py_DECREF(array);
    return wide;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void *numpy_malloc(void *context, size_t bytes)
{
    (void)context;
    return block_take(bytes);
}

static void *numpy_calloc(void *context, size_t count, size_t bytes)
{
    void *data = count && bytes > SIZE_MAX / count ? NULL : block_take(count * bytes);
    (void)context;
    return data ? memset(data, 0, count * bytes) : NULL;
}

static void numpy_free(void *context, void *data, size_t bytes)
{
    (void)context, (void)bytes;
    if (data)
        block_give(data);
}

static void *numpy_realloc(void *context, void *data, size_t bytes)
{
    void *larger = block_take(bytes);
    if (larger && data) {
        size_t old = block_bytes(data);
        memcpy(larger, data, old < bytes ? old : bytes);
        numpy_free(context, data, old);
    }
    return larger;
}

static PyDataMem_Handler block_handler = {
    "libsoftmax", 1, {NULL, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free}};
static PyObject *block_handler_capsule;

bool numpy_memory_begin(void)
{
    block_handler_capsule = PyCapsule_New(&block_handler, "mem_handler", NULL);
    return block_handler_capsule != NULL;
}

static PyObject *new_array(PyArray_Descr *descr, int ndim, const int64_t *shape)
{
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, (npy_intp *)shape, NULL, NULL, 0, NULL);
}

/* NumPy remembers with the array who frees it. */
static PyObject *new_cached_array(PyArray_Descr *descr, int ndim, const int64_t *shape)
{
    PyObject *before = PyDataMem_SetHandler(block_handler_capsule), *array, *ours;
    if (!before) {
        Py_DECREF(descr);
        return NULL;
    }
    array = new_array(descr, ndim, shape);
    ours = PyDataMem_SetHandler(before);
    Py_XDECREF(ours);
    Py_DECREF(before);
    if (!ours)
        Py_CLEAR(array);
    return array;
}

bool new_numpy(held_array *a, DLDataType type, int ndim, const int64_t *shape)
{
    int number = numpy_type(type);
    PyArray_Descr *descr = number == NPY_NOTYPE ? NULL : PyArray_DescrFromType(number);
    size_t bytes = type.bits / 8;
    if (!descr)
        return false;
    for (int d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(bytes, (size_t)shape[d], &bytes))
            bytes = 0; /* NumPy refuses it */
    a->object = bytes > CACHED_FROM_BYTES ? new_cached_array(descr, ndim, shape) : new_array(descr, ndim, shape);
    if (!a->object)
        return false;
    a->family = FAMILY_NUMPY;
    a->tensor = (DLTensor){PyArray_DATA((PyArrayObject *)a->object),
                           {kDLCPU, 0},
                           ndim,
                           type,
                           (int64_t *)PyArray_DIMS((PyArrayObject *)a->object),
                           NULL,
                           0};
    return true;
}
