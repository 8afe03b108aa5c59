/* A percentage on standard error, if that is a terminal and the work takes more than a second. */
#ifndef SOFTMAX_CLI_PROGRESS_H
#define SOFTMAX_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    int64_t total, done;
    double start;
    int shown; /* percent, or -1 */
    bool terminal;
} progress;

void progress_begin(progress *progress, int64_t total);
void progress_advance(progress *progress, int64_t count);
void progress_end(progress *progress);

/* Seconds of a clock that only goes forward. */
double seconds(void);

#endif
