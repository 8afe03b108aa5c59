/* Arrays with a page without access on both sides: any step over an edge ends the test with a signal. */
#ifndef TESTS_GUARDED_MEMORY_H
#define TESTS_GUARDED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct guarded_memory {
    char *data; /* `bytes` of it, against the page before or the page after */
    size_t bytes;
    char *mapped;
    size_t mapped_bytes;
} guarded_memory;

guarded_memory guarded_make(size_t bytes, bool at_end);
void guarded_read_only(const guarded_memory *memory);
void guarded_free(guarded_memory *memory);

#endif
