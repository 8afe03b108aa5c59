/* Files that appear whole or not at all: written beside their place under a temporary name, renamed at the end, and
 * removed by whatever else ends the process. */
#ifndef SOFTMAX_CLI_TEMPORARY_H
#define SOFTMAX_CLI_TEMPORARY_H

#include <stddef.h>

/* Removes what is left at exit and at signals. Called once, by main. */
void temporary_guard(void);

/* Creates a file of `bytes` bytes, with the room for them reserved, in the folder of `name`. Returns its index;
 * *descriptor is open. */
int temporary_create(const char *name, size_t bytes, int *descriptor);

/* A file in $TMPDIR or /tmp, for handing data to another program. Returns its index; *path stays valid. */
int temporary_scratch(size_t bytes, int *descriptor, const char **path);

void temporary_rename(int index, const char *name);
void temporary_remove(int index);

#endif
