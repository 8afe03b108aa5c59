/* Caches and scratch memory. */
#define _GNU_SOURCE /* _SC_LEVEL3_CACHE_SIZE */
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "row_operands.h"

/* sysconf's names, where it has them. */
#if defined(_SC_LEVEL3_CACHE_SIZE)
#define SECOND_LEVEL _SC_LEVEL2_CACHE_SIZE
#define THIRD_LEVEL _SC_LEVEL3_CACHE_SIZE
#else
#define SECOND_LEVEL (-1)
#define THIRD_LEVEL (-1)
#endif
#define LAST_CACHE_MOST (32L << 20) /* what one core has of it; in virtual machines glibc may count the whole machine's (320 MB where it is 32) */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t scratch_key;
static atomic_int key_made;

static void make_key(void) {
    if (pthread_key_create(&scratch_key, free) == 0) atomic_store(&key_made, 1);
}

/* A library that is unloaded takes its destructor along. */
static __attribute__((destructor)) void delete_key(void) {
    if (!atomic_exchange(&key_made, 0)) return;
    free(pthread_getspecific(scratch_key));
    pthread_key_delete(scratch_key);
}

/* What the system reports, asked for once and then in *known: from least to most; `otherwise` if it does not tell. */
static long cache_bytes(atomic_long *known, int name, long otherwise, long least, long most) {
    long bytes = atomic_load_explicit(known, memory_order_relaxed);
    if (bytes > 0) return bytes;
    bytes = name >= 0 ? sysconf(name) : 0;
    if (bytes <= 0) bytes = otherwise;
    bytes = bytes > most ? most : bytes < least ? least : bytes;
    atomic_store_explicit(known, bytes, memory_order_relaxed);
    return bytes;
}

int64_t softmax_cpu_scratch_bytes(void) {
    static atomic_long known;
    return cache_bytes(&known, SECOND_LEVEL, SCRATCH_MOST / 2, SCRATCH_LEAST, SCRATCH_MOST) / 4096 * 4096;
}

void *softmax_cpu_scratch(void) {
    void *scratch;
    pthread_once(&once, make_key);
    if (!atomic_load(&key_made)) return NULL;
    scratch = pthread_getspecific(scratch_key);
    if (scratch) return scratch;
    scratch = aligned_alloc(64, (size_t)softmax_cpu_scratch_bytes());
    if (scratch && pthread_setspecific(scratch_key, scratch) != 0) {
        free(scratch);
        return NULL;
    }
    return scratch;
}

static int64_t last_cache_bytes(void) {
    static atomic_long known;
    return cache_bytes(&known, THIRD_LEVEL, LAST_CACHE_MOST, 1, LAST_CACHE_MOST);
}

int softmax_cpu_is_large(const softmax_job *job) {
    return (double)job->rows * (double)job->columns * (double)element_bytes(job->out.type) >= (double)(last_cache_bytes() / 4);
}

int softmax_cpu_streams(const softmax_job *job) {
    if (job->streaming != SOFTMAX_STREAMING_CHOOSE) return job->streaming == SOFTMAX_STREAMING_ALWAYS;
    return softmax_cpu_is_large(job);
}
