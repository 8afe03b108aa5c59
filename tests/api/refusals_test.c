/* Every refusal: its status, that its words name the argument, its value and what is allowed, and that nothing was
 * written. */
#include "oracle/check.h"
#include "oracle/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2, COLUMNS = 3 };

static const DLDataType float32 = {kDLFloat, 32, 1}, float64 = {kDLFloat, 64, 1}, complex64 = {kDLComplex, 64, 1},
                        float32x4 = {kDLFloat, 32, 4};

/* What a call is made of; every case starts from a good one and spoils it. */
static float x_data[64], bias_data[64];
static union {
    float f[64];
    unsigned char bytes[256];
} y_data;
static tensor x, y, other;
static int axis;
static softmax_options options;
static char message[300];

static void begin(void)
{
    const softmax_options defaults = SOFTMAX_OPTIONS_INIT;
    memset(y_data.bytes, 0xa5, sizeof y_data);
    tensor_matrix(&x, x_data, float32, ROWS, COLUMNS);
    tensor_matrix(&y, y_data.f, float32, ROWS, COLUMNS);
    axis = -1;
    options = defaults;
    options.message = message;
    options.message_bytes = sizeof message;
    strcpy(message, "untouched");
}

static void expect(softmax_status got, softmax_status status, const char *words, int line)
{
    bool untouched = true;
    for (size_t i = 0; i < sizeof y_data; i++)
        untouched &= y_data.bytes[i] == 0xa5;
    CHECK(got == status && strcmp(message, words) == 0, "line %d: status %d, \"%s\"; not %d, \"%s\"", line, (int)got,
          message, (int)status, words);
    CHECK(untouched, "line %d: the output was written", line);
    begin();
}

#define REFUSED(code, words)                                                                                           \
    expect(softmax_softmax(&x.dl, &y.dl, axis, &options), SOFTMAX_ERROR_##code, "softmax: " words, __LINE__)

/* A CUDA tensor where there is no such device, whether the library knows CUDA or not; and devices that do not go together. */
static void devices(void)
{
    char words[300], expected[400];
    int absent = softmax_cuda_device_count() < 0 ? 0 : softmax_cuda_device_count();
    softmax_cuda_device_words(absent, words, sizeof words);
    CHECK(softmax_cuda_device_words(absent, words, sizeof words) == SOFTMAX_ERROR_DEVICE, "device %d: %s", absent,
          words);
    snprintf(expected, sizeof expected, "softmax: x is on cuda:%d; %s", absent, words);
    x.dl.device.device_type = kDLCUDA;
    x.dl.device.device_id = absent;
    expect(softmax_softmax(&x.dl, &y.dl, axis, &options), SOFTMAX_ERROR_DEVICE, expected, __LINE__);
    y.dl.device.device_type = kDLCUDA;
    y.dl.device.device_id = 1;
    REFUSED(DEVICE, "y is on cuda:1; x is on the CPU, and one device is allowed");
    if (absent > 0) {
        x.dl.device.device_type = kDLCUDA;
        REFUSED(DEVICE, "y is on the CPU; x is on cuda:0, and one device is allowed");
    }
    size_t scratch = 1;
    options.scratch_needed = &scratch;
    expect(softmax_softmax(&x.dl, &y.dl, axis, &options), SOFTMAX_OK, "", __LINE__);
    CHECK(scratch == 0, "the CPU asks for %zu bytes of scratch", scratch);
}

static void tensors(void)
{
    int64_t many[SOFTMAX_MAX_DIMENSIONS + 1] = {0}, negative[2] = {2, -3},
                                          vast[2] = {INT64_C(1) << 40, INT64_C(1) << 40}, zero_strides[2] = {0, 1},
                                          far_strides[2] = {INT64_C(1) << 61, 1}, none[2] = {0, 0};
    expect(softmax_softmax(NULL, &y.dl, -1, &options), SOFTMAX_ERROR_NULL, "softmax: x is NULL; a tensor is required",
           __LINE__);
    expect(softmax_softmax(&x.dl, NULL, -1, &options), SOFTMAX_ERROR_NULL, "softmax: y is NULL; a tensor is required",
           __LINE__);
    x.dl.data = NULL;
    REFUSED(NULL, "x's data is NULL; it has elements, so an address is required");
    x.dl.shape = NULL;
    REFUSED(NULL, "x has 2 dimensions and its shape is NULL; a shape is required");
    x.dl.ndim = SOFTMAX_MAX_DIMENSIONS + 1;
    x.dl.shape = many;
    REFUSED(SHAPE, "x has 17 dimensions; 0 to 16 are allowed");
    x.dl.shape = negative;
    REFUSED(SHAPE, "x has shape (2, -3); sizes of 0 or more are allowed");
    x.dl.shape = vast;
    x.dl.strides = none;
    REFUSED(SHAPE, "x has shape (1099511627776, 1099511627776); fewer than 2^63 elements are allowed");
    y.dl.shape[1] = 4;
    REFUSED(SHAPE, "y has shape (2, 4); (2, 3), the shape of x, is required");
    y.dl.ndim = 1;
    REFUSED(SHAPE, "y has shape (2); (2, 3), the shape of x, is required");
    x.dl.dtype = tensor_int32;
    REFUSED(TYPE, "x is int32; float32, float64, float16 or bfloat16 is allowed");
    x.dl.dtype = float32x4;
    REFUSED(TYPE, "x is float32 with 4 lanes; float32, float64, float16 or bfloat16 is allowed");
    x.dl.dtype = complex64;
    REFUSED(TYPE, "x is complex64; float32, float64, float16 or bfloat16 is allowed");
    y.dl.dtype = float64;
    REFUSED(TYPE, "y is float64; float32 is allowed beside this x");
    x.dl.dtype = (DLDataType){kDLBfloat, 16, 1};
    y.dl.dtype = float64;
    REFUSED(TYPE, "y is float64; float32 or bfloat16 is allowed beside this x");
    y.dl.strides = zero_strides;
    REFUSED(STRIDE, "y has stride 0 in dimension 0 of size 2; another stride is required of an output");
    x.dl.strides = far_strides;
    REFUSED(STRIDE, "x reaches beyond 64-bit addresses by its strides, shape or byte_offset; it must lie in memory");
    x.dl.byte_offset = UINT64_MAX - 100;
    REFUSED(STRIDE, "x reaches beyond 64-bit addresses by its strides, shape or byte_offset; it must lie in memory");
    y.dl.data = x_data + 1;
    REFUSED(ALIAS, "y overlaps x; the same address, type, shape and strides are allowed, or no overlap");
    axis = 3;
    REFUSED(AXIS, "axis is 3; x has 2 dimensions, so -2 to 1 are allowed");
    axis = -3;
    REFUSED(AXIS, "axis is -3; x has 2 dimensions, so -2 to 1 are allowed");
    axis = 0;
    x.dl.ndim = y.dl.ndim = 0;
    REFUSED(AXIS, "axis is 0; x has 0 dimensions, so none is allowed");
    x.dl.device.device_type = kDLMetal;
    REFUSED(DEVICE, "x is on a device of DLPack's type 8; the CPU (1), a CUDA device (2) and pinned host memory (3) "
                    "are allowed");
}

static void scalar_options(void)
{
    options.softcap = -1;
    REFUSED(OPTION, "softcap is -1; 0 (none) or a positive finite number is allowed");
    options.softcap = NAN;
    REFUSED(OPTION, "softcap is nan; 0 (none) or a positive finite number is allowed");
    options.scale = INFINITY;
    REFUSED(OPTION, "scale is inf; a finite number is allowed");
    options.causal = 2;
    REFUSED(OPTION, "causal is 2; 0 and 1 are allowed");
    options.causal = 1;
    axis = 0;
    REFUSED(OPTION, "causal is 1; axis is 0, and the last, 1, is required");
    options.causal = 1;
    x.dl.ndim = y.dl.ndim = 1;
    REFUSED(OPTION, "causal is 1; x has 1 dimension, and 2 or more are required");
    options.empty_rows = 7;
    REFUSED(OPTION, "empty_rows is 7; SOFTMAX_EMPTY_NAN (0) and SOFTMAX_EMPTY_ZERO (1) are allowed");
    options.first_column = -1;
    REFUSED(OPTION, "first_column is -1; 0 or more is allowed");
    options.label_smoothing = 1.5;
    REFUSED(OPTION, "label_smoothing is 1.5; 0 to 1 is allowed");
    options.label_smoothing = 0.5;
    REFUSED(OPTION, "label_smoothing is set; softmax does not take it, so its default is allowed");
    options.z_loss = -1e-4;
    REFUSED(OPTION, "z_loss is -0.0001; 0 or a positive finite number is allowed");
    options.reduction = 3;
    REFUSED(OPTION, "reduction is 3; SOFTMAX_NONE (0), SOFTMAX_SUM (1) and SOFTMAX_MEAN (2) are allowed");
    options.reduction = SOFTMAX_SUM;
    REFUSED(OPTION, "reduction is set; softmax does not take it, so its default is allowed");
    options.first_column = 512;
    REFUSED(OPTION, "first_column is set; softmax does not take it, so its default is allowed");
    options.ignore_index = 0;
    REFUSED(OPTION, "ignore_index is set; softmax does not take it, so its default is allowed");
    options.threads = -2;
    REFUSED(OPTION, "threads is -2; 0 (as many as are worth it) or more is allowed");
    options.scale = 2;
    expect(softmax_softmax_backward(&x.dl, &x.dl, &y.dl, -1, &options), SOFTMAX_ERROR_OPTION,
           "softmax_backward: scale is set; softmax_backward does not take it, so its default is allowed", __LINE__);
    options.isa = "sse9";
    softmax_status status = softmax_softmax(&x.dl, &y.dl, -1, &options);
    CHECK(status == SOFTMAX_ERROR_ISA && strstr(message, "softmax: isa is \"sse9\"; allowed here: portable") == message,
          "status %d, \"%s\"", (int)status, message);
    begin();
}

static void array_options(void)
{
    const int64_t bias_shape[2] = {2, 2};
    options.bias = tensor_make(&other, bias_data, float32, 2, bias_shape, NULL);
    REFUSED(SHAPE, "bias has shape (2, 2); what broadcasts to (2, 3), the shape of x, is required");
    options.bias = tensor_matrix(&other, bias_data, float64, ROWS, COLUMNS);
    REFUSED(TYPE, "bias is float64; float32, float16 or bfloat16 is allowed beside this x");
    options.mask = tensor_matrix(&other, bias_data, float32, ROWS, COLUMNS);
    REFUSED(TYPE, "mask is float32; uint8 or bool is allowed beside this x");
    options.valid_lengths = tensor_vector(&other, bias_data, tensor_int32, 3);
    REFUSED(SHAPE, "valid_lengths has shape (3); what broadcasts to (2), the shape of x without axis 1, is required");
    options.valid_lengths = tensor_vector(&other, bias_data, float32, 2);
    REFUSED(TYPE, "valid_lengths is float32; int32 or int64 is allowed beside this x");
    options.mask = tensor_matrix(&other, y_data.f, tensor_bool, ROWS, COLUMNS);
    REFUSED(ALIAS, "y overlaps mask; no overlap is allowed");
}

#define LOSS_REFUSED(code, words)                                                                                      \
    expect(softmax_cross_entropy(&x.dl, &targets.dl, &loss.dl, &y.dl, axis, &options), SOFTMAX_ERROR_##code,           \
           "cross_entropy: " words, __LINE__)

static void cross_entropy(void)
{
    static int32_t classes[4];
    static float loss_data[4];
    tensor targets, loss;
    tensor_vector(&targets, classes, tensor_int32, ROWS);
    tensor_vector(&loss, loss_data, float32, 1);
    targets.dl.shape[0] = 3;
    LOSS_REFUSED(SHAPE, "targets has shape (3); (2), the shape of logits without axis 1, is required");
    targets.dl.shape[0] = 2;
    targets.dl.dtype = float32;
    LOSS_REFUSED(SHAPE, "targets has shape (2); (2, 3), the shape of logits, is required");
    targets.dl.dtype = float64;
    LOSS_REFUSED(TYPE, "targets is float64; float32, float16, bfloat16, int32 or int64 is allowed beside this logits");
    targets.dl.dtype = tensor_int32;
    loss.dl.shape[0] = 2;
    LOSS_REFUSED(SHAPE, "loss has shape (2); one element is allowed with reduction mean");
    loss.dl.shape[0] = 1;
    options.reduction = SOFTMAX_NONE;
    LOSS_REFUSED(SHAPE, "loss has shape (1); (2), the shape of logits without axis 1, is required");
    loss.dl.dtype = float64;
    LOSS_REFUSED(TYPE, "loss is float64; float32 is allowed beside this logits");
    loss.dl.dtype = float32;
    options.class_weights = tensor_vector(&other, bias_data, float32, 2);
    LOSS_REFUSED(SHAPE, "class_weights has shape (2); (3), the length of logits's axis, is required");
    options.grad_output = tensor_vector(&other, bias_data, float32, 2);
    LOSS_REFUSED(SHAPE, "grad_output has shape (2); one element is allowed with reduction mean");
    tensor_matrix(&other, bias_data, float32, ROWS, COLUMNS);
    options.targets_gradient = &other.dl;
    LOSS_REFUSED(OPTION, "targets_gradient is set; targets holds classes, and probabilities are required");
    options.scale = 0.5;
    LOSS_REFUSED(OPTION, "scale is set; cross_entropy does not take it, so its default is allowed");
    classes[1] = 100;
    LOSS_REFUSED(TARGET, "targets holds 100 in row 1; 0 to 2 or ignore_index (-100) is allowed");
    CHECK(loss_data[0] == 0, "the loss was written");
}

static void rows(void)
{
    expect(softmax_softmax_rows((softmax_type)9, 1, 3, x_data, y_data.f, &options), SOFTMAX_ERROR_TYPE,
           "softmax: type is 9; SOFTMAX_FLOAT32 (1), _FLOAT64 (2), _FLOAT16 (3) and _BFLOAT16 (4) are allowed",
           __LINE__);
    expect(softmax_log_softmax_rows(SOFTMAX_FLOAT32, -1, 3, x_data, y_data.f, &options), SOFTMAX_ERROR_SHAPE,
           "log_softmax: rows is -1; 0 or more is allowed", __LINE__);
    expect(softmax_logsumexp_rows(SOFTMAX_FLOAT32, 1, -3, x_data, y_data.f, &options), SOFTMAX_ERROR_SHAPE,
           "logsumexp: columns is -3; 0 or more is allowed", __LINE__);
    expect(softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 3, NULL, y_data.f, &options), SOFTMAX_ERROR_NULL,
           "softmax: x's data is NULL; it has elements, so an address is required", __LINE__);
    expect(softmax_softmax_rows(SOFTMAX_FLOAT32, INT64_MAX / 2, 3, x_data, y_data.f, &options), SOFTMAX_ERROR_SHAPE,
           "softmax: x has shape (4611686018427387903, 3); fewer than 2^63 elements are allowed", __LINE__);
    expect(softmax_softmax_rows(SOFTMAX_FLOAT32, INT64_MAX / 8, 3, x_data, y_data.f, &options), SOFTMAX_ERROR_STRIDE,
           "softmax: x reaches beyond 64-bit addresses by its strides, shape or byte_offset; it must lie in memory",
           __LINE__);
}

/* Structs of other versions, and messages that do not fit. */
static void sizes(void)
{
    struct {
        softmax_options known;
        char beyond[32];
    } later;
    char small[10];
    options.size = 0;
    expect(softmax_softmax(&x.dl, &y.dl, -1, &options), SOFTMAX_ERROR_OPTION, "untouched", __LINE__);
    options.size = offsetof(softmax_options, softcap);
    expect(softmax_softmax(&x.dl, &y.dl, -1, &options), SOFTMAX_ERROR_OPTION, "untouched", __LINE__);
    options.size = offsetof(softmax_options, reduction); /* what lies beyond is not read, the message neither */
    options.reduction = 99;
    CHECK(softmax_softmax(&x.dl, &y.dl, -1, &options) == SOFTMAX_OK, "a shorter struct");
    begin();
    memset(&later, 0, sizeof later);
    later.known = options;
    later.known.size = sizeof later;
    CHECK(softmax_softmax(&x.dl, &y.dl, -1, &later.known) == SOFTMAX_OK && message[0] == '\0',
          "a longer struct of zeros: %s", message);
    begin();
    later.beyond[5] = 1;
    CHECK(softmax_softmax(&x.dl, &y.dl, -1, &later.known) == SOFTMAX_ERROR_OPTION && strstr(message, "sets byte"),
          "a longer struct: %s", message);
    begin();
    memset(small, 'z', sizeof small);
    options.message = small;
    options.message_bytes = sizeof small - 1;
    CHECK(softmax_softmax(NULL, &y.dl, -1, &options) == SOFTMAX_ERROR_NULL && strcmp(small, "softmax:") == 0 &&
              small[sizeof small - 1] == 'z',
          "a message that is cut: %.10s", small);
    options.message_bytes = 1;
    CHECK(softmax_softmax(NULL, &y.dl, -1, &options) == SOFTMAX_ERROR_NULL && small[0] == '\0' && small[1] == 'o',
          "a message of one byte");
    begin();
    CHECK(softmax_softmax(&x.dl, &y.dl, -1, &options) == SOFTMAX_OK && message[0] == '\0',
          "success empties the message");
    begin();
}

/* Nothing to write: no address is needed. */
static void without_elements(void)
{
    for (int r = 0; r < 2; r++) {
        tensor_matrix(&x, NULL, float32, r ? 0 : 5, r ? 5 : 0);
        y.dl = x.dl;
        CHECK(softmax_softmax(&x.dl, &y.dl, -1, &options) == SOFTMAX_OK, "%s", message);
        CHECK(softmax_log_softmax_backward(&x.dl, &x.dl, &y.dl, -1, &options) == SOFTMAX_OK, "%s", message);
    }
    begin();
}

int main(void)
{
    begin();
    tensors();
    devices();
    scalar_options();
    array_options();
    cross_entropy();
    rows();
    sizes();
    without_elements();
    return check_finish("refusals_test");
}
