/* The 16-bit conversions of src/numerics/half.h against a reference through double that shares nothing with them.
 * half_test [step]: every step-th float32 (all of them with 1), and every one within 2 of a boundary between 16-bit
 * numbers. */
#include "numerics/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct narrow_format {
    const char *name;
    int fraction_bits;
    int smallest_exponent; /* of normals */
    int exponent_ones;
    int keeps_subnormals;
    uint16_t nan;
    float (*widen)(uint16_t);
    uint16_t (*round)(float);
} narrow_format;

static float widen16(uint16_t h)
{
    return widen_float16(h);
}
static float widenb(uint16_t b)
{
    return widen_bfloat16(b);
}
static uint16_t round16(float x)
{
    return round_to_float16(x);
}
static uint16_t roundb(float x)
{
    return round_to_bfloat16(x);
}

static const narrow_format formats[] = {
    {"float16", 10, -14, 31, 1, 0x7e00, widen16, round16},
    {"bfloat16", 7, -126, 255, 0, 0x7fc0, widenb, roundb},
};

static double narrow_value(const narrow_format *f, uint16_t bits)
{
    int exponent = (bits & 0x7fff) >> f->fraction_bits, fraction = bits & ((1 << f->fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == f->exponent_ones)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, f->smallest_exponent - f->fraction_bits);
    return sign * ldexp((1 << f->fraction_bits) + fraction, exponent - 1 + f->smallest_exponent - f->fraction_bits);
}

static uint16_t narrow_reference(const narrow_format *f, float x)
{
    double magnitude = fabs((double)x), smallest = ldexp(1.0, f->smallest_exponent), quantum, units;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (isnan(x))
        return f->nan;
    if (isinf(x))
        return (uint16_t)(sign | f->exponent_ones << f->fraction_bits);
    if (!f->keeps_subnormals && magnitude < smallest)
        return 0;
    frexp(magnitude, &exponent);
    exponent = magnitude < smallest ? f->smallest_exponent : exponent - 1;
    quantum = ldexp(1.0, exponent - f->fraction_bits);
    units = nearbyint(magnitude / quantum);
    if (units == 0.0)
        return 0;
    if (units * quantum >= ldexp(1.0, f->exponent_ones - 1 + f->smallest_exponent))
        return (uint16_t)(sign | f->exponent_ones << f->fraction_bits);
    /* units counts on through the exponents: 2^(fraction_bits + 1) is the next binade's first number. */
    return (uint16_t)(sign | ((int)units + ((exponent - f->smallest_exponent) << f->fraction_bits)));
}

static int check_rounding(const narrow_format *f, uint32_t bits)
{
    float x = bits_float(bits);
    uint16_t got = f->round(x), right = narrow_reference(f, x);
    if (got == right)
        return 0;
    printf("FAILED: %s of %a is %04x, not %04x\n", f->name, (double)x, got, right);
    return 1;
}

int main(int count, char **arguments)
{
    uint32_t step = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 4099;
    int failures = 0;
    for (int k = 0; k < 2 && failures < 10; k++) {
        const narrow_format *f = &formats[k];
        for (uint32_t h = 0; h < 65536 && failures < 10; h++) {
            float wide = f->widen((uint16_t)h);
            double right = narrow_value(f, (uint16_t)h);
            if (!(isnan(right) ? isnan(wide) : wide == right && !signbit(wide) == !signbit(right))) {
                printf("FAILED: %s %04x widens to %a, not %a\n", f->name, h, (double)wide, right);
                failures++;
            }
            if (isnan(right))
                continue;
            float half_way = (float)(right + (narrow_value(f, (uint16_t)(h + 1)) - right) / 2);
            for (int i = -2; i <= 2; i++) {
                failures += check_rounding(f, float_bits(wide) + (uint32_t)i);
                failures += check_rounding(f, float_bits(half_way) + (uint32_t)i);
            }
        }
        for (uint64_t bits = 0; bits <= 0xffffffffu && failures < 10; bits += step)
            failures += check_rounding(f, (uint32_t)bits);
        printf("%s: 65536 widenings, roundings of every %uth float and around every boundary\n", f->name, step);
    }
    return failures != 0;
}
