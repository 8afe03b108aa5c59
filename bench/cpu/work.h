/* One piece of work that contestants are timed on: an operation over a tensor (outer, columns, inner) along its middle axis. */
#ifndef BENCH_CPU_WORK_H
#define BENCH_CPU_WORK_H

#include <stdint.h>

/* The Python driver (contestant.py) has the same numbers and the same struct. */
typedef enum bench_operation {
    BENCH_SOFTMAX = 0,
    BENCH_LOG_SOFTMAX = 1,
    BENCH_LOGSUMEXP = 2,
    BENCH_SOFTMAX_BACKWARD = 3,
    BENCH_LOG_SOFTMAX_BACKWARD = 4,
    BENCH_CROSS_ENTROPY = 5, /* the mean loss and its gradient */
    BENCH_MASKED_SOFTMAX = 6
} bench_operation;

typedef enum bench_type { /* softmax_type's values */
    BENCH_FLOAT32 = 1,
    BENCH_FLOAT64 = 2,
    BENCH_FLOAT16 = 3,
    BENCH_BFLOAT16 = 4
} bench_type;

typedef struct bench_work {
    int32_t operation;
    int32_t type;
    int64_t outer, columns, inner; /* row-major; inner is 1 where the axis is last */
    const void *x;                 /* scores; a backward's y */
    const void *dy;                /* a backward's upstream gradient */
    const uint8_t *mask;           /* of x's shape: nonzero takes part */
    const int64_t *targets;        /* outer of them */
    void *y;                       /* the result; cross-entropy's gradient */
    void *loss;                    /* one element, float32 (float64 for float64) */
    const char *isa;               /* NULL: the library's choice */
    int32_t threads;
    int32_t reserved;
} bench_work;

/* Does the work; 0, or nonzero where it cannot. */
typedef int bench_contestant(const bench_work *work);

#if defined(__GNUC__)
#define BENCH_API __attribute__((visibility("default")))
#else
#define BENCH_API
#endif

/* Times `calls` calls over works[(first + i) % count]; seconds by the monotonic clock, negative where one failed. */
BENCH_API double bench_time(bench_contestant *contestant, const bench_work *works, int64_t count, int64_t first,
                            int64_t calls);

/* Bytes in one element of a type. */
static inline int64_t bench_type_bytes(int type)
{
    return type == BENCH_FLOAT64 ? 8 : type == BENCH_FLOAT32 ? 4 : 2;
}

#endif
