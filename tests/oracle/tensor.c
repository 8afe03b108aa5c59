#include "tensor.h"

#include <string.h>

const DLDataType tensor_int32 = {kDLInt, 32, 1};
const DLDataType tensor_int64 = {kDLInt, 64, 1};
const DLDataType tensor_uint8 = {kDLUInt, 8, 1};
const DLDataType tensor_bool = {SOFTMAX_DLPACK_BOOL, 8, 1};

DLTensor *tensor_make(tensor *made, void *data, DLDataType type, int ndim, const int64_t *shape, const int64_t *strides)
{
    memset(made, 0, sizeof *made);
    for (int d = 0; d < ndim; d++) {
        made->shape[d] = shape[d];
        if (strides)
            made->strides[d] = strides[d];
    }
    made->dl.data = data;
    made->dl.device.device_type = kDLCPU;
    made->dl.ndim = ndim;
    made->dl.dtype = type;
    made->dl.shape = made->shape;
    made->dl.strides = strides ? made->strides : NULL;
    return &made->dl;
}

DLTensor *tensor_matrix(tensor *made, void *data, DLDataType type, int64_t rows, int64_t columns)
{
    return tensor_make(made, data, type, 2, (int64_t[]){rows, columns}, NULL);
}

DLTensor *tensor_vector(tensor *made, void *data, DLDataType type, int64_t count)
{
    return tensor_make(made, data, type, 1, &count, NULL);
}

int64_t tensor_elements(const DLTensor *dl)
{
    int64_t count = 1;
    for (int d = 0; d < dl->ndim; d++)
        count *= dl->shape[d];
    return count;
}

int64_t tensor_offset(const DLTensor *dl, int64_t number)
{
    int64_t offset = 0, row_major = 1;
    for (int d = dl->ndim - 1; d >= 0; d--) {
        int64_t stride = dl->strides ? dl->strides[d] : row_major;
        offset += number % dl->shape[d] * stride;
        number /= dl->shape[d];
        row_major *= dl->shape[d];
    }
    return offset;
}
