/* Vectors from and to contiguous memory of any float type, widened and rounded in registers. Included after a vector_*.h.
 * Indices count elements; the *_rest forms are for the last, fewer than a vector. Call them with a constant type where it matters. */
#ifndef SOFTMAX_ELEMENT_VECTORS_H
#define SOFTMAX_ELEMENT_VECTORS_H

#include "gather.h"
#include "term_vectors.h"

static ALWAYS_INLINE vf load_elements_float(const void *from, element type, int i) {
    if (type == ELEMENT_BFLOAT16) return vf_load_bfloat16((const uint16_t *)from + i);
    if (type == ELEMENT_FLOAT16) return vf_load_float16((const uint16_t *)from + i);
    return vf_load((const float *)from + i);
}

static ALWAYS_INLINE vd load_elements_double(const void *from, element type, int i) {
    (void)type;
    return vd_load((const double *)from + i);
}

/* Zeros in the lanes beyond `count`. */
static inline vf load_rest_float(const void *from, element type, int i, int count) {
    float lane[VF_LANES] = {0};
    if (type == ELEMENT_FLOAT32) return vf_load_part((const float *)from + i, count - i, 0.0f);
    for (int j = i; j < count; j++)
        lane[j - i] = type == ELEMENT_BFLOAT16 ? widen_bfloat16(((const uint16_t *)from)[j]) : widen_float16(((const uint16_t *)from)[j]);
    return vf_load(lane);
}

static inline vd load_rest_double(const void *from, element type, int i, int count) {
    (void)type;
    return vd_load_part((const double *)from + i, count - i, 0.0);
}

/* The doubles of elements i to i + VF_LANES, in two halves. */
static ALWAYS_INLINE void load_halves(const void *from, element type, int i, vd *low, vd *high) {
    if (type == ELEMENT_FLOAT32) {
        *low = vd_load_float((const float *)from + i);
        *high = vd_load_float((const float *)from + i + VD_LANES);
    } else {
        vf a = load_elements_float(from, type, i);
        *low = vd_of_floats(a, 0);
        *high = vd_of_floats(a, 1);
    }
}

/* `stream`: past the cache; to + i is then a multiple of the vector's bytes there. */
static ALWAYS_INLINE void store_elements_float(void *to, element type, int i, vf a, int stream) {
    if (type == ELEMENT_BFLOAT16)
        stream ? vf_stream_bfloat16((uint16_t *)to + i, a) : vf_store_bfloat16((uint16_t *)to + i, a);
    else if (type == ELEMENT_FLOAT16)
        stream ? vf_stream_float16((uint16_t *)to + i, a) : vf_store_float16((uint16_t *)to + i, a);
    else
        stream ? vf_stream((float *)to + i, a) : vf_store((float *)to + i, a);
}

/* The same of positive normal numbers and +0. */
static ALWAYS_INLINE void store_positive_float(void *to, element type, int i, vf a, int stream) {
    if (type == ELEMENT_BFLOAT16)
        stream ? vf_stream_bfloat16_positive((uint16_t *)to + i, a) : vf_store_bfloat16_positive((uint16_t *)to + i, a);
    else
        store_elements_float(to, type, i, a, stream);
}

static ALWAYS_INLINE void store_positive_double(void *to, element type, int i, vd a, int stream) {
    (void)type;
    stream ? vd_stream((double *)to + i, a) : vd_store((double *)to + i, a);
}

static ALWAYS_INLINE void store_elements_double(void *to, element type, int i, vd a, int stream) {
    (void)type;
    stream ? vd_stream((double *)to + i, a) : vd_store((double *)to + i, a);
}

static inline void store_rest_float(void *to, element type, int i, int count, vf a) {
    float lane[VF_LANES];
    if (type == ELEMENT_FLOAT32) {
        vf_store_part((float *)to + i, count - i, a);
        return;
    }
    vf_store(lane, a);
    scatter_float((char *)to + 2 * i, type, 2, count - i, lane);
}

static inline void store_rest_double(void *to, element type, int i, int count, vd a) {
    (void)type;
    vd_store_part((double *)to + i, count - i, a);
}

/* How many elements stand before the first to which a vector of `lanes` of them may be stored past the cache, at most count. */
static inline int until_aligned(const void *to, int64_t bytes, int lanes, int count) {
    int64_t beyond = (int64_t)((uintptr_t)to / (uintptr_t)bytes % (uintptr_t)lanes), before = beyond ? lanes - beyond : 0;
    return (int)(before < count ? before : count);
}

#endif
