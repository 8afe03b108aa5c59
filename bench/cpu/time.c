#define _POSIX_C_SOURCE 199309L
#include "work.h"
#include <time.h>

double bench_time(bench_contestant *contestant, const bench_work *works, int64_t count, int64_t first, int64_t calls)
{
    struct timespec start, end;
    int failed = 0;
    int64_t place = first % count;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t i = 0; i < calls; i++) {
        failed |= contestant(&works[place]);
        place = place + 1 == count ? 0 : place + 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return failed ? -1 : (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
