/* What the kernels know of the memory below them: memory.c. */
#ifndef SOFTMAX_CPU_MEMORY_H
#define SOFTMAX_CPU_MEMORY_H

#include "../kernels.h"

#define SCRATCH_MOST (1024 * 1024)
#define SCRATCH_LEAST (256 * 1024) /* groups of rows and strips are made for it */
#define TERMS_MOST (SCRATCH_MOST / 2) /* of a row: the scores are in that cache too */

/* Whether there are more bytes of results than the last cache would keep. */
int softmax_cpu_is_large(const softmax_job *job);

/* Whether a job's results go past the caches: by options->streaming, else if there are more of them than the last cache would keep. */
int softmax_cpu_streams(const softmax_job *job);

/* The second-level cache, from SCRATCH_LEAST to SCRATCH_MOST; half of SCRATCH_MOST if the system does not tell. How rows are computed depends on it,
 * results do not. */
int64_t softmax_cpu_scratch_bytes(void);

/* This thread's scratch memory of softmax_cpu_scratch_bytes(), a multiple of 64, for the caller's use until it asks again; NULL if there is none to be had.
 * It is kept until the thread ends. */
void *softmax_cpu_scratch(void);

#endif
