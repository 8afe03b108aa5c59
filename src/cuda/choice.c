#include "choice.h"
#include "gradient.h"

#include <string.h>

static const char *const names[CUDA_KERNELS] = {"generic", "three_pass", "online", "warp", "block", "cluster", "split", "strips"};

const char *softmax_cuda_kernel_name(int index)
{
    return index >= 0 && index < CUDA_KERNELS ? names[index] : NULL;
}

int softmax_cuda_capability(int of_device, int of_code) { return of_device < of_code ? of_device : of_code; }

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

/* Contiguous rows of a type that registers hold, whose options are a scale, a mask, lengths or the causal mask; or whose rows have any strides. */
static int has_simple_options(const softmax_job *job)
{
    int bytes = element_bytes(job->x.type), one = job->columns == 1, has_y = job->op != OPERATION_LOGSUMEXP;
    if (job->kind == ARITHMETIC_64 || job->bias.data || job->softcap != 0.0 || job->scale == 0.0 || score_scale_is_wild(job->scale) ||
        (job->mask.data && job->mask.column_stride != 1 && !one) || (job->x.column_stride != bytes && !one) || !lies_well(&job->x))
        return 0;
    return has_y ? job->out.type == job->x.type && (job->out.column_stride == bytes || one) && lies_well(&job->out)
                 : job->x.type == ELEMENT_FLOAT32;
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
    shape->rows = 1;
    shape->full_blocks = job->columns > blocks * (int64_t)SOFTMAX_BLOCK_COLUMNS - SOFTMAX_BLOCK_COLUMNS / 4 || blocks > 8;
    return 1;
}

#define SHORT_OPTIONS 256 /* columns of a row that a warp holds, 8 a lane */

/* Warps of a multiprocessor at 56 registers a thread. */
enum { RESIDENT_WARPS = 36 };

/* A last block of a column a lane at most, of 16-bit rows that begin anywhere: the warp of the block before has it too. */
static void fold_last_block(const softmax_job *job, cuda_shape *shape)
{
    if (element_bytes(job->x.type) == 2 && shape->cluster == 1 && shape->edges && shape->warps > 1 && job->columns <= (shape->warps - 1) * SOFTMAX_BLOCK_COLUMNS + 32) {
        shape->warps--;
        shape->full_blocks = 1;
    }
}

/* Plain rows: several in a thread block where it would have two warps of little work, and rows on their way to the L2 cache half a round or more
 * before their turn: measured, docs/results. */
static void refine_rows(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    int half = element_bytes(job->x.type) == 2;
    if (shape->cluster == 1 && half && shape->warps == 2 && (shape->vectors || (shape->edges && shape->full_blocks)))
        shape->rows = 4;
    if (half || shape->edges || job->columns > 32 * 1024) {
        int blocks = RESIDENT_WARPS / (shape->warps * shape->rows) * device->multiprocessors;
        shape->ahead = blocks * shape->rows / shape->cluster * (half ? 3 : 2) / 4;
    }
}

/* Rows with options: several in a thread block where they are a warp each. */
static void refine_options(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    shape->options = 1;
    shape->vectors = is_aligned(job, 16);
    refine_rows(job, device, shape);
    shape->lane_columns = shape->cluster == 1 && job->columns <= SHORT_OPTIONS ? SHORT_OPTIONS / 32 : SOFTMAX_BLOCK_COLUMNS / 32;
    shape->rows = shape->cluster == 1 && shape->warps == 1 ? 4 : 1;
}

/* ---- Rows that a warp of their own reads out ------------------------------------------------------------------------- */

static const table_row noted_float32_table[TABLE_ROWS] = {{16 * 1024, 1}, {32 * 1024, 2}, {64 * 1024, 8}, {128 * 1024, 8}, {256 * 1024, 16}};
static const table_row noted_half_table[TABLE_ROWS] = {{32 * 1024, 2}, {64 * 1024, 4}, {128 * 1024, 8}, {256 * 1024, 16}, {256 * 1024, 16}};
static const table_row noted_anywhere_table[TABLE_ROWS] = {{32 * 1024, 2}, {55 * 1024, 5}, {64 * 1024, 4}, {128 * 1024, 8}, {256 * 1024, 16}}; /* where rows begin */

/* Few rows of whole vectors are sooner over more thread blocks: docs/results/2026-11-30-h200-few-rows.md. */
static const table_row few_float32_table[TABLE_ROWS] = {{16 * 1024, 1}, {32 * 1024, 4}, {64 * 1024, 8}, {128 * 1024, 16}, {256 * 1024, 16}};
static const table_row few_half_table[TABLE_ROWS] = {{32 * 1024, 4}, {64 * 1024, 8}, {128 * 1024, 16}, {256 * 1024, 16}, {256 * 1024, 16}};

enum { LEAST_AT_WORK = 30 /* warps of a multiprocessor that compute, where a row of 16-bit vectors takes 16 thread blocks */, FLOAT32_ANYWHERE = 55 * 1024,
       FEW_ROWS = 512, FEW_WIDE_ROWS = 64 };

/* Where it was seen to be sooner (docs/results): full blocks, of float32 in whole vectors more than two of them, else clusters; and unless it is asked for, more
 * rows than run at a time, or whole vectors in clusters. The kernel of choose_rows otherwise. */
static void choose_notes(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape)
{
    int half = element_bytes(job->x.type) == 2, blocks = (int)((job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS), warps;
    const int wide = job->columns > 32 * 1024, few = !shape->edges && job->rows <= (half && wide ? FEW_WIDE_ROWS : FEW_ROWS);
    const table_row *row = shape->edges ? noted_anywhere_table : few ? (half ? few_half_table : few_float32_table) : half ? noted_half_table : noted_float32_table;
    if (device->capability < 90 || !(shape->vectors || (shape->edges && (half || job->columns <= FLOAT32_ANYWHERE))) || !shape->full_blocks ||
        job->columns <= (half || shape->edges ? 16 : 2) * 1024)
        return;
    while (job->columns > row->columns)
        row++;
    if ((wanted == CUDA_BLOCK && row->cluster > 1) || (wanted == CUDA_CLUSTER && row->cluster == 1) || job->rows > INT32_MAX / row->cluster ||
        (wanted == CUDA_ANY_KERNEL && (shape->edges || row->cluster == 1) && job->rows * row->cluster <= 4 * device->multiprocessors))
        return;
    warps = (blocks + row->cluster - 1) / row->cluster;
    if (half && !shape->edges && row->cluster == 16 && wanted == CUDA_ANY_KERNEL && RESIDENT_WARPS / (warps + 1) * warps < LEAST_AT_WORK)
        return;
    shape->kernel = row->cluster > 1 ? CUDA_CLUSTER : CUDA_BLOCK;
    shape->noted = 1;
    shape->balanced = few && (!wide || (!half && job->columns <= 128 * 1024 && job->rows <= FEW_WIDE_ROWS));
    shape->cluster = row->cluster;
    shape->warps = warps;
    shape->rows = 1;
    shape->ahead = RESIDENT_WARPS / (warps + 1) * device->multiprocessors / row->cluster / 2;
}

/* ---- A row over the whole GPU ---------------------------------------------------------------------------------------- */

#define MOST_COLUMNS (1 << 28) /* the limbs of more might reach 2^52 */

enum { FINE_OF_MULTIPROCESSOR = 4, COARSE_OF_MULTIPROCESSOR = 4, COARSE_BLOCKS = 8 /* a warp each */, MOST_PIECES = 256 };

static int64_t blocks_of(const softmax_job *job)
{
    return (job->columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
}

static int64_t most_blocks(const cuda_device *device)
{
    return (int64_t)device->multiprocessors * COARSE_OF_MULTIPROCESSOR;
}

static int choose_split(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    int64_t blocks = blocks_of(job), pieces = blocks;
    if (blocks == 0 || job->columns > MOST_COLUMNS || job->rows > INT32_MAX / MOST_PIECES)
        return 0;
    shape->kernel = CUDA_SPLIT;
    shape->early = device->capability >= 90;
    shape->fine = blocks <= FINE_BLOCKS && job->rows * blocks <= (int64_t)device->multiprocessors * FINE_OF_MULTIPROCESSOR;
    if (!shape->fine) {
        pieces = (most_blocks(device) + job->rows - 1) / job->rows;
        pieces = pieces > MOST_PIECES ? MOST_PIECES : pieces;
        if (pieces > (blocks + COARSE_BLOCKS - 1) / COARSE_BLOCKS)
            pieces = (blocks + COARSE_BLOCKS - 1) / COARSE_BLOCKS;
    }
    shape->pieces = (int)pieces;
    return 1;
}

/* Where scratch has been given or is asked about: one row or two of float32 of more than a thread block's columns, one of a 16-bit type of more than 128 blocks
 * (others are sooner through clusters: docs/results); and rows too long for clusters, unless there is one for every thread block that runs at a time. */
static int prefers_split(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    const int64_t longest = device->capability < 90 ? 16 * 1024 : 256 * 1024;
    const int half = job->x.type != ELEMENT_FLOAT32;
    cuda_shape made = *shape;
    if (job->columns <= 16 * 1024 || !choose_split(job, device, &made))
        return 0;
    if (job->columns <= longest ? job->rows > (half ? 1 : 2) || (half && job->columns <= 128 * 1024) : job->rows >= most_blocks(device))
        return 0;
    if (!job->scratch_needed && (!job->scratch || job->scratch_bytes < softmax_cuda_split_scratch(job, &made)))
        return 0;
    *shape = made;
    return 1;
}

size_t softmax_cuda_split_scratch(const softmax_job *job, const cuda_shape *shape)
{
    return shape->kernel == CUDA_SPLIT ? (size_t)job->rows * (size_t)shape->pieces * (shape->fine ? FINE_NOTE_BYTES : SPLIT_PART_BYTES) : 0;
}

/* ---- Axes that are not the last: strips of neighbouring rows ---------------------------------------------------------- */

/* Whether neighbouring rows are neighbours in memory, all of one type, and nothing is done to their scores. */
static int lies_in_strips(const softmax_job *job)
{
    const operand *x = &job->x, *out = &job->out;
    int last = job->dimensions - 1, bytes = element_bytes(x->type);
    if (job->kind == ARITHMETIC_64 || job->bias.data || job->mask.data || job->lengths.data || job->causal || job->softcap != 0.0 ||
        job->scale != 1.0 || x->row_stride[last] != bytes || job->shape[last] < 2 || !lies_well(x) || x->column_stride % bytes != 0)
        return 0;
    return job->op == OPERATION_LOGSUMEXP ? x->type == ELEMENT_FLOAT32
                                          : out->type == x->type && out->row_stride[last] == bytes && lies_well(out) && out->column_stride % bytes == 0;
}

/* Whether groups of neighbouring rows that take so many bytes lie at multiples of them, everywhere. */
static int lies_in_groups(const softmax_job *job, int bytes)
{
    const operand *arrays[2] = {&job->x, &job->out};
    if (job->shape[job->dimensions - 1] * element_bytes(job->x.type) % bytes != 0)
        return 0;
    for (int i = 0; i < (job->op == OPERATION_LOGSUMEXP ? 1 : 2); i++) {
        if ((uintptr_t)arrays[i]->data % (uintptr_t)bytes != 0 || arrays[i]->column_stride % bytes != 0)
            return 0;
        for (int d = 0; d + 1 < job->dimensions; d++)
            if (arrays[i]->row_stride[d] % bytes != 0)
                return 0;
    }
    return 1;
}

/* Whether a step to the next column has 32 bits. */
static int has_short_steps(const softmax_job *job)
{
    return job->x.column_stride >= 0 && job->x.column_stride <= UINT32_MAX &&
           (job->op == OPERATION_LOGSUMEXP || (job->out.column_stride >= 0 && job->out.column_stride <= UINT32_MAX));
}

/* strip_tiles.cuh's two ways, where rows lie so; 0: strip_rows.cuh has those rows too, and is slower. */
enum { TURNED_TILES = 1, ROWS_OF_THREADS = 1 };

#define SMALL_TILE 256 /* columns of tiles that take no more shared memory than every GPU gives */

static int choose_strips(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    int64_t blocks = blocks_of(job), inner = job->shape[job->dimensions - 1], strips = (inner + STRIP_ROWS - 1) / STRIP_ROWS;
    if (blocks == 0 || blocks > (device->capability < 90 ? 1 : MOST_BLOCKS) || !lies_in_strips(job) || job->rows / inner > INT32_MAX / blocks / strips)
        return 0;
    shape->kernel = CUDA_STRIPS;
    shape->cluster = (int)blocks;
    if (ROWS_OF_THREADS && job->columns <= THREAD_COLUMNS && has_short_steps(job))
        return 1;
    if (TURNED_TILES && has_short_steps(job) && lies_in_groups(job, 16) && (device->capability >= 90 || job->columns <= SMALL_TILE)) {
        shape->turned = 1;
        for (shape->tile_columns = 128; shape->tile_columns < job->columns && shape->tile_columns < SOFTMAX_BLOCK_COLUMNS;)
            shape->tile_columns *= 2;
        return 1;
    }
    shape->vectors = element_bytes(job->x.type) == 2 && lies_in_groups(job, 4);
    shape->tile_columns = job->columns <= 256 ? 256 : SOFTMAX_BLOCK_COLUMNS;
    return 1;
}

/* ---- The choice --------------------------------------------------------------------------------------------------- */

/* Short rows: lanes that hold a row, and its columns in each, by its columns. */
static const struct {
    int columns, row_lanes, lane_columns;
    int access; /* bytes of an access that it takes at least */
    int bytes;  /* of its elements; 0: any */
} short_table[] = {{64, 4, 16, 16, 4},  {64, 2, 32, 0, 0},  {96, 4, 32, 0, 0},   {112, 4, 28, 16, 4},
                   {112, 4, 28, 8, 2}, {128, 4, 32, 0, 0}, {256, 8, 32, 0, 0}, {512, 16, 32, 0, 0}, {1024, 32, 32, 0, 0}};

static int choose_short(const softmax_job *job, const cuda_device *device, cuda_shape *shape)
{
    int bytes = element_bytes(job->x.type), i = 0;
    if (job->columns > SOFTMAX_BLOCK_COLUMNS || job->rows > INT64_C(4) * INT32_MAX)
        return 0;
    shape->kernel = CUDA_WARP;
    shape->access = is_aligned(job, 16) ? 16 : is_aligned(job, 8) ? 8 : bytes;
    if (shape->access < 16 && job->columns > 256 && begin_alike(job)) {
        shape->edges = 1;
        shape->row_lanes = 32;
        shape->ahead = 4 * device->multiprocessors;
        shape->lane_columns = job->columns < 512 + 16 / bytes ? 16 : 32; /* beside edges 16-byte accesses hold a few columns more */
        return 1;
    }
    while (job->columns > short_table[i].columns || shape->access < short_table[i].access ||
           (short_table[i].bytes && bytes != short_table[i].bytes))
        i++;
    shape->row_lanes = short_table[i].row_lanes;
    shape->lane_columns = short_table[i].lane_columns;
    shape->vectors = shape->access >= 8;
    if (bytes == 2 && (job->op != OPERATION_SOFTMAX || job->columns > 512))
        shape->ahead = 4 * device->multiprocessors;
    return 1;
}

int softmax_cuda_choose(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape)
{
    int any = wanted == CUDA_ANY_KERNEL, rows = any || wanted == CUDA_BLOCK || wanted == CUDA_CLUSTER;
    if (softmax_cuda_is_gradient(job->op))
        return softmax_cuda_choose_gradient(job, device, wanted, shape);
    memset(shape, 0, sizeof *shape);
    shape->multiprocessors = device->multiprocessors;
    if (!is_forward(job->op)) /* states */
        return any || wanted == CUDA_GENERIC;
    if (is_plain(job)) {
        if ((any || wanted == CUDA_WARP) && choose_short(job, device, shape))
            return 1;
        shape->vectors = is_aligned(job, 16);
        shape->edges = !shape->vectors && begin_alike(job);
        if (wanted == CUDA_SPLIT ? choose_split(job, device, shape) : any && prefers_split(job, device, shape))
            return 1;
        if (rows && choose_rows(job, device, wanted, job->x.type == ELEMENT_FLOAT32 ? float32_table : half_table, shape)) {
            fold_last_block(job, shape);
            refine_rows(job, device, shape);
            choose_notes(job, device, wanted, shape);
            return 1;
        }
        if (wanted == CUDA_THREE_PASS || ((any ? blocks_of(job) > 0 : wanted == CUDA_ONLINE) && job->columns <= MOST_COLUMNS)) {
            shape->kernel = wanted == CUDA_THREE_PASS ? CUDA_THREE_PASS : CUDA_ONLINE;
            return 1;
        }
    } else if ((any || wanted == CUDA_STRIPS) && choose_strips(job, device, shape)) {
        return 1;
    } else if (rows && has_simple_options(job) && choose_rows(job, device, wanted, half_table, shape)) {
        refine_options(job, device, shape);
        return 1;
    } else if (job->kind != ARITHMETIC_64 && lies_well(&job->x) && lies_well(&job->out) && lies_well(&job->bias) && rows && choose_rows(job, device, wanted, scores_table, shape)) {
        shape->scores = 1;
        return 1;
    }
    shape->kernel = CUDA_GENERIC;
    return any || wanted == CUDA_GENERIC;
}
