/* The online state: a row's columns tile by tile. */
#include "api_state.h"
#include "api_call.h"
#include "fenv_guard.h"

/* ---- States alone: no options, so no words ---------------------------------------------------------------------- */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return first < second + b_bytes && second < first + a_bytes;
}

static softmax_status check_count(const void *states, const void *other, int64_t count)
{
    if (count < 0 || count > (int64_t)(INT64_MAX / sizeof(softmax_state)))
        return SOFTMAX_ERROR_SHAPE;
    return count > 0 && (!states || !other) ? SOFTMAX_ERROR_NULL : SOFTMAX_OK;
}

/* The one type of all states; 0 where one is not initialised or of another type, at *bad. */
static softmax_type common_type(const softmax_state *states, int64_t count, int64_t *bad)
{
    softmax_type type = count > 0 ? softmax_state_type(&states[0]) : (softmax_type)0;
    for (int64_t i = 0; i < count; i++)
        if (softmax_state_type(&states[i]) != type || type == 0) {
            *bad = i;
            return (softmax_type)0;
        }
    return type;
}

softmax_status softmax_state_init(softmax_state *states, int64_t count, softmax_type type)
{
    const row_state empty = row_state_empty();
    softmax_status status = check_count(states, states, count);
    if (status != SOFTMAX_OK)
        return status;
    if ((int)type < SOFTMAX_FLOAT32 || (int)type > SOFTMAX_BFLOAT16)
        return SOFTMAX_ERROR_TYPE;
    for (int64_t i = 0; i < count; i++) {
        states[i].type = (uint16_t)(SOFTMAX_STATE_TAG ^ (unsigned)type);
        softmax_state_from_row(&states[i], &empty);
    }
    return SOFTMAX_OK;
}

softmax_status softmax_state_merge(softmax_state *into, const softmax_state *from, int64_t count)
{
    softmax_status status = check_count(into, from, count);
    softmax_type type;
    arithmetic kind;
    fenv_guard guard;
    int64_t bad;
    if (status != SOFTMAX_OK || count == 0)
        return status;
    if (overlap(into, (size_t)count * sizeof *into, from, (size_t)count * sizeof *from))
        return SOFTMAX_ERROR_ALIAS;
    type = common_type(into, count, &bad);
    if (type == 0 || common_type(from, count, &bad) != type)
        return SOFTMAX_ERROR_STATE;
    kind = softmax_arithmetic_of(type);
    guard = guard_begin();
    for (int64_t i = 0; i < count; i++) {
        row_state a = softmax_state_to_row(&into[i]), b = softmax_state_to_row(&from[i]);
        row_state_merge(&a, &b, kind);
        softmax_state_from_row(&into[i], &a);
    }
    guard_end(guard);
    return SOFTMAX_OK;
}

softmax_status softmax_state_logsumexp(const softmax_state *states, void *l, int64_t count)
{
    softmax_status status = check_count(states, l, count);
    softmax_type type;
    arithmetic kind;
    fenv_guard guard;
    int64_t bad;
    if (status != SOFTMAX_OK || count == 0)
        return status;
    type = common_type(states, count, &bad);
    if (type == 0)
        return SOFTMAX_ERROR_STATE;
    kind = softmax_arithmetic_of(type);
    if (overlap(states, (size_t)count * sizeof *states, l,
                (size_t)count * (kind == ARITHMETIC_64 ? sizeof(double) : sizeof(float))))
        return SOFTMAX_ERROR_ALIAS;
    guard = guard_begin();
    for (int64_t i = 0; i < count; i++) {
        row_state row = softmax_state_to_row(&states[i]);
        double value = row_state_logsumexp(&row, kind);
        if (kind == ARITHMETIC_64)
            ((double *)l)[i] = value;
        else
            ((float *)l)[i] = round_to_float32(value);
    }
    guard_end(guard);
    return SOFTMAX_OK;
}

/* ---- States alone in device memory -------------------------------------------------------------------------------- */

static softmax_status run_states(state_work work, softmax_state *states, const softmax_state *from, void *l, int64_t count,
                                 softmax_type type, int device, void *stream)
{
    const softmax_state_job job = {work, states, from, l, count, type, device, stream};
    const void *other = work == STATES_MERGE ? (const void *)from : work == STATES_LOGSUMEXP ? l : states;
    size_t size = work == STATES_MERGE ? sizeof *from : type == SOFTMAX_FLOAT64 ? sizeof(double) : sizeof(float);
    softmax_status status = check_count(states, other, count);
    if (status != SOFTMAX_OK)
        return status;
    if ((int)type < SOFTMAX_FLOAT32 || (int)type > SOFTMAX_BFLOAT16)
        return SOFTMAX_ERROR_TYPE;
    if (work != STATES_INIT && overlap(states, (size_t)count * sizeof *states, other, (size_t)count * size))
        return SOFTMAX_ERROR_ALIAS;
    if (device < 0 || device >= softmax_cuda_device_count())
        return SOFTMAX_ERROR_DEVICE;
    return count == 0 ? SOFTMAX_OK : softmax_run_cuda_states(&job);
}

softmax_status softmax_cuda_state_init(softmax_state *states, int64_t count, softmax_type type, int device, void *stream)
{
    return run_states(STATES_INIT, states, NULL, NULL, count, type, device, stream);
}

softmax_status softmax_cuda_state_merge(softmax_state *into, const softmax_state *from, int64_t count, softmax_type type,
                                        int device, void *stream)
{
    return run_states(STATES_MERGE, into, from, NULL, count, type, device, stream);
}

softmax_status softmax_cuda_state_logsumexp(const softmax_state *states, void *l, int64_t count, softmax_type type,
                                            int device, void *stream)
{
    return run_states(STATES_LOGSUMEXP, (softmax_state *)states, NULL, l, count, type, device, stream);
}

/* ---- States and tiles ------------------------------------------------------------------------------------------- */

/* What a tile may be beside states of a type: the same, or 16 bits beside float32. */
static type_set tile_types(softmax_type type)
{
    type_set same = TYPE_BIT(type);
    return type == SOFTMAX_FLOAT32 ? same | TYPES_HALF : same;
}

static softmax_status states_array(api_call *call, const softmax_state *states, bool output)
{
    softmax_job *job = &call->job;
    call_array *array = &call->array[call->arrays];
    softmax_type type;
    int64_t bad = 0;
    if (job->rows == 0) {
        job->kind = softmax_arithmetic_of((softmax_type)job->x.type);
        return SOFTMAX_OK;
    }
    if (!states)
        return softmax_refuse(call, SOFTMAX_ERROR_NULL, "states is NULL; %lld states, one a row, are required",
                              (long long)job->rows);
    type = job->on_cuda ? (softmax_type)0 : common_type(states, job->rows, &bad);
    if (!job->on_cuda && type == 0)
        return softmax_refuse(
            call, SOFTMAX_ERROR_STATE,
            "states[%lld] was not initialised, or is not of the first one's type; states of one type from "
            "softmax_state_init are required",
            (long long)bad);
    if (!job->on_cuda && !(tile_types(type) & TYPE_BIT(job->x.type)))
        return softmax_refuse(
            call, SOFTMAX_ERROR_TYPE,
            "tile is of another type than the states; the same is allowed, or a 16-bit tile beside float32 states");
    /* On CUDA only the device sees the states' type. */
    job->kind = softmax_arithmetic_of(job->on_cuda ? (softmax_type)job->x.type : type);
    job->states = (softmax_state *)states;
    array->name = "states";
    array->place = NULL;
    array->output = output;
    array->first = (uint64_t)(uintptr_t)states;
    array->end = array->first + (uint64_t)job->rows * sizeof *states;
    call->arrays++;
    call->writes |= output && job->columns > 0;
    return SOFTMAX_OK;
}

softmax_status softmax_state_update(softmax_state *states, const DLTensor *tile, int axis,
                                    const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, OPERATION_STATE_UPDATE, options);
    if (status == SOFTMAX_OK)
        status = softmax_call_input(&call, &call.job.x, "tile", tile, axis);
    if (status == SOFTMAX_OK)
        status = states_array(&call, states, true);
    if (status == SOFTMAX_OK)
        status = softmax_score_options(&call);
    if (status == SOFTMAX_OK)
        status = softmax_call_run(&call);
    guard_end(guard);
    return status;
}

static softmax_status normalise_arrays(api_call *call, const softmax_state *states, const DLTensor *tile,
                                       const DLTensor *y, int axis)
{
    softmax_job *job = &call->job;
    softmax_status status = softmax_call_input(call, &job->x, "tile", tile, axis);
    if (status == SOFTMAX_OK)
        status = states_array(call, states, false);
    if (status == SOFTMAX_OK) {
        /* Without rows there is no state to tell the type. */
        bool known = job->rows > 0 && !job->on_cuda;
        type_set types = known ? TYPE_BIT(softmax_state_type(states)) : softmax_result_types(job->x.type);
        status = softmax_call_array(call, &job->out, "y", y, types, FIT_INPUT, true);
        if (status == SOFTMAX_OK && !known)
            job->kind = softmax_arithmetic_of((softmax_type)job->out.type);
    }
    return status == SOFTMAX_OK ? softmax_score_options(call) : status;
}

static softmax_status normalise(operation op, const softmax_state *states, const DLTensor *tile, const DLTensor *y,
                                int axis, const softmax_options *options)
{
    api_call call;
    fenv_guard guard = guard_begin();
    softmax_status status = softmax_call_begin(&call, op, options);
    if (status == SOFTMAX_OK)
        status = normalise_arrays(&call, states, tile, y, axis);
    if (status == SOFTMAX_OK)
        status = softmax_call_run(&call);
    guard_end(guard);
    return status;
}

softmax_status softmax_state_normalise(const softmax_state *states, const DLTensor *tile, DLTensor *y, int axis,
                                       const softmax_options *options)
{
    return normalise(OPERATION_STATE_NORMALISE, states, tile, y, axis, options);
}

softmax_status softmax_state_log_normalise(const softmax_state *states, const DLTensor *tile, DLTensor *y, int axis,
                                           const softmax_options *options)
{
    return normalise(OPERATION_STATE_LOG_NORMALISE, states, tile, y, axis, options);
}
