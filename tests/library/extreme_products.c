/* Gradients and means whose factors, or whose sums on the way, lie outside the type's range where the result does not; gradients of
 * what is not finite; scales of any size. The right answers are from MPFR at 200 bits, to two ULP. */
#include "oracle/check.h"
#include "oracle/library_call.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

enum { MAX_SETS = 8 };

static const char *current_set;

static void check_float(const char *what, int column, float value, double expected)
{
    CHECK(fabs((double)value - expected) <= 2 * FLT_EPSILON * fabs(expected), "%s, %s: column %d is %.9g, not %.9g", what,
          current_set, column, (double)value, expected);
}

/* p_2 = e^-90 is below the smallest normal; p_2 * 65536 is not. */
static void test_small_probability(void)
{
    const double expected[3] = {-5.40621107807e-35, 5.37002811326e-35, 3.61829648107e-37};
    const float x[3] = {0, -90, -95}, upstream = 65536;
    const int64_t target = 0;
    float gradient[3], loss;
    tensor grad_output;
    softmax_options options = library_options(current_set);
    options.reduction = SOFTMAX_SUM;
    options.grad_output = tensor_vector(&grad_output, (void *)(uintptr_t)&upstream, float_formats[0].dlpack, 1);
    for (int general = 0; general < 2; general++) { /* the softcap is next to the identity here, and takes the general path */
        options.softcap = general ? 1e30 : 0;
        CHECK(softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 1, 3, x, &target, &loss, gradient, &options) == SOFTMAX_OK, "%s",
              library_message);
        for (int j = 0; j < 3; j++)
            check_float(general ? "small probability, general path" : "small probability", j, gradient[j], expected[j]);
    }
}

/* sech^2 of x / softcap = 357 is below every double: the derivative through the softcap is 0, and never NaN. */
static void test_deep_softcap(void)
{
    const float x[2] = {357, 0};
    const int64_t target = 1;
    float gradient[2], loss;
    softmax_options options = library_options(current_set);
    options.softcap = 1;
    softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 1, 2, x, &target, &loss, gradient, &options);
    check_float("softcap", 0, gradient[0], 0);
    check_float("softcap", 1, gradient[1], -0.73105857863000490);
}

static void test_large_backward(void)
{
    const float y[3] = {0.1f, 0.45f, 0.45f}, dy[3] = {-3e38f, 3e38f, 3e38f};
    const double wide_y[4] = {0.25, 0.25, 0.5, 1e-5}, wide_dy[4] = {1e275, -1e275, 0.5e275, -0.25e275};
    const double sum = -0.1 * 3e38 + 0.9 * 3e38, wide_first = 0.25 * (1 - 0.25 + 0.25e-5) * 1e275;
    float dx[3];
    double wide_dx[4];
    softmax_options options = library_options(current_set);
    CHECK(softmax_softmax_backward_rows(SOFTMAX_FLOAT32, 1, 3, y, dy, dx, &options) == SOFTMAX_OK, "%s", library_message);
    check_float("backward next to FLT_MAX", 0, dx[0], 0.1 * (-3e38 - sum));
    check_float("backward next to FLT_MAX", 1, dx[1], 0.45 * (3e38 - sum));
    softmax_softmax_backward_rows(SOFTMAX_FLOAT64, 1, 4, wide_y, wide_dy, wide_dx, &options);
    CHECK(fabs(wide_dx[0] - wide_first) <= 1e-15 * wide_first, "backward at 1e275, %s: %.17g, not %.17g", current_set, wide_dx[0],
          wide_first);
}

/* Two losses whose sum is beyond DBL_MAX and whose mean is not. */
static void test_large_mean(void)
{
    const double x[4] = {1.5e308, 0, 1.5e308, 0};
    const int64_t targets[2] = {1, 1};
    double loss = 7;
    softmax_options options = library_options(current_set);
    CHECK(softmax_cross_entropy_rows(SOFTMAX_FLOAT64, 2, 2, x, targets, &loss, NULL, &options) == SOFTMAX_OK, "%s", library_message);
    CHECK(loss == 1.5e308, "the mean of two losses of 1.5e308, %s: %.17g", current_set, loss);
}

static void test_not_finite_probability(void)
{
    const float bad[2] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        float x[3] = {1, 2, 3}, p[3] = {0.5f, bad[i], 0.5f}, gradient[3] = {7, 7, 7}, loss = 7;
        tensor logits, targets, gradients, losses;
        library_call call =
            library_call_of(CROSS_ENTROPY, tensor_matrix(&logits, x, float_formats[0].dlpack, 1, 3),
                            tensor_matrix(&targets, p, float_formats[0].dlpack, 1, 3),
                            tensor_matrix(&gradients, gradient, float_formats[0].dlpack, 1, 3), tensor_vector(&losses, &loss, float_formats[0].dlpack, 1), 1);
        call.options.isa = current_set;
        call.options.reduction = SOFTMAX_NONE;
        library_run_ok(&call, "a probability that is not finite");
        for (int j = 0; j < 3; j++)
            CHECK(isnan(gradient[j]), "probability %g, %s: gradient %d is %g, not NaN", (double)bad[i], current_set, j, (double)gradient[j]);
    }
}

/* Scales of any size; scores beyond the type's range. */
static void test_scales(void)
{
    static const struct {
        double scale;
        softmax_status status;
        float x[2];
        double y[2];
    } cases[] = {{0x1p100, SOFTMAX_OK, {1, 2}, {0, 1}},
                 {0, SOFTMAX_OK, {1, 2}, {0.5, 0.5}},
                 {-1e39, SOFTMAX_OK, {1, 2}, {1, 0}},
                 {1e308, SOFTMAX_OK, {3e38f, 2.9e38f}, {1, 0}},
                 {1e308, SOFTMAX_OK, {3e38f, 3e38f}, {0.5, 0.5}},
                 {10, SOFTMAX_OK, {3e38f, 2.9e38f}, {1, 0}},
                 {-10, SOFTMAX_OK, {3e38f, 2.9e38f}, {0, 1}},
                 {0x1p-120, SOFTMAX_OK, {0x1p126f, 0x1p125f}, {1, 1.2664165549094176e-14}},
                 {4e-324, SOFTMAX_OK, {3e38f, -3e38f}, {0.5, 0.5}},
                 {(double)INFINITY, SOFTMAX_ERROR_OPTION, {1, 2}, {7, 7}},
                 {(double)NAN, SOFTMAX_ERROR_OPTION, {1, 2}, {7, 7}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float y[2] = {7, 7};
        softmax_options options = library_options(current_set);
        options.scale = cases[i].scale;
        softmax_status status = softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 2, cases[i].x, y, &options);
        CHECK(status == cases[i].status, "scale %g, %s: status %d", cases[i].scale, current_set, (int)status);
        for (int j = 0; j < 2; j++)
            check_float("scale", j, y[j], cases[i].y[j]);
    }
}

int main(void)
{
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int s = 0; s < set_count; s++) {
        current_set = sets[s];
        test_small_probability();
        test_deep_softcap();
        test_large_backward();
        test_large_mean();
        test_not_finite_probability();
        test_scales();
    }
    return check_finish("extreme_products");
}
