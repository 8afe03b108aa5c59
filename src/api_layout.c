/* From checked arrays to a job that the kernels run. */
#include "api_call.h"

/* May row dimension d be joined to the one kept as `kept`, in every operand? */
static bool contiguous(const api_call *call, int kept, int d)
{
    for (int i = 0; i < call->arrays; i++) {
        const operand *place = call->array[i].place;
        int64_t whole;
        if (place && (__builtin_mul_overflow(place->row_stride[d], call->job.shape[d], &whole) ||
                      place->row_stride[kept] != whole))
            return false;
    }
    return true;
}

static void move_dimension(const api_call *call, softmax_job *job, int to, int d, int64_t size)
{
    job->shape[to] = size;
    for (int i = 0; i < call->arrays; i++) {
        operand *place = call->array[i].place;
        if (place)
            place->row_stride[to] = place->row_stride[d];
    }
}

void softmax_join_dimensions(api_call *call)
{
    softmax_job *job = &call->job;
    int query = job->query_dimension, kept = 0;
    for (int d = 0; d < job->dimensions; d++) {
        if (job->shape[d] == 1 && d != query)
            continue;
        if (kept > 0 && d != query && contiguous(call, kept - 1, d)) {
            move_dimension(call, job, kept - 1, d, job->shape[kept - 1] * job->shape[d]);
            continue;
        }
        if (d == query) /* the last row dimension: nothing follows that could be joined to it */
            job->query_dimension = kept;
        move_dimension(call, job, kept, d, job->shape[d]);
        kept++;
    }
    if (kept == 0) { /* one row: a dimension all the same, so that loops over them need no special case */
        job->shape[0] = 1;
        for (int i = 0; i < call->arrays; i++)
            if (call->array[i].place)
                call->array[i].place->row_stride[0] = 0;
        kept = 1;
    }
    job->dimensions = kept;
}

static softmax_status run_on_cuda(const api_call *call)
{
    char words[256];
    softmax_status status = softmax_run_cuda(&call->job, words, sizeof words);
    return status == SOFTMAX_OK ? status : softmax_refuse(call, status, "%s", words);
}

softmax_status softmax_call_run(api_call *call)
{
    softmax_job *job = &call->job;
    int64_t bad_row = 0, bad_target = 0;
    softmax_status status;
    if (job->scratch_needed)
        *job->scratch_needed = 0;
    if (!call->writes)
        return SOFTMAX_OK;
    status = softmax_check_overlap(call);
    if (status != SOFTMAX_OK)
        return status;
    if (job->scratch_needed && !job->on_cuda)
        return SOFTMAX_OK;
    softmax_join_dimensions(call);
    if (job->on_cuda)
        return run_on_cuda(call);
    job->bad_row = &bad_row;
    job->bad_target = &bad_target;
    status = softmax_run_cpu(job);
    if (status != SOFTMAX_ERROR_TARGET)
        return status;
    if (job->columns == 0)
        return softmax_refuse(
            call, status,
            "targets holds %lld in row %lld; there are no classes, so only ignore_index (%lld) is allowed",
            (long long)bad_target, (long long)bad_row, (long long)job->ignore_index);
    return softmax_refuse(call, status, "targets holds %lld in row %lld; 0 to %lld or ignore_index (%lld) is allowed",
                          (long long)bad_target, (long long)bad_row, (long long)job->columns - 1,
                          (long long)job->ignore_index);
}
