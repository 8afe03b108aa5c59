/* The command line of `softmax run` and `softmax compare`, read and checked as far as it can be without the files. */
#ifndef SOFTMAX_CLI_ARGUMENTS_H
#define SOFTMAX_CLI_ARGUMENTS_H

#include <softmax.h>
#include <stdbool.h>

typedef enum operation {
    OP_SOFTMAX,
    OP_LOG_SOFTMAX,
    OP_LOGSUMEXP,
    OP_SOFTMAX_BACKWARD,
    OP_LOG_SOFTMAX_BACKWARD,
    OP_CROSS_ENTROPY,
    OPERATION_COUNT
} operation;

typedef enum subcommand { RUN, COMPARE } subcommand;

#define RESULTS_MOST 16

typedef struct arguments {
    operation op;
    int axis; /* -1 */
    bool bfloat16;
    int cuda_device; /* -1: the CPU */
    /* Names of files; NULL where not given. */
    const char *input, *output, *gradient, *mask, *valid_lengths, *grad, *targets, *grad_output, *class_weights;
    const char *results[RESULTS_MOST]; /* "NAME=FILE.npy[@SECONDS]" */
    int result_count;
    softmax_options options; /* everything that is no file */
} arguments;

const char *operation_name(operation op);
bool operation_is_backward(operation op);

/* argv[0] is the subcommand. Prints help and exits for --help; fails by fail_usage. */
void arguments_parse(subcommand which, int argc, char **argv, arguments *arguments);

#endif
