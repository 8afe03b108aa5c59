/* Every kernel against the CPU, bit for bit: each operation and type over widths from 0 to beyond the largest cluster, aligned and not, forced
 * kernel by kernel. kernel_sweep --few: the small widths, for compute-sanitizer. */
#include "cuda/through_device.h"
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t widths[] = {0,    1,    2,    5,    7,     31,    32,    33,    63,    64,    65,     100,    127,    128,    129,    255,
                                 256,  257,  304,  500,  511,  512,   513,   1000,  1023,  1024,  1025,  2047,   2048,   2049,   4096,   4097,   8192,
                                 8193, 9217, 10007, 16384, 16385, 32001, 32768, 50257, 65536, 100003, 128256, 131072, 202048, 262144, 262145, 300001};
enum { WIDTHS = sizeof widths / sizeof *widths, LOGITS = 6 };

/* What a row is filled with, in turn. */
static void fill(const float_format *format, char *to, int64_t rows, int64_t columns, bool shares, bool logarithms, random_source *source)
{
    for (int64_t r = 0; r < rows; r++) {
        double scale = r % 5 == 1 ? 30 : r % 5 == 2 ? 0.01 : r % 5 == 3 ? 600 : 3;
        for (int64_t j = 0; j < columns; j++) {
            double x = scale * random_normal(source) + (r % 7 == 4 ? 1e4 : 0);
            if (shares)
                x = random_below(source, 16) == 0 ? 0 : random_uniform(source, 0, 2.0 / (double)columns) * (r % 5 == 3 ? 0x1p-30 : 1);
            if (logarithms)
                x = random_below(source, 16) == 0 ? -INFINITY : random_uniform(source, r % 5 == 3 ? -90 : -12, 0);
            format_store(format, to, r * columns + j, x);
        }
        if (r == 5 && columns > 0 && !shares)
            format_store(format, to, r * columns + random_below(source, columns), -INFINITY);
        if (r == 6 && columns > 0)
            format_store(format, to, r * columns + random_below(source, columns), NAN);
    }
}

/* --few: a width for each way that kernels take, aligned and not in turn. */
static bool is_one_of_few(int w, int offset)
{
    static const int64_t few[] = {0, 5, 64, 257, 1024, 2049};
    for (int i = 0; i < 6; i++)
        if (few[i] == widths[w])
            return i % 2 == offset;
    return false;
}

typedef struct sweep {
    operation operation;
    const float_format *input, *output;
    int64_t rows, columns;
    int offset; /* elements off the alignment */
    char *x, *second, *ours, *theirs;
    int64_t *targets;
    char *losses, *their_losses;
} sweep;

static char *aligned(int64_t elements, int bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 256, (size_t)(elements * bytes + 256)))
        abort();
    return memory;
}

static bool run(sweep *s, char *output, char *losses)
{
    tensor input, second, out, loss, lse;
    const float_format *loss_format = float_format_of_losses(s->input);
    char *x = s->x + s->offset * s->input->bytes;
    library_call call = library_call_of(s->operation, tensor_matrix(&input, x, s->input->dlpack, s->rows, s->columns),
                                        tensor_matrix(&second, s->second + s->offset * s->input->bytes, s->input->dlpack, s->rows, s->columns),
                                        tensor_matrix(&out, output + s->offset * s->output->bytes, s->output->dlpack, s->rows, s->columns), NULL, 1);
    if (s->operation == LOGSUMEXP)
        tensor_vector(&out, output, s->output->dlpack, s->rows);
    if (s->operation == CROSS_ENTROPY) {
        call.second = tensor_vector(&second, s->targets, tensor_int64, s->rows);
        call.loss = tensor_vector(&loss, losses, loss_format->dlpack, s->rows);
        call.options.reduction = SOFTMAX_NONE;
        call.options.row_logsumexp = tensor_vector(&lse, losses + s->rows * 8, loss_format->dlpack, s->rows);
        call.options.z_loss = s->columns % 3 == 0 ? 0x1p-12 : 0;
    }
    memset(output, 0xff, (size_t)((s->rows * s->columns + s->offset + 8) * 8));
    memset(losses, 0xff, (size_t)(s->rows * 16));
    return library_run_ok(&call, "sweep");
}

/* The textbook's kernel has errors of its own; what it must be is near. */
static bool is_near(const sweep *s, int64_t at, const char *ours, const char *theirs)
{
    double a = format_load(s->output, ours, at), b = format_load(s->output, theirs, at);
    return a == b || (a != a && b != b) || fabs(a - b) <= 1e-5 + fabs(b) * (s->output->bytes == 2 ? 0x1p-7 : 1e-4);
}

static void compare(sweep *s, const char *kernel)
{
    int64_t elements = s->operation == LOGSUMEXP ? s->rows : s->rows * s->columns, at = 0, skipped = s->operation == LOGSUMEXP ? 0 : s->offset;
    int bytes = s->output->bytes;
    const char *ours = s->ours + skipped * bytes, *theirs = s->theirs + skipped * bytes;
    bool textbook = strcmp(kernel, "three_pass") == 0;
    while (at < elements && (memcmp(ours + at * bytes, theirs + at * bytes, (size_t)bytes) == 0 || (textbook && is_near(s, at, ours, theirs))))
        at++;
    CHECK(at == elements, "%s %s to %s, %ld x %ld, offset %d, kernel %s: element (%ld, %ld) is %a on the GPU and %a on the CPU",
          operation_names[s->operation], s->input->name, s->output->name, (long)s->rows, (long)s->columns, s->offset, kernel,
          (long)(s->columns ? at / (s->operation == LOGSUMEXP ? 1 : s->columns) : 0), (long)(s->columns ? at % s->columns : 0),
          at < elements ? format_load(s->output, ours, at) : 0, at < elements ? format_load(s->output, theirs, at) : 0);
    if (s->operation == CROSS_ENTROPY)
        CHECK(memcmp(s->losses, s->their_losses, (size_t)(s->rows * 16)) == 0, "cross_entropy %s, %ld x %ld, kernel %s: losses or logsumexp differ",
              s->input->name, (long)s->rows, (long)s->columns, kernel);
}

static void sweep_shape(sweep *s, random_source *source)
{
    int64_t elements = s->rows * s->columns + 8;
    bool softmax = s->operation == SOFTMAX_BACKWARD, log = s->operation == LOG_SOFTMAX_BACKWARD;
    s->x = aligned(elements, 8);
    s->second = aligned(elements, 8);
    s->ours = aligned(elements, 8);
    s->theirs = aligned(elements, 8);
    s->targets = (int64_t *)(void *)aligned(s->rows, 8);
    s->losses = aligned(s->rows, 16);
    s->their_losses = aligned(s->rows, 16);
    fill(s->input, s->x + s->offset * s->input->bytes, s->rows, s->columns, softmax, log, source);
    fill(s->input, s->second + s->offset * s->input->bytes, s->rows, s->columns, false, false, source);
    for (int64_t r = 0; r < s->rows; r++)
        s->targets[r] = r == 3 || s->columns == 0 ? -100 : random_below(source, s->columns);
    through_device = false;
    run(s, s->theirs, s->their_losses);
    through_device = true;
    for (int k = -1; k < 0 || softmax_cuda_kernel_name(k); k++) {
        long before = through_device_forced;
        through_device_kernel = k < 0 ? NULL : softmax_cuda_kernel_name(k);
        run(s, s->ours, s->losses);
        if (k < 0 || through_device_forced > before)
            compare(s, k < 0 ? "of the shape" : softmax_cuda_kernel_name(k));
    }
    through_device_kernel = NULL;
    free(s->x);
    free(s->second);
    free(s->ours);
    free(s->theirs);
    free(s->targets);
    free(s->losses);
    free(s->their_losses);
}

int main(int count, char **arguments)
{
    bool few = count > 1 && strcmp(arguments[1], "--few") == 0;
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int f = 0; f < LOGITS; f++) {
            random_source source = random_seed((uint64_t)(operation * 10 + f));
            for (int w = 0; w < WIDTHS; w++)
                for (int offset = 0; offset < 2; offset++) {
                    sweep s = {(enum operation)operation, &float_formats[f < 4 ? f : f - 2], &float_formats[f < 4 ? f : 0], 7, widths[w], offset,
                               NULL, NULL, NULL, NULL, NULL, NULL, NULL};
                    if (few ? !is_one_of_few(w, offset) : offset && w % 2)
                        continue;
                    if (s.columns > 20000)
                        s.rows = f % 2 ? 3 : 2;
                    sweep_shape(&s, &source);
                }
            printf("%s %s to %s: compared\n", operation_names[operation], float_formats[f < 4 ? f : f - 2].name,
                   float_formats[f < 4 ? f : 0].name);
            fflush(stdout);
        }
    return check_finish("kernel_sweep");
}
