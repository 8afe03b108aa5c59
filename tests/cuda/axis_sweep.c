/* Axes that are not the last against the CPU, bit for bit: over columns, neighbouring rows and alignments, with rows of every kind. On a GPU, or in the
 * emulator over fewer columns (axis_sweep COLUMNS). axis_sweep --few: for compute-sanitizer. */
#include "cuda/through_device.h"
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OUTER = 2, SLACK = 16 };

static const int64_t columns_of[] = {1, 5, 31, 32, 33, 64, 65, 100, 128, 129, 256, 300, 513, 1000, 1024, 1025, 2500, 8192, 16384, 17000};
static const int64_t beside[] = {7, 8, 16, 24, 100, 130};
enum { COLUMNS = sizeof columns_of / sizeof *columns_of, BESIDE = sizeof beside / sizeof *beside };

typedef struct axis_sweep {
    operation operation;
    const float_format *format;
    int64_t columns, inner;
    int offset; /* elements off the alignment */
    char *x, *out, *theirs;
} axis_sweep;

static void fill(axis_sweep *s, random_source *source)
{
    int64_t inner = s->inner, columns = s->columns;
    for (int64_t o = 0; o < OUTER; o++)
        for (int64_t r = 0; r < inner; r++) {
            int kind = (int)((o * inner + r) % 11);
            double size = kind == 1 ? 30 : kind == 2 ? 0.01 : kind == 3 ? 600 : 3;
            for (int64_t j = 0; j < columns; j++)
                format_store(s->format, s->x, s->offset + (o * columns + j) * inner + r,
                             kind == 7 ? -INFINITY : size * random_normal(source) + (kind == 4 ? 1e4 : 0));
            if (kind == 5 || kind == 6 || kind == 8)
                format_store(s->format, s->x, s->offset + (o * columns + random_below(source, columns)) * inner + r,
                             kind == 5 ? -INFINITY : kind == 6 ? NAN : s->format->precision == 11 ? 6e4 : 1e6);
        }
}

static bool run(axis_sweep *s, char *out)
{
    const int64_t shape[3] = {OUTER, s->columns, s->inner}, rows[2] = {OUTER, s->inner};
    const bool reduced = s->operation == LOGSUMEXP;
    const float_format *format = reduced ? float_format_of_losses(s->format) : s->format;
    tensor input, output;
    memset(out, 0xff, (size_t)((OUTER * s->columns * s->inner + SLACK) * 8));
    library_call call = library_call_of(
        s->operation, tensor_make(&input, s->x + s->offset * s->format->bytes, s->format->dlpack, 3, shape, NULL), NULL,
        tensor_make(&output, out + s->offset * format->bytes, format->dlpack, reduced ? 2 : 3, reduced ? rows : shape, NULL), NULL, 1);
    call.options.empty_rows = s->columns % 2 ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
    return library_run_ok(&call, "axis_sweep");
}

static void sweep(axis_sweep *s, random_source *source)
{
    const int64_t elements = OUTER * s->inner * (s->operation == LOGSUMEXP ? 1 : s->columns) + SLACK;
    const int bytes = s->operation == LOGSUMEXP ? float_format_of_losses(s->format)->bytes : s->format->bytes;
    char *memory[3];
    int64_t at = 0;
    for (int i = 0; i < 3; i++)
        if (posix_memalign((void **)&memory[i], 256, (size_t)((OUTER * s->columns * s->inner + SLACK) * 8)))
            abort();
    s->x = memory[0], s->out = memory[1], s->theirs = memory[2];
    fill(s, source);
    through_device = false;
    run(s, s->theirs);
    through_device = true;
    if (run(s, s->out)) {
        while (at < elements && memcmp(s->out + at * bytes, s->theirs + at * bytes, (size_t)bytes) == 0)
            at++;
        CHECK(at == elements, "%s %s, %ld columns of %ld rows, offset %d: element %ld differs from the CPU's", operation_names[s->operation], s->format->name,
              (long)s->columns, (long)s->inner, s->offset, (long)at);
    }
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

int main(int count, char **arguments)
{
    const int64_t most = count > 1 ? strcmp(arguments[1], "--few") == 0 ? 130 : atoi(arguments[1]) : INT64_MAX;
    static const operation operations[] = {SOFTMAX, LOG_SOFTMAX, LOGSUMEXP};
    for (int o = 0; o < 3; o++)
        for (int f = 0; f < 4; f++) {
            random_source source = random_seed((uint64_t)(o * 4 + f));
            for (int c = 0; c < COLUMNS; c++)
                for (int b = 0; b < BESIDE; b++) {
                    axis_sweep s = {operations[o], &float_formats[f], columns_of[c], beside[b], (b + c) % 4 == 3, NULL, NULL, NULL};
                    if (columns_of[c] <= most && (float_formats[f].type != SOFTMAX_FLOAT64 || c % 8 == 0))
                        sweep(&s, &source);
                }
        }
    return check_finish("axis_sweep");
}
