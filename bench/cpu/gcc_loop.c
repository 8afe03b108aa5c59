/* What a C programmer writes and gcc -Ofast -march=native makes of it: three passes over a row, expf from libmvec. */
#include "work.h"
#include <math.h>
#include <stddef.h>

BENCH_API bench_contestant bench_gcc_loop;

static inline float widen_bfloat16(uint16_t bits)
{
    union {
        uint32_t bits;
        float value;
    } as = {(uint32_t)bits << 16};
    return as.value;
}

static inline uint16_t narrow_bfloat16(float value)
{
    union {
        float value;
        uint32_t bits;
    } as = {value};
    return (uint16_t)((as.bits + 0x7fff + (as.bits >> 16 & 1)) >> 16);
}

#define NAME(part) part##_float32
#define STORED float
#define REAL float
#define EXP expf
#define LOG logf
#define LOAD(x) (x)
#define STORE(x) (x)
#include "gcc_loop_rows.h"

#define NAME(part) part##_float64
#define STORED double
#define REAL double
#define EXP exp
#define LOG log
#define LOAD(x) (x)
#define STORE(x) (x)
#include "gcc_loop_rows.h"

#define NAME(part) part##_bfloat16
#define STORED uint16_t
#define REAL float
#define EXP expf
#define LOG logf
#define LOAD(x) widen_bfloat16(x)
#define STORE(x) narrow_bfloat16(x)
#include "gcc_loop_rows.h"

#if defined(__FLT16_MAX__)
#define NAME(part) part##_float16
#define STORED _Float16
#define REAL float
#define EXP expf
#define LOG logf
#define LOAD(x) ((float)(x))
#define STORE(x) ((_Float16)(x))
#include "gcc_loop_rows.h"
#endif

int bench_gcc_loop(const bench_work *work)
{
    switch (work->type) {
    case BENCH_FLOAT32:
        return work_float32(work);
    case BENCH_FLOAT64:
        return work_float64(work);
    case BENCH_BFLOAT16:
        return work_bfloat16(work);
#if defined(__FLT16_MAX__)
    case BENCH_FLOAT16:
        return work_float16(work);
#endif
    default:
        return 1;
    }
}
