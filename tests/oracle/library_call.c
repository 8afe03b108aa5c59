#include "library_call.h"

#include "check.h"

#include <stdio.h>
#include <string.h>

char library_message[512];

library_call library_call_of(operation operation, const DLTensor *input, const DLTensor *second, DLTensor *output,
                             DLTensor *loss, int axis)
{
    library_call call = {operation, axis, input, second, output, loss, SOFTMAX_OPTIONS_INIT};
    return call;
}

softmax_options library_options(const char *isa)
{
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.isa = isa;
    options.message = library_message;
    options.message_bytes = sizeof library_message;
    return options;
}

softmax_status library_run(library_call *call)
{
    softmax_options *options = &call->options;
    strcpy(library_message, "(the message was not written)");
    if (!options->message) {
        options->message = library_message;
        options->message_bytes = sizeof library_message;
    }
    switch (call->operation) {
    case SOFTMAX:
        return softmax_softmax(call->input, call->output, call->axis, options);
    case LOG_SOFTMAX:
        return softmax_log_softmax(call->input, call->output, call->axis, options);
    case LOGSUMEXP:
        return softmax_logsumexp(call->input, call->output, call->axis, options);
    case SOFTMAX_BACKWARD:
        return softmax_softmax_backward(call->input, call->second, call->output, call->axis, options);
    case LOG_SOFTMAX_BACKWARD:
        return softmax_log_softmax_backward(call->input, call->second, call->output, call->axis, options);
    default:
        return softmax_cross_entropy(call->input, call->second, call->loss, call->output, call->axis, options);
    }
}

bool library_run_ok(library_call *call, const char *words)
{
    softmax_status status = library_run(call);
    return CHECK(status == SOFTMAX_OK, "%s: %s: %s: %s", words, operation_names[call->operation],
                 softmax_status_string(status), library_message);
}

int library_instruction_sets(const char *names[], int capacity)
{
    int count = 0;
    for (int i = 0; i < softmax_isa_count(); i++) {
        if (softmax_isa_available(i) && count < capacity)
            names[count++] = softmax_isa_name(i);
        printf("instruction set %s: %s\n", softmax_isa_name(i),
               softmax_isa_available(i) ? "runs" : "SKIPPED, not on this processor");
    }
    CHECK(count > 0, "no instruction set runs here");
    return count;
}
