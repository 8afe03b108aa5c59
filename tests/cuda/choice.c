/* Which CUDA kernel a job takes: by its shape alone, so that this needs neither a GPU nor CUDA. */
#include "cuda/choice.h"
#include "oracle/check.h"

#include <string.h>

static const cuda_device h200 = {90, 132}, a100 = {80, 108};

/* A contiguous job on an address that is a multiple of 256, `shift` elements on. */
static softmax_job contiguous(operation op, element type, int64_t rows, int64_t columns, int64_t shift)
{
    int64_t bytes = type == ELEMENT_FLOAT64 ? 8 : type == ELEMENT_FLOAT32 ? 4 : 2;
    softmax_job job;
    memset(&job, 0, sizeof job);
    job.op = op;
    job.kind = type == ELEMENT_FLOAT64    ? ARITHMETIC_64
               : type == ELEMENT_FLOAT32  ? ARITHMETIC_32
               : type == ELEMENT_BFLOAT16 ? ARITHMETIC_BFLOAT16
                                          : ARITHMETIC_FLOAT16;
    job.rows = job.shape[0] = rows;
    job.columns = columns;
    job.dimensions = 1;
    job.scale = 1.0;
    job.x = (operand){.data = (char *)0x7f0000000000 + shift * bytes, .type = type, .column_stride = bytes};
    job.x.row_stride[0] = columns * bytes;
    job.out = job.x;
    return job;
}

static void expect(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, const char *kernel,
                   int vectors, int warps, int cluster, int line)
{
    cuda_shape shape;
    int found = softmax_cuda_choose(job, device, wanted, &shape);
    const char *name = found ? softmax_cuda_kernel_name((int)shape.kernel) : "none";
    CHECK(strcmp(name, kernel) == 0 && (!found || (shape.vectors == vectors && shape.warps == warps && shape.cluster == cluster)),
          "line %d: %s, vectors %d, %d warps, %d thread blocks; not %s, %d, %d, %d", line, name, shape.vectors,
          shape.warps, shape.cluster, kernel, vectors, warps, cluster);
}
#define EXPECT(job, device, wanted, kernel, vectors, warps, cluster)                                                   \
    expect(&(job), &(device), wanted, kernel, vectors, warps, cluster, __LINE__)

static void by_width(void)
{
    static const struct {
        int64_t columns;
        const char *kernel;
        int vectors, warps, cluster;
    } on_h200[] = {{1, "warp", 0, 0, 0},          {64, "warp", 1, 0, 0},        {1024, "warp", 1, 0, 0},
                   {1025, "block", 0, 2, 1},      {4096, "block", 1, 4, 1},     {16384, "block", 1, 16, 1},
                   {16388, "cluster", 1, 9, 2},   {50257, "cluster", 0, 10, 5},  {65536, "cluster", 1, 8, 8},
                   {131072, "cluster", 1, 16, 8}, {262144, "cluster", 1, 16, 16}, {262145, "online", 0, 0, 0}};
    for (size_t i = 0; i < sizeof on_h200 / sizeof *on_h200; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 1000, on_h200[i].columns, 0);
        EXPECT(job, h200, CUDA_ANY_KERNEL, on_h200[i].kernel, on_h200[i].vectors, on_h200[i].warps, on_h200[i].cluster);
        if (on_h200[i].columns > 16384)
            EXPECT(job, a100, CUDA_ANY_KERNEL, "online", on_h200[i].vectors, 0, 0);
    }
}

static void by_layout(void)
{
    softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4096, 1);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4128, 1); /* the last columns are the last warp's too */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4129, 1);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 5, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4096, 8);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 1, 4, 1);
    job.x.row_stride[0] += 2; /* a pitch */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 100, 4096, 0);
    job.scale = 0.5; /* as rows without options */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 1, 4, 1);
    job.columns = 8192;
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 1, 8, 1);
    job.softcap = 20; /* element by element, with two registers a score */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "cluster", 0, 2, 4);
    job.x.data++; /* an address that float32 cannot have */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
    job = contiguous(OPERATION_LOGSUMEXP, ELEMENT_FLOAT64, 100, 4096, 0);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, INT64_C(1) << 33, 4096, 0); /* more rows than a launch has thread blocks */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "online", 1, 0, 0);
}

/* A row over the whole GPU: where few rows are long, and there is scratch for their parts. */
static void by_scratch(void)
{
    static char memory[1]; /* never touched */
    static const struct {
        int64_t rows, columns;
        const char *with, *without;
        int pieces, fine;
    } shapes[] = {{1, 4096, "block", "block", 0, 0},          {1, 128256, "split", "cluster", 126, 1},
                  {1, 262144, "split", "cluster", 256, 1},    {2, 262144, "split", "cluster", 256, 1},       {3, 128256, "cluster", "cluster", 0, 0},
                  {16, 128256, "cluster", "cluster", 0, 0},   {1, 1 << 20, "split", "online", 128, 0},
                  {100, 300000, "split", "online", 6, 0},     {1, 1 << 28, "split", "online", 256, 0},
                  {1000, 262145, "online", "online", 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, shapes[i].rows, shapes[i].columns, 0);
        cuda_shape shape;
        size_t needed = 0;
        bool split = strcmp(shapes[i].with, "split") == 0;
        EXPECT(job, h200, CUDA_SPLIT, "split", 1 - (int)(shapes[i].columns % 4 != 0), 0, 0);
        softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &shape);
        CHECK(strcmp(softmax_cuda_kernel_name((int)shape.kernel), shapes[i].without) == 0, "shape %zu without scratch", i);
        job.scratch_needed = &needed; /* asked about */
        softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &shape);
        CHECK(strcmp(softmax_cuda_kernel_name((int)shape.kernel), shapes[i].with) == 0 && (!split || (shape.pieces == shapes[i].pieces && shape.fine == shapes[i].fine)),
              "shape %zu: %d pieces, fine %d", i, shape.pieces, shape.fine);
        job.scratch_needed = NULL;
        job.scratch = memory;
        job.scratch_bytes = softmax_cuda_split_scratch(&job, &shape);
        softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &shape);
        CHECK(strcmp(softmax_cuda_kernel_name((int)shape.kernel), shapes[i].with) == 0, "shape %zu with scratch", i);
        if (!split)
            continue;
        job.scratch_bytes--;
        softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &shape);
        CHECK(strcmp(softmax_cuda_kernel_name((int)shape.kernel), shapes[i].without) == 0, "shape %zu with too little scratch", i);
    }
}

static void by_scratch_of_halves(void)
{
    static const struct {
        int64_t rows, columns;
        const char *kernel;
    } shapes[] = {{1, 128256, "cluster"}, {1, 262144, "split"}, {2, 262144, "cluster"}, {1, 1 << 20, "split"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, shapes[i].rows, shapes[i].columns, 0);
        cuda_shape shape;
        size_t needed = 0;
        job.scratch_needed = &needed;
        softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &shape);
        CHECK(strcmp(softmax_cuda_kernel_name((int)shape.kernel), shapes[i].kernel) == 0, "bfloat16 shape %zu: %s", i, softmax_cuda_kernel_name((int)shape.kernel));
    }
}

/* (2, columns, 100) along axis 1. */
static softmax_job middle_axis(element type, int64_t columns)
{
    softmax_job job = contiguous(OPERATION_SOFTMAX, type, 200, columns, 0);
    int64_t bytes = job.x.column_stride;
    job.dimensions = 2;
    job.shape[0] = 2;
    job.shape[1] = 100;
    job.x.column_stride = job.out.column_stride = 100 * bytes;
    job.x.row_stride[0] = job.out.row_stride[0] = columns * 100 * bytes;
    job.x.row_stride[1] = job.out.row_stride[1] = bytes;
    return job;
}

static void by_axis(void)
{
    softmax_job job = middle_axis(ELEMENT_FLOAT32, 64);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "strips", 0, 0, 1);
    job = middle_axis(ELEMENT_FLOAT32, 8192);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "strips", 0, 0, 8);
    EXPECT(job, a100, CUDA_ANY_KERNEL, "block", 0, 8, 1);
    job = middle_axis(ELEMENT_BFLOAT16, 1000);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "strips", 1, 0, 1);
    job.x.data += 2; /* pairs of rows are no words */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "strips", 0, 0, 1);
    job.x.data += 1;
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
    job = middle_axis(ELEMENT_FLOAT32, 20000); /* longer than a cluster's strip */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "cluster", 0, 3, 8);
    job = middle_axis(ELEMENT_FLOAT32, 1000);
    job.scale = 0.5;
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 1, 1);
    job = middle_axis(ELEMENT_FLOAT64, 1000);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
}

/* How rows lie in lanes and thread blocks, and what is asked for ahead. */
static void by_detail(void)
{
    static const struct {
        element type;
        int64_t columns, shift;
        int row_lanes, lane_columns, access, edges, rows, ahead;
    } made[] = {{ELEMENT_FLOAT32, 64, 0, 4, 16, 16, 0, 0, 0},     {ELEMENT_BFLOAT16, 64, 0, 2, 32, 16, 0, 0, 0},
                {ELEMENT_FLOAT16, 100, 0, 4, 28, 8, 0, 0, 0},     {ELEMENT_FLOAT32, 101, 0, 4, 32, 4, 0, 0, 0},
                {ELEMENT_BFLOAT16, 1024, 0, 32, 32, 16, 0, 0, 1}, {ELEMENT_FLOAT32, 513, 0, 32, 16, 4, 1, 0, 1},
                {ELEMENT_FLOAT32, 2048, 0, 0, 0, 0, 0, 1, 0},     {ELEMENT_BFLOAT16, 2048, 0, 0, 0, 0, 0, 4, 1},
                {ELEMENT_FLOAT32, 65536, 0, 0, 0, 0, 0, 1, 1},    {ELEMENT_FLOAT32, 2048, 1, 0, 0, 0, 1, 1, 1},
                {ELEMENT_BFLOAT16, 2049, 0, 0, 0, 0, 1, 4, 1},    {ELEMENT_BFLOAT16, 1500, 1, 0, 0, 0, 1, 1, 1}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, made[i].type, 1000, made[i].columns, made[i].shift);
        cuda_shape s;
        CHECK(softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &s), "%ld columns: no kernel", (long)made[i].columns);
        CHECK(s.row_lanes == made[i].row_lanes && s.lane_columns == made[i].lane_columns && s.access == made[i].access && s.edges == made[i].edges &&
                  s.rows == made[i].rows && (s.ahead > 0) == made[i].ahead,
              "%ld columns, %ld off: %d lanes of %d columns by %d bytes, edges %d, %d rows, %d ahead", (long)made[i].columns, (long)made[i].shift,
              s.row_lanes, s.lane_columns, s.access, s.edges, s.rows, s.ahead);
    }
    softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 1000, 2048, 1);
    cuda_shape s;
    job.out.data += 4; /* scores and results begin differently */
    CHECK(softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &s) && !s.edges && !s.vectors, "edges that differ");
}

/* Rows that a warp of their own reads out: of full blocks, and beyond 16,384 columns wherever they begin, where there are more than run at a time or the kernel is asked for. */
static void by_notes(void)
{
    static const struct {
        element type;
        int64_t rows, columns, shift;
        cuda_kernel wanted;
        int noted, warps, cluster;
    } made[] = {{ELEMENT_FLOAT32, 1000, 2048, 0, CUDA_ANY_KERNEL, 0, 2, 1},    {ELEMENT_FLOAT32, 1000, 4096, 0, CUDA_ANY_KERNEL, 1, 4, 1},
                {ELEMENT_FLOAT32, 528, 4096, 0, CUDA_ANY_KERNEL, 0, 4, 1},     {ELEMENT_FLOAT32, 16, 4096, 0, CUDA_BLOCK, 1, 4, 1},
                {ELEMENT_FLOAT32, 1000, 4096, 1, CUDA_ANY_KERNEL, 0, 4, 1},    {ELEMENT_FLOAT32, 1000, 3200, 0, CUDA_ANY_KERNEL, 0, 4, 1},
                {ELEMENT_FLOAT32, 16, 262144, 0, CUDA_ANY_KERNEL, 1, 16, 16},  {ELEMENT_FLOAT32, 1000, 32768, 0, CUDA_CLUSTER, 1, 16, 2},
                /* few rows, over more thread blocks */
                {ELEMENT_FLOAT32, 512, 32000, 0, CUDA_ANY_KERNEL, 1, 8, 4},     {ELEMENT_FLOAT32, 512, 128256, 0, CUDA_ANY_KERNEL, 1, 8, 16},
                {ELEMENT_FLOAT32, 513, 128256, 0, CUDA_ANY_KERNEL, 1, 16, 8},   {ELEMENT_BFLOAT16, 512, 32000, 0, CUDA_ANY_KERNEL, 1, 8, 4},
                {ELEMENT_BFLOAT16, 65, 128256, 0, CUDA_ANY_KERNEL, 1, 16, 8},   {ELEMENT_BFLOAT16, 64, 128256, 0, CUDA_ANY_KERNEL, 1, 8, 16},
                {ELEMENT_BFLOAT16, 1000, 16384, 0, CUDA_ANY_KERNEL, 0, 8, 2},  {ELEMENT_BFLOAT16, 1000, 32768, 0, CUDA_ANY_KERNEL, 1, 16, 2},
                {ELEMENT_FLOAT16, 1000, 65536, 0, CUDA_ANY_KERNEL, 1, 16, 4},  {ELEMENT_FLOAT16, 1000, 128256, 0, CUDA_ANY_KERNEL, 1, 16, 8},
                {ELEMENT_BFLOAT16, 1000, 202048, 0, CUDA_ANY_KERNEL, 0, 13, 16}, {ELEMENT_BFLOAT16, 1000, 50257, 0, CUDA_ANY_KERNEL, 1, 10, 5},
                {ELEMENT_BFLOAT16, 1000, 151936, 0, CUDA_ANY_KERNEL, 1, 10, 16}, {ELEMENT_FLOAT16, 1000, 32001, 0, CUDA_ANY_KERNEL, 1, 16, 2},
                {ELEMENT_FLOAT16, 1000, 100003, 0, CUDA_ANY_KERNEL, 1, 13, 8},  {ELEMENT_FLOAT32, 1000, 32001, 0, CUDA_ANY_KERNEL, 1, 16, 2},
                {ELEMENT_FLOAT32, 1000, 60001, 0, CUDA_ANY_KERNEL, 0, 8, 8},     {ELEMENT_FLOAT32, 1000, 10007, 0, CUDA_ANY_KERNEL, 0, 10, 1}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, made[i].type, made[i].rows, made[i].columns, made[i].shift);
        cuda_shape s;
        int found = softmax_cuda_choose(&job, &h200, made[i].wanted, &s);
        CHECK(found && s.noted == made[i].noted && s.warps == made[i].warps && s.cluster == made[i].cluster, "case %zu: noted %d, %d warps, %d thread blocks", i,
              s.noted, s.warps, s.cluster);
        if (softmax_cuda_choose(&job, &a100, made[i].wanted, &s))
            CHECK(!s.noted, "case %zu: notes without gates", i);
    }
}

/* Clusters that are placed where few thread blocks run so far. */
static void by_balance(void)
{
    static const struct {
        element type;
        int64_t rows, columns;
        int balanced;
    } made[] = {{ELEMENT_FLOAT32, 512, 32000, 1},  {ELEMENT_FLOAT32, 513, 32000, 0}, {ELEMENT_FLOAT32, 64, 128256, 1}, {ELEMENT_FLOAT32, 65, 128256, 0},
                {ELEMENT_FLOAT32, 16, 262144, 0},  {ELEMENT_BFLOAT16, 512, 32000, 1}, {ELEMENT_BFLOAT16, 16, 128256, 0}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, made[i].type, made[i].rows, made[i].columns, 0);
        cuda_shape s;
        int found = softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &s);
        CHECK(found && s.balanced == made[i].balanced, "case %zu: balanced %d", i, s.balanced);
    }
}

/* A row without columns has a logsumexp; it takes no kernel whose thread blocks would be empty. */
static void without_columns(void)
{
    static const element types[] = {ELEMENT_FLOAT32, ELEMENT_FLOAT16, ELEMENT_BFLOAT16, ELEMENT_FLOAT64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        softmax_job job = contiguous(OPERATION_LOGSUMEXP, types[i], 7, 0, 0);
        for (int wanted = 0; wanted <= CUDA_ANY_KERNEL; wanted++) {
            cuda_shape shape;
            if (softmax_cuda_choose(&job, &h200, (cuda_kernel)wanted, &shape))
                CHECK((shape.kernel != CUDA_BLOCK && shape.kernel != CUDA_CLUSTER && shape.kernel != CUDA_SPLIT && shape.kernel != CUDA_STRIPS) || shape.warps > 0,
                      "type %d, wanted %d: kernel %s of %d warps", (int)types[i], wanted,
                      softmax_cuda_kernel_name((int)shape.kernel), shape.warps);
        }
    }
}

static void by_name(void)
{
    softmax_job job = contiguous(OPERATION_LOG_SOFTMAX, ELEMENT_FLOAT32, 100, 512, 0);
    for (int i = 0; softmax_cuda_kernel_name(i); i++)
        CHECK(softmax_cuda_kernel_named(softmax_cuda_kernel_name(i)) == i, "%s", softmax_cuda_kernel_name(i));
    CHECK(softmax_cuda_kernel_named("warps") == -1, "a kernel named warps");
    EXPECT(job, h200, CUDA_BLOCK, "block", 1, 1, 1);
    EXPECT(job, h200, CUDA_GENERIC, "generic", 1, 0, 0);
    EXPECT(job, a100, CUDA_CLUSTER, "none", 0, 0, 0);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 100, 32768, 0);
    EXPECT(job, h200, CUDA_WARP, "none", 0, 0, 0);
    EXPECT(job, h200, CUDA_BLOCK, "none", 0, 0, 0);
}

/* Gradients: in which of the two ways rows come, and what losses leave to their sum. */
static void by_turns(void)
{
    static const struct {
        operation op;
        element type;
        int64_t columns, shift;
        softmax_reduction reduction;
        int warps, cluster, stages, turns, records;
    } on_h200[] = {
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 1024, 0, SOFTMAX_NONE, 1, 1, 0, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 4096, 0, SOFTMAX_NONE, 4, 1, 0, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 3072, 0, SOFTMAX_NONE, 3, 1, 0, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 9216, 0, SOFTMAX_NONE, 9, 1, 1, 1, 0}, /* 9 of 16 warps would run */
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 6144, 0, SOFTMAX_NONE, 6, 1, 0, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_BFLOAT16, 6144, 0, SOFTMAX_NONE, 6, 1, 2, 1, 0},
        {OPERATION_LOG_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 16384, 0, SOFTMAX_NONE, 16, 1, 0, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_BFLOAT16, 8192, 0, SOFTMAX_NONE, 8, 1, 1, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_BFLOAT16, 16384, 0, SOFTMAX_NONE, 16, 1, 2, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 8192, 1, SOFTMAX_NONE, 8, 1, 0, 1, 0}, /* not of whole vectors */
        {OPERATION_LOG_SOFTMAX_BACKWARD, ELEMENT_FLOAT32, 131072, 0, SOFTMAX_NONE, 16, 8, 1, 4, 0},
        {OPERATION_LOG_SOFTMAX_BACKWARD, ELEMENT_BFLOAT16, 1024, 0, SOFTMAX_NONE, 1, 1, 1, 1, 0},
        {OPERATION_SOFTMAX_BACKWARD, ELEMENT_FLOAT16, 32768, 0, SOFTMAX_NONE, 16, 2, 2, 4, 0},
        {OPERATION_CROSS_ENTROPY, ELEMENT_FLOAT32, 4096, 0, SOFTMAX_MEAN, 4, 1, 3, 1, 1},
        {OPERATION_CROSS_ENTROPY, ELEMENT_FLOAT32, 4096, 0, SOFTMAX_NONE, 4, 1, 1, 8, 0},
        {OPERATION_CROSS_ENTROPY, ELEMENT_FLOAT32, 4096, 1, SOFTMAX_MEAN, 4, 1, 0, 8, 0},
        {OPERATION_CROSS_ENTROPY, ELEMENT_BFLOAT16, 128256, 0, SOFTMAX_SUM, 16, 8, 3, 8, 1},
        {OPERATION_CROSS_ENTROPY, ELEMENT_BFLOAT16, 3072, 0, SOFTMAX_MEAN, 3, 1, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof on_h200 / sizeof *on_h200; i++) {
        softmax_job job = contiguous(on_h200[i].op, on_h200[i].type, 1000, on_h200[i].columns, on_h200[i].shift);
        cuda_shape s;
        int found;
        job.reduction = on_h200[i].reduction;
        if (job.op == OPERATION_CROSS_ENTROPY)
            job.targets = (operand){.data = (char *)0x7f0000000000, .type = ELEMENT_INT64};
        else
            job.dy = job.x;
        found = softmax_cuda_choose(&job, &h200, CUDA_ANY_KERNEL, &s);
        CHECK(found && s.warps == on_h200[i].warps && s.cluster == on_h200[i].cluster &&
                  s.stages == on_h200[i].stages && s.turns == on_h200[i].turns && s.records == on_h200[i].records,
              "case %zu: %d warps, %d thread blocks, %d stages, %d turns, %d records", i, s.warps, s.cluster, s.stages, s.turns, s.records);
        found = softmax_cuda_choose(&job, &a100, CUDA_ANY_KERNEL, &s);
        CHECK(found && s.stages == 0 && s.records == 0, "case %zu: a stream without bulk copies", i);
    }
}

/* Code for 8.0 alone, which the driver compiles for whatever the device is, has no clusters and no bulk copies. */
static void by_code(void)
{
    const cuda_device with_code_for_80 = {softmax_cuda_capability(90, 80), 132}, later = {softmax_cuda_capability(100, 90), 132};
    softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 1000, 32768, 0);
    cuda_shape shape;
    EXPECT(job, with_code_for_80, CUDA_ANY_KERNEL, "online", 1, 0, 0);
    EXPECT(job, later, CUDA_ANY_KERNEL, "cluster", 1, 16, 2);
    job = contiguous(OPERATION_SOFTMAX_BACKWARD, ELEMENT_BFLOAT16, 1000, 8192, 0);
    job.dy = job.x;
    CHECK(softmax_cuda_choose(&job, &with_code_for_80, CUDA_ANY_KERNEL, &shape) && shape.stages == 0, "a stream, by code for 8.0");
    CHECK(softmax_cuda_capability(86, 90) == 86, "8.6 with code for it");
}

int main(void)
{
    by_code();
    by_turns();
    by_width();
    by_layout();
    by_detail();
    by_notes();
    by_balance();
    by_scratch();
    by_scratch_of_halves();
    by_axis();
    by_name();
    without_columns();
    return check_finish("cuda_choice");
}
