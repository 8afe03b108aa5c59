/* What `softmax --help` and `softmax SUBCOMMAND --help` print. */
#ifndef SOFTMAX_CLI_HELP_H
#define SOFTMAX_CLI_HELP_H

/* subcommand: "run", "compare", "info", or NULL for the whole command. */
void help_print(const char *subcommand);

#endif
