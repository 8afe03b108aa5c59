/* Which kernel a backward or a cross-entropy takes, by its shape alone: choice.h. */
#include <string.h>

#include "gradient.h"

static int element_bytes(element type)
{
    return type == ELEMENT_FLOAT64 ? 8 : type == ELEMENT_FLOAT32 ? 4 : 2;
}

int softmax_cuda_is_gradient(operation op)
{
    return op == OPERATION_SOFTMAX_BACKWARD || op == OPERATION_LOG_SOFTMAX_BACKWARD || op == OPERATION_CROSS_ENTROPY;
}

/* ---- What a job is like ------------------------------------------------------------------------------------------- */

enum { MOST_ARRAYS = 3 };

/* The arrays that have columns. */
static int arrays_of(const softmax_job *job, const operand *arrays[MOST_ARRAYS])
{
    int count = 0;
    arrays[count++] = &job->x;
    if (job->dy.data)
        arrays[count++] = &job->dy;
    if (job->out.data)
        arrays[count++] = &job->out;
    return count;
}

/* Elements of a row lie side by side, on addresses that they may have. */
static int are_contiguous(const softmax_job *job)
{
    const operand *arrays[MOST_ARRAYS];
    int count = arrays_of(job, arrays);
    for (int i = 0; i < count; i++) {
        int bytes = element_bytes(arrays[i]->type);
        if (arrays[i]->column_stride != bytes || (uintptr_t)arrays[i]->data % (uintptr_t)bytes != 0)
            return 0;
    }
    return 1;
}

/* Every row begins at a multiple of 16 bytes and ends at one. */
static int are_vectors(const softmax_job *job)
{
    const operand *arrays[MOST_ARRAYS];
    int count = arrays_of(job, arrays);
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)arrays[i]->data % 16 != 0 || job->columns * element_bytes(arrays[i]->type) % 16 != 0)
            return 0;
        for (int d = 0; d < job->dimensions; d++)
            if (arrays[i]->row_stride[d] % 16 != 0)
                return 0;
    }
    return 1;
}

/* What rows in registers can do of cross-entropy: classes, no smoothing, softcap or mask, a gradient of the logits' type. */
static int is_plain_loss(const softmax_job *job)
{
    return job->label_smoothing == 0.0 && job->softcap == 0.0 && !job->mask.data && !job->lengths.data &&
           !job->targets_gradient.data && (job->targets.type == ELEMENT_INT32 || job->targets.type == ELEMENT_INT64) &&
           (!job->out.data || job->out.type == job->x.type);
}

/* ---- The table ---------------------------------------------------------------------------------------------------- */

enum { MOST_WARPS = 16, MOST_CLUSTER = 16, SHORT_COLUMNS = 512, STREAM_WARPS = 4 };

/* A warp holds SOFTMAX_BLOCK_COLUMNS columns; clusters are doubled until MOST_WARPS hold a row's part. */
static void spread_row(const softmax_job *job, cuda_shape *shape)
{
    int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    shape->cluster = 1;
    shape->warps = blocks;
    while (shape->warps > MOST_WARPS) {
        shape->cluster *= 2;
        shape->warps = (blocks + shape->cluster - 1) / shape->cluster;
    }
    shape->kernel = shape->cluster > 1 ? CUDA_CLUSTER : CUDA_BLOCK;
}

/* Whether a row's successors may come through shared memory meanwhile: their addresses are a product, and bulk copies can fetch them. */
static int can_stream(const softmax_job *job, const cuda_device *device, const cuda_shape *shape)
{
    return device->capability >= 90 && shape->vectors && job->dimensions == 1 && job->columns > 0;
}

/* Whether all rows' gradients have one factor and there is a sum over rows, which has room for what they leave to it. */
static int can_record(const softmax_job *job)
{
    int one = job->reduction != SOFTMAX_NONE && !job->weights.data;
    for (int d = 0; d < job->dimensions; d++)
        one = one && (!job->grad_output.data || job->grad_output.row_stride[d] == 0);
    return one;
}

/* How rows come: docs/results. A stream of rows hides exchanges and long chains of instructions; what many short-lived thread blocks ask for lies
 * closer together in memory, which is worth more to backwards of float32 where enough of them run: 16 warps of 128 registers a thread fill a
 * multiprocessor. 16-bit rows come two ahead where one thread block is all that runs there, or its like leave room. */
static void choose_turns(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    int loss = job->op == OPERATION_CROSS_ENTROPY, wide = job->x.type == ELEMENT_FLOAT32;
    int flat = can_stream(job, device, shape) && (loss ? job->z_loss == 0.0 : job->out.type == job->x.type);
    shape->turns = shape->cluster == 1 ? 1 : loss && !wide ? 8 : 4;
    shape->records = flat && loss && can_record(job);
    if (loss && !shape->records)
        shape->turns = 8;
    if (shape->records && shape->warps >= STREAM_WARPS)
        shape->stages = 3; /* loss_stream.cuh; fewer warps are too few to hide its answers */
    if (!flat || shape->records)
        return;
    if (loss || shape->cluster > 1)
        shape->stages = loss || wide ? 1 : 2;
    else
        shape->stages = wide ? shape->warps > 8 && shape->warps < 15 : shape->warps > 5 && shape->warps != 8 ? 2 : 1;
}

int softmax_cuda_choose_gradient(const softmax_job *job, const cuda_device *device, cuda_kernel wanted,
                                 cuda_shape *shape)
{
    int any = wanted == CUDA_ANY_KERNEL, loss = job->op == OPERATION_CROSS_ENTROPY;
    int64_t most = (int64_t)SOFTMAX_BLOCK_COLUMNS * (device->capability >= 90 ? MOST_CLUSTER * MOST_WARPS : MOST_WARPS);
    memset(shape, 0, sizeof *shape);
    shape->multiprocessors = device->multiprocessors;
    shape->kernel = CUDA_GENERIC;
    shape->cluster = 1;
    if (wanted == CUDA_GENERIC)
        return 1;
    if (job->x.type == ELEMENT_FLOAT64 || job->columns > most || job->rows >= INT32_MAX / MOST_CLUSTER ||
        !are_contiguous(job) || (loss && (!is_plain_loss(job) || job->columns == 0)))
        return any;
    shape->vectors = are_vectors(job);
    if (!loss && (wanted == CUDA_WARP || (any && job->columns <= SHORT_COLUMNS))) {
        shape->kernel = CUDA_WARP;
        return job->columns <= SHORT_COLUMNS;
    }
    spread_row(job, shape);
    choose_turns(job, device, shape);
    return any || wanted == shape->kernel;
}
