/* Three passes by hand over SLEEF's exp of 1.0 ULP, with vectors as wide as this machine has. */
#include "work.h"
#include <immintrin.h>
#include <math.h>
#include <sleef.h>
#include <stddef.h>

BENCH_API bench_contestant bench_sleef;

#if defined(__AVX512F__)
#define NAME(part) part##_float32
#define REAL float
#define VECTOR __m512
#define LANES 16
#define V(instruction) _mm512_##instruction##_ps
#define EXP Sleef_expf16_u10
#define REDUCE_MAX _mm512_reduce_max_ps
#define REDUCE_ADD _mm512_reduce_add_ps
#define EXP1 Sleef_expf_u10
#define LOG1 Sleef_logf_u10
#include "sleef_rows.h"

#define NAME(part) part##_float64
#define REAL double
#define VECTOR __m512d
#define LANES 8
#define V(instruction) _mm512_##instruction##_pd
#define EXP Sleef_expd8_u10
#define REDUCE_MAX _mm512_reduce_max_pd
#define REDUCE_ADD _mm512_reduce_add_pd
#define EXP1 Sleef_exp_u10
#define LOG1 Sleef_log_u10
#include "sleef_rows.h"

int bench_sleef(const bench_work *work)
{
    return work->type == BENCH_FLOAT32 ? work_float32(work) : work->type == BENCH_FLOAT64 ? work_float64(work) : 1;
}
#else
static inline float reduce_max(__m256 v)
{
    float lanes[8], m;
    _mm256_storeu_ps(lanes, v);
    m = lanes[0];
    for (int i = 1; i < 8; i++)
        m = fmaxf(m, lanes[i]);
    return m;
}

static inline float reduce_add(__m256 v)
{
    float lanes[8], sum = 0;
    _mm256_storeu_ps(lanes, v);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

#define NAME(part) part##_float32
#define REAL float
#define VECTOR __m256
#define LANES 8
#define V(instruction) _mm256_##instruction##_ps
#define EXP Sleef_expf8_u10
#define REDUCE_MAX reduce_max
#define REDUCE_ADD reduce_add
#define EXP1 Sleef_expf_u10
#define LOG1 Sleef_logf_u10
#include "sleef_rows.h"

int bench_sleef(const bench_work *work)
{
    return work->type == BENCH_FLOAT32 ? work_float32(work) : 1;
}
#endif
