/* Every float32 score through the terms of src/numerics/terms.h, against exp in pairs (itself held to MPFR by scalars.c: 2^-56).
 * Prints the largest relative errors in units of u = 2^-24, which docs/numerics.md's bounds are made of:
 *   value    of the rounded term v
 *   digits   of the term as its two digits hold it
 * usage: exhaustive [STEP]   every STEPth bit pattern (default 1: all 2^32). */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

static double worst_value, worst_digits, worst_short[2], worst_short_digits[2];
static float at_value, at_digits;
static long long checked;

static double absolute(double x) { return x < 0.0 ? -x : x; }

static double from_digits(term32 t) { return (double)(int32_t)t.high * 0x1p-20 + (double)(int32_t)t.low * 0x1p-41; }

/* A term of e^z relative to its own exponent k, exactly e^exponent: errors of its value and of its digits, in u. */
static void errors(float z, float k, arithmetic kind, double exponent, double *value, double *digits) {
    term32 t = term32_fast(z, 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - k, kind);
    power e = exp_pair(exponent, 0.0);
    double exact = scale_by_power(e.f.hi, e.k);
    *value = absolute((double)t.v * 0x1p-4 - exact) * 0x1p24 / exact;
    *digits = absolute(from_digits(t) - exact) * 0x1p24 / exact;
}

static void check(float z) {
    float k = term32_exponent(z);
    double value, digits;
    reduced a = reduce((double)z);
    /* z - k ln2 in full; k may be one off the nearest integer */
    double exponent = a.r + ((double)(a.k - (int64_t)k) * 0x1.62e42fefa39efp-1 + a.lo);
    errors(z, k, ARITHMETIC_32, exponent, &value, &digits);
    if (value > worst_value) worst_value = value, at_value = z;
    if (digits > worst_digits) worst_digits = digits, at_digits = z;
    for (int i = 0; i < 2; i++) { /* these mean e^(z - k C) 2^k with the float C next to ln2: a factor common to all of a row */
        errors(z, k, i ? ARITHMETIC_BFLOAT16 : ARITHMETIC_FLOAT16, (double)z - (double)k * (double)TERM32_LN2_HI, &value, &digits);
        if (value > worst_short[i]) worst_short[i] = value;
        if (digits > worst_short_digits[i]) worst_short_digits[i] = digits;
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
    printf("float16:  value %.4f u, digits %.4f u\n", worst_short[0], worst_short_digits[0]);
    printf("bfloat16: value %.4f u, digits %.4f u\n", worst_short[1], worst_short_digits[1]);
    failed = !(worst_value <= 1.25 && worst_digits <= 0.30 && worst_short[0] <= 3.5 && worst_short_digits[0] <= 3.5 &&
               worst_short[1] <= 72.0 && worst_short_digits[1] <= 72.0 && checked > 0);
    printf("%s\n", failed ? "FAILED" : "within the bounds of docs/numerics.md");
    return failed;
}
