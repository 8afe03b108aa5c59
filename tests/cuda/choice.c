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
                   {16388, "cluster", 1, 3, 8},   {50257, "cluster", 0, 7, 8},  {65536, "cluster", 1, 8, 8},
                   {131072, "cluster", 1, 8, 16}, {262144, "cluster", 1, 16, 16}, {262145, "generic", 0, 0, 0}};
    for (size_t i = 0; i < sizeof on_h200 / sizeof *on_h200; i++) {
        softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 1000, on_h200[i].columns, 0);
        EXPECT(job, h200, CUDA_ANY_KERNEL, on_h200[i].kernel, on_h200[i].vectors, on_h200[i].warps, on_h200[i].cluster);
        if (on_h200[i].columns > 16384)
            EXPECT(job, a100, CUDA_ANY_KERNEL, "generic", on_h200[i].vectors, 0, 0);
    }
}

static void by_layout(void)
{
    softmax_job job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4096, 1);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_BFLOAT16, 100, 4096, 8);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 1, 4, 1);
    job.x.row_stride[0] += 2; /* a pitch */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, 100, 4096, 0);
    job.scale = 0.5;
    EXPECT(job, h200, CUDA_ANY_KERNEL, "block", 0, 4, 1);
    job.columns = 8192;
    EXPECT(job, h200, CUDA_ANY_KERNEL, "cluster", 0, 2, 4);
    job.x.data++; /* an address that float32 cannot have */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
    job = contiguous(OPERATION_LOGSUMEXP, ELEMENT_FLOAT64, 100, 4096, 0);
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 0, 0, 0);
    job = contiguous(OPERATION_SOFTMAX, ELEMENT_FLOAT32, INT64_C(1) << 33, 4096, 0); /* more rows than a launch has thread blocks */
    EXPECT(job, h200, CUDA_ANY_KERNEL, "generic", 1, 0, 0);
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
                CHECK(shape.kernel == CUDA_GENERIC || shape.kernel == CUDA_WARP || shape.warps > 0,
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

int main(void)
{
    by_width();
    by_layout();
    by_name();
    without_columns();
    return check_finish("cuda_choice");
}
