#include "arguments.h"

#include "fail.h"
#include "help.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const operation_names[OPERATION_COUNT + 1] = {
    "softmax", "log_softmax", "logsumexp", "softmax_backward", "log_softmax_backward", "cross_entropy",
};

const char *operation_name(operation op)
{
    return operation_names[op];
}

bool operation_is_backward(operation op)
{
    return op == OP_SOFTMAX_BACKWARD || op == OP_LOG_SOFTMAX_BACKWARD;
}

enum {
    FORWARD = 1 << OP_SOFTMAX | 1 << OP_LOG_SOFTMAX | 1 << OP_LOGSUMEXP,
    BACKWARD = 1 << OP_SOFTMAX_BACKWARD | 1 << OP_LOG_SOFTMAX_BACKWARD,
    LOSS = 1 << OP_CROSS_ENTROPY,
    EVERY = FORWARD | BACKWARD | LOSS
};

enum option_code {
    OPTION_OP = 1000,
    OPTION_AXIS,
    OPTION_SCALE,
    OPTION_SOFTCAP,
    OPTION_MASK,
    OPTION_CAUSAL,
    OPTION_CAUSAL_OFFSET,
    OPTION_VALID_LENGTHS,
    OPTION_GRAD,
    OPTION_TARGETS,
    OPTION_GRAD_OUTPUT,
    OPTION_CLASS_WEIGHTS,
    OPTION_LABEL_SMOOTHING,
    OPTION_Z_LOSS,
    OPTION_IGNORE_INDEX,
    OPTION_REDUCTION,
    OPTION_EMPTY_ROWS,
    OPTION_DTYPE,
    OPTION_THREADS,
    OPTION_ISA,
    OPTION_GRADIENT,
    OPTION_RESULT,
    OPTION_DEVICE,
    OPTION_END
};

/* Every long option: whether it has a value, and the operations that it means something to. */
static const struct {
    const char *name;
    int has_value;
    int operations;
} known[OPTION_END - OPTION_OP] = {
    [OPTION_OP - OPTION_OP] = {"op", 1, EVERY},
    [OPTION_AXIS - OPTION_OP] = {"axis", 1, EVERY},
    [OPTION_DEVICE - OPTION_OP] = {"device", 1, EVERY},
    [OPTION_SCALE - OPTION_OP] = {"scale", 1, FORWARD},
    [OPTION_SOFTCAP - OPTION_OP] = {"softcap", 1, FORWARD | LOSS},
    [OPTION_MASK - OPTION_OP] = {"mask", 1, FORWARD | LOSS},
    [OPTION_CAUSAL - OPTION_OP] = {"causal", 0, FORWARD},
    [OPTION_CAUSAL_OFFSET - OPTION_OP] = {"causal-offset", 1, FORWARD},
    [OPTION_VALID_LENGTHS - OPTION_OP] = {"valid-lengths", 1, FORWARD | LOSS},
    [OPTION_GRAD - OPTION_OP] = {"grad", 1, BACKWARD},
    [OPTION_TARGETS - OPTION_OP] = {"targets", 1, LOSS},
    [OPTION_GRAD_OUTPUT - OPTION_OP] = {"grad-output", 1, LOSS},
    [OPTION_CLASS_WEIGHTS - OPTION_OP] = {"class-weights", 1, LOSS},
    [OPTION_LABEL_SMOOTHING - OPTION_OP] = {"label-smoothing", 1, LOSS},
    [OPTION_Z_LOSS - OPTION_OP] = {"z-loss", 1, LOSS},
    [OPTION_IGNORE_INDEX - OPTION_OP] = {"ignore-index", 1, LOSS},
    [OPTION_REDUCTION - OPTION_OP] = {"reduction", 1, LOSS},
    [OPTION_EMPTY_ROWS - OPTION_OP] = {"empty-rows", 1, EVERY},
    [OPTION_DTYPE - OPTION_OP] = {"dtype", 1, EVERY},
    [OPTION_THREADS - OPTION_OP] = {"threads", 1, EVERY},
    [OPTION_ISA - OPTION_OP] = {"isa", 1, EVERY},
    [OPTION_GRADIENT - OPTION_OP] = {"gradient", 1, LOSS},
    [OPTION_RESULT - OPTION_OP] = {"result", 1, EVERY},
};

static double parse_number(const char *option, const char *text, double least, double most, const char *allowed)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < least || value > most)
        fail_usage("--%s %s: allowed is %s", option, text, allowed);
    return value;
}

static long long parse_integer(const char *option, const char *text, long long least, long long most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        fail_usage("--%s %s: allowed is an integer from %lld to %lld", option, text, least, most);
    return value;
}

/* The index of text in names, which ends with NULL. */
static int parse_choice(const char *option, const char *text, const char *const *names)
{
    char allowed[200] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
        snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "%s%s", i ? ", " : "", names[i]);
    }
    fail_usage("--%s %s: allowed is one of %s", option, text, allowed);
}

static void check_isa(const char *name)
{
    char allowed[200] = "";
    for (int i = 0; i < softmax_isa_count(); i++) {
        bool available = softmax_isa_available(i);
        if (available && strcmp(name, softmax_isa_name(i)) == 0)
            return;
        if (available)
            snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "%s%s", *allowed ? ", " : "",
                     softmax_isa_name(i));
    }
    fail_usage("--isa %s: is not built or not on this machine; allowed is one of %s", name, allowed);
}

/* cpu, cuda or cuda:N. */
static int parse_device(const char *text)
{
    if (strcmp(text, "cpu") == 0)
        return -1;
    bool numbered = strncmp(text, "cuda:", 5) == 0;
    if (!numbered && strcmp(text, "cuda") != 0)
        fail_usage("--device %s: allowed is one of cpu, cuda, cuda:N", text);
    int count = softmax_cuda_device_count();
    char words[200];
    if (count <= 0) {
        softmax_cuda_device_words(0, words, sizeof words);
        fail_usage("--device %s: is not on this machine (%s); allowed is cpu", text, words);
    }
    return numbered ? (int)parse_integer("device cuda:", text + 5, 0, count - 1) : 0;
}

static void take_option(arguments *a, int code, const char *value)
{
    static const char *const reductions[] = {"none", "sum", "mean", NULL};
    static const char *const empties[] = {"nan", "zero", NULL};
    static const char *const types[] = {"bfloat16", NULL};
    const char *name = known[code - OPTION_OP].name;
    softmax_options *o = &a->options;
    switch (code) {
    case OPTION_OP: a->op = (operation)parse_choice(name, value, operation_names); break;
    case OPTION_AXIS:
        a->axis = (int)parse_integer(name, value, -SOFTMAX_MAX_DIMENSIONS, SOFTMAX_MAX_DIMENSIONS - 1);
        break;
    case OPTION_SCALE: o->scale = parse_number(name, value, -INFINITY, INFINITY, "a finite number"); break;
    case OPTION_SOFTCAP:
        o->softcap = parse_number(name, value, 0, INFINITY, "a finite number of at least 0 (0: none)");
        break;
    case OPTION_MASK: a->mask = value; break;
    case OPTION_CAUSAL: o->causal = 1; break;
    case OPTION_CAUSAL_OFFSET: o->causal_offset = parse_integer(name, value, INT64_MIN, INT64_MAX); break;
    case OPTION_VALID_LENGTHS: a->valid_lengths = value; break;
    case OPTION_GRAD: a->grad = value; break;
    case OPTION_TARGETS: a->targets = value; break;
    case OPTION_GRAD_OUTPUT: a->grad_output = value; break;
    case OPTION_CLASS_WEIGHTS: a->class_weights = value; break;
    case OPTION_LABEL_SMOOTHING: o->label_smoothing = parse_number(name, value, 0, 1, "a number from 0 to 1"); break;
    case OPTION_Z_LOSS: o->z_loss = parse_number(name, value, 0, INFINITY, "a finite number of at least 0"); break;
    case OPTION_IGNORE_INDEX: o->ignore_index = parse_integer(name, value, INT64_MIN, INT64_MAX); break;
    case OPTION_REDUCTION: o->reduction = parse_choice(name, value, reductions); break;
    case OPTION_EMPTY_ROWS: o->empty_rows = parse_choice(name, value, empties); break;
    case OPTION_DTYPE:
        parse_choice(name, value, types);
        a->bfloat16 = true;
        break;
    case OPTION_THREADS: o->threads = (int32_t)parse_integer(name, value, 0, 4096); break;
    case OPTION_ISA:
        check_isa(value);
        o->isa = value;
        break;
    case OPTION_GRADIENT: a->gradient = value; break;
    case OPTION_RESULT:
        if (a->result_count == RESULTS_MOST)
            fail_usage("--result %s: is one too many; %d are allowed", value, RESULTS_MOST);
        a->results[a->result_count++] = value;
        break;
    case OPTION_DEVICE: a->cuda_device = parse_device(value); break;
    }
}

/* Options that the operation needs, or that do not go together. */
static void check_together(const arguments *a, subcommand which, const bool *given)
{
    for (int i = 0; i < OPTION_END - OPTION_OP; i++) {
        if (given[i] && !(known[i].operations & 1 << a->op))
            fail_usage("--%s: has no meaning for --op %s", known[i].name, operation_names[a->op]);
    }
    if (operation_is_backward(a->op) && !a->grad)
        fail_usage("--grad: is missing; --op %s needs the gradient of its output", operation_names[a->op]);
    if (a->op == OP_CROSS_ENTROPY && !a->targets)
        fail_usage("--targets: is missing; --op cross_entropy needs classes or probabilities");
    if (given[OPTION_CAUSAL_OFFSET - OPTION_OP] && !a->options.causal)
        fail_usage("--causal-offset: has no meaning without --causal");
    if (a->grad_output && !a->gradient)
        fail_usage("--grad-output: has no meaning without --gradient");
    if (which == COMPARE && (a->output || a->gradient))
        fail_usage("%s: is an option of run, not of compare", a->output ? "-o" : "--gradient");
    if (which == RUN && a->result_count)
        fail_usage("--result: is an option of compare, not of run");
    if (a->output && a->gradient && strcmp(a->output, a->gradient) == 0)
        fail_usage("--gradient %s: is also the file of -o; allowed are two files", a->gradient);
    const char *inputs[] = {a->input, a->mask, a->valid_lengths, a->grad, a->targets, a->grad_output, a->class_weights};
    int standard = 0;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        standard += inputs[i] && strcmp(inputs[i], "-") == 0;
    if (standard > 1)
        fail_usage("-: is given for %d inputs; standard input can be one", standard);
}

/* Which option getopt could not take, as the user wrote it. */
static void fail_unknown(const char *name, char **argv, int code)
{
    const char *word = argv[optind - 1];
    if (optopt > 0 && optopt < 256)
        fail_usage("-%c: %s; see softmax %s --help", optopt, code == ':' ? "needs a value" : "is not an option", name);
    if (code == ':')
        fail_usage("%s: needs a value; see softmax %s --help", word, name);
    fail_usage("%s: %s; see softmax %s --help", word,
               optopt ? "takes no value" : "is not an option, or the start of several", name);
}

void arguments_parse(subcommand which, int argc, char **argv, arguments *a)
{
    *a = (arguments){.axis = -1, .cuda_device = -1, .options = SOFTMAX_OPTIONS_INIT};
    bool given[OPTION_END - OPTION_OP] = {false};
    struct option table[OPTION_END - OPTION_OP + 2] = {{0}};
    for (int i = 0; i < OPTION_END - OPTION_OP; i++)
        table[i] = (struct option){known[i].name, known[i].has_value, NULL, OPTION_OP + i};
    table[OPTION_END - OPTION_OP] = (struct option){"help", 0, NULL, 'h'};
    opterr = 0;
    int code;
    while ((code = getopt_long(argc, argv, ":o:h", table, NULL)) != -1) {
        if (code == 'h') {
            help_print(which == RUN ? "run" : "compare");
            exit(0);
        } else if (code == 'o') {
            a->output = optarg;
        } else if (code >= OPTION_OP) {
            given[code - OPTION_OP] = true;
            take_option(a, code, optarg);
        } else {
            fail_unknown(argv[0], argv, code);
        }
    }
    if (optind + 1 != argc)
        fail_usage("INPUT.npy: %d are given; allowed is 1 (see softmax %s --help)", argc - optind, argv[0]);
    a->input = argv[optind];
    if (which == COMPARE && !given[OPTION_THREADS - OPTION_OP])
        a->options.threads = 1; /* so that one row of its table compares with the next */
    check_together(a, which, given);
}
