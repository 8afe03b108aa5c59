/* Arrays of every kind as DLTensors, without a copy, and new arrays of the caller's kind. Words about errors name the
 * argument; the call puts its own name before them. */
#ifndef SOFTMAX_PYTHON_ARRAYS_H
#define SOFTMAX_PYTHON_ARRAYS_H

#include "exchange.h"

typedef enum array_family {
    FAMILY_NUMPY,    /* NumPy's C interface */
    FAMILY_EXCHANGE, /* DLPack's table of C functions: PyTorch */
    FAMILY_DLPACK    /* __dlpack__: JAX, CuPy, and what else has it */
} array_family;

/* An argument while a call runs. */
typedef struct held_array {
    DLTensor tensor;
    array_family family;
    PyObject *object; /* a reference of its own */
    const exchange_api *exchange;
    versioned_tensor *versioned; /* what the producer lent, or NULL */
    DLManagedTensor *unversioned;
    void *library_stream; /* on a CUDA device: where its library would work now; NULL: not there, or not known */
    bool waits;           /* there, and not known: the work is waited for (JAX) */
    int64_t strides[SOFTMAX_MAX_DIMENSIONS];
} held_array;

/* ARRAY_SCORES: an input where a list of Python's integers means numbers. */
typedef enum array_use { ARRAY_SCORES, ARRAY_INPUT, ARRAY_OUTPUT } array_use;

#define DEFAULT_STREAM ((void *)1) /* CUDA's and DLPack's name of it: NULL says that there is none yet */

/* false with an exception. `stream` is where CUDA work will run, that of the array's library where it is NULL: a DLPack
 * producer makes its data ready there. */
bool hold_array(held_array *a, const char *name, PyObject *object, array_use use, void **stream);
void release_array(held_array *a);

bool is_on_cpu(DLDevice device);
/* Finds library_stream and waits; false with an exception. */
bool find_library_stream(held_array *a);

/* A new row-major array of like's kind, held; and, once it is written, the object that the caller gets, or NULL. */
bool hold_result(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape, void **stream);
PyObject *result_object(held_array *a, const held_array *like);

/* numpy_arrays.c */
bool hold_numpy(held_array *a, const char *name, PyArrayObject *array, array_use use);
bool new_numpy(held_array *a, DLDataType type, int ndim, const int64_t *shape);
/* An array-like that is no array (a list, a number, a data frame) as a NumPy array; for scores, integers of Python
 * become float64. */
PyObject *numpy_from(const char *name, PyObject *object, array_use use);
/* The type that "float32", numpy.float32, torch.float32, … name. */
bool dtype_argument(const char *name, PyObject *object, DLDataType *type);
const char *dtype_name(DLDataType type);
bool numpy_memory_begin(void);

/* exchange_arrays.c */
const exchange_api *exchange_of(PyTypeObject *type);
bool hold_exchange(held_array *a, const char *name, array_use use, void **stream);
bool exchange_stream(held_array *a);
bool new_exchange(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape);

/* dlpack_arrays.c */
bool hold_dlpack(held_array *a, const char *name, array_use use, void **stream);
bool dlpack_stream(held_array *a);
bool new_dlpack(held_array *a, const held_array *like, DLDataType type, int ndim, const int64_t *shape, void **stream);

/* block_tensor.c: new memory as a tensor that another library takes over. NULL with an exception. */
versioned_tensor *block_versioned(DLDataType type, int ndim, const int64_t *shape);
/* An object whose __dlpack__ hands such a tensor over, once. */
PyObject *block_tensor_new(DLTensor *tensor, DLDataType type, int ndim, const int64_t *shape);
bool is_block_tensor(PyObject *object);
bool block_tensor_begin(void);

#endif
