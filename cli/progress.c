#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(progress *p, int64_t total)
{
    *p = (progress){.total = total, .start = seconds(), .shown = -1, .terminal = isatty(STDERR_FILENO)};
}

void progress_advance(progress *p, int64_t count)
{
    p->done += count;
    if (!p->terminal || p->total <= 0 || seconds() - p->start < 1.0)
        return;
    int percent = (int)(100.0 * (double)p->done / (double)p->total);
    if (percent != p->shown) {
        fprintf(stderr, "\rsoftmax: %3d %%", percent);
        fflush(stderr);
        p->shown = percent;
    }
}

void progress_end(progress *p)
{
    if (p->shown >= 0)
        fprintf(stderr, "\r\033[K");
}
