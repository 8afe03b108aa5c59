/* Memory of results. Fresh pages cost more than the computation that fills them, so freed blocks above 1 MB are kept
 * for the next result of about the same size, up to a limit. Needs no interpreter: arrays of other libraries are freed
 * on any thread. */
#ifndef SOFTMAX_PYTHON_BLOCKS_H
#define SOFTMAX_PYTHON_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* Results of more bytes come from the cache. */
#define CACHED_FROM_BYTES ((size_t)1 << 20)

typedef struct block_statistics {
    size_t blocks, bytes, limit_bytes, hits, misses;
} block_statistics;

/* At least `bytes` writable bytes at a multiple of 64, or NULL. */
void *block_take(size_t bytes);
void block_give(void *data);
/* What block_take was asked for. */
size_t block_bytes(const void *data);

/* Sets the limit; blocks beyond it go back to the system, the oldest first. */
void block_limit(size_t bytes);
block_statistics block_cache_statistics(void);
/* Reads LIBSOFTMAX_CACHE_BYTES (else an eighth of the memory, 1 GiB at most) and prepares for forks; false where the
 * number is none. */
bool block_cache_begin(void);

#endif
