/* The 16-bit types: widened exactly, rounded once to nearest even. Results follow the contract: every NaN is the
 * positive quiet one, every zero is +0, float16 keeps its subnormals, bfloat16 below 2^-126 is +0. Assumes
 * round-to-nearest (src/fenv_guard.h). */
#ifndef SOFTMAX_NUMERICS_HALF_H
#define SOFTMAX_NUMERICS_HALF_H

#include "arithmetic.h"

#define FLOAT16_NAN 0x7e00u
#define BFLOAT16_NAN 0x7fc0u

SOFTMAX_FN float widen_float16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x400u)
        return bits_float(sign | (((uint32_t)magnitude << 13) + (112u << 23)));
    return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
}

SOFTMAX_FN float widen_bfloat16(uint16_t b)
{
    return bits_float((uint32_t)b << 16);
}

SOFTMAX_FN uint16_t round_to_float16(float x)
{
    uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return FLOAT16_NAN;
    if (magnitude >= 0x47800000u) /* 65536 */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* 2^-14: next to 1/2 a float's last bit is 2^-24, float16's smallest subnormal */
        uint32_t units = float_bits(bits_float(magnitude) + 0.5f) - float_bits(0.5f);
        return (uint16_t)(units ? sign | units : 0u);
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}

SOFTMAX_FN uint16_t round_to_bfloat16(float x)
{
    uint32_t bits = float_bits(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return BFLOAT16_NAN;
    if (magnitude < 0x00800000u)
        return 0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
