/* Blocks of ours as DLPack tensors. */
#include "arrays.h"
#include "blocks.h"

#include <stdlib.h>

/* The tensor, and the shape and strides that it points to. */
typedef struct exported_block {
    union {
        versioned_tensor versioned;
        DLManagedTensor unversioned;
    } as;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS], strides[SOFTMAX_MAX_DIMENSIONS];
} exported_block;

static void free_versioned(versioned_tensor *tensor)
{
    block_give(tensor->dl_tensor.data);
    free(tensor);
}

static void free_unversioned(DLManagedTensor *tensor)
{
    block_give(tensor->dl_tensor.data);
    free(tensor);
}

static exported_block *export_block(DLTensor *tensor, DLDataType type, int ndim, const int64_t *shape)
{
    exported_block *block = malloc(sizeof *block);
    size_t bytes = type.bits / 8;
    int64_t stride = 1;
    if (!block)
        return NULL;
    for (int d = ndim - 1; d >= 0; d--) {
        block->shape[d] = shape[d];
        block->strides[d] = stride;
        stride *= shape[d] ? shape[d] : 1;
        if (__builtin_mul_overflow(bytes, (size_t)shape[d], &bytes))
            break;
    }
    *tensor = (DLTensor){block_take(bytes), {kDLCPU, 0}, ndim, type, block->shape, block->strides, 0};
    if (!tensor->data) {
        free(block);
        return NULL;
    }
    return block;
}

versioned_tensor *block_versioned(DLDataType type, int ndim, const int64_t *shape)
{
    DLTensor tensor;
    exported_block *block = export_block(&tensor, type, ndim, shape);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    block->as.versioned = (versioned_tensor){{1, 0}, NULL, free_versioned, 0, tensor};
    return &block->as.versioned;
}

/* ---- The object -------------------------------------------------------------------------------------------------- */

typedef struct block_tensor {
    PyObject_HEAD DLTensor tensor;
    exported_block *block; /* NULL once handed over */
} block_tensor;

static void block_tensor_free(block_tensor *self)
{
    if (self->block) {
        block_give(self->tensor.data);
        free(self->block);
    }
    PyObject_Free(self);
}

static void free_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        free_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    else if (PyCapsule_IsValid(capsule, "dltensor"))
        free_unversioned(PyCapsule_GetPointer(capsule, "dltensor"));
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None): memory of the CPU, so only max_version
 * matters. */
static PyObject *block_tensor_dlpack(block_tensor *self, PyObject *none, PyObject *words)
{
    PyObject *version = words ? PyDict_GetItemString(words, "max_version") : NULL, *capsule;
    long major = version && PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2
                     ? PyLong_AsLong(PyTuple_GET_ITEM(version, 0))
                     : 0;
    exported_block *block = self->block;
    (void)none;
    if (PyErr_Occurred())
        return NULL;
    if (!block) {
        PyErr_SetString(PyExc_BufferError, "the tensor has been handed over");
        return NULL;
    }
    if (major >= 1) {
        block->as.versioned = (versioned_tensor){{1, 0}, NULL, free_versioned, 0, self->tensor};
        capsule = PyCapsule_New(block, "dltensor_versioned", free_capsule);
    } else {
        block->as.unversioned = (DLManagedTensor){self->tensor, NULL, free_unversioned};
        capsule = PyCapsule_New(block, "dltensor", free_capsule);
    }
    if (capsule)
        self->block = NULL;
    return capsule;
}

static PyObject *block_tensor_device(block_tensor *self, PyObject *none)
{
    (void)self, (void)none;
    return Py_BuildValue("(ii)", (int)kDLCPU, 0);
}

static PyMethodDef block_tensor_methods[] = {
    {"__dlpack__", AS_METHOD(block_tensor_dlpack), METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", AS_METHOD(block_tensor_device), METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyTypeObject block_tensor_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libsoftmax._core.BlockTensor", .tp_basicsize = sizeof(block_tensor),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_dealloc = (destructor)block_tensor_free, .tp_methods = block_tensor_methods};

PyObject *block_tensor_new(DLTensor *tensor, DLDataType type, int ndim, const int64_t *shape)
{
    exported_block *block = export_block(tensor, type, ndim, shape);
    block_tensor *self = block ? PyObject_New(block_tensor, &block_tensor_type) : NULL;
    if (!self) {
        if (block) {
            block_give(tensor->data);
            free(block);
        }
        return PyErr_NoMemory();
    }
    self->tensor = *tensor;
    self->block = block;
    return (PyObject *)self;
}

bool is_block_tensor(PyObject *object)
{
    return Py_IS_TYPE(object, &block_tensor_type);
}

bool block_tensor_begin(void)
{
    return PyType_Ready(&block_tensor_type) == 0;
}
