/* Every finite float32 score, to 2^62 in size, through the terms of src/numerics/terms.h, against exp in pairs (itself held to MPFR by
 * scalars.c: 2^-56). Prints the extreme relative errors in units of u = 2^-24, which docs/numerics.md's bounds are made of:
 *   value    of the rounded term v
 *   digits   of the term as its two digits hold it
 *   up       the most that a value is too large and the digits of a score of the same size and sign are too small, together
 * usage: exhaustive [STEP]   every STEPth bit pattern (default 1: all 2^32). */
#include <stdio.h>
#include <stdlib.h>

#include "state.h"

/* Scores of one size and sign: two zones for each power of two from 2^7 on, one below. */
enum { ZONES = 64 };
typedef struct extremes {
    double value_low, value_high, digits_low, digits_high;
} extremes;

static extremes zones[ZONES];
static double worst_short[2], worst_short_digits[2];
static long long checked, checked_far;

static double absolute(double x) { return x < 0.0 ? -x : x; }

static double from_digits(term32 t) { return (double)(int32_t)t.high * 0x1p-20 + (double)(int32_t)t.low * 0x1p-41; }

static int zone_of(float z) {
    int exponent = (int)((float_bits(z) >> 23) & 255) - 127;
    return exponent < 7 ? 0 : 2 * (exponent - 6) - (z > 0.0f);
}

/* A term of e^z relative to its own exponent k, exactly e^exponent: errors of its value and of its digits, in u. */
static void errors(float z, float k, arithmetic kind, double exponent, double *value, double *digits) {
    term32 t = term32_near(z, 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - k, kind, z);
    power e = exp_pair(exponent, 0.0);
    double exact = scale_by_power(e.f.hi, e.k);
    *value = ((double)t.v * 0x1p-4 - exact) * 0x1p24 / exact;
    *digits = (from_digits(t) - exact) * 0x1p24 / exact;
}

static void check(float z) {
    float k = term32_exponent(z);
    double value, digits;
    extremes *zone = &zones[zone_of(z)];
    reduced a = reduce((double)z);
    /* z - k ln2 in full; k may be one off the nearest integer */
    double exponent = a.r + ((double)(a.k - (int64_t)k) * 0x1.62e42fefa39efp-1 + a.lo);
    errors(z, k, ARITHMETIC_32, exponent, &value, &digits);
    if (value < zone->value_low) zone->value_low = value;
    if (value > zone->value_high) zone->value_high = value;
    if (digits < zone->digits_low) zone->digits_low = digits;
    if (digits > zone->digits_high) zone->digits_high = digits;
    for (int i = 0; i < 2; i++) { /* these mean e^(z - k C) 2^k with the float C next to ln2: a factor common to all of a row */
        errors(z, k, i ? ARITHMETIC_BFLOAT16 : ARITHMETIC_FLOAT16, (double)z - (double)k * (double)TERM32_LN2_HI, &value, &digits);
        if (absolute(value) > worst_short[i]) worst_short[i] = absolute(value);
        if (absolute(digits) > worst_short_digits[i]) worst_short_digits[i] = absolute(digits);
    }
    checked++;
}

/* Scores beyond the fast reduction. */
static void check_far(float z) {
    extremes *zone = &zones[ZONES - 1];
    reduced a = reduce((double)z);
    term32 t = term32_far(a, a.k, ARITHMETIC_32);
    power e = exp_pair(a.r, a.lo);
    double exact = scale_by_power(e.f.hi, e.k), value = ((double)t.v * 0x1p-4 - exact) * 0x1p24 / exact;
    double digits = (from_digits(t) - exact) * 0x1p24 / exact;
    if (value < zone->value_low) zone->value_low = value;
    if (value > zone->value_high) zone->value_high = value;
    if (digits < zone->digits_low) zone->digits_low = digits;
    if (digits > zone->digits_high) zone->digits_high = digits;
    checked_far++;
}

/* Zones [first, last) in one line; returns the largest "up". */
static double print_zones(const char *name, int first, int last) {
    extremes all = {0, 0, 0, 0};
    double up = 0.0;
    for (int i = first; i < last; i++) {
        const extremes *z = &zones[i];
        if (z->value_low < all.value_low) all.value_low = z->value_low;
        if (z->value_high > all.value_high) all.value_high = z->value_high;
        if (z->digits_low < all.digits_low) all.digits_low = z->digits_low;
        if (z->digits_high > all.digits_high) all.digits_high = z->digits_high;
        if (z->value_high - z->digits_low > up) up = z->value_high - z->digits_low;
    }
    printf("%-20s value %.4f .. %.4f u, digits %.4f .. %.4f u, up %.4f u\n", name, all.value_low, all.value_high, all.digits_low,
           all.digits_high, up);
    return up;
}

int main(int argc, char **argv) {
    unsigned long step = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    unsigned long long i;
    int failed, last = zone_of(TERM32_WIDE_LIMIT) - 1, split = last - 2; /* the last power of two stands apart */
    double near, far, beyond;
    if (!step) return 2;
    for (i = 0; i < (1ull << 32); i += step) {
        float z = bits_float((uint32_t)i);
        if (z < TERM32_WIDE_LIMIT && z > -TERM32_WIDE_LIMIT)
            check(z);
        else if (z - z == 0.0f)
            check_far(z);
    }
    printf("%lld scores, |z| < %g\n", checked, (double)TERM32_WIDE_LIMIT);
    near = print_zones("float32, small |z|", 0, split + 1);
    far = print_zones("float32, last octave", split + 1, last + 1);
    beyond = print_zones("float32, beyond", ZONES - 1, ZONES);
    printf("%lld scores beyond\n", checked_far);
    printf("float16              value %.4f u, digits %.4f u\n", worst_short[0], worst_short_digits[0]);
    printf("bfloat16             value %.4f u, digits %.4f u\n", worst_short[1], worst_short_digits[1]);
    failed = !(checked > 0 && near <= 1.46 && far <= 1.46 && beyond <= 1.47 && checked_far > 0 && worst_short[0] <= 3.5 && worst_short_digits[0] <= 3.5 &&
               worst_short[1] <= 72.0 && worst_short_digits[1] <= 72.0);
    for (int z = 0; z <= last; z++)
        failed |= !(zones[z].value_low >= -1.27 && zones[z].value_high <= 1.22 && zones[z].digits_low >= -0.32 && zones[z].digits_high <= 0.27);
    printf("%s\n", failed ? "FAILED" : "within the bounds of docs/numerics.md");
    return failed;
}
