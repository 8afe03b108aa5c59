/* The tests' assert: a check that fails is counted and printed with its place, and the program goes on. A program ends
 * with `return check_finish("name")`, which says what was counted and gives the exit status. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdbool.h>

/* printf-style words say what was tested and what was found. */
#define CHECK(condition, ...) check_that((condition), __FILE__, __LINE__, #condition, __VA_ARGS__)

bool check_that(bool condition, const char *file, int line, const char *expression, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* How many checks have failed so far. */
long check_failures(void);

/* Prints the summary; 0 if every check held and there was at least one, else 1. */
int check_finish(const char *program);

#endif
