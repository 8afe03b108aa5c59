#include "choice.h"
#include "gradient.h"

#include <string.h>

static const char *const names[CUDA_KERNELS] = {"generic", "warp", "block", "cluster"};

const char *softmax_cuda_kernel_name(int index)
{
    return index >= 0 && index < CUDA_KERNELS ? names[index] : NULL;
}

int softmax_cuda_kernel_named(const char *name)
{
    for (int i = 0; i < CUDA_KERNELS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* ---- What a job is like ------------------------------------------------------------------------------------------- */

static int is_forward(operation op)
{
    return op == OPERATION_SOFTMAX || op == OPERATION_LOG_SOFTMAX || op == OPERATION_LOGSUMEXP;
}

static int element_bytes(element type)
{
    return type == ELEMENT_FLOAT64 ? 8 : type == ELEMENT_FLOAT32 ? 4 : 2;
}

/* Rows without options, contiguous, of a type that registers hold. */
static int is_plain(const softmax_job *job)
{
    int bytes = element_bytes(job->x.type), has_y = job->op != OPERATION_LOGSUMEXP;
    return is_forward(job->op) && job->dimensions == 1 && job->kind != ARITHMETIC_64 && !job->bias.data && !job->mask.data &&
           !job->lengths.data && !job->causal && job->softcap == 0.0 && job->scale == 1.0 &&
           (job->x.column_stride == bytes || job->columns == 1) && (uintptr_t)job->x.data % (uintptr_t)bytes == 0 &&
           (has_y ? job->out.type == job->x.type && (job->out.column_stride == bytes || job->columns == 1) &&
                        (uintptr_t)job->out.data % (uintptr_t)bytes == 0
                  : job->x.type == ELEMENT_FLOAT32);
}

/* Whether every row begins at a multiple of `bytes` and ends at one. */
static int is_aligned(const softmax_job *job, int bytes)
{
    const operand *arrays[2] = {&job->x, &job->out};
    if (job->columns * element_bytes(job->x.type) % bytes != 0)
        return 0;
    for (int i = 0; i < (job->op == OPERATION_LOGSUMEXP ? 1 : 2); i++) {
        if ((uintptr_t)arrays[i]->data % (uintptr_t)bytes != 0)
            return 0;
        for (int d = 0; d < job->dimensions; d++)
            if (arrays[i]->row_stride[d] % bytes != 0)
                return 0;
    }
    return 1;
}

/* ---- The table: thread blocks of a row, by its columns ------------------------------------------------------------- */

typedef struct table_row {
    int64_t columns; /* up to so many */
    int cluster;     /* 1: a thread block */
} table_row;

/* Measured on an H200 (docs/results): a thread block has at most 16 warps of a block of columns each, a cluster 16 thread blocks. */
static const table_row float32_table[] = {{16 * 1024, 1}, {32 * 1024, 8}, {64 * 1024, 8}, {256 * 1024, 16}};
static const table_row half_table[] = {{16 * 1024, 1}, {32 * 1024, 8}, {64 * 1024, 8}, {256 * 1024, 16}};
enum { TABLE_ROWS = 4, MOST_WARPS = 16 };

static int choose_rows(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape)
{
    const table_row *row = job->x.type == ELEMENT_FLOAT32 ? float32_table : half_table, *end = row + TABLE_ROWS;
    int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    while (row < end && (job->columns > row->columns || (wanted == CUDA_CLUSTER && row->cluster == 1)))
        row++;
    if (row == end || (row->cluster > 1 && (wanted == CUDA_BLOCK || device->capability < 90)))
        return 0;
    shape->kernel = row->cluster > 1 ? CUDA_CLUSTER : CUDA_BLOCK;
    shape->cluster = row->cluster;
    shape->warps = (blocks + row->cluster - 1) / row->cluster;
    return 1;
}

/* ---- The choice --------------------------------------------------------------------------------------------------- */

static int choose_short(const softmax_job *job, cuda_shape *shape)
{
    int bytes = element_bytes(job->x.type);
    if (job->columns > SOFTMAX_BLOCK_COLUMNS)
        return 0;
    shape->kernel = CUDA_WARP;
    shape->warps = 4;
    for (shape->lane_columns = 2; 32 * shape->lane_columns < job->columns; shape->lane_columns *= 2)
        ;
    while (shape->lane_columns < 32 && !is_aligned(job, shape->lane_columns * bytes < 16 ? shape->lane_columns * bytes : 16))
        shape->lane_columns = 32;
    shape->vectors = is_aligned(job, shape->lane_columns * bytes < 16 ? shape->lane_columns * bytes : 16);
    return 1;
}

int softmax_cuda_choose(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape)
{
    int any = wanted == CUDA_ANY_KERNEL, plain = is_plain(job);
    if (softmax_cuda_is_gradient(job->op))
        return softmax_cuda_choose_gradient(job, device, wanted, shape);
    memset(shape, 0, sizeof *shape);
    shape->multiprocessors = device->multiprocessors;
    shape->vectors = is_aligned(job, 16);
    if (plain && (any || wanted == CUDA_WARP) && choose_short(job, shape))
        return 1;
    if (plain && (any || wanted == CUDA_BLOCK || wanted == CUDA_CLUSTER) && choose_rows(job, device, wanted, shape))
        return 1;
    shape->kernel = CUDA_GENERIC;
    return (any || wanted == CUDA_GENERIC) && is_forward(job->op);
}
