/* Options of the forwards against the CPU, bit for bit: scales, biases, masks, lengths, the causal mask, alone and together, over widths, alignments and rows of
 * every kind. On a GPU, or in the emulator over fewer widths. option_sweep --few: fewer still, for compute-sanitizer. */
#include "cuda/through_device.h"
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, QUERIES = 4, ROWS = BATCH * QUERIES, SLACK = 16 };

typedef enum operand_shape { NONE, OF_COLUMNS, OF_ELEMENTS, OF_BATCHES } operand_shape;

typedef struct option_case {
    double scale;
    operand_shape mask, bias;
    bool lengths, causal, softcap;
} option_case;

static const option_case cases[] = {
    {0.7, NONE, NONE, false, false, false},       {0.5, NONE, NONE, false, false, false},        {-1.3, NONE, NONE, false, false, false},
    {1, OF_COLUMNS, NONE, false, false, false},   {1, OF_ELEMENTS, NONE, false, false, false},   {1, OF_BATCHES, NONE, false, false, false},
    {1, NONE, NONE, true, false, false},          {1, NONE, NONE, false, true, false},           {3, OF_ELEMENTS, NONE, true, false, false},
    {-0.1, OF_BATCHES, NONE, false, true, false}, {1, NONE, OF_COLUMNS, false, false, false},    {0.7, NONE, OF_ELEMENTS, false, true, false},
    {-2, OF_ELEMENTS, OF_BATCHES, true, false, false}, {0x1p-30, OF_COLUMNS, NONE, false, false, false}, {0, OF_COLUMNS, NONE, false, false, false},
    {40, NONE, NONE, true, true, false},          {0.7, OF_ELEMENTS, NONE, false, false, true},  {0x1p90, NONE, NONE, false, false, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static const int64_t widths[] = {1, 4, 7, 31, 64, 255, 256, 260, 513, 1000, 1024, 1025, 2048, 2056, 4097, 8192, 9216, 20000, 33001, 70000, 262144};
enum { WIDTHS = sizeof widths / sizeof *widths };

typedef struct option_sweep {
    operation operation;
    const float_format *format;
    int64_t columns;
    int offset; /* elements off the alignment; bytes of the mask */
    char *x, *bias, *out, *theirs;
    uint8_t *mask;
    int64_t lengths[ROWS];
} option_sweep;

static void fill(option_sweep *s, random_source *source)
{
    const float_format *format = s->format;
    int64_t columns = s->columns;
    double largest = format->bytes == 2 && format->precision == 11 ? 6e4 : 3e38;
    for (int64_t r = 0; r < ROWS; r++) {
        double size = r % 4 == 1 ? 30 : r % 4 == 2 ? 0.01 : 3;
        for (int64_t j = 0; j < columns; j++)
            format_store(format, s->x, s->offset + r * columns + j, size * random_normal(source) + (r == 3 ? 1e4 : 0));
        for (int64_t j = 0; j < columns; j++)
            format_store(format, s->bias, s->offset + r * columns + j, random_below(source, 9) == 0 ? -INFINITY : 2 * random_normal(source));
        s->lengths[r] = r == 6 ? 0 : random_below(source, columns + 3);
    }
    for (int64_t i = 0; i < ROWS * columns; i++)
        s->mask[s->offset + i] = random_below(source, 8) == 0 ? 0 : (uint8_t)(1 + random_below(source, 255));
    if (random_below(source, 2)) /* a row of extremes, one with a NaN, one with an infinity */
        format_store(format, s->x, s->offset + 4 * columns + random_below(source, columns), random_below(source, 2) ? largest : -largest);
    format_store(format, s->x, s->offset + 5 * columns + random_below(source, columns), NAN);
    format_store(format, s->x, s->offset + 7 * columns + random_below(source, columns), random_below(source, 2) ? INFINITY : -INFINITY);
    format_store(format, s->x, s->offset + random_below(source, columns), -INFINITY);
    s->mask[s->offset + 5 * columns + random_below(source, columns)] = 0;
}

/* (batches, queries, columns), shared as the shape says. */
static DLTensor *operand_of(tensor *made, void *data, DLDataType type, operand_shape shape, int64_t columns)
{
    if (shape == NONE)
        return NULL;
    int64_t sizes[3] = {shape == OF_COLUMNS ? 1 : BATCH, shape == OF_ELEMENTS ? QUERIES : 1, columns};
    return tensor_make(made, data, type, 3, sizes, NULL);
}

static bool run(option_sweep *s, const option_case *c, char *out)
{
    const int64_t shape[3] = {BATCH, QUERIES, s->columns}, skipped = s->operation == LOGSUMEXP ? 0 : s->offset;
    const float_format *format = s->operation == LOGSUMEXP ? float_format_of_losses(s->format) : s->format;
    tensor input, output, mask, bias, lengths;
    memset(out, 0xff, (size_t)((ROWS * s->columns + SLACK) * 8));
    library_call call = library_call_of(s->operation, tensor_make(&input, s->x + s->offset * s->format->bytes, s->format->dlpack, 3, shape, NULL), NULL,
                                        tensor_make(&output, out + skipped * format->bytes, format->dlpack, s->operation == LOGSUMEXP ? 2 : 3, shape, NULL),
                                        NULL, 2);
    call.options.scale = c->scale;
    call.options.softcap = c->softcap ? 25 : 0;
    call.options.mask = operand_of(&mask, s->mask + s->offset, tensor_uint8, c->mask, s->columns);
    call.options.bias = operand_of(&bias, s->bias + s->offset * s->format->bytes, s->format->dlpack, c->bias, s->columns);
    if (c->lengths)
        call.options.valid_lengths = tensor_make(&lengths, s->lengths, tensor_int64, 2, shape, NULL);
    call.options.causal = c->causal;
    call.options.causal_offset = s->columns / 2;
    call.options.empty_rows = s->columns % 2 ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
    return library_run_ok(&call, "option_sweep");
}

static void compare(option_sweep *s, int which)
{
    const option_case *c = &cases[which];
    const int64_t elements = s->operation == LOGSUMEXP ? ROWS : ROWS * s->columns + SLACK;
    const int bytes = s->operation == LOGSUMEXP ? float_format_of_losses(s->format)->bytes : s->format->bytes;
    int64_t at = 0;
    if (!run(s, c, s->out))
        return;
    while (at < elements && memcmp(s->out + at * bytes, s->theirs + at * bytes, (size_t)bytes) == 0)
        at++;
    CHECK(at == elements, "%s %s, %ld columns, offset %d, case %d (scale %g): element %ld of row %ld differs from the CPU's", operation_names[s->operation],
          s->format->name, (long)s->columns, s->offset, which, c->scale, (long)(at % s->columns), (long)(at / s->columns));
}

static void sweep(option_sweep *s, random_source *source)
{
    size_t bytes = (size_t)((ROWS * s->columns + SLACK) * 8);
    char *memory[5];
    for (int i = 0; i < 5; i++)
        if (posix_memalign((void **)&memory[i], 256, bytes))
            abort();
    s->x = memory[0], s->bias = memory[1], s->out = memory[2], s->theirs = memory[3], s->mask = (uint8_t *)memory[4];
    fill(s, source);
    for (int c = 0; c < CASES; c++) {
        through_device = false;
        run(s, &cases[c], s->theirs);
        through_device = true;
        compare(s, c);
    }
    for (int i = 0; i < 5; i++)
        free(memory[i]);
}

int main(int count, char **arguments)
{
    const int64_t most = count > 1 ? strcmp(arguments[1], "--few") == 0 ? 300 : atoi(arguments[1]) : INT64_MAX;
    static const operation operations[] = {SOFTMAX, LOG_SOFTMAX, LOGSUMEXP};
    for (int o = 0; o < 3; o++)
        for (int f = 0; f < 4; f++) {
            random_source source = random_seed((uint64_t)(o * 4 + f));
            for (int w = 0; w < WIDTHS; w++) {
                option_sweep s = {operations[o], &float_formats[f], widths[w], w % 3 == 2, NULL, NULL, NULL, NULL, NULL, {0}};
                if (widths[w] <= most && (float_formats[f].type != SOFTMAX_FLOAT64 || widths[w] == 1000))
                    sweep(&s, &source);
            }
        }
    return check_finish("option_sweep");
}
