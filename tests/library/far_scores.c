/* Scores far out whose difference is in their low parts: a constant added to a whole row, by a bias or in the scores, changes nothing.
 * The right answer is softmax of what was added to the constant, here by this library without options, which the accuracy tests hold. */
#include <math.h>
#include <softmax.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 1500 };

static int failures, checks;

static float small_number(int i) { return (float)((i * 7919 + 13) % 2001 - 1000) * 0.0078125f; } /* multiples of 2^-7 in (-8, 8) */

static int64_t distance(float a, float b) {
    int32_t i, j;
    memcpy(&i, &a, 4);
    memcpy(&j, &b, 4);
    return (int64_t)i - j;
}

static void check(const char *isa, float constant, int constant_is_bias, int columns) {
    float x[COLUMNS] = {0}, bias[COLUMNS] = {0}, want[COLUMNS] = {0}, y[COLUMNS];
    int64_t shape[1] = {columns};
    DLTensor b = {bias, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    int64_t worst = 0;
    int wrong = 0;
    for (int i = 0; i < columns; i++) {
        x[i] = constant_is_bias ? small_number(i) : constant;
        bias[i] = constant_is_bias ? constant : small_number(i);
        want[i] = small_number(i);
        y[i] = -1.0f;
    }
    options.isa = isa;
    if (softmax_softmax_rows(SOFTMAX_FLOAT32, 1, columns, want, want, &options) != SOFTMAX_OK) wrong = 1;
    options.bias = &b;
    if (softmax_softmax_rows(SOFTMAX_FLOAT32, 1, columns, x, y, &options) != SOFTMAX_OK) wrong = 1;
    for (int i = 0; i < columns; i++) {
        int64_t d = distance(y[i], want[i]);
        d = d < 0 ? -d : d;
        if (d > worst) worst = d;
    }
    checks++;
    if (wrong || worst > 3) { /* two results within 2.5 ULP of one number, mostly equal */
        failures++;
        printf("FAILED %s: constant %a as %s, %d columns: %lld ULP apart\n", isa, (double)constant, constant_is_bias ? "bias" : "scores",
               columns, (long long)worst);
    }
}

/* The widest range: the maximum alone counts, on every instruction set. */
static void check_ends(const char *isa) {
    float x[3] = {-0x1p62f, 0x1p62f, -0x1p62f}, y[3] = {7, 7, 7};
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.isa = isa;
    checks++;
    if (softmax_softmax_rows(SOFTMAX_FLOAT32, 1, 3, x, y, &options) != SOFTMAX_OK || y[0] != 0 || y[1] != 1 || y[2] != 0) {
        failures++;
        printf("FAILED %s: [-2^62, 2^62, -2^62] gives %g %g %g\n", isa, (double)y[0], (double)y[1], (double)y[2]);
    }
}

int main(void) {
    /* small numbers and constants have at most 48 bits between them; beyond 2^62 the low parts alone are compared */
    const float constants[] = {0x1p17f, 0x1p18f, -0x1p20f, 0x1p21f, 0x1p26f, 0x1p28f, -0x1p30f, 0x1p35f, 0x1p40f, 0x1p63f, -1e30f, -3.402823466e38f};
    const int widths[] = {1, 2, 3, 17, 1024, 1500};
    for (int s = 0; s < softmax_isa_count(); s++) {
        if (!softmax_isa_available(s)) continue;
        printf("instruction set %s: runs\n", softmax_isa_name(s));
        for (size_t c = 0; c < sizeof constants / sizeof constants[0]; c++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
                for (int as_bias = 0; as_bias < 2; as_bias++) check(softmax_isa_name(s), constants[c], as_bias, widths[w]);
        check_ends(softmax_isa_name(s));
    }
    printf("far_scores: %d checks, %d failed\n", checks, failures);
    return failures != 0 || checks == 0;
}
