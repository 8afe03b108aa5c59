/* Every float32 score through the terms of src/numerics/terms.h, against exp in pairs (itself held to MPFR by scalars.c: 2^-56).
 * Prints the largest relative errors in units of u = 2^-24, which docs/numerics.md's bounds are made of:
 *   value    of the rounded term v
 *   digits   of the term as its two digits hold it
 * usage: exhaustive [STEP]   every STEPth bit pattern (default 1: all 2^32). */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

static double worst_value, worst_digits, worst_brief, worst_brief_digits;
static float at_value, at_digits;
static long long checked;

static double absolute(double x) { return x < 0.0 ? -x : x; }

static void check(float z) {
    float k = term32_exponent(z);
    term32 t = term32_fast(z, 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - k, 0), b = term32_fast(z, 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - k, 1);
    power e = exp_pair((double)z, 0.0);
    double exact = scale_by_power(e.f.hi, e.k - (int64_t)k), u = 0x1p24 / exact;
    double digits = (double)(int32_t)t.high * 0x1p-20 + (double)(int32_t)t.low * 0x1p-41;
    double digits_brief = (double)(int32_t)b.high * 0x1p-20 + (double)(int32_t)b.low * 0x1p-41;
    double value = absolute((double)t.v * 0x1p-4 - exact) * u, of_digits = absolute(digits - exact) * u;
    if (value > worst_value) worst_value = value, at_value = z;
    if (of_digits > worst_digits) worst_digits = of_digits, at_digits = z;
    {
        /* its own exact value: k exact, r = z - k C for the float constant C */
        double r = (double)z - (double)k * (double)TERM32_LN2_HI;
        power s = exp_pair(r, 0.0);
        double own = scale_by_power(s.f.hi, s.k), v = absolute((double)b.v * 0x1p-4 - own) * 0x1p24 / own;
        double d = absolute(digits_brief - own) * 0x1p24 / own;
        if (v > worst_brief) worst_brief = v;
        if (d > worst_brief_digits) worst_brief_digits = d;
    }
    checked++;
}

int main(int argc, char **argv) {
    unsigned long step = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    unsigned long long i;
    int failed;
    if (!step) return 2;
    for (i = 0; i < (1ull << 32); i += step) {
        float z = bits_float((uint32_t)i);
        if (z == z && z < TERM32_LIMIT && z > -TERM32_LIMIT) check(z);
    }
    printf("%lld scores\n", checked);
    printf("float32: value %.4f u (at %a), digits %.4f u (at %a)\n", worst_value, (double)at_value, worst_digits, (double)at_digits);
    printf("16-bit:  value %.4f u, digits %.4f u\n", worst_brief, worst_brief_digits);
    failed = !(worst_value <= 1.23 && worst_digits <= 0.30 && worst_brief <= 3.5 && worst_brief_digits <= 3.5 && checked > 0);
    printf("%s\n", failed ? "FAILED" : "within the bounds of docs/numerics.md");
    return failed;
}
