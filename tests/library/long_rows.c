/* Rows whose terms are not kept (read twice, src/cpu/long_rows.h) have the bits of the same rows through the online state: blocks of every kind, places
 * that no vector begins at, in place and not, past the caches and not, one thread and three, on every instruction set. */
#include "oracle/check.h"

#include <softmax.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 1 << 21, MOST = KEPT + 70000, CANARY = 0x5e5e5e5e }; /* rows up to KEPT keep their terms where their results will be */

typedef struct row_kind {
    const char *name;
    int64_t columns;
    int blocks; /* of what block_score has; 0: only ordinary ones */
    int in_place;
} row_kind;

static const row_kind kinds[] = {
    {"ordinary", KEPT + 3 * 1024 + 17, 0, 0},
    {"blocks of all kinds", KEPT + 66000, 7, 0},
    {"blocks of all kinds, in place", 140000, 7, 1},
    {"with an infinity", 140000, 8, 1},
    {"with a NaN", KEPT + 1000, 9, 0},
};

static uint64_t seed = 1;

static int below(int limit)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((seed >> 33) % (uint64_t)limit);
}

static float gaussian(void)
{
    return (float)((below(1 << 16) + below(1 << 16) + below(1 << 16) + below(1 << 16)) / 65536.0 * 4 - 8);
}

/* Blocks 0 to 5 go together in a row; 7 and 8 spoil it. */
static float block_score(int kind, int column)
{
    switch (kind) {
    case 1: /* far below the others, but for one score */
        return column == 77 ? 9.0f : -180.0f + gaussian();
    case 2: /* a deep tail */
        return -84.0f - (float)below(1000) / 100;
    case 3:
        return below(3) ? -INFINITY : gaussian();
    case 4: /* nothing */
        return column & 1 ? -INFINITY : -3e6f;
    case 5: /* ties */
        return (float)below(3) * 5;
    case 7:
        return column == 5 ? INFINITY : gaussian();
    case 8:
        return column == 6 ? NAN : gaussian();
    default:
        return gaussian();
    }
}

static void make_row(const row_kind *kind, float *x)
{
    int block = 0;
    for (int64_t c = 0; c < kind->columns; c++) {
        if (c % 1024 == 0) block = kind->blocks ? below(7) : 0;
        if (kind->blocks > 7 && c / 1024 == 100) block = kind->blocks - 1;
        x[c] = block_score(block, (int)(c % 1024));
    }
}

static const char *const operations[] = {"softmax", "log_softmax", "logsumexp"};

static DLTensor tensor_of(float *data, int64_t *shape, int dimensions)
{
    DLTensor t = {data, {kDLCPU, 0}, dimensions, {kDLFloat, 32, 1}, shape, NULL, 0};
    return t;
}

/* In one piece, by tiles of other code. */
static void expect(int operation, int64_t columns, float *x, float *y)
{
    softmax_state state;
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    int64_t shape[2] = {1, columns};
    DLTensor in = tensor_of(x, shape, 2), out = tensor_of(y, shape, 2);
    softmax_status status = softmax_state_init(&state, 1, SOFTMAX_FLOAT32);
    o.threads = 1;
    status |= softmax_state_update(&state, &in, 1, &o);
    status |= operation == 2 ? softmax_state_logsumexp(&state, y, 1)
                             : (operation ? softmax_state_log_normalise : softmax_state_normalise)(&state, &in, &out, 1, &o);
    CHECK(status == SOFTMAX_OK, "%s by the state: status %d", operations[operation], (int)status);
}

static float x_memory[MOST + 16], y_memory[MOST + 32], expected[MOST];

static void compare(const row_kind *kind, int operation, const char *isa, int threads, int streaming, int offset)
{
    const int64_t columns = kind->columns, results = operation == 2 ? 1 : columns;
    float *x = x_memory + offset, *y = y_memory + 16 + (offset ? 16 - offset : 0), *from = x;
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    softmax_status status;
    uint32_t before, after;
    int64_t at = 0;
    o.isa = isa;
    o.threads = threads;
    o.streaming = streaming;
    for (int64_t i = 0; i < (int64_t)(sizeof y_memory / sizeof y_memory[0]); i++) memcpy(&y_memory[i], &(uint32_t){CANARY}, 4);
    if (kind->in_place && operation < 2) {
        memcpy(y, x, (size_t)columns * sizeof *x);
        from = y;
    }
    status = operation == 0   ? softmax_softmax_rows(SOFTMAX_FLOAT32, 1, columns, from, y, &o)
             : operation == 1 ? softmax_log_softmax_rows(SOFTMAX_FLOAT32, 1, columns, from, y, &o)
                              : softmax_logsumexp_rows(SOFTMAX_FLOAT32, 1, columns, from, y, &o);
    while (at < results && memcmp(y + at, expected + at, sizeof *y) == 0) at++;
    memcpy(&before, y - 1, 4);
    memcpy(&after, y + results, 4);
    CHECK(status == SOFTMAX_OK && at == results && before == CANARY && after == CANARY,
          "%s, %s, %s, threads %d, streaming %d, offset %d: status %d, %lld of %lld results right, then %a, not %a", operations[operation], kind->name, isa,
          threads, streaming, offset, (int)status, (long long)at, (long long)results, (double)y[at], (double)expected[at < results ? at : 0]);
}

int main(void)
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int operation = 0; operation < 3; operation++) {
            if (operation && !kinds[k].in_place) continue; /* softmax's other two take this way from 131073 columns on */
            make_row(&kinds[k], x_memory);
            expect(operation, kinds[k].columns, x_memory, expected);
            for (int i = 0; i < softmax_isa_count(); i++) {
                const char *isa = softmax_isa_name(i);
                if (!softmax_isa_available(i)) continue;
                compare(&kinds[k], operation, isa, 1, SOFTMAX_STREAMING_ALWAYS, 0);
                if (i != softmax_isa_count() - 1 && !kinds[k].in_place) continue;
                compare(&kinds[k], operation, isa, 3, SOFTMAX_STREAMING_NEVER, 0);
            }
            memmove(x_memory + 5, x_memory, (size_t)kinds[k].columns * sizeof x_memory[0]);
            compare(&kinds[k], operation, softmax_isa_default(), 1, SOFTMAX_STREAMING_ALWAYS, 5);
        }
    }
    return check_finish("long_rows");
}
