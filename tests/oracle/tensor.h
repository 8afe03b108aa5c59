/* DLTensors on the CPU over memory of the caller's. */
#ifndef TESTS_TENSOR_H
#define TESTS_TENSOR_H

#include "float_formats.h"

#include <softmax.h>

extern const DLDataType tensor_int32, tensor_int64, tensor_uint8, tensor_bool;

/* Holds what its DLTensor points to: not to be copied. */
typedef struct tensor {
    DLTensor dl;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    int64_t strides[SOFTMAX_MAX_DIMENSIONS];
} tensor;

/* strides in elements; NULL: row-major, with DLPack's strides NULL. Returns &made->dl. */
DLTensor *tensor_make(tensor *made, void *data, DLDataType type, int ndim, const int64_t *shape,
                      const int64_t *strides);

/* (rows, columns) and (count), row-major. */
DLTensor *tensor_matrix(tensor *made, void *data, DLDataType type, int64_t rows, int64_t columns);
DLTensor *tensor_vector(tensor *made, void *data, DLDataType type, int64_t count);

int64_t tensor_elements(const DLTensor *dl);

/* The offset in elements of the element with this C-order number. */
int64_t tensor_offset(const DLTensor *dl, int64_t number);

#endif
