/* The ways that a backward's block may take (digits that may be left out, gradients without comparisons) are told
 * apart by values: results have the bits of portable C's, which compares always, of rows of two blocks, whose second has nothing to add, and of
 * rows that lie side by side, with the axis first. */
#include "oracle/check.h"

#include <softmax.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 13, COLUMNS = 1024, WIDE = 2048, KINDS = 12, BESIDE = 48 }; /* BESIDE: whole vectors of neighbours, whole lines */

static float y[ROWS * COLUMNS], dy[ROWS * COLUMNS], expected[ROWS * COLUMNS], wide_y[ROWS * WIDE], wide_dy[ROWS * WIDE];
static _Alignas(64) float dx[ROWS * COLUMNS], wide_dx[ROWS * WIDE]; /* whole lines */
static _Alignas(64) float beside_y[COLUMNS * BESIDE], beside_dy[COLUMNS * BESIDE], beside_dx[COLUMNS * BESIDE];
static uint64_t seed = 1;

static float uniform(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)(seed >> 40) * 0x1p-24f;
}

/* A log-probability and an upstream gradient of a row of some kind. */
static void make_element(int kind, int column, float *log, float *up)
{
    *log = -1 - 20 * uniform();
    *up = 2 * uniform() - 1;
    switch (kind) {
    case 1: *up = column == 3 ? -1 : 0; break;           /* of a loss */
    case 2: *up *= column % 7 ? 1 : 0x1p-40f; break;     /* digits beyond the first */
    case 3: *up *= column % 7 ? 1 : 0x1p-70f; break;     /* ... and below what is calm */
    case 4: *log = column % 5 ? *log : -INFINITY; break;
    case 5: *log = -39 - 2 * uniform(); break;           /* about the limit */
    case 6: *log = -95 + 10 * uniform(); break;
    case 7: *up *= 0x1p-100f; break;
    case 8: *up = column % 2 ? *up * 0x1p100f : -0.0f; break;
    case 9: *up = column == 9 ? NAN : *up; break;
    case 10: *log = column == 8 ? 0.0f : -110; break;
    case 11: *log = column % 300 ? *log : 2; break;      /* no log-probability, but taken */
    default: break;
    }
}

static void make_rows(int columns, int with_log)
{
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < columns; c++) {
            const int kind = row % KINDS;
            float *its_y = y + row * columns + c, log;
            make_element(kind, c, &log, dy + row * columns + c);
            *its_y = with_log ? log : log > 0 ? 0.25f : expf(log);
        }
}

static softmax_status backward(int of_log, int64_t columns, const float *its_y, const float *its_dy, float *to, const char *isa, int streaming)
{
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    o.threads = 1;
    o.isa = isa;
    o.streaming = streaming;
    return (of_log ? softmax_log_softmax_backward_rows : softmax_softmax_backward_rows)(SOFTMAX_FLOAT32, ROWS, columns, its_y, its_dy, to, &o);
}

static void compare(int of_log, int columns, const char *isa)
{
    for (int streaming = SOFTMAX_STREAMING_NEVER; streaming <= SOFTMAX_STREAMING_ALWAYS; streaming++) {
        int at = 0;
        memset(dx, 0x5e, sizeof dx);
        CHECK(backward(of_log, columns, y, dy, dx, isa, streaming) == SOFTMAX_OK, "%s: no result", isa);
        while (at < ROWS * columns && memcmp(dx + at, expected + at, sizeof *dx) == 0) at++;
        CHECK(at == ROWS * columns, "%s of %d columns, %s, streaming %d: row %d, column %d: %a, not %a", of_log ? "log_softmax" : "softmax", columns, isa,
              streaming, at / columns, at % columns, (double)dx[at % (ROWS * columns)], (double)expected[at % (ROWS * columns)]);
    }
}

/* The same rows with a second block that has no share in them. */
static void compare_wide(int of_log, const char *isa, int streaming)
{
    int wrong = 0;
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < WIDE; c++) {
            wide_y[row * WIDE + c] = c < COLUMNS ? y[row * COLUMNS + c] : of_log ? -INFINITY : 0;
            wide_dy[row * WIDE + c] = c < COLUMNS ? dy[row * COLUMNS + c] : 0;
        }
    memset(wide_dx, 0x5e, sizeof wide_dx);
    CHECK(backward(of_log, WIDE, wide_y, wide_dy, wide_dx, isa, streaming) == SOFTMAX_OK, "%s: no result", isa);
    for (int row = 0; row < ROWS; row++) wrong += memcmp(wide_dx + row * WIDE, expected + row * COLUMNS, COLUMNS * sizeof *dx) != 0;
    CHECK(wrong == 0, "%s, %s, streaming %d: %d of %d rows differ with a second block", of_log ? "log_softmax" : "softmax", isa, streaming,
          wrong, ROWS);
}

/* The rows side by side, again and again: column c of neighbour i is element (c, i). */
static void compare_beside(int of_log, int columns, const char *isa, int streaming)
{
    int64_t shape[2] = {columns, BESIDE};
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType type = {kDLFloat, 32, 1};
    const DLTensor its_y = {beside_y, cpu, 2, type, shape, NULL, 0}, its_dy = {beside_dy, cpu, 2, type, shape, NULL, 0};
    DLTensor to = {beside_dx, cpu, 2, type, shape, NULL, 0};
    softmax_options o = SOFTMAX_OPTIONS_INIT;
    int wrong = 0;
    o.threads = 1;
    o.isa = isa;
    o.streaming = streaming;
    for (int c = 0; c < columns; c++)
        for (int i = 0; i < BESIDE; i++) {
            beside_y[c * BESIDE + i] = y[i % ROWS * columns + c];
            beside_dy[c * BESIDE + i] = dy[i % ROWS * columns + c];
        }
    memset(beside_dx, 0x5e, sizeof beside_dx);
    CHECK((of_log ? softmax_log_softmax_backward : softmax_softmax_backward)(&its_y, &its_dy, &to, 0, &o) == SOFTMAX_OK, "%s: no result", isa);
    for (int c = 0; c < columns; c++)
        for (int i = 0; i < BESIDE; i++) wrong += memcmp(beside_dx + c * BESIDE + i, expected + i % ROWS * columns + c, sizeof *dx) != 0;
    CHECK(wrong == 0, "%s of %d columns, side by side, %s, streaming %d: %d of %d results differ", of_log ? "log_softmax" : "softmax", columns, isa,
          streaming, wrong, columns * BESIDE);
}

int main(void)
{
    static const int widths[] = {1, 15, 64, 100, 257, 1000, COLUMNS};
    for (int of_log = 0; of_log < 2; of_log++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            make_rows(widths[w], of_log);
            CHECK(backward(of_log, widths[w], y, dy, expected, "portable", SOFTMAX_STREAMING_NEVER) == SOFTMAX_OK, "portable: no result");
            CHECK(widths[w] == 1 || (expected[0] != expected[1] && expected[0] != 0), "all the same");
            for (int i = 0; i < softmax_isa_count(); i++) {
                if (!softmax_isa_available(i)) continue;
                compare(of_log, widths[w], softmax_isa_name(i));
                compare_beside(of_log, widths[w], softmax_isa_name(i), SOFTMAX_STREAMING_NEVER);
                compare_beside(of_log, widths[w], softmax_isa_name(i), SOFTMAX_STREAMING_ALWAYS);
                if (widths[w] != COLUMNS) continue;
                compare_wide(of_log, softmax_isa_name(i), SOFTMAX_STREAMING_NEVER);
                compare_wide(of_log, softmax_isa_name(i), SOFTMAX_STREAMING_ALWAYS);
            }
        }
    return check_finish("backward_ways");
}
