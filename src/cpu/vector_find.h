/* The first place of b in the lanes of eight vectors, or how many lanes they have: from a set's vf_find and vd_find, before its own header ends.
 * VECTOR_FINDS_IN_EIGHT: the set has its own for float. */
#ifndef SOFTMAX_VECTOR_FIND_H
#define SOFTMAX_VECTOR_FIND_H

#if !defined(VECTOR_FINDS_IN_EIGHT)
static inline int vf_find_in_eight(const vf a[8], vf b) {
    int at = 8 * VF_LANES;
    for (int j = 7; j >= 0; j--) {
        int lane = vf_find(a[j], b);
        at = lane < VF_LANES ? j * VF_LANES + lane : at;
    }
    return at;
}
#endif

static inline int vd_find_in_eight(const vd a[8], vd b) {
    int at = 8 * VD_LANES;
    for (int j = 7; j >= 0; j--) {
        int lane = vd_find(a[j], b);
        at = lane < VD_LANES ? j * VD_LANES + lane : at;
    }
    return at;
}

#endif
