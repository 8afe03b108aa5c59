#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* File names may hold anything; the line must stay one line. */
static void fail_line(const char *format, va_list values)
{
    char line[1024];
    vsnprintf(line, sizeof line, format, values);
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    fflush(stdout);
    fprintf(stderr, "softmax: %s\n", line);
}

void fail_data(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fail_line(format, values);
    va_end(values);
    exit(1);
}

void fail_usage(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fail_line(format, values);
    va_end(values);
    exit(2);
}

void *allocate(unsigned long long bytes)
{
    void *memory = bytes <= (size_t)-1 / 2 ? malloc(bytes ? (size_t)bytes : 1) : NULL;
    if (!memory)
        fail_data("memory: %llu bytes are not to be had", bytes);
    return memory;
}
