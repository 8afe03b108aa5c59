/* Options: read by the size that the caller's struct has, checked, and refused where an operation does not take them.
 */
#include "api_call.h"
#include "dispatch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* No struct of ours will be larger; a size beyond it is not a size. */
#define OPTIONS_BYTES_LIMIT 4096

#define OPTIONS_BYTES_LEAST (offsetof(softmax_options, softcap) + sizeof(double))

/* Options that some operation does not take, a bit each. */
enum {
    OPTION_SOFTCAP = 1 << 0,
    OPTION_SCALE = 1 << 1,
    OPTION_BIAS = 1 << 2,
    OPTION_MASK = 1 << 3,
    OPTION_VALID_LENGTHS = 1 << 4,
    OPTION_CAUSAL = 1 << 5,
    OPTION_CAUSAL_OFFSET = 1 << 6,
    OPTION_FIRST_COLUMN = 1 << 7,
    OPTION_IGNORE_INDEX = 1 << 8,
    OPTION_LABEL_SMOOTHING = 1 << 9,
    OPTION_Z_LOSS = 1 << 10,
    OPTION_CLASS_WEIGHTS = 1 << 11,
    OPTION_GRAD_OUTPUT = 1 << 12,
    OPTION_TARGETS_GRADIENT = 1 << 13,
    OPTION_ROW_LOGSUMEXP = 1 << 14,
    OPTION_REDUCTION = 1 << 15,
    OPTIONS_MASKS = OPTION_MASK | OPTION_VALID_LENGTHS,
    OPTIONS_SCORES = OPTION_SOFTCAP | OPTION_SCALE | OPTION_BIAS | OPTIONS_MASKS | OPTION_CAUSAL | OPTION_CAUSAL_OFFSET,
    OPTIONS_TILE = OPTIONS_SCORES | OPTION_FIRST_COLUMN,
    OPTIONS_LOSS = OPTION_SOFTCAP | OPTIONS_MASKS | OPTION_IGNORE_INDEX | OPTION_LABEL_SMOOTHING | OPTION_Z_LOSS |
                   OPTION_CLASS_WEIGHTS | OPTION_GRAD_OUTPUT | OPTION_TARGETS_GRADIENT | OPTION_ROW_LOGSUMEXP |
                   OPTION_REDUCTION
};

static const char *const option_names[] = {"softcap",       "scale",
                                           "bias",          "mask",
                                           "valid_lengths", "causal",
                                           "causal_offset", "first_column",
                                           "ignore_index",  "label_smoothing",
                                           "z_loss",        "class_weights",
                                           "grad_output",   "targets_gradient",
                                           "row_logsumexp", "reduction"};

/* By operation. empty_rows is everybody's: where nothing depends on it, one struct of options may serve several calls.
 */
static const struct {
    const char *name;
    unsigned int takes;
} operations[] = {
    [OPERATION_SOFTMAX] = {"softmax", OPTIONS_SCORES},
    [OPERATION_LOG_SOFTMAX] = {"log_softmax", OPTIONS_SCORES},
    [OPERATION_LOGSUMEXP] = {"logsumexp", OPTIONS_SCORES},
    [OPERATION_SOFTMAX_BACKWARD] = {"softmax_backward", 0},
    [OPERATION_LOG_SOFTMAX_BACKWARD] = {"log_softmax_backward", 0},
    [OPERATION_CROSS_ENTROPY] = {"cross_entropy", OPTIONS_LOSS},
    [OPERATION_STATE_UPDATE] = {"state_update", OPTIONS_TILE},
    [OPERATION_STATE_NORMALISE] = {"state_normalise", OPTIONS_TILE},
    [OPERATION_STATE_LOG_NORMALISE] = {"state_log_normalise", OPTIONS_TILE},
};

static const softmax_options defaults = SOFTMAX_OPTIONS_INIT;

softmax_status softmax_refuse(const api_call *call, softmax_status status, const char *format, ...)
{
    char *message = call->options.message;
    size_t bytes = call->options.message_bytes;
    va_list values;
    int used;
    if (!message || bytes == 0)
        return status;
    used = snprintf(message, bytes, "%s: ", call->name);
    if (used < 0 || (size_t)used >= bytes)
        return status;
    va_start(values, format);
    vsnprintf(message + used, bytes - (size_t)used, format, values);
    va_end(values);
    return status;
}

/* The caller's struct over the defaults, as far as it reaches. */
static softmax_status read_options(api_call *call, const softmax_options *options)
{
    size_t size, known;
    call->options = defaults;
    if (!options)
        return SOFTMAX_OK;
    size = options->size;
    if (size < OPTIONS_BYTES_LEAST || size > OPTIONS_BYTES_LIMIT)
        return SOFTMAX_ERROR_OPTION; /* without words: where the message would stand is not known */
    known = size < sizeof(softmax_options) ? size : sizeof(softmax_options);
    memcpy(&call->options, options, known);
    if (call->options.message && call->options.message_bytes > 0)
        call->options.message[0] = '\0';
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)options)[i] != 0)
            return softmax_refuse(call, SOFTMAX_ERROR_OPTION,
                                  "options has size %zu and sets byte %zu; this library, %s, knows %zu bytes", size, i,
                                  softmax_version(), sizeof(softmax_options));
    return SOFTMAX_OK;
}

static unsigned int options_set(const softmax_options *o)
{
    return (o->softcap != 0.0 ? OPTION_SOFTCAP : 0u) | (o->scale != 1.0 ? OPTION_SCALE : 0u) |
           (o->bias ? OPTION_BIAS : 0u) | (o->mask ? OPTION_MASK : 0u) |
           (o->valid_lengths ? OPTION_VALID_LENGTHS : 0u) | (o->causal ? OPTION_CAUSAL : 0u) |
           (o->causal_offset ? OPTION_CAUSAL_OFFSET : 0u) | (o->first_column ? OPTION_FIRST_COLUMN : 0u) |
           (o->ignore_index != defaults.ignore_index ? OPTION_IGNORE_INDEX : 0u) |
           (o->label_smoothing != 0.0 ? OPTION_LABEL_SMOOTHING : 0u) | (o->z_loss != 0.0 ? OPTION_Z_LOSS : 0u) |
           (o->class_weights ? OPTION_CLASS_WEIGHTS : 0u) | (o->grad_output ? OPTION_GRAD_OUTPUT : 0u) |
           (o->targets_gradient ? OPTION_TARGETS_GRADIENT : 0u) | (o->row_logsumexp ? OPTION_ROW_LOGSUMEXP : 0u) |
           (o->reduction != defaults.reduction ? OPTION_REDUCTION : 0u);
}

static softmax_status check_values(const api_call *call)
{
    const softmax_options *o = &call->options;
    const softmax_status bad = SOFTMAX_ERROR_OPTION;
    if (!(o->softcap >= 0.0 && isfinite(o->softcap)))
        return softmax_refuse(call, bad, "softcap is %g; 0 (none) or a positive finite number is allowed", o->softcap);
    if (!isfinite(o->scale))
        return softmax_refuse(call, bad, "scale is %g; a finite number is allowed", o->scale);
    if (o->causal != 0 && o->causal != 1)
        return softmax_refuse(call, bad, "causal is %d; 0 and 1 are allowed", (int)o->causal);
    if (o->empty_rows != SOFTMAX_EMPTY_NAN && o->empty_rows != SOFTMAX_EMPTY_ZERO)
        return softmax_refuse(call, bad,
                              "empty_rows is %d; SOFTMAX_EMPTY_NAN (0) and SOFTMAX_EMPTY_ZERO (1) are allowed",
                              (int)o->empty_rows);
    if (o->first_column < 0)
        return softmax_refuse(call, bad, "first_column is %lld; 0 or more is allowed", (long long)o->first_column);
    if (!(o->label_smoothing >= 0.0 && o->label_smoothing <= 1.0))
        return softmax_refuse(call, bad, "label_smoothing is %g; 0 to 1 is allowed", o->label_smoothing);
    if (!(o->z_loss >= 0.0 && isfinite(o->z_loss)))
        return softmax_refuse(call, bad, "z_loss is %g; 0 or a positive finite number is allowed", o->z_loss);
    if (o->reduction < SOFTMAX_NONE || o->reduction > SOFTMAX_MEAN)
        return softmax_refuse(call, bad,
                              "reduction is %d; SOFTMAX_NONE (0), SOFTMAX_SUM (1) and SOFTMAX_MEAN (2) are allowed",
                              (int)o->reduction);
    if (o->threads < 0)
        return softmax_refuse(call, bad, "threads is %d; 0 (as many as are worth it) or more is allowed",
                              (int)o->threads);
    if (o->streaming < SOFTMAX_STREAMING_CHOOSE || o->streaming > SOFTMAX_STREAMING_ALWAYS)
        return softmax_refuse(call, bad,
                              "streaming is %d; SOFTMAX_STREAMING_CHOOSE (0), SOFTMAX_STREAMING_NEVER (1) and "
                              "SOFTMAX_STREAMING_ALWAYS (2) are allowed",
                              (int)o->streaming);
    return SOFTMAX_OK;
}

static softmax_status check_options(const api_call *call, operation op)
{
    unsigned int refused = options_set(&call->options) & ~operations[op].takes;
    softmax_status status = check_values(call);
    if (status == SOFTMAX_OK && refused)
        status = softmax_refuse(call, SOFTMAX_ERROR_OPTION, "%s is set; %s does not take it, so its default is allowed",
                                option_names[__builtin_ctz(refused)], call->name);
    return status;
}

softmax_status softmax_call_begin(api_call *call, operation op, const softmax_options *options)
{
    softmax_job *job = &call->job;
    softmax_status status;
    call->name = operations[op].name;
    call->arrays = 0;
    call->writes = false;
    status = read_options(call, options);
    if (status == SOFTMAX_OK && options)
        status = check_options(call, op);
    if (status != SOFTMAX_OK)
        return status;

    memset(job, 0, sizeof *job);
    job->op = op;
    job->query_dimension = -1;
    job->scale = 1.0;
    job->empty_zero = call->options.empty_rows == SOFTMAX_EMPTY_ZERO;
    job->threads = call->options.threads;
    job->streaming = call->options.streaming;
    job->stream = call->options.stream;
    job->device_status = call->options.device_status;
    job->scratch = call->options.scratch;
    job->scratch_bytes = call->options.scratch_bytes;
    job->scratch_needed = call->options.scratch_needed;
    job->cuda_kernel = call->options.cuda_kernel;
    job->kernels = softmax_kernels_find(call->options.isa);
    if (!job->kernels) {
        char words[256];
        softmax_isa_refusal(call->options.isa, words, sizeof words);
        return softmax_refuse(call, SOFTMAX_ERROR_ISA, "%s", words);
    }
    return SOFTMAX_OK;
}
