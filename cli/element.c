#include "element.h"

#include <math.h>
#include <string.h>

static double from_float16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                      : ldexp(fraction, -24);
    return bits >> 15 ? -magnitude : magnitude;
}

static double from_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* To a binary format of `fraction` explicit bits and exponents from 1 - bias on, by scaling to an integer and rounding
 * that. */
static uint16_t to_16_bits(double value, int fraction, int bias)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)((2 * bias + 1) << fraction);
    value = fabs(value);
    if (isnan(value))
        return (uint16_t)(infinity | 1 << (fraction - 1));
    if (value == 0)
        return sign;
    int exponent = isinf(value) ? 2 * bias : ilogb(value);
    exponent = exponent < 1 - bias ? 1 - bias : exponent > 2 * bias ? 2 * bias : exponent;
    double scaled = nearbyint(ldexp(value, fraction - exponent));
    double bits = scaled + ldexp(exponent + bias - 1, fraction); /* the leading 1 carries into the exponent field */
    return (uint16_t)(sign | (bits < infinity ? (uint16_t)bits : infinity));
}

double element_value(const DLTensor *t, int64_t offset)
{
    const char *at = (const char *)t->data + t->byte_offset + offset * (t->dtype.bits / 8);
    int code = t->dtype.code, bits = t->dtype.bits;
    if (bits == 8)
        return *(const uint8_t *)at;
    if (code == kDLInt)
        return bits == 64 ? (double)*(const int64_t *)at : (double)*(const int32_t *)at;
    if (code == kDLBfloat)
        return from_bfloat16(*(const uint16_t *)at);
    return bits == 64   ? *(const double *)at
           : bits == 32 ? (double)*(const float *)at
                        : from_float16(*(const uint16_t *)at);
}

void element_store(const DLTensor *t, int64_t offset, double value)
{
    char *at = (char *)t->data + t->byte_offset + offset * (t->dtype.bits / 8);
    if (t->dtype.bits == 64)
        *(double *)at = value;
    else if (t->dtype.bits == 32)
        *(float *)at = (float)value;
    else
        *(uint16_t *)at = t->dtype.code == kDLBfloat ? to_16_bits(value, 7, 127) : to_16_bits(value, 10, 15);
}
