#define _GNU_SOURCE
#include "guarded_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

guarded_memory guarded_make(size_t bytes, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    guarded_memory made = {.bytes = bytes, .mapped_bytes = inner + 2 * page};
    made.mapped = mmap(NULL, made.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made.mapped == MAP_FAILED || (inner && mprotect(made.mapped + page, inner, PROT_READ | PROT_WRITE) != 0)) {
        perror("guard pages");
        exit(1);
    }
    made.data = made.mapped + page + (at_end ? inner - bytes : 0);
    return made;
}

void guarded_read_only(const guarded_memory *memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (memory->mapped_bytes > 2 * page &&
        mprotect(memory->mapped + page, memory->mapped_bytes - 2 * page, PROT_READ) != 0) {
        perror("guard pages");
        exit(1);
    }
}

void guarded_free(guarded_memory *memory)
{
    munmap(memory->mapped, memory->mapped_bytes);
}
