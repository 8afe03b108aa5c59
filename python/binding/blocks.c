#define _DEFAULT_SOURCE /* madvise, posix_memalign */
#include "blocks.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER_BYTES 64 /* before the data, which so stays aligned for any vector */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define OFFERED_FROM_BYTES ((size_t)16 << 20)
#define KEPT_MOST 64
#define DEFAULT_LIMIT_MOST ((size_t)1 << 30)

typedef struct header {
    size_t bytes;  /* asked for */
    size_t mapped; /* of the mapping that begins here; 0: from malloc */
} header;

/* The oldest first. */
static header *kept[KEPT_MOST];
static size_t page_bytes = 4096, kept_count, kept_bytes, limit, hits, misses;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static header *header_of(const void *data)
{
    return (header *)((uintptr_t)data - HEADER_BYTES);
}

static void *data_of(header *block)
{
    return (char *)block + HEADER_BYTES;
}

/* Sizes fall in classes an eighth of a power of two apart, so that results of nearly one size share blocks. */
static size_t mapped_size(size_t bytes)
{
    size_t step = 4096, total = bytes + HEADER_BYTES;
    while (step * 16 < total)
        step *= 2;
    return (total + step - 1) / step * step;
}

static void unkeep(size_t i)
{
    kept_bytes -= kept[i]->mapped;
    kept_count--;
    for (; i < kept_count; i++)
        kept[i] = kept[i + 1];
}

static void drop_to(size_t bytes, size_t blocks)
{
    while (kept_count > 0 && (kept_bytes > bytes || kept_count > blocks)) {
        header *oldest = kept[0];
        unkeep(0);
        munmap(oldest, oldest->mapped);
    }
}

/* A mapping at a multiple of the huge page, which the kernel is asked to use. */
static header *map_block(size_t mapped)
{
    size_t slack = mapped >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *start = mmap(NULL, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;
    if (start == MAP_FAILED)
        return NULL;
    if (slack) {
        before = (size_t)(-(uintptr_t)start & (HUGE_PAGE_BYTES - 1));
        if (before)
            munmap(start, before);
        if (slack - before)
            munmap(start + before + mapped, slack - before);
        start += before;
        madvise(start, mapped, MADV_HUGEPAGE);
    }
    return (header *)start;
}

/* Under memory pressure the system may take the pages of a kept block without asking. Costs up to 10 % of a softmax of
 * a few MB, where there is little to take. */
static void offer_pages(header *block)
{
#ifdef MADV_FREE
    if (block->mapped >= OFFERED_FROM_BYTES)
        madvise((char *)block + page_bytes, block->mapped - page_bytes, MADV_FREE);
#else
    (void)block;
#endif
}

static header *take_kept(size_t mapped)
{
    header *block = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = kept_count; i-- > 0 && !block;) { /* the youngest first: it may still be in the caches */
        if (kept[i]->mapped == mapped) {
            block = kept[i];
            unkeep(i);
        }
    }
    if (block)
        hits++;
    else
        misses++;
    pthread_mutex_unlock(&lock);
    return block;
}

void *block_take(size_t bytes)
{
    size_t mapped = 0;
    header *block;
    void *memory;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    if (bytes <= CACHED_FROM_BYTES) {
        block = posix_memalign(&memory, HEADER_BYTES, bytes + HEADER_BYTES) == 0 ? memory : NULL;
    } else {
        mapped = mapped_size(bytes);
        block = take_kept(mapped);
        if (!block)
            block = map_block(mapped);
    }
    if (!block)
        return NULL;
    block->bytes = bytes;
    block->mapped = mapped;
    return data_of(block);
}

void block_give(void *data)
{
    header *block = header_of(data);
    if (block->mapped == 0) {
        free(block);
        return;
    }
    pthread_mutex_lock(&lock);
    if (block->mapped > limit) {
        munmap(block, block->mapped);
    } else {
        drop_to(limit - block->mapped, KEPT_MOST - 1);
        offer_pages(block);
        kept[kept_count++] = block;
        kept_bytes += block->mapped;
    }
    pthread_mutex_unlock(&lock);
}

size_t block_bytes(const void *data)
{
    return header_of(data)->bytes;
}

void block_limit(size_t bytes)
{
    pthread_mutex_lock(&lock);
    limit = bytes;
    drop_to(limit, KEPT_MOST);
    pthread_mutex_unlock(&lock);
}

block_statistics block_cache_statistics(void)
{
    pthread_mutex_lock(&lock);
    block_statistics s = {kept_count, kept_bytes, limit, hits, misses};
    pthread_mutex_unlock(&lock);
    return s;
}

static void lock_cache(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_cache(void)
{
    pthread_mutex_unlock(&lock);
}

bool block_cache_begin(void)
{
    const char *words = getenv("LIBSOFTMAX_CACHE_BYTES");
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    char *end;
    page_bytes = page > 0 ? (size_t)page : 4096;
    pthread_atfork(lock_cache, unlock_cache, unlock_cache);
    if (words && *words) {
        errno = 0;
        long long bytes = strtoll(words, &end, 10);
        if (*end || errno || bytes < 0)
            return false;
        limit = (size_t)bytes;
        return true;
    }
    limit = pages > 0 && page > 0 ? (size_t)pages / 8 * (size_t)page : 0;
    if (limit > DEFAULT_LIMIT_MOST)
        limit = DEFAULT_LIMIT_MOST;
    return true;
}
