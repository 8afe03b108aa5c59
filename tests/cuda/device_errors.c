/* What only the device sees: a target out of range is NaN in its row and its number in the status word, and the other rows are right. And what the
 * host refuses: scratch that is missing, arrays on two devices. */
#include "cuda/through_device.h"
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <math.h>
#include <string.h>

enum { ROWS = 5, COLUMNS = 2100 };

static float logits[ROWS * COLUMNS], gradient[ROWS * COLUMNS], expected[ROWS * COLUMNS], losses[ROWS], expected_losses[ROWS];

static softmax_status run(int64_t *targets, float *out, float *loss, double smoothing)
{
    tensor x, t, l, g;
    library_call call = library_call_of(CROSS_ENTROPY, tensor_matrix(&x, logits, float_formats[0].dlpack, ROWS, COLUMNS),
                                        tensor_vector(&t, targets, tensor_int64, ROWS),
                                        tensor_matrix(&g, out, float_formats[0].dlpack, ROWS, COLUMNS),
                                        tensor_vector(&l, loss, float_formats[0].dlpack, ROWS), 1);
    call.options.reduction = SOFTMAX_NONE;
    call.options.label_smoothing = smoothing;
    return library_run(&call);
}

static void test_bad_targets(double smoothing, const char *kernel)
{
    int64_t good[ROWS] = {0, 7, COLUMNS - 1, -100, 1500}, bad[ROWS] = {0, COLUMNS, COLUMNS - 1, -1, 1500};
    for (int i = 0; i < ROWS * COLUMNS; i++)
        logits[i] = (float)(i * 7919 % 1013) / 128;
    through_device = false;
    CHECK(run(good, expected, expected_losses, smoothing) == SOFTMAX_OK, "%s", library_message);
    through_device = true;
    through_device_kernel = kernel;
    through_device_bad_targets_refused = false;
    CHECK(run(bad, gradient, losses, smoothing) == SOFTMAX_OK, "%s", library_message);
    through_device_bad_targets_refused = true;
    through_device_kernel = NULL;
    CHECK(through_device_status == 2, "the status word is %ld, and the smallest bad row is 1", (long)through_device_status);
    for (int r = 0; r < ROWS; r++) {
        bool is_bad = bad[r] != good[r];
        CHECK(is_bad ? isnan(losses[r]) : losses[r] == expected_losses[r], "row %d: the loss is %g", r, losses[r]);
        for (int j = 0; j < COLUMNS; j++)
            if (!CHECK(is_bad ? isnan(gradient[r * COLUMNS + j]) : gradient[r * COLUMNS + j] == expected[r * COLUMNS + j],
                       "row %d, column %d: the gradient is %g", r, j, gradient[r * COLUMNS + j]))
                break;
    }
}

/* Tensors that say they are on the GPU: refused before anything is touched. */
static void test_refusals(void)
{
    char message[256] = "";
    int64_t targets[ROWS] = {0};
    tensor x, t, l;
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.message = message;
    options.message_bytes = sizeof message;
    through_device = false;
    tensor_matrix(&x, logits, float_formats[0].dlpack, ROWS, COLUMNS)->device.device_type = kDLCUDA;
    tensor_vector(&t, targets, tensor_int64, ROWS)->device.device_type = kDLCUDA;
    tensor_vector(&l, losses, float_formats[0].dlpack, 1)->device.device_type = kDLCUDA;
    l.dl.ndim = 0;
    softmax_status status = softmax_cross_entropy(&x.dl, &t.dl, &l.dl, NULL, 1, &options);
    CHECK(status == SOFTMAX_ERROR_OPTION && strstr(message, "scratch_bytes is 0"), "without scratch: %d, \"%s\"", (int)status, message);
    t.dl.device.device_type = kDLCPU;
    status = softmax_cross_entropy(&x.dl, &t.dl, &l.dl, NULL, 1, &options);
    CHECK(status == SOFTMAX_ERROR_DEVICE && strstr(message, "targets is on"), "on two devices: %d, \"%s\"", (int)status, message);
    through_device = true;
}

int main(void)
{
    test_bad_targets(0, NULL);
    test_bad_targets(0, "generic");
    test_bad_targets(0.1, NULL);
    test_refusals();
    return check_finish("device_errors");
}
