/* Tensors into operands: types, shapes, strides and addresses, each checked once, here. */
#include "api_call.h"

#include <stdio.h>

/* ---- Words ------------------------------------------------------------------------------------------------------ */

#define SHAPE_WORDS 192
#define TYPE_WORDS 96

/* "(2, 3)", cut with "..." where it is longer than any shape of a real array. */
static const char *shape_words(char words[SHAPE_WORDS], const int64_t *shape, int ndim)
{
    size_t used = 1;
    strcpy(words, "(");
    for (int i = 0; i < ndim; i++) {
        if (used > SHAPE_WORDS - 32) {
            strcpy(words + used, "...");
            used += 3;
            break;
        }
        used += (size_t)snprintf(words + used, SHAPE_WORDS - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    strcpy(words + used, ")");
    return words;
}

static const char *const element_names[] = {"",         "float32", "float64", "float16",
                                            "bfloat16", "int32",   "int64",   "uint8 or bool"};

static const char *type_set_words(char words[TYPE_WORDS], type_set types)
{
    size_t used = 0;
    words[0] = '\0';
    for (int e = ELEMENT_FLOAT32; e <= ELEMENT_UINT8; e++) {
        if (!(types & TYPE_BIT(e)))
            continue;
        types &= ~TYPE_BIT(e);
        used += (size_t)snprintf(words + used, TYPE_WORDS - used, "%s%s",
                                 used == 0 ? ""
                                 : types   ? ", "
                                           : " or ",
                                 element_names[e]);
    }
    return words;
}

static const char *type_words(char words[TYPE_WORDS], DLDataType type)
{
    static const char *const codes[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
    size_t used;
    if (type.code < sizeof codes / sizeof *codes)
        used = (size_t)snprintf(words, TYPE_WORDS, "%s%u", codes[type.code], type.bits);
    else
        used = (size_t)snprintf(words, TYPE_WORDS, "of DLPack's type code %u with %u bits", type.code, type.bits);
    if (type.lanes != 1)
        snprintf(words + used, TYPE_WORDS - used, " with %u lanes", type.lanes);
    return words;
}

static const char *device_words(char words[TYPE_WORDS], DLDevice device)
{
    if (device.device_type == kDLCUDA)
        snprintf(words, TYPE_WORDS, "cuda:%d", device.device_id);
    else
        snprintf(words, TYPE_WORDS, "a device of DLPack's type %d", (int)device.device_type);
    return words;
}

/* ---- A tensor by itself ----------------------------------------------------------------------------------------- */

element softmax_element_of(DLDataType type)
{
    if (type.lanes != 1)
        return ELEMENT_NONE;
    switch ((unsigned int)type.code << 8 | type.bits) {
    case kDLFloat << 8 | 32:
        return ELEMENT_FLOAT32;
    case kDLFloat << 8 | 64:
        return ELEMENT_FLOAT64;
    case kDLFloat << 8 | 16:
        return ELEMENT_FLOAT16;
    case kDLBfloat << 8 | 16:
        return ELEMENT_BFLOAT16;
    case kDLInt << 8 | 32:
        return ELEMENT_INT32;
    case kDLInt << 8 | 64:
        return ELEMENT_INT64;
    case kDLUInt << 8 | 8:
    case SOFTMAX_DLPACK_BOOL << 8 | 8:
        return ELEMENT_UINT8;
    }
    return ELEMENT_NONE;
}

int softmax_element_bytes(element type)
{
    static const int bytes[] = {0, 4, 8, 2, 2, 4, 8, 1};
    return bytes[type];
}

/* The first tensor says where the call runs. */
static softmax_status check_device(api_call *call, const char *name, DLDevice device)
{
    char words[TYPE_WORDS];
    softmax_job *job = &call->job;
    bool on_cuda = device.device_type == kDLCUDA;
    if (!on_cuda && !job->on_cuda && (device.device_type == kDLCPU || device.device_type == kDLCUDAHost))
        return SOFTMAX_OK; /* words are dear: only for those who are refused */
    device_words(words, device);
    if (!on_cuda && device.device_type != kDLCPU && device.device_type != kDLCUDAHost)
        return softmax_refuse(
            call, SOFTMAX_ERROR_DEVICE,
            "%s is on %s; the CPU (1), a CUDA device (2) and pinned host memory (3) are allowed", name, words);
    if (call->arrays == 0) {
        char why[160];
        if (on_cuda && (device.device_id < 0 || device.device_id >= softmax_cuda_device_count())) {
            softmax_cuda_device_words(device.device_id, why, sizeof why);
            return softmax_refuse(call, SOFTMAX_ERROR_DEVICE, "%s is on %s; %s", name, words, why);
        }
        job->on_cuda = on_cuda;
        job->device = on_cuda ? device.device_id : 0;
        return SOFTMAX_OK;
    }
    if (on_cuda == (bool)job->on_cuda && (!on_cuda || device.device_id == job->device))
        return SOFTMAX_OK;
    if (!job->on_cuda)
        return softmax_refuse(call, SOFTMAX_ERROR_DEVICE, "%s is on %s; %s is on the CPU, and one device is allowed",
                              name, words, call->input_name);
    return softmax_refuse(call, SOFTMAX_ERROR_DEVICE, "%s is on %s; %s is on cuda:%d, and one device is allowed", name,
                          on_cuda ? words : "the CPU", call->input_name, job->device);
}

static softmax_status check_tensor(api_call *call, const char *name, const DLTensor *tensor, type_set allowed)
{
    char words[TYPE_WORDS], allowed_words[TYPE_WORDS], shape[SHAPE_WORDS];
    softmax_status status;
    if (!tensor)
        return softmax_refuse(call, SOFTMAX_ERROR_NULL, "%s is NULL; a tensor is required", name);
    status = check_device(call, name, tensor->device);
    if (status != SOFTMAX_OK)
        return status;
    if (tensor->ndim < 0 || tensor->ndim > SOFTMAX_MAX_DIMENSIONS)
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has %d dimensions; 0 to %d are allowed", name,
                              tensor->ndim, SOFTMAX_MAX_DIMENSIONS);
    if (tensor->ndim > 0 && !tensor->shape)
        return softmax_refuse(call, SOFTMAX_ERROR_NULL,
                              "%s has %d dimensions and its shape is NULL; a shape is required", name, tensor->ndim);
    if (!(allowed & TYPE_BIT(softmax_element_of(tensor->dtype))))
        return softmax_refuse(call, SOFTMAX_ERROR_TYPE, "%s is %s; %s is allowed%s%s", name,
                              type_words(words, tensor->dtype), type_set_words(allowed_words, allowed),
                              call->arrays ? " beside this " : "", call->arrays ? call->input_name : "");
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] < 0)
            return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has shape %s; sizes of 0 or more are allowed", name,
                                  shape_words(shape, tensor->shape, tensor->ndim));
    return SOFTMAX_OK;
}

static bool has_elements(const DLTensor *tensor)
{
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] == 0)
            return false;
    return true;
}

/* ---- Its shape against the input's ------------------------------------------------------------------------------ */

enum { SLOT_COLUMN = -1, SLOT_NOWHERE = -2 };

/* Where an array's dimension d lies in the job: a row dimension, or SLOT_COLUMN. */
static int slot_of(const api_call *call, array_fit fit, int ndim, int d)
{
    switch (fit) {
    case FIT_INPUT:
    case FIT_BROADCAST:
        d += call->input->ndim - ndim;
        return d == call->axis ? SLOT_COLUMN : d - (d > call->axis);
    case FIT_ROWS:
    case FIT_BROADCAST_ROWS:
        return d + call->job.dimensions - ndim;
    case FIT_COLUMNS:
        return SLOT_COLUMN;
    default:
        return SLOT_NOWHERE;
    }
}

static bool shape_fits(const api_call *call, const DLTensor *tensor, array_fit fit)
{
    bool broadcast = fit == FIT_BROADCAST || fit == FIT_BROADCAST_ROWS;
    int ndim = tensor->ndim, full;
    if (fit == FIT_ONE) {
        for (int d = 0; d < ndim; d++)
            if (tensor->shape[d] != 1)
                return false;
        return true;
    }
    full = fit == FIT_COLUMNS ? 1 : fit == FIT_INPUT || fit == FIT_BROADCAST ? call->input->ndim : call->job.dimensions;
    if (ndim > full || (ndim < full && !broadcast))
        return false;
    for (int d = 0; d < ndim; d++) {
        int slot = slot_of(call, fit, ndim, d);
        int64_t size = slot == SLOT_COLUMN ? call->job.columns : call->job.shape[slot];
        if (tensor->shape[d] != size && !(broadcast && tensor->shape[d] == 1))
            return false;
    }
    return true;
}

static softmax_status refuse_shape(const api_call *call, const char *name, const DLTensor *tensor, array_fit fit)
{
    char is[SHAPE_WORDS], wanted[SHAPE_WORDS], without[32] = "";
    int64_t columns = call->job.columns;
    bool rows = fit == FIT_ROWS || fit == FIT_BROADCAST_ROWS || fit == FIT_ONE_OR_ROWS;
    shape_words(is, tensor->shape, tensor->ndim);
    if (fit == FIT_ONE)
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has shape %s; one element is allowed with reduction %s",
                              name, is, call->options.reduction == SOFTMAX_SUM ? "sum" : "mean");
    if (fit == FIT_COLUMNS)
        shape_words(wanted, &columns, 1);
    else if (rows)
        shape_words(wanted, call->job.shape, call->job.dimensions);
    else
        shape_words(wanted, call->input->shape, call->input->ndim);
    if (rows)
        snprintf(without, sizeof without, " without axis %d", call->axis);
    if (fit == FIT_COLUMNS)
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has shape %s; %s, the length of %s's axis, is required",
                              name, is, wanted, call->input_name);
    return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has shape %s; %s%s, the shape of %s%s, is required", name, is,
                          fit == FIT_ONE_OR_ROWS                              ? "one element or "
                          : fit == FIT_BROADCAST || fit == FIT_BROADCAST_ROWS ? "what broadcasts to "
                                                                              : "",
                          wanted, call->input_name, without);
}

/* ---- Strides and addresses -------------------------------------------------------------------------------------- */

static softmax_status refuse_range(const api_call *call, const char *name)
{
    return softmax_refuse(
        call, SOFTMAX_ERROR_STRIDE,
        "%s reaches beyond 64-bit addresses by its strides, shape or byte_offset; it must lie in memory", name);
}

/* The operand's strides in bytes, and how far its elements lie below and above its data: false on overflow. */
static bool lay_strides(const api_call *call, operand *place, const DLTensor *tensor, array_fit fit, int64_t *below,
                        int64_t *above)
{
    int64_t bytes = softmax_element_bytes(place->type), contiguous = bytes;
    *below = 0;
    *above = bytes;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        int64_t size = tensor->shape[d], stride = contiguous, reach;
        int slot = slot_of(call, fit, tensor->ndim, d);
        if (size == 1) /* its stride means nothing */
            continue;
        if (tensor->strides && __builtin_mul_overflow(tensor->strides[d], bytes, &stride))
            return false;
        if (__builtin_mul_overflow(stride, size - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? *below : *above, reach, reach < 0 ? below : above))
            return false;
        if (!tensor->strides && __builtin_mul_overflow(contiguous, size, &contiguous))
            return false;
        if (slot == SLOT_COLUMN)
            place->column_stride = stride;
        else if (slot >= 0)
            place->row_stride[slot] = stride;
    }
    return true;
}

static softmax_status lay_array(api_call *call, operand *place, const char *name, const DLTensor *tensor, array_fit fit,
                                bool output)
{
    static char nothing; /* stands for the data of an array without elements: NULL would say that it is absent */
    call_array *array = &call->array[call->arrays];
    int64_t below, above;
    uint64_t address;
    array->name = name;
    array->place = place;
    array->output = output;
    array->first = array->end = 0;
    place->type = softmax_element_of(tensor->dtype);
    if (!has_elements(tensor)) {
        place->data = &nothing;
        call->arrays++;
        return SOFTMAX_OK;
    }
    if (!tensor->data)
        return softmax_refuse(call, SOFTMAX_ERROR_NULL, "%s's data is NULL; it has elements, so an address is required",
                              name);
    for (int d = 0; output && tensor->strides && d < tensor->ndim; d++)
        if (tensor->strides[d] == 0 && tensor->shape[d] > 1)
            return softmax_refuse(
                call, SOFTMAX_ERROR_STRIDE,
                "%s has stride 0 in dimension %d of size %lld; another stride is required of an output", name, d,
                (long long)tensor->shape[d]);
    if (!lay_strides(call, place, tensor, fit, &below, &above) ||
        __builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, &address) ||
        __builtin_add_overflow(address, below, &array->first) || __builtin_add_overflow(address, above, &array->end))
        return refuse_range(call, name);
    place->data = (char *)tensor->data + tensor->byte_offset;
    call->writes |= output;
    call->arrays++;
    return SOFTMAX_OK;
}

softmax_status softmax_call_array(api_call *call, operand *place, const char *name, const DLTensor *tensor,
                                  type_set allowed, array_fit fit, bool output)
{
    softmax_status status = check_tensor(call, name, tensor, allowed);
    if (status != SOFTMAX_OK)
        return status;
    if (fit == FIT_ONE_OR_ROWS) {
        if (!shape_fits(call, tensor, FIT_ONE) && !shape_fits(call, tensor, FIT_ROWS))
            return refuse_shape(call, name, tensor, fit);
        fit = shape_fits(call, tensor, FIT_ROWS) ? FIT_ROWS : FIT_ONE;
    }
    if (!shape_fits(call, tensor, fit))
        return refuse_shape(call, name, tensor, fit);
    return lay_array(call, place, name, tensor, fit, output);
}

softmax_status softmax_call_input(api_call *call, operand *place, const char *name, const DLTensor *tensor, int axis)
{
    softmax_job *job = &call->job;
    softmax_status status = check_tensor(call, name, tensor, TYPES_FLOAT);
    bool empty = false, overflow = false;
    int64_t elements;
    int ndim;
    if (status != SOFTMAX_OK)
        return status;
    ndim = tensor->ndim;
    if (ndim == 0)
        return softmax_refuse(call, SOFTMAX_ERROR_AXIS, "axis is %d; %s has 0 dimensions, so none is allowed", axis,
                              name);
    if (axis < -ndim || axis >= ndim)
        return softmax_refuse(call, SOFTMAX_ERROR_AXIS, "axis is %d; %s has %d dimensions, so %d to %d are allowed",
                              axis, name, ndim, -ndim, ndim - 1);
    call->input = tensor;
    call->input_name = name;
    call->axis = axis < 0 ? axis + ndim : axis;
    job->columns = tensor->shape[call->axis];
    job->rows = 1;
    for (int d = 0; d < ndim; d++) {
        if (d == call->axis)
            continue;
        job->shape[job->dimensions++] = tensor->shape[d];
        empty |= tensor->shape[d] == 0;
        overflow |= __builtin_mul_overflow(job->rows, tensor->shape[d], &job->rows);
    }
    if (empty)
        job->rows = 0;
    if (!empty && (overflow || __builtin_mul_overflow(job->rows, job->columns, &elements))) {
        char words[SHAPE_WORDS];
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "%s has shape %s; fewer than 2^63 elements are allowed", name,
                              shape_words(words, tensor->shape, ndim));
    }
    return lay_array(call, place, name, tensor, FIT_INPUT, false);
}
