/* How the command ends when something is wrong: one line on standard error that names the file or option, what it holds
 * and what is allowed, then exit status 1 (bad data) or 2 (bad usage). Temporary files are removed on the way out. */
#ifndef SOFTMAX_CLI_FAIL_H
#define SOFTMAX_CLI_FAIL_H

_Noreturn void fail_data(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* malloc that fails as bad data: what cannot be held in memory. */
void *allocate(unsigned long long bytes);

#endif
