/* What the kernels know of the memory below them: memory.c. */
#ifndef SOFTMAX_CPU_MEMORY_H
#define SOFTMAX_CPU_MEMORY_H

#include "../kernels.h"

#define SCRATCH_BYTES (512 * 1024) /* of terms, half of a second-level cache */
#define SCRATCH_MOST (1024 * 1024) /* for those whose terms are better far away than computed twice */

/* Whether there are more bytes of results than the last cache would keep. */
int softmax_cpu_is_large(const softmax_job *job);

/* Whether a job's results go past the caches: by options->streaming, else if there are more of them than the last cache would keep. */
int softmax_cpu_streams(const softmax_job *job);

/* This thread's scratch memory of SCRATCH_MOST bytes, a multiple of 64, for the caller's use until it asks again; NULL if there is none to be had.
 * It is kept until the thread ends. */
void *softmax_cpu_scratch(void);

#endif
