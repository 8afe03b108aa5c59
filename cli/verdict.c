#include "verdict.h"

#include "element.h"
#include "exact_row.h"
#include "fail.h"

#include <stdlib.h>

/* Elements that the judge takes at most, at about a microsecond each, unless a single row holds more. */
#define BUDGET ((int64_t)1 << 18)

void exact_sample_open(exact_sample *j, const problem *p, npy_kind kind, bool reduced)
{
    int64_t rows = row_count(p), columns = p->input.header.shape[p->axis];
    *j = (exact_sample){
        .problem = p, .kind = kind, .reduced = reduced, .rows = rows, .results_per_row = reduced ? 1 : columns};
    if (columns > 0 && rows > BUDGET / columns)
        j->rows = columns > BUDGET ? 1 : BUDGET / columns;
    j->row = allocate((unsigned long long)j->rows * sizeof *j->row);
    unsigned long long results = (unsigned long long)(j->rows * j->results_per_row);
    j->exact = allocate(results * sizeof *j->exact);
    j->magnitude = allocate(results * sizeof *j->magnitude);
    real *scores = allocate((unsigned long long)columns * sizeof *scores);
    for (int64_t i = 0; i < j->rows; i++) {
        j->row[i] = (int64_t)((real)i * rows / j->rows);
        exact_row(p, j->row[i], scores, j->exact + i * j->results_per_row, j->magnitude + i * j->results_per_row);
    }
    free(scores);
}

void exact_sample_close(exact_sample *j)
{
    free(j->row);
    free(j->exact);
    free(j->magnitude);
}

/* The type's precision in bits, and the exponent of its smallest normal. */
static void type_limits(npy_kind kind, int *precision, int *least)
{
    *precision = kind == NPY_FLOAT64 ? 53 : kind == NPY_FLOAT32 ? 24 : kind == NPY_FLOAT16 ? 11 : 8;
    *least = kind == NPY_FLOAT64 ? -1022 : kind == NPY_FLOAT16 ? -14 : -126;
}

static double one_ulp(real magnitude, int precision, int least)
{
    int exponent;
    (void)frexp((double)magnitude, &exponent);
    exponent = magnitude == 0 || exponent - 1 < least ? least : exponent - 1;
    return ldexp(1.0, exponent - precision + 1);
}

/* -1: wrong in kind; otherwise the error in ULP, or -2 for a result that has none to be measured. */
static double error_of(double result, real exact, real magnitude, npy_kind kind)
{
    int precision, least;
    type_limits(kind, &precision, &least);
    if (real_is_nan(exact))
        return isnan(result) ? -2 : -1;
    if (real_is_infinite(exact) || exact == 0)
        return (real)result == exact ? -2 : -1;
    if (!isfinite(result))
        return -1;
    double smallest_normal = ldexp(1.0, least);
    if (kind != NPY_FLOAT16 && real_abs(exact) < smallest_normal && fabs(result) <= smallest_normal)
        return -2; /* below the smallest normal: 0 and the subnormal are both taken as right */
    return (double)(real_abs((real)result - exact) / (real)one_ulp(magnitude, precision, least));
}

verdict verdict_of(const exact_sample *j, const DLTensor *results)
{
    verdict v = {0};
    double sum = 0;
    for (int64_t i = 0; i < j->rows; i++) {
        row_line line = row_line_in(j->problem, j->row[i], results, j->reduced);
        bool wrong = false;
        for (int64_t c = 0; c < j->results_per_row; c++) {
            int64_t at = i * j->results_per_row + c;
            double error = error_of(row_value(&line, c), j->exact[at], j->magnitude[at], j->kind);
            wrong |= error == -1;
            if (error < 0)
                continue;
            v.compared++;
            sum += error;
            v.max_ulp = error > v.max_ulp ? error : v.max_ulp;
        }
        v.wrong_rows += wrong;
    }
    v.mean_ulp = v.compared ? sum / (double)v.compared : 0;
    return v;
}
