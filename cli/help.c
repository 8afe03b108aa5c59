#include "help.h"

#include <stdio.h>
#include <string.h>

static const char overall[] =
    "softmax: the softmax family over .npy files, accurate and with the same bits everywhere\n"
    "\n"
    "  softmax run [options] INPUT.npy [-o OUTPUT.npy]   compute\n"
    "  softmax compare [options] INPUT.npy               every implementation on this machine: errors, bits, speed\n"
    "  softmax info                                      version, instruction sets, devices, caches, defaults\n"
    "  softmax SUBCOMMAND --help                         its options\n"
    "\n"
    "Exit status: 0, 1 for bad data (files), 2 for bad usage (the command line).\n";

static const char run_head[] =
    "softmax run [options] INPUT.npy [-o OUTPUT.npy]\n"
    "\n"
    "  INPUT.npy             the scores, or for a backward the forward's output; - is standard input\n"
    "  -o OUTPUT.npy         appears whole or not at all; - is standard output; without -o the result is printed as "
    "text\n";

static const char compare_head[] =
    "softmax compare [options] INPUT.npy\n"
    "\n"
    "Prints a row per implementation: the references, libsoftmax with every instruction set, NumPy where python3 has "
    "it,\n"
    "and with --device cuda every kernel on the GPU "
    "($SOFTMAX_PYTHON names another python). Errors are in ULP against 113-bit arithmetic. Runs on one thread unless "
    "--threads says otherwise.\n"
    "\n"
    "  INPUT.npy             the scores, or for a backward the forward's output; - is standard input\n"
    "  --result NAME=R.npy[@SECONDS]  a row for a result from elsewhere, of the output's type and shape; may be given "
    "again\n";

static const char options[] =
    "  --op NAME             softmax (default), log_softmax, logsumexp, softmax_backward, log_softmax_backward, "
    "cross_entropy\n"
    "  --axis N              the axis of a row, -1 (last) by default\n"
    "  --empty-rows MODE     what a row without any column to count gives: nan (default) or zero\n"
    "  --dtype bfloat16      arrays of uint16 hold bfloat16\n"
    "  --threads N           at most N threads; 0 (default of run): as many as are worth it\n"
    "  --isa NAME            an instruction set that softmax info lists\n"
    "  --device NAME         cpu (default), cuda or cuda:N: a device that softmax info lists\n"
    "  --help                this text\n"
    "softmax, log_softmax, logsumexp:\n"
    "  --scale S             multiplies the scores; 1 / temperature\n"
    "  --softcap C           C tanh(x / C) before the scale\n"
    "  --mask M.npy          broadcasts to the input; bool or uint8: nonzero takes part; float: is added\n"
    "  --causal              column j is seen by row i of the last two dimensions if j <= i + offset\n"
    "  --causal-offset K     the offset, 0 by default\n"
    "  --valid-lengths L.npy int32 or int64, broadcasts to the input without the axis: columns from there on take no "
    "part\n"
    "softmax_backward, log_softmax_backward:\n"
    "  --grad DY.npy         the gradient of the output, of its shape and type (needed)\n"
    "cross_entropy (also --softcap, --mask, --valid-lengths):\n"
    "  --targets T.npy       classes (int32 or int64, the input's shape without the axis) or probabilities (its shape) "
    "(needed)\n";

static const char loss_run[] = "  --gradient G.npy      receives the gradient of the logits; -o receives the loss\n"
                               "  --grad-output U.npy   the upstream gradient: one element, or the shape of the loss\n";

static const char loss[] = "  --class-weights W.npy one weight per class\n"
                           "  --label-smoothing E   from 0 to 1\n"
                           "  --z-loss L            adds L logsumexp^2\n"
                           "  --ignore-index I      rows with this target count for nothing; -100 by default\n"
                           "  --reduction R         none, sum or mean (default)\n";

void help_print(const char *subcommand)
{
    if (!subcommand) {
        fputs(overall, stdout);
    } else if (strcmp(subcommand, "info") == 0) {
        fputs("softmax info\n\nPrints version, instruction sets, devices, caches and defaults. It has no options.\n",
              stdout);
    } else {
        int run = strcmp(subcommand, "run") == 0;
        fputs(run ? run_head : compare_head, stdout);
        fputs(options, stdout);
        fputs(run ? loss_run : "", stdout);
        fputs(loss, stdout);
    }
}
