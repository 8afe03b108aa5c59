#include "check.h"

#include <stdarg.h>
#include <stdio.h>

enum { PRINTED_FAILURES = 60 };

static long checks;
static long failures;

bool check_that(bool condition, const char *file, int line, const char *expression, const char *format, ...)
{
    checks++;
    if (condition)
        return true;
    failures++;
    if (failures <= PRINTED_FAILURES) {
        va_list arguments;
        printf("FAILED %s:%d: %s: ", file, line, expression);
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf("\n");
    } else if (failures == PRINTED_FAILURES + 1) {
        printf("FAILED: more, not printed\n");
    }
    fflush(stdout);
    return false;
}

long check_failures(void)
{
    return failures;
}

int check_finish(const char *program)
{
    printf("%s: %ld checks, %ld failed\n", program, checks, failures);
    if (checks == 0)
        printf("%s: nothing was checked, which counts as a failure\n", program);
    return failures == 0 && checks > 0 ? 0 : 1;
}
