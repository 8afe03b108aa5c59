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
    return job->dimensions == 1 && job->kind != ARITHMETIC_64 && !job->bias.data && !job->mask.data &&
           !job->lengths.data && !job->causal && job->softcap == 0.0 && job->scale == 1.0 &&
           (job->x.column_stride == bytes || job->columns == 1) && (uintptr_t)job->x.data % (uintptr_t)bytes == 0 &&
           (has_y ? job->out.type == job->x.type && (job->out.column_stride == bytes || job->columns == 1) &&
                        (uintptr_t)job->out.data % (uintptr_t)bytes == 0
                  : job->x.type == ELEMENT_FLOAT32);
}

/* Whether every element lies on a multiple of its size. */
static int lies_well(const operand *a)
{
    return !a->data || (uintptr_t)a->data % (uintptr_t)element_bytes(a->type) == 0;
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

/* Whether each row's scores and results lie at the same distance from a multiple of 32 bytes. */
static int begin_alike(const softmax_job *job)
{
    if (job->op == OPERATION_LOGSUMEXP)
        return 1;
    if (((uintptr_t)job->x.data - (uintptr_t)job->out.data) % 32 != 0)
        return 0;
    for (int d = 0; d < job->dimensions; d++)
        if ((job->x.row_stride[d] - job->out.row_stride[d]) % 32 != 0)
            return 0;
    return 1;
}

/* ---- The tables: thread blocks of a row, by its columns ------------------------------------------------------------ */

typedef struct table_row {
    int64_t columns; /* up to so many */
    int cluster;     /* 1: a thread block */
} table_row;

enum { TABLE_ROWS = 5, MOST_BLOCKS = 16 /* of columns in a thread block: a warp each */ };

/* Measured on an H200: docs/results. */
static const table_row float32_table[TABLE_ROWS] = {{16 * 1024, 1}, {32 * 1024, 8}, {64 * 1024, 8}, {128 * 1024, 16}, {256 * 1024, 16}};
static const table_row half_table[TABLE_ROWS] = {{8 * 1024, 1}, {16 * 1024, 2}, {32 * 1024, 4}, {64 * 1024, 8}, {256 * 1024, 16}};
/* Through options: twice the registers. Without clusters, a thread block as far as it goes. */
static const table_row scores_table[TABLE_ROWS] = {{4 * 1024, 1}, {16 * 1024, 4}, {32 * 1024, 8}, {128 * 1024, 16}, {256 * 1024, 16}};
static const table_row no_clusters[TABLE_ROWS] = {{16 * 1024, 1}, {16 * 1024, 1}, {16 * 1024, 1}, {16 * 1024, 1}, {16 * 1024, 1}};

static int choose_rows(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, const table_row *row,
                       cuda_shape *shape)
{
    int blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    const table_row *end;
    if (device->capability < 90 || wanted == CUDA_BLOCK)
        row = no_clusters;
    end = row + TABLE_ROWS;
    while (row < end && (job->columns > row->columns || (wanted == CUDA_CLUSTER && row->cluster == 1)))
        row++;
    if (row == end || blocks == 0 || job->rows > INT32_MAX / row->cluster) /* no columns: logsumexp alone has a result then */
        return 0;
    shape->kernel = row->cluster > 1 ? CUDA_CLUSTER : CUDA_BLOCK;
    shape->cluster = row->cluster;
    shape->warps = (blocks + row->cluster - 1) / row->cluster;
    shape->full_blocks = job->columns > blocks * (int64_t)SOFTMAX_BLOCK_COLUMNS - SOFTMAX_BLOCK_COLUMNS / 4 || blocks > 8;
    return 1;
}

/* ---- The choice --------------------------------------------------------------------------------------------------- */

/* Short rows: lanes that hold a row, and its columns in each, by its columns. */
static const struct {
    int columns, row_lanes, lane_columns;
    int access; /* bytes of an access that it takes at least */
    int bytes;  /* of its elements; 0: any */
} short_table[] = {{32, 2, 16, 16, 0}, {64, 4, 16, 16, 4},  {64, 2, 32, 0, 0},  {96, 4, 32, 0, 0},   {112, 4, 28, 16, 4},
                   {112, 4, 28, 8, 2}, {128, 4, 32, 0, 0}, {256, 8, 32, 0, 0}, {512, 16, 32, 0, 0}, {1024, 32, 32, 0, 0}};

static int choose_short(const softmax_job *job, cuda_shape *shape)
{
    int bytes = element_bytes(job->x.type), i = 0;
    if (job->columns > SOFTMAX_BLOCK_COLUMNS || job->rows > INT64_C(4) * INT32_MAX)
        return 0;
    shape->kernel = CUDA_WARP;
    shape->access = is_aligned(job, 16) ? 16 : is_aligned(job, 8) ? 8 : bytes;
    if (shape->access < 16 && job->columns > 256 && begin_alike(job)) {
        shape->edges = 1;
        shape->row_lanes = 32;
        shape->lane_columns = job->columns < 512 + 16 / bytes ? 16 : 32; /* beside edges 16-byte accesses hold a few columns more */
        return 1;
    }
    while (job->columns > short_table[i].columns || shape->access < short_table[i].access ||
           (short_table[i].bytes && bytes != short_table[i].bytes))
        i++;
    shape->row_lanes = short_table[i].row_lanes;
    shape->lane_columns = short_table[i].lane_columns;
    shape->vectors = shape->access >= 8;
    return 1;
}

int softmax_cuda_choose(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape)
{
    int any = wanted == CUDA_ANY_KERNEL, rows = any || wanted == CUDA_BLOCK || wanted == CUDA_CLUSTER;
    if (softmax_cuda_is_gradient(job->op))
        return softmax_cuda_choose_gradient(job, device, wanted, shape);
    memset(shape, 0, sizeof *shape);
    shape->multiprocessors = device->multiprocessors;
    if (!is_forward(job->op))
        return 0;
    if (is_plain(job)) {
        if ((any || wanted == CUDA_WARP) && choose_short(job, shape))
            return 1;
        shape->vectors = is_aligned(job, 16);
        shape->edges = begin_alike(job);
        if (rows && choose_rows(job, device, wanted, job->x.type == ELEMENT_FLOAT32 ? float32_table : half_table, shape))
            return 1;
    } else if (job->kind != ARITHMETIC_64 && lies_well(&job->x) && lies_well(&job->out) && lies_well(&job->bias) && rows && choose_rows(job, device, wanted, scores_table, shape)) {
        shape->scores = 1;
        return 1;
    }
    shape->kernel = CUDA_GENERIC;
    return any || wanted == CUDA_GENERIC;
}
