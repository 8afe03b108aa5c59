/* One element of each of a vector's lanes, neighbours in memory, of any type. Included after a vector_*.h. */
#ifndef SOFTMAX_LANE_ELEMENTS_H
#define SOFTMAX_LANE_ELEMENTS_H

#include "gather.h"
#include "term_vectors.h"

/* The first `count` lanes; the others are 0. */
static ALWAYS_INLINE vf load_lanes_float(const char *address, element type, int count) {
    uint16_t half[VF_LANES] = {0};
    const uint16_t *from = (const uint16_t *)(const void *)address;
    if (type == ELEMENT_FLOAT32) {
        const float *z = (const float *)(const void *)address;
        return count == VF_LANES ? vf_load(z) : vf_load_part(z, count, 0.0f);
    }
    if (count < VF_LANES) {
        memcpy(half, address, (size_t)count * 2);
        from = half;
    }
    return type == ELEMENT_FLOAT16 ? vf_load_float16(from) : vf_load_bfloat16(from);
}

static ALWAYS_INLINE vd load_lanes_double(const char *address, element type, int count) {
    const double *z = (const double *)(const void *)address;
    (void)type;
    return count == VD_LANES ? vd_load(z) : vd_load_part(z, count, 0.0);
}

/* The first `count` lanes but those in `without`. */
static inline void store_lanes_float(char *address, element type, int count, unsigned without, vf y) {
    float all[VF_LANES];
    const int64_t bytes = element_bytes(type);
    if (!without && count == VF_LANES && type != ELEMENT_FLOAT32) {
        if (type == ELEMENT_FLOAT16)
            vf_store_float16((uint16_t *)(void *)address, y);
        else
            vf_store_bfloat16((uint16_t *)(void *)address, y);
        return;
    }
    if (!without && type == ELEMENT_FLOAT32) {
        vf_store_part((float *)(void *)address, count, y);
        return;
    }
    vf_store(all, y);
    for (int i = 0; i < count; i++)
        if (!(without >> i & 1)) scatter_float(address + i * bytes, type, bytes, 1, &all[i]);
}

static inline void store_lanes_double(char *address, element type, int count, unsigned without, vd y) {
    double all[VD_LANES];
    (void)type;
    if (!without) {
        vd_store_part((double *)(void *)address, count, y);
        return;
    }
    vd_store(all, y);
    for (int i = 0; i < count; i++)
        if (!(without >> i & 1)) memcpy(address + i * 8, &all[i], 8);
}

#endif
