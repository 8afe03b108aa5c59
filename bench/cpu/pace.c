/* What the processor gives at this moment. On a shared machine, work in the first two caches is slower for seconds at a time, by a fifth and more,
 * though no other process of this system runs (others may use the same core); arithmetic in registers and memory are not. */
#define _POSIX_C_SOURCE 199309L
#include "work.h"
#include <string.h>
#include <time.h>

#define PACE_BYTES (96 << 10) /* from and to: not in the first-level cache, in the second */
#define PACE_TRIES 4

BENCH_API double bench_pace(void);

/* Seconds that a small copy in the second-level cache takes, some 2 us; the least of a few, so that neither an interrupt nor the first counts. */
double bench_pace(void)
{
    static char from[PACE_BYTES] __attribute__((aligned(64))), to[PACE_BYTES] __attribute__((aligned(64)));
    double least = 1;
    for (int i = 0; i < PACE_TRIES; i++) {
        struct timespec start, end;
        double took;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int k = 0; k < 4; k++) {
            memcpy(to, from, sizeof to);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        took = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        if (took < least) least = took;
    }
    return least;
}
