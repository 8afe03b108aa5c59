/* Moving a block's elements between memory of any type and stride and contiguous buffers of float or double. Included after a vector_*.h. */
#ifndef SOFTMAX_GATHER_H
#define SOFTMAX_GATHER_H

#include "row_operands.h"

#define GATHER(type, bytes, from)                                          \
    for (int i = 0; i < count; i++, address += stride) {                   \
        type element;                                                      \
        memcpy(&element, address, bytes);                                  \
        to[i] = from(element);                                             \
    }
#define AS_IT_IS(x) (x)

/* count elements, any stride, as floats (no float64 here). */
static void gather_float(const char *address, element type, int64_t stride, int count, float *to) {
    if (type == ELEMENT_FLOAT32) {
        if (stride == 4)
            memcpy(to, address, (size_t)count * 4);
        else
            GATHER(float, 4, AS_IT_IS)
        return;
    }
    if (stride == 2 && (uintptr_t)address % 2 == 0) {
        int i = 0;
        const uint16_t *half = (const uint16_t *)(const void *)address;
        for (; i + VF_LANES <= count; i += VF_LANES)
            vf_store(to + i, type == ELEMENT_FLOAT16 ? vf_load_float16(half + i) : vf_load_bfloat16(half + i));
        address += (int64_t)i * 2;
        to += i;
        count -= i;
    }
    if (type == ELEMENT_FLOAT16)
        GATHER(uint16_t, 2, widen_float16)
    else
        GATHER(uint16_t, 2, widen_bfloat16)
}

static void gather_double(const char *address, element type, int64_t stride, int count, double *to) {
    if (type == ELEMENT_FLOAT64) {
        if (stride == 8)
            memcpy(to, address, (size_t)count * 8);
        else
            GATHER(double, 8, AS_IT_IS)
    } else if (type == ELEMENT_FLOAT32 && stride == 4 && (uintptr_t)address % 4 == 0) { /* a loop for the compiler to make vectors of */
        const float *from = (const float *)(const void *)address;
        for (int i = 0; i < count; i++) to[i] = (double)from[i];
    } else if (type == ELEMENT_FLOAT32) {
        GATHER(float, 4, AS_IT_IS)
    } else if (type == ELEMENT_FLOAT16) {
        GATHER(uint16_t, 2, widen_float16)
    } else {
        GATHER(uint16_t, 2, widen_bfloat16)
    }
}

#define SCATTER(type, bytes, to)                                           \
    for (int i = 0; i < count; i++, address += stride) {                   \
        type element = to(from[i]);                                        \
        memcpy(address, &element, bytes);                                  \
    }

static inline uint16_t positive_zero(uint16_t half) { return half == 0x8000 ? 0 : half; }
#define TO_FLOAT16(x) positive_zero(round_to_float16(x))
#define TO_BFLOAT16(x) positive_zero(round_to_bfloat16(x))

/* Floats to an output of any type but float64. They are +0 already where they are below the smallest normal. */
static void scatter_float(char *address, element type, int64_t stride, int count, const float *from) {
    if (type == ELEMENT_FLOAT32) {
        if (stride == 4)
            memcpy(address, from, (size_t)count * 4);
        else
            SCATTER(float, 4, AS_IT_IS)
        return;
    }
    if (stride == 2 && (uintptr_t)address % 2 == 0) {
        int i = 0;
        uint16_t *half = (uint16_t *)(void *)address;
        for (; i + VF_LANES <= count; i += VF_LANES) {
            if (type == ELEMENT_FLOAT16)
                vf_store_float16(half + i, vf_load(from + i));
            else
                vf_store_bfloat16(half + i, vf_load(from + i));
        }
        address += (int64_t)i * 2;
        from += i;
        count -= i;
    }
    if (type == ELEMENT_FLOAT16)
        SCATTER(uint16_t, 2, TO_FLOAT16)
    else
        SCATTER(uint16_t, 2, TO_BFLOAT16)
}

static void scatter_double(char *address, element type, int64_t stride, int count, const double *from) {
    (void)type;
    if (stride == 8)
        memcpy(address, from, (size_t)count * 8);
    else
        SCATTER(double, 8, AS_IT_IS)
}

#endif
