/* The command `softmax`: a thin front on the public headers. docs/command.md describes it. */
#include "arguments.h"
#include "compare.h"
#include "fail.h"
#include "help.h"
#include "info.h"
#include "run.h"
#include "temporary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The output was printed in vain if it cannot be written. */
static int finish(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        fail_data("standard output: cannot be written: %s", strerror(errno));
    return 0;
}

static int is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int main(int argc, char **argv)
{
    temporary_guard();
    if (argc < 2)
        fail_usage("a subcommand is missing; allowed are run, compare, info (see softmax --help)");
    const char *word = argv[1];
    if (is_help(word)) {
        help_print(NULL);
        return finish();
    }
    if (strcmp(word, "--version") == 0) {
        printf("softmax %s\n", softmax_version());
        return finish();
    }
    if (strcmp(word, "info") == 0) {
        if (argc > 2 && is_help(argv[2]))
            help_print("info");
        else if (argc > 2)
            fail_usage("%s: info takes no options", argv[2]);
        else
            info();
        return finish();
    }
    bool is_run = strcmp(word, "run") == 0;
    if (!is_run && strcmp(word, "compare") != 0)
        fail_usage("%s: is no subcommand; allowed are run, compare, info", word);
    arguments arguments;
    arguments_parse(is_run ? RUN : COMPARE, argc - 1, argv + 1, &arguments);
    if (is_run)
        run(&arguments);
    else
        compare(&arguments);
    return finish();
}
