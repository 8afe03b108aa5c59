#include "temporary.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_FILES 8

/* live[i] is set after paths[i] is complete and cleared after the file is gone: a signal handler reads both. */
static char paths[MOST_FILES][PATH_MAX];
static volatile sig_atomic_t live[MOST_FILES];

static void remove_all(void)
{
    for (int i = 0; i < MOST_FILES; i++) {
        if (live[i])
            unlink(paths[i]);
    }
}

static void on_signal(int number)
{
    remove_all();
    if (number == SIGBUS) {
        static const char line[] = "softmax: a mapped file became shorter, or its disk failed, while it was used\n";
        ssize_t ignored = write(STDERR_FILENO, line, sizeof line - 1);
        (void)ignored;
        _exit(1);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void temporary_guard(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGBUS, SIGXFSZ};
    atexit(remove_all);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action = {.sa_handler = on_signal};
        struct sigaction before;
        /* What the parent ignores (nohup) stays ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

static int create(const char *name, size_t bytes, const char *folder, int folder_length, int *descriptor)
{
    int index = 0;
    while (index < MOST_FILES && live[index])
        index++;
    if (index == MOST_FILES)
        fail_data("%s: more than %d temporary files", name, MOST_FILES);
    if (snprintf(paths[index], PATH_MAX, "%.*s.softmax-XXXXXX", folder_length, folder) >= PATH_MAX)
        fail_data("%s: is longer than the %d bytes that are allowed", name, PATH_MAX);
    *descriptor = mkstemp(paths[index]);
    if (*descriptor < 0)
        fail_data("%s: cannot be created: %s", name, strerror(errno));
    live[index] = 1;
    int error = posix_fallocate(*descriptor, 0, (off_t)(bytes ? bytes : 1));
    if (error == EINVAL || error == EOPNOTSUPP)
        error = ftruncate(*descriptor, (off_t)bytes) == 0 ? 0 : errno;
    if (error)
        fail_data("%s: no room for %zu bytes: %s", name, bytes, strerror(error));
    return index;
}

int temporary_create(const char *name, size_t bytes, int *descriptor)
{
    static char resolved[PATH_MAX]; /* through symbolic links: the file is replaced, not the link */
    const char *target = realpath(name, resolved) ? resolved : name;
    const char *slash = strrchr(target, '/');
    int index = create(name, bytes, target, slash ? (int)(slash + 1 - target) : 0, descriptor);
    mode_t mask = umask(0); /* as any new file: mkstemp makes it private */
    umask(mask);
    fchmod(*descriptor, 0666 & ~mask);
    return index;
}

int temporary_scratch(size_t bytes, int *descriptor, const char **path)
{
    char folder[PATH_MAX];
    const char *chosen = getenv("TMPDIR");
    int length = snprintf(folder, sizeof folder, "%s/", chosen && *chosen ? chosen : "/tmp");
    int index = create(folder, bytes, folder, length, descriptor);
    *path = paths[index];
    return index;
}

void temporary_rename(int index, const char *name)
{
    static char resolved[PATH_MAX];
    const char *target = realpath(name, resolved) ? resolved : name;
    if (rename(paths[index], target) != 0)
        fail_data("%s: cannot be written: %s", name, strerror(errno));
    live[index] = 0;
}

void temporary_remove(int index)
{
    unlink(paths[index]);
    live[index] = 0;
}
