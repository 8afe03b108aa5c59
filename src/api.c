/* The family over DLTensors and over contiguous rows. */
#include "api_call.h"
#include "fenv_guard.h"

/* ---- Over DLTensors --------------------------------------------------------------------------------------------- */

static softmax_status forward(operation op, const DLTensor *x, const DLTensor *out, int axis,
                              const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, op, options);
    if (status == SOFTMAX_OK)
        status = softmax_forward_arrays(&call, x, out, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_run(&call);
    guard_end(guard);
    return status;
}

static softmax_status backward(operation op, const DLTensor *y, const DLTensor *dy, const DLTensor *dx, int axis,
                               const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, op, options);
    if (status == SOFTMAX_OK)
        status = softmax_backward_arrays(&call, y, dy, dx, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_run(&call);
    guard_end(guard);
    return status;
}

softmax_status softmax_softmax(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options)
{
    return forward(OPERATION_SOFTMAX, x, y, axis, options);
}

softmax_status softmax_log_softmax(const DLTensor *x, DLTensor *y, int axis, const softmax_options *options)
{
    return forward(OPERATION_LOG_SOFTMAX, x, y, axis, options);
}

softmax_status softmax_logsumexp(const DLTensor *x, DLTensor *l, int axis, const softmax_options *options)
{
    return forward(OPERATION_LOGSUMEXP, x, l, axis, options);
}

softmax_status softmax_softmax_backward(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,
                                        const softmax_options *options)
{
    return backward(OPERATION_SOFTMAX_BACKWARD, y, dy, dx, axis, options);
}

softmax_status softmax_log_softmax_backward(const DLTensor *y, const DLTensor *dy, DLTensor *dx, int axis,
                                            const softmax_options *options)
{
    return backward(OPERATION_LOG_SOFTMAX_BACKWARD, y, dy, dx, axis, options);
}

softmax_status softmax_cross_entropy(const DLTensor *logits, const DLTensor *targets, DLTensor *loss,
                                     DLTensor *gradient, int axis, const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, OPERATION_CROSS_ENTROPY, options);
    if (status == SOFTMAX_OK)
        status = softmax_cross_entropy_arrays(&call, logits, targets, loss, gradient, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_run(&call);
    guard_end(guard);
    return status;
}

/* ---- Over contiguous rows --------------------------------------------------------------------------------------- */

static softmax_status check_rows(const api_call *call, softmax_type type, int64_t rows, int64_t columns)
{
    if ((int)type < SOFTMAX_FLOAT32 || (int)type > SOFTMAX_BFLOAT16)
        return softmax_refuse(
            call, SOFTMAX_ERROR_TYPE,
            "type is %d; SOFTMAX_FLOAT32 (1), _FLOAT64 (2), _FLOAT16 (3) and _BFLOAT16 (4) are allowed", (int)type);
    if (rows < 0)
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "rows is %lld; 0 or more is allowed", (long long)rows);
    if (columns < 0)
        return softmax_refuse(call, SOFTMAX_ERROR_SHAPE, "columns is %lld; 0 or more is allowed", (long long)columns);
    return SOFTMAX_OK;
}

static DLTensor row_major(softmax_type type, const void *data, int ndim, int64_t *shape)
{
    static const DLDataType types[] = {
        {0, 0, 0}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}};
    DLTensor tensor = {(void *)data, {kDLCPU, 0}, ndim, types[type], shape, NULL, 0};
    return tensor;
}

static softmax_type loss_type(softmax_type type)
{
    return type == SOFTMAX_FLOAT64 ? SOFTMAX_FLOAT64 : SOFTMAX_FLOAT32;
}

static softmax_status forward_rows(operation op, softmax_type type, int64_t rows, int64_t columns, const void *x,
                                   void *out, const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, op, options);
    if (status == SOFTMAX_OK)
        status = check_rows(&call, type, rows, columns);
    if (status == SOFTMAX_OK) {
        bool one_a_row = op == OPERATION_LOGSUMEXP;
        int64_t shape[2] = {rows, columns};
        DLTensor x_tensor = row_major(type, x, 2, shape);
        DLTensor out_tensor = row_major(one_a_row ? loss_type(type) : type, out, one_a_row ? 1 : 2, shape);
        status = softmax_forward_arrays(&call, &x_tensor, &out_tensor, 1);
        if (status == SOFTMAX_OK)
            status = softmax_call_run(&call);
    }
    guard_end(guard);
    return status;
}

static softmax_status backward_rows(operation op, softmax_type type, int64_t rows, int64_t columns, const void *y,
                                    const void *dy, void *dx, const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, op, options);
    if (status == SOFTMAX_OK)
        status = check_rows(&call, type, rows, columns);
    if (status == SOFTMAX_OK) {
        int64_t shape[2] = {rows, columns};
        DLTensor y_tensor = row_major(type, y, 2, shape), dy_tensor = row_major(type, dy, 2, shape);
        DLTensor dx_tensor = row_major(type, dx, 2, shape);
        status = softmax_backward_arrays(&call, &y_tensor, &dy_tensor, &dx_tensor, 1);
        if (status == SOFTMAX_OK)
            status = softmax_call_run(&call);
    }
    guard_end(guard);
    return status;
}

softmax_status softmax_softmax_rows(softmax_type type, int64_t rows, int64_t columns, const void *x, void *y,
                                    const softmax_options *options)
{
    return forward_rows(OPERATION_SOFTMAX, type, rows, columns, x, y, options);
}

softmax_status softmax_log_softmax_rows(softmax_type type, int64_t rows, int64_t columns, const void *x, void *y,
                                        const softmax_options *options)
{
    return forward_rows(OPERATION_LOG_SOFTMAX, type, rows, columns, x, y, options);
}

softmax_status softmax_logsumexp_rows(softmax_type type, int64_t rows, int64_t columns, const void *x, void *l,
                                      const softmax_options *options)
{
    return forward_rows(OPERATION_LOGSUMEXP, type, rows, columns, x, l, options);
}

softmax_status softmax_softmax_backward_rows(softmax_type type, int64_t rows, int64_t columns, const void *y,
                                             const void *dy, void *dx, const softmax_options *options)
{
    return backward_rows(OPERATION_SOFTMAX_BACKWARD, type, rows, columns, y, dy, dx, options);
}

softmax_status softmax_log_softmax_backward_rows(softmax_type type, int64_t rows, int64_t columns, const void *y,
                                                 const void *dy, void *dx, const softmax_options *options)
{
    return backward_rows(OPERATION_LOG_SOFTMAX_BACKWARD, type, rows, columns, y, dy, dx, options);
}

softmax_status softmax_cross_entropy_rows(softmax_type type, int64_t rows, int64_t columns, const void *logits,
                                          const int64_t *targets, void *loss, void *gradient,
                                          const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, OPERATION_CROSS_ENTROPY, options);
    if (status == SOFTMAX_OK)
        status = check_rows(&call, type, rows, columns);
    if (status == SOFTMAX_OK) {
        int64_t shape[2] = {rows, columns};
        DLTensor logits_tensor = row_major(type, logits, 2, shape),
                 gradient_tensor = row_major(type, gradient, 2, shape);
        DLTensor loss_tensor = row_major(loss_type(type), loss, call.options.reduction == SOFTMAX_NONE ? 1 : 0, shape);
        DLTensor targets_tensor = row_major(type, targets, 1, shape);
        targets_tensor.dtype = (DLDataType){kDLInt, 64, 1};
        status = softmax_cross_entropy_arrays(&call, &logits_tensor, &targets_tensor, loss ? &loss_tensor : NULL,
                                              gradient ? &gradient_tensor : NULL, 1);
        if (status == SOFTMAX_OK)
            status = softmax_call_run(&call);
    }
    guard_end(guard);
    return status;
}
