/* The caller's rounding mode, flush flags and sticky flags come back unchanged from every call, also from a refused
 * one, and do not change the result. */
#include "oracle/check.h"

#include <fenv.h>
#include <softmax.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { COLUMNS = 37 };

static float x[COLUMNS];

static softmax_status softmax_of(float *y, softmax_type type)
{
    return softmax_softmax_rows(type, 1, COLUMNS, x, y, NULL);
}

static void check_mode(int mode, int flags, const float *right)
{
    float y[COLUMNS];
    fesetround(mode);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(flags);
    flags = fetestexcept(FE_ALL_EXCEPT); /* Arm raises inexact with overflow */
    softmax_status status = softmax_of(y, SOFTMAX_FLOAT32), refused = softmax_of(y, (softmax_type)0);
    int mode_after = fegetround(), flags_after = fetestexcept(FE_ALL_EXCEPT);
    fesetround(FE_TONEAREST);
    CHECK(status == SOFTMAX_OK && refused == SOFTMAX_ERROR_TYPE, "status %d, %d", (int)status, (int)refused);
    CHECK(mode_after == mode, "rounding mode %d became %d", mode, mode_after);
    CHECK(flags_after == flags, "sticky flags %d became %d", flags, flags_after);
    CHECK(memcmp(y, right, sizeof y) == 0, "rounding mode %d changes the result", mode);
}

int main(void)
{
    static const int modes[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    float right[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        x[i] = (float)(i * 7 % 11) * -0.37f - 50.0f;
    softmax_of(right, SOFTMAX_FLOAT32);
    CHECK(right[0] > 0.0f && right[0] < 1.0f, "the first result is %g", (double)right[0]);
    for (int i = 0; i < 4; i++) {
        check_mode(modes[i], 0, right);
        check_mode(modes[i], FE_DIVBYZERO | FE_OVERFLOW, right);
    }
#if defined(__x86_64__)
    unsigned int flushing = _mm_getcsr() | 0x8040; /* flush to zero, denormals are zero */
    float y[COLUMNS];
    _mm_setcsr(flushing);
    softmax_status status = softmax_of(y, SOFTMAX_FLOAT32);
    unsigned int after = _mm_getcsr();
    _mm_setcsr(0x1f80);
    CHECK(status == SOFTMAX_OK && after == flushing && memcmp(y, right, sizeof y) == 0, "MXCSR %#x became %#x",
          flushing, after);
#endif
    return check_finish("environment_test");
}
