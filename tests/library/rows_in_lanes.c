/* Rows that vectors take one per lane (short rows, and axes that are not the last), and rows of one block, have the bits of rows on their own: every width, number
 * of rows, type, stride, kind of mask and special row, on every instruction set. The rows on their own go through the online state. */
#include "oracle/check.h"
#include "oracle/float_formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 18, CANARY = 0x5e };

typedef enum given { PLAIN, MASK, LENGTHS, CAUSAL, BIAS, SCALE, SOFTCAP, MASKED_BIAS, ALL, GIVEN } given;
static const char *const given_names[] = {"plain", "mask", "lengths", "causal", "scale and bias", "scale", "softcap", "mask and bias",
                                          "softcap, scale, bias, mask and lengths"};
static const char *const operation_names[] = {"softmax", "log_softmax", "logsumexp"};

typedef struct problem {
    const float_format *in, *out;
    int operation;
    int64_t outer, columns, inner; /* the axis is the middle one */
    int64_t gap;                   /* elements between the rows of columns of memory */
    bool in_place;
    given given;
    bool shared; /* one mask and one bias for all inner rows */
    int empty_rows;
    bool ordinary; /* every row */
    softmax_streaming streaming;
} problem;

/* By row, then column. */
static char scores[LARGEST * 8], bias[LARGEST * 8], expected[LARGEST * 8];
static uint8_t mask[LARGEST];
static int32_t lengths[LARGEST];
/* As the call under test has them. */
static _Alignas(64) char placed[LARGEST * 8], result[LARGEST * 8];
static char placed_bias[LARGEST * 8];
static uint8_t placed_mask[LARGEST];

static uint64_t seed = 1;

static int below(int limit)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((seed >> 33) % (uint64_t)limit);
}

static double gaussian(void)
{
    return (below(1 << 16) + below(1 << 16) + below(1 << 16) + below(1 << 16)) / 65536.0 * 1.7 - 3.4;
}

/* A score of a row of some kind; most rows are ordinary. */
static double score(int kind, int64_t column, int64_t at)
{
    switch (kind) {
    case 0:
        return 30 * gaussian();
    case 1: /* ties, also of zeros with both signs */
        return below(3) ? -0.0 : below(2) ? 0.0 : -1.0;
    case 2:
        return below(4) ? -INFINITY : gaussian();
    case 3:
        return -INFINITY;
    case 4:
        return column == at ? NAN : below(5) ? gaussian() : INFINITY;
    case 5:
        return column == at ? INFINITY : below(3) ? gaussian() : -INFINITY;
    case 6: /* far scores */
        return 400000.0 + gaussian();
    case 7:
        return -3e6 - below(100);
    case 8:
        return column == at ? 60000.0 : -60000.0 * below(3);
    case 9:
        return -50.0 - 50 * (below(1000) / 1000.0);
    case 10: /* a deep tail */
        return column == at ? 0.0 : -83 - 5 * (below(1000) / 1000.0);
    case 11:
        return column == at ? 3e38 : -3e38;
    case 12: /* every block far below the one before */
        return gaussian() * (below(50) ? 1 : 30) - 110.0 * (double)(column / 1024);
    case 13: /* times 0.3 in the middle between two multiples of ln 2, where a low part decides which is nearer */
        return (250000.5 + (double)at) * 0.69314718055994531 / 0.3 - below(2);
    default:
        return gaussian();
    }
}

/* A bias of a row of some kind: near 0, masks, what a score cannot hold, what cancels. */
static double bias_of(int kind, double its_score)
{
    switch (kind) {
    case 0:
        return below(3) ? gaussian() : -INFINITY;
    case 1:
        return below(3) ? gaussian() : -1e9;
    case 2:
        return below(5) ? gaussian() : NAN;
    case 3:
        return below(5) ? gaussian() : INFINITY;
    case 4:
        return -0.3 * its_score + gaussian();
    case 5:
        return below(2) ? -3e38 : 3e38;
    default:
        return below(9) ? gaussian() : -INFINITY;
    }
}

static void make_rows(const problem *p)
{
    for (int64_t row = 0; row < p->outer * p->inner; row++) {
        int kind = p->ordinary || below(3) ? 99 : below(14), bias_kind = below(3) ? 99 : below(6);
        int64_t at = below((int)p->columns);
        lengths[row] = below((int)p->columns + 2);
        for (int64_t j = 0; j < p->columns; j++) {
            int64_t i = row * p->columns + j;
            format_store(p->in, scores, i, score(kind, j, at));
            format_store(p->in, bias, i, bias_of(bias_kind, format_load(p->in, scores, i)));
            mask[i] = below(4) != 0;
            if (p->shared && row % p->inner) {
                int64_t from = i - row % p->inner * p->columns;
                mask[i] = mask[from];
                memcpy(bias + i * p->in->bytes, bias + from * p->in->bytes, (size_t)p->in->bytes);
            }
        }
    }
}

static void set_options(softmax_options *o, const problem *p, const DLTensor *its_mask, const DLTensor *its_lengths, const DLTensor *its_bias)
{
    o->threads = 1;
    o->empty_rows = p->empty_rows;
    o->streaming = p->streaming;
    if (p->given == MASK || p->given == MASKED_BIAS || p->given == ALL)
        o->mask = its_mask;
    if (p->given == LENGTHS || p->given == ALL)
        o->valid_lengths = its_lengths;
    if (p->given == BIAS || p->given == MASKED_BIAS || p->given == ALL)
        o->bias = its_bias;
    if (p->given == BIAS || p->given == ALL)
        o->scale = 0.3;
    if (p->given == SCALE)
        o->scale = p->columns % 3 == 0 ? -1.5 : p->columns % 3 == 1 ? 20 : 0.3;
    if (p->given == SOFTCAP || p->given == ALL)
        o->softcap = 4;
    o->causal = p->given == CAUSAL;
    o->causal_offset = 2;
}

static DLTensor tensor_of(void *data, DLDataType type, int ndim, int64_t *shape, int64_t *strides)
{
    DLTensor made = {data, {kDLCPU, 0}, ndim, type, shape, strides, 0};
    return made;
}

static const DLDataType boolean = {kDLUInt, 8, 1}, integer = {kDLInt, 32, 1};

/* Row by row through the online state. */
static softmax_status expect(const problem *p)
{
    static softmax_state states[LARGEST / 2];
    int64_t rows = p->outer * p->inner, shape[2] = {rows, p->columns};
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    DLTensor x = tensor_of(scores, p->in->dlpack, 2, shape, NULL), y = tensor_of(expected, p->out->dlpack, 2, shape, NULL);
    DLTensor its_mask = tensor_of(mask, boolean, 2, shape, NULL), its_bias = tensor_of(bias, p->in->dlpack, 2, shape, NULL);
    DLTensor its_lengths = tensor_of(lengths, integer, 1, shape, NULL);
    softmax_status status = softmax_state_init(states, rows, p->out->type);
    set_options(&o, p, &its_mask, &its_lengths, &its_bias);
    if (status == SOFTMAX_OK)
        status = softmax_state_update(states, &x, 1, &o);
    if (status != SOFTMAX_OK)
        return status;
    if (p->operation == 2)
        return softmax_state_logsumexp(states, expected, rows);
    return (p->operation ? softmax_state_log_normalise : softmax_state_normalise)(states, &x, &y, 1, &o);
}

/* Moves elements between rows on their own and the call's layout. */
static void move(const problem *p, char *rows, char *placed_rows, int64_t columns, int bytes, bool back)
{
    int64_t pitch = p->inner > 1 ? p->inner + p->gap : 1, outer_pitch = columns * pitch + (p->inner > 1 ? 0 : p->gap);
    for (int64_t row = 0; row < p->outer * p->inner; row++)
        for (int64_t j = 0; j < columns; j++) {
            char *a = rows + (row * columns + j) * bytes;
            char *b = placed_rows + (row / p->inner * outer_pitch + j * pitch + row % p->inner) * bytes;
            memcpy(back ? a : b, back ? b : a, (size_t)bytes);
        }
}

static softmax_status run(const problem *p, const char *isa)
{
    int64_t shape[3] = {p->outer, p->columns, p->inner}, rows_shape[2] = {p->outer, p->inner};
    int64_t pitch = p->inner > 1 ? p->inner + p->gap : 1, outer_pitch = p->columns * pitch + (p->inner > 1 ? 0 : p->gap);
    int64_t strides[3] = {outer_pitch, pitch, 1}, mask_strides[3] = {outer_pitch, pitch, 1};
    int ndim = p->inner > 1 ? 3 : 2;
    if (p->shared)
        mask_strides[2] = 0;
    char *to = p->in_place ? placed : result;
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    DLTensor x = tensor_of(placed, p->in->dlpack, ndim, shape, strides), y = tensor_of(to, p->out->dlpack, ndim, shape, strides);
    DLTensor l = tensor_of(result, p->out->dlpack, ndim - 1, rows_shape, NULL);
    DLTensor its_mask = tensor_of(placed_mask, boolean, ndim, shape, mask_strides);
    DLTensor its_bias = tensor_of(placed_bias, p->in->dlpack, ndim, shape, mask_strides);
    DLTensor its_lengths = tensor_of(lengths, integer, ndim - 1, rows_shape, NULL);
    softmax_status status;
    memset(placed, CANARY, sizeof placed);
    memset(result, CANARY, sizeof result);
    move(p, scores, placed, p->columns, p->in->bytes, false);
    move(p, bias, placed_bias, p->columns, p->in->bytes, false);
    move(p, (char *)mask, (char *)placed_mask, p->columns, 1, false);
    set_options(&o, p, &its_mask, &its_lengths, &its_bias);
    o.isa = isa;
    if (p->operation == 2)
        return softmax_logsumexp(&x, &l, 1, &o);
    status = (p->operation ? softmax_log_softmax : softmax_softmax)(&x, &y, 1, &o);
    /* what is not an element must be as it was: all is brought back to what it was, then compared */
    memcpy(placed_bias, to, sizeof placed_bias);
    memset(to, CANARY, sizeof placed);
    move(p, scores, placed_bias, p->columns, p->out->bytes, true);
    move(p, scores, to, p->columns, p->out->bytes, false);
    CHECK(memcmp(to, placed_bias, sizeof placed_bias) == 0, "%s %s: bytes between the elements were written", operation_names[p->operation], p->out->name);
    memcpy(result, scores, sizeof result);
    return status;
}

static void compare(problem *p, const char *isa)
{
    int64_t count = p->outer * p->inner * (p->operation == 2 ? 1 : p->columns);
    softmax_status first, second;
    make_rows(p);
    first = expect(p);
    second = run(p, isa);
    if (p->operation == 2 && p->in->bytes == 2 && p->out->bytes == 2)
        return;
    bool same = memcmp(result, expected, (size_t)(count * p->out->bytes)) == 0;
    int64_t at = 0;
    while (!same && at < count - 1 && memcmp(result + at * p->out->bytes, expected + at * p->out->bytes, (size_t)p->out->bytes) == 0)
        at++;
    CHECK(first == SOFTMAX_OK && second == SOFTMAX_OK && same,
          "%s, %s %s to %s, %lld x %lld x %lld, gap %lld%s, %s: status %d and %d; element %lld is %a, alone %a", isa,
          operation_names[p->operation], p->in->name, p->out->name, (long long)p->outer, (long long)p->columns,
          (long long)p->inner, (long long)p->gap, p->in_place ? ", in place" : "", given_names[p->given], (int)first,
          (int)second, (long long)at, format_load(p->out, result, at), format_load(p->out, expected, at));
}

static void choose(problem *p)
{
    static const softmax_type ins[] = {SOFTMAX_FLOAT32, SOFTMAX_FLOAT64, SOFTMAX_FLOAT16, SOFTMAX_BFLOAT16};
    int type = below(8);
    memset(p, 0, sizeof *p);
    p->operation = below(3);
    p->in = p->out = float_format_of(ins[type < 4 ? type : 0]);
    if (type >= 6)
        p->in = float_format_of(ins[type - 4]); /* 16 bits to float32 */
    if (p->operation == 2)
        p->out = float_format_of_losses(p->in);
    p->given = (given)below(below(2) ? GIVEN : 1);
    p->empty_rows = below(2) ? SOFTMAX_EMPTY_ZERO : SOFTMAX_EMPTY_NAN;
    p->in_place = p->in == p->out && p->operation != 2 && below(2);
    p->gap = below(2) ? 0 : below(20);
    p->shared = below(3) == 0;
}

/* Widths 1 to 130 and some to 1024, 1 to 40 rows. */
static void short_rows(const char *isa)
{
    problem p;
    for (int i = 1; i <= 180; i++)
        for (int again = 0; again < 6; again++) {
            choose(&p);
            p.outer = 1 + below(40);
            p.inner = 1;
            p.columns = i <= 130 ? i : i <= 170 ? 131 + below(890) : 1020 + below(5);
            compare(&p, isa);
        }
}

/* Rows of several blocks: widths next to a block's end and others, more rows than a batch has. */
static void long_rows(const char *isa)
{
    static const int64_t widths[] = {1025, 1030, 2047, 2048, 2049, 2500, 3072, 4097, 6000};
    problem p;
    for (int i = 0; i < 9; i++)
        for (int again = 0; again < 9; again++) {
            choose(&p);
            p.given = (given)again;
            p.outer = 1 + below(9);
            p.inner = 1;
            p.columns = widths[i];
            compare(&p, isa);
        }
}

/* Float32 rows without options, more than a group or a batch has: results may be written with the next rows' terms. */
static void rows_that_wait(const char *isa)
{
    static const int64_t widths[] = {80, 256, 1000, 1008, 1024, 1040, 1088, 2048, 3104, 3168, 4096};
    problem p;
    for (int i = 0; i < 11; i++)
        for (int again = 0; again < 8; again++) {
            choose(&p);
            p.in = p.out = float_format_of(SOFTMAX_FLOAT32);
            p.ordinary = again % 4 != 3;
            p.operation = again / 4;
            p.in_place = again % 2;
            p.given = PLAIN;
            p.gap = 0;
            p.streaming = !p.in_place && below(3) ? SOFTMAX_STREAMING_ALWAYS : SOFTMAX_STREAMING_CHOOSE;
            p.outer = 37;
            p.inner = 1;
            p.columns = widths[i];
            compare(&p, isa);
        }
}

/* Rows of 16-bit types without options: results within the loop of the next rows' terms and not, whole lines and not, last blocks shorter than a vector; and
 * so many rows that some of their largest results are next to where two numbers' roundings part. */
static void half_rows(const char *isa)
{
    static const int64_t widths[] = {80, 96, 256, 1000, 1024, 1040, 1056, 2048, 3072, 3104, 20480};
    problem p;
    for (int i = 0; i < 11; i++)
        for (int again = 0; again < 8; again++) {
            choose(&p);
            p.in = p.out = float_format_of(again % 2 ? SOFTMAX_FLOAT16 : SOFTMAX_BFLOAT16);
            p.ordinary = again % 4 < 2;
            p.operation = again / 4;
            p.in_place = below(3) == 0;
            p.given = PLAIN;
            p.gap = 0;
            p.streaming = below(2) ? SOFTMAX_STREAMING_ALWAYS : SOFTMAX_STREAMING_CHOOSE;
            p.outer = i == 1 && again < 4 ? 2500 : widths[i] > 4096 ? 5 : 37;
            p.inner = 1;
            p.columns = widths[i];
            compare(&p, isa);
        }
}

/* Short float32 rows without options, more than a few groups of lanes: whole batches of ordinary rows, some with others among them. */
static void short_batches(const char *isa)
{
    problem p;
    for (int columns = 2; columns <= 66; columns++)
        for (int again = 0; again < 6; again++) {
            choose(&p);
            p.in = p.out = float_format_of(SOFTMAX_FLOAT32);
            p.operation = again % 3;
            p.ordinary = below(4) != 0;
            p.in_place = p.operation != 2 && below(2);
            p.given = PLAIN;
            p.gap = below(2) ? 0 : below(20);
            p.streaming = below(2) ? SOFTMAX_STREAMING_ALWAYS : SOFTMAX_STREAMING_CHOOSE;
            p.outer = 16 + below(300);
            p.inner = 1;
            p.columns = columns;
            compare(&p, isa);
        }
}

/* Any axis: short ones, some of more than a block, and some of many blocks. */
static void strips(const char *isa, int rounds)
{
    static const int64_t long_axes[] = {127, 300, 1023, 1024, 1025, 2048, 2500, 4096, 4097, 5200, 9000};
    problem p;
    for (int again = 0; again < rounds; again++) {
        choose(&p);
        p.inner = 2 + below(below(3) ? 20 : 150);
        p.columns = 1 + below(130);
        p.outer = 1 + below(3);
        if (again % 8 == 0) {
            p.columns = long_axes[again / 8 % 11];
            p.inner = 2 + below(below(2) ? 10 : 70);
            p.outer = 1;
        }
        if (p.given == CAUSAL)
            p.given = PLAIN;
        while (p.outer * p.columns * (p.inner + p.gap) > LARGEST) p.inner = 1 + p.inner / 2, p.gap = 0;
        if (p.inner > 1)
            compare(&p, isa);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 400;
    for (int i = 0; i < softmax_isa_count(); i++) {
        const char *isa = softmax_isa_name(i);
        if (!softmax_isa_available(i)) {
            printf("isa %s: not available here\n", isa);
            continue;
        }
        short_rows(isa);
        short_batches(isa);
        long_rows(isa);
        rows_that_wait(isa);
        half_rows(isa);
        strips(isa, rounds);
        printf("isa %s: compared\n", isa);
    }
    return check_finish("rows_in_lanes");
}
