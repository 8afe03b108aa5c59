/* What arrays each operation has, of what types and shapes; and the options that are arrays. */
#include "api_call.h"
#include "api_state.h"

#define COLUMN_LIMIT ((int64_t)1 << 62)

/* Types of bias and of probabilities: float64 only beside float64 arithmetic. */
static type_set companion_types(const softmax_job *job)
{
    return job->kind == ARITHMETIC_64 ? TYPES_FLOAT : TYPES_HALF | TYPE_BIT(ELEMENT_FLOAT32);
}

static softmax_status causal_option(api_call *call)
{
    softmax_job *job = &call->job;
    const softmax_options *o = &call->options;
    int ndim = call->input->ndim;
    if (!o->causal)
        return SOFTMAX_OK;
    if (ndim < 2)
        return softmax_refuse(call, SOFTMAX_ERROR_OPTION,
                              "causal is 1; %s has %d dimension, and 2 or more are required", call->input_name, ndim);
    if (call->axis != ndim - 1)
        return softmax_refuse(call, SOFTMAX_ERROR_OPTION, "causal is 1; axis is %d, and the last, %d, is required",
                              call->axis, ndim - 1);
    job->causal = 1;
    job->query_dimension = ndim - 2;
    /* Beyond every column the offset means the same, and query + offset does not overflow. */
    job->causal_offset = o->causal_offset > COLUMN_LIMIT    ? COLUMN_LIMIT
                         : o->causal_offset < -COLUMN_LIMIT ? -COLUMN_LIMIT
                                                            : o->causal_offset;
    return SOFTMAX_OK;
}

static softmax_status mask_options(api_call *call)
{
    softmax_job *job = &call->job;
    const softmax_options *o = &call->options;
    softmax_status status = SOFTMAX_OK;
    if (o->mask)
        status = softmax_call_array(call, &job->mask, "mask", o->mask, TYPE_BIT(ELEMENT_UINT8), FIT_BROADCAST, false);
    if (status == SOFTMAX_OK && o->valid_lengths)
        status = softmax_call_array(call, &job->lengths, "valid_lengths", o->valid_lengths, TYPES_INTEGER,
                                    FIT_BROADCAST_ROWS, false);
    return status;
}

softmax_status softmax_score_options(api_call *call)
{
    softmax_job *job = &call->job;
    const softmax_options *o = &call->options;
    softmax_status status = SOFTMAX_OK;
    job->softcap = o->softcap;
    job->scale = o->scale;
    if (o->first_column > COLUMN_LIMIT - job->columns)
        return softmax_refuse(call, SOFTMAX_ERROR_OPTION,
                              "first_column is %lld; with the tile's %lld columns, 2^62 at most is allowed",
                              (long long)o->first_column, (long long)job->columns);
    job->first_column = o->first_column;
    if (o->bias)
        status = softmax_call_array(call, &job->bias, "bias", o->bias, companion_types(job), FIT_BROADCAST, false);
    if (status == SOFTMAX_OK)
        status = mask_options(call);
    return status == SOFTMAX_OK ? causal_option(call) : status;
}

softmax_status softmax_forward_arrays(api_call *call, const DLTensor *x, const DLTensor *out, int axis)
{
    softmax_job *job = &call->job;
    bool rows = job->op == OPERATION_LOGSUMEXP;
    softmax_status status = softmax_call_input(call, &job->x, "x", x, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_array(call, &job->out, rows ? "l" : "y", out, softmax_result_types(job->x.type),
                                    rows ? FIT_ROWS : FIT_INPUT, true);
    if (status != SOFTMAX_OK)
        return status;
    job->kind = softmax_arithmetic_of((softmax_type)job->out.type);
    if (rows && arithmetic_is_short(job->kind))
        job->kind = ARITHMETIC_32; /* maximum and logarithm may nearly cancel: 16 bits are enough only after that */
    return softmax_score_options(call);
}

softmax_status softmax_backward_arrays(api_call *call, const DLTensor *y, const DLTensor *dy, const DLTensor *dx,
                                       int axis)
{
    softmax_job *job = &call->job;
    softmax_status status = softmax_call_input(call, &job->x, "y", y, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_array(call, &job->dy, "dy", dy, TYPE_BIT(job->x.type), FIT_INPUT, false);
    if (status == SOFTMAX_OK)
        status = softmax_call_array(call, &job->out, "dx", dx, softmax_result_types(job->x.type), FIT_INPUT, true);
    if (status == SOFTMAX_OK)
        job->kind = softmax_arithmetic_of((softmax_type)job->out.type);
    return status;
}

/* ---- Cross-entropy ---------------------------------------------------------------------------------------------- */

static bool holds_classes(const DLTensor *targets)
{
    return targets && TYPE_BIT(softmax_element_of(targets->dtype)) & TYPES_INTEGER;
}

static softmax_status targets_gradient_option(api_call *call, bool classes)
{
    const DLTensor *gradient = call->options.targets_gradient;
    softmax_job *job = &call->job;
    if (!gradient)
        return SOFTMAX_OK;
    if (classes)
        return softmax_refuse(call, SOFTMAX_ERROR_OPTION,
                              "targets_gradient is set; targets holds classes, and probabilities are required");
    return softmax_call_array(call, &job->targets_gradient, "targets_gradient", gradient, TYPE_BIT(job->targets.type),
                              FIT_INPUT, true);
}

static softmax_status loss_options(api_call *call, type_set losses, bool classes)
{
    softmax_job *job = &call->job;
    const softmax_options *o = &call->options;
    softmax_status status = SOFTMAX_OK;
    job->softcap = o->softcap;
    job->ignore_index = o->ignore_index;
    job->label_smoothing = o->label_smoothing;
    job->z_loss = o->z_loss;
    job->reduction = (softmax_reduction)o->reduction;
    if (o->class_weights)
        status = softmax_call_array(call, &job->weights, "class_weights", o->class_weights, losses, FIT_COLUMNS, false);
    if (status == SOFTMAX_OK && o->grad_output)
        status = softmax_call_array(call, &job->grad_output, "grad_output", o->grad_output, losses,
                                    o->reduction == SOFTMAX_NONE ? FIT_ONE_OR_ROWS : FIT_ONE, false);
    if (status == SOFTMAX_OK && o->row_logsumexp)
        status =
            softmax_call_array(call, &job->row_logsumexp, "row_logsumexp", o->row_logsumexp, losses, FIT_ROWS, true);
    if (status == SOFTMAX_OK)
        status = targets_gradient_option(call, classes);
    return status == SOFTMAX_OK ? mask_options(call) : status;
}

softmax_status softmax_cross_entropy_arrays(api_call *call, const DLTensor *logits, const DLTensor *targets,
                                            const DLTensor *loss, const DLTensor *gradient, int axis)
{
    softmax_job *job = &call->job;
    bool classes = holds_classes(targets);
    type_set losses;
    softmax_status status = softmax_call_input(call, &job->x, "logits", logits, axis);
    if (status != SOFTMAX_OK)
        return status;
    job->kind = job->x.type == ELEMENT_FLOAT64 ? ARITHMETIC_64 : ARITHMETIC_32;
    losses = TYPE_BIT(job->kind == ARITHMETIC_64 ? ELEMENT_FLOAT64 : ELEMENT_FLOAT32);
    status = softmax_call_array(call, &job->targets, "targets", targets, TYPES_INTEGER | companion_types(job),
                                classes ? FIT_ROWS : FIT_INPUT, false);
    if (status == SOFTMAX_OK && loss)
        status = softmax_call_array(call, &job->loss, "loss", loss, losses,
                                    call->options.reduction == SOFTMAX_NONE ? FIT_ROWS : FIT_ONE, true);
    if (status == SOFTMAX_OK && gradient)
        status = softmax_call_array(call, &job->out, "gradient", gradient, softmax_result_types(job->x.type), FIT_INPUT,
                                    true);
    return status == SOFTMAX_OK ? loss_options(call, losses, classes) : status;
}
