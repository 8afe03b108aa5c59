/* float32 softmax over very many rows: the bar's widths times its distributions, at most 2.1 ULP.
 * Double arithmetic screens: its error, below 2^-40, is 2^-17 ULP here. MPFR judges every row above 1.7 ULP and a
 * sample.
 *
 *   accuracy_many_rows [rows of a narrow case, 100000]
 */
#include "oracle/check.h"
#include "row_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUND 2.1
#define TO_MPFR 1.7 /* ULP */
enum { CHUNK_ELEMENTS = 1 << 20, MPFR_SAMPLE = 20011 };

/* 2^(exponent of p - 23) for p in float32's normal range. */
static double unit_of(double p)
{
    uint64_t bits;
    memcpy(&bits, &p, 8);
    bits = (bits & 0x7ff0000000000000u) - (UINT64_C(23) << 52);
    memcpy(&p, &bits, 8);
    return p;
}

/* The worst error of a row in ULP, or infinity where only the judge can tell: at the edge of the normal range, and for
 * zeros, subnormals and NaN above it. e is scratch. */
static double screened_row(const float *x, const float *y, int64_t columns, double *e)
{
    double maximum = x[0], sum = 0, worst = 0;
    for (int64_t j = 1; j < columns; j++)
        maximum = x[j] > maximum ? x[j] : maximum;
    for (int64_t j = 0; j < columns; j++) {
        e[j] = exp(x[j] - maximum);
        sum += e[j];
    }
    for (int64_t j = 0; j < columns; j++) {
        double p = e[j] / sum;
        double error = fabs(y[j] - p) / unit_of(p);
        if (p < 0x1.0001p-126)
            error = p < 0x1.fffep-127 && y[j] == 0 && !signbit(y[j]) ? 0 : INFINITY;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

typedef struct chunk {
    int64_t rows;
    int64_t columns;
    float *x;
    float *y;
    double *screened; /* per row */
} chunk;

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

static void fill_chunk(chunk *chunk, distribution which, uint64_t seed)
{
#pragma omp parallel
    {
        double *row = allocated((size_t)chunk->columns * sizeof *row);
#pragma omp for
        for (int64_t r = 0; r < chunk->rows; r++) {
            random_source source = random_seed(seed + (uint64_t)r * 0x632be59bd9b4e019u);
            random_row(&source, which, row, chunk->columns);
            for (int64_t j = 0; j < chunk->columns; j++)
                chunk->x[r * chunk->columns + j] = (float)row[j];
        }
        free(row);
    }
}

static void screen_chunk(chunk *chunk)
{
#pragma omp parallel
    {
        double *e = allocated((size_t)chunk->columns * sizeof *e);
#pragma omp for
        for (int64_t r = 0; r < chunk->rows; r++)
            chunk->screened[r] =
                screened_row(chunk->x + r * chunk->columns, chunk->y + r * chunk->columns, chunk->columns, e);
        free(e);
    }
}

/* The chunk's doubtful rows and a sample go to the judge, and its first ones with fakes; returns the worst screened
 * error of the others. */
static double judge_chunk(judged_case *judged, const chunk *chunk, int64_t first_row)
{
    double *x = allocated((size_t)chunk->columns * sizeof *x), *y = allocated((size_t)chunk->columns * sizeof *y),
           worst = 0;
    for (int64_t r = 0; r < chunk->rows; r++) {
        bool doubtful = !(chunk->screened[r] < TO_MPFR);
        bool sampled = (first_row + r) % MPFR_SAMPLE == 0 || first_row + r < 10;
        if (!doubtful)
            worst = fmax(worst, chunk->screened[r]);
        if (!doubtful && !sampled)
            continue;
        for (int64_t j = 0; j < chunk->columns; j++) {
            x[j] = chunk->x[r * chunk->columns + j];
            y[j] = chunk->y[r * chunk->columns + j];
        }
        row_problem problem = row_problem_of(SOFTMAX, chunk->columns, x);
        case_row(judged, &problem, y);
    }
    free(x);
    free(y);
    return worst;
}

static int64_t run_case(int64_t columns, int64_t rows, distribution which)
{
    chunk chunk = {CHUNK_ELEMENTS / columns + 1, columns, NULL, NULL, NULL};
    judged_case judged = case_of(SOFTMAX, &float_formats[0], "softmax float32 n=%ld %s, the doubtful rows",
                                 (long)columns, distribution_names[which]);
    double worst = 0;
    int64_t done = 0;
    judged.judge.part[0].bound = BOUND;
    chunk.x = allocated((size_t)(chunk.rows * columns) * sizeof(float));
    chunk.y = allocated((size_t)(chunk.rows * columns) * sizeof(float));
    chunk.screened = allocated((size_t)chunk.rows * sizeof(double));
    while (done < rows) {
        chunk.rows = chunk.rows < rows - done ? chunk.rows : rows - done;
        fill_chunk(&chunk, which, (uint64_t)(columns * 1000003 + done * 8 + (int)which));
        memset(chunk.y, 0xc5, (size_t)(chunk.rows * columns) * sizeof(float));
        softmax_status status = softmax_softmax_rows(SOFTMAX_FLOAT32, chunk.rows, columns, chunk.x, chunk.y, NULL);
        CHECK(status == SOFTMAX_OK, "%s: %s", judged.words, softmax_status_string(status));
        screen_chunk(&chunk);
        worst = fmax(worst, judge_chunk(&judged, &chunk, done));
        done += chunk.rows;
    }
    printf("softmax float32 n=%-6ld %-15s %7ld rows: worst %.4f ULP\n", (long)columns, distribution_names[which],
           (long)rows, fmax(worst, judged.judge.part[0].worst));
    case_finish(&judged);
    free(chunk.x);
    free(chunk.y);
    free(chunk.screened);
    return done;
}

int main(int count, char **arguments)
{
    static const int64_t narrow[] = {2, 3, 8, 16, 33, 64, 100, 128, 300};
    static const int64_t wide[][2] = {{1024, 2000}, {4096, 500}, {50257, 20}, {200001, 6}};
    int64_t narrow_rows = count > 1 ? atoll(arguments[1]) : 100000, rows = 0;
    printf("instruction set: %s\n", softmax_isa_default());
    for (size_t w = 0; w < sizeof narrow / sizeof *narrow; w++)
        for (int which = 0; which < DISTRIBUTIONS; which++)
            rows += run_case(narrow[w], narrow_rows, (distribution)which);
    for (size_t w = 0; w < sizeof wide / sizeof *wide; w++)
        for (int which = 0; which < DISTRIBUTIONS; which++)
            rows += run_case(wide[w][0], wide[w][1], (distribution)which);
    printf("%ld rows in all\n", (long)rows);
    case_print_totals();
    return check_finish("accuracy_many_rows");
}
