#include "float_formats.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const float_format float_formats[4] = {
    {SOFTMAX_FLOAT32, "float32", {kDLFloat, 32, 1}, 4, 24, -126, 127, false},
    {SOFTMAX_FLOAT64, "float64", {kDLFloat, 64, 1}, 8, 53, -1022, 1023, false},
    {SOFTMAX_FLOAT16, "float16", {kDLFloat, 16, 1}, 2, 11, -14, 15, true},
    {SOFTMAX_BFLOAT16, "bfloat16", {kDLBfloat, 16, 1}, 2, 8, -126, 127, false},
};

const float_format *float_format_of(softmax_type type)
{
    for (int i = 0; i < 4; i++)
        if (float_formats[i].type == type)
            return &float_formats[i];
    return NULL;
}

const float_format *float_format_named(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(float_formats[i].name, name) == 0)
            return &float_formats[i];
    return NULL;
}

const float_format *float_format_of_losses(const float_format *format)
{
    return float_format_of(format->type == SOFTMAX_FLOAT64 ? SOFTMAX_FLOAT64 : SOFTMAX_FLOAT32);
}

/* Rounding by rint on a scaled value: exact but for that one rounding, in any range of exponents. */
double format_round(const float_format *format, double value)
{
    int exponent;
    if (value == 0 || !isfinite(value) || format->precision == 53)
        return value;
    frexp(value, &exponent);
    exponent -= 1;
    if (exponent < format->smallest_exponent)
        exponent = format->smallest_exponent;
    int unit = exponent - format->precision + 1;
    double rounded = ldexp(rint(ldexp(value, -unit)), unit);
    if (fabs(rounded) >= ldexp(1.0, format->largest_exponent + 1))
        return copysign(INFINITY, value);
    return rounded;
}

static uint16_t encode_16_bits(const float_format *format, double value)
{
    int fraction_bits = format->precision - 1;
    int exponent_mask = (1 << (15 - fraction_bits)) - 1;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(format_round(format, value));
    if (isnan(value))
        return (uint16_t)(sign | exponent_mask << fraction_bits | 1 << (fraction_bits - 1));
    if (isinf(magnitude))
        return (uint16_t)(sign | exponent_mask << fraction_bits);
    if (magnitude == 0)
        return sign;
    int exponent = ilogb(magnitude);
    if (exponent < format->smallest_exponent)
        exponent = format->smallest_exponent;
    int significand = (int)ldexp(magnitude, fraction_bits - exponent);
    int biased = exponent - format->smallest_exponent; /* the implicit bit adds the missing 1 */
    return (uint16_t)(sign | ((biased << fraction_bits) + significand));
}

static double decode_16_bits(const float_format *format, uint16_t bits)
{
    int fraction_bits = format->precision - 1;
    int exponent_mask = (1 << (15 - fraction_bits)) - 1;
    int exponent = bits >> fraction_bits & exponent_mask;
    int fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == exponent_mask)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, format->smallest_exponent - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), format->smallest_exponent + exponent - 1 - fraction_bits);
}

double format_load(const float_format *format, const void *array, int64_t index)
{
    const char *at = (const char *)array + index * format->bytes;
    double wide;
    float narrow;
    uint16_t half;
    switch (format->bytes) {
    case 8:
        memcpy(&wide, at, 8);
        return wide;
    case 4:
        memcpy(&narrow, at, 4);
        return narrow;
    default:
        memcpy(&half, at, 2);
        return decode_16_bits(format, half);
    }
}

void format_store(const float_format *format, void *array, int64_t index, double value)
{
    char *at = (char *)array + index * format->bytes;
    float narrow = (float)value;
    uint16_t half;
    switch (format->bytes) {
    case 8:
        memcpy(at, &value, 8);
        break;
    case 4:
        memcpy(at, &narrow, 4);
        break;
    default:
        half = encode_16_bits(format, value);
        memcpy(at, &half, 2);
        break;
    }
}
