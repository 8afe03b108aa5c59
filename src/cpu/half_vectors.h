/* Vectors of 32 16-bit elements, for AVX-512 (F, BW): what rows of them are made of. A pair of floats' vectors holds 32 elements in an order of its
 * own, bfloat16 those at even places in the first, float16 the first 16. Included after vector_avx512.h. */
#ifndef SOFTMAX_HALF_VECTORS_H
#define SOFTMAX_HALF_VECTORS_H

#include "term_vectors.h"

#define VH_LANES 32

typedef __m512i vh;

static inline __mmask32 part_h(int count) { return (__mmask32)(count < VH_LANES ? (1u << count) - 1u : ~0u); }
static inline vh vh_set(int x) { return _mm512_set1_epi16((short)x); }
static inline vh vh_load(const uint16_t *p) { return _mm512_loadu_si512(p); }
static inline vh vh_load_part(const uint16_t *p, int count, int fill) { return _mm512_mask_loadu_epi16(vh_set(fill), part_h(count), p); }
static inline void vh_store(uint16_t *p, vh a) { _mm512_storeu_si512(p, a); }
static inline void vh_stream(uint16_t *p, vh a) { _mm512_stream_si512((__m512i *)(void *)p, a); }
static inline void vh_store_part(uint16_t *p, int count, vh a) { _mm512_mask_storeu_epi16(p, part_h(count), a); }
static inline vh vh_max(vh a, vh b) { return _mm512_max_epi16(a, b); }
static inline vh vh_min(vh a, vh b) { return _mm512_min_epi16(a, b); }
static inline vh vh_keep_part(vh a, int count, int fill) { return _mm512_mask_mov_epi16(vh_set(fill), part_h(count), a); }

/* Numbers of either type as integers in the same order, +0 above -0: the others of negative ones. */
static inline vh vh_order(vh a) {
    return _mm512_ternarylogic_epi32(a, _mm512_srai_epi16(a, 15), vh_set(0x7fff), 0x78); /* a ^ (b & c) */
}

static ALWAYS_INLINE void vh_widen(vh a, arithmetic kind, vf *x, vf *y) {
    if (kind == ARITHMETIC_FLOAT16) {
        *x = _mm512_cvtph_ps(_mm512_castsi512_si256(a));
        *y = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(a, 1));
    } else {
        *x = _mm512_castsi512_ps(_mm512_slli_epi32(a, 16));
        *y = _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32((int)0xffff0000)));
    }
}

static ALWAYS_INLINE void vh_load_wide(const uint16_t *p, arithmetic kind, vf *x, vf *y) {
    if (kind == ARITHMETIC_FLOAT16) {
        *x = vf_load_float16(p);
        *y = vf_load_float16(p + VF_LANES);
    } else {
        vh_widen(vh_load(p), kind, x, y);
    }
}

/* A pair in memory into the elements' own order. */
static inline void vh_in_order(const float *pair, arithmetic kind, float *to) {
    const vi even = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), more = _mm512_set1_epi32(8);
    const vf a = vf_load(pair), b = vf_load(pair + VF_LANES);
    vf_store(to, kind == ARITHMETIC_FLOAT16 ? a : _mm512_permutex2var_ps(a, even, b));
    vf_store(to + VF_LANES, kind == ARITHMETIC_FLOAT16 ? b : _mm512_permutex2var_ps(a, _mm512_add_epi32(even, more), b));
}

/* Numbers that are not NaN and round to no -0, to nearest even; bfloat16's are 0 or from the smallest normal number on. */
static ALWAYS_INLINE vh vh_narrow(vf x, vf y, arithmetic kind) {
    if (kind == ARITHMETIC_FLOAT16) {
        const __m256i low = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm512_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), 1);
    } else {
        /* what is cut off, the last bit that is kept beside it, rounds up where it is above a half */
        const vh odd = vh_set(1), half = vh_set(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
        const vh a = _mm512_castps_si512(x), b = _mm512_castps_si512(y);
        const vh kept = _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, upper, 0xf8); /* a | (b & c) */
        vh cut = _mm512_ternarylogic_epi32(upper, _mm512_slli_epi32(b, 16), a, 0xca); /* upper ? b : a */
        cut = _mm512_ternarylogic_epi32(cut, kept, odd, 0xf8); /* a | (b & c) */
        return _mm512_mask_add_epi16(kept, _mm512_cmpgt_epu16_mask(cut, half), kept, odd);
    }
}

/* The two largest in order and the least, lane by lane. */
typedef struct half_tops {
    vh first;
    vh second;
    vh least;
} half_tops;

/* The same of all lanes. */
static inline void half_tops_meet(half_tops t, int *first, int *second, int *least) {
    __m256i f = _mm512_castsi512_si256(t.first), f2 = _mm512_extracti64x4_epi64(t.first, 1), s, l;
    __m128i a, a2, b, c;
    s = _mm256_max_epi16(_mm512_castsi512_si256(t.second), _mm512_extracti64x4_epi64(t.second, 1));
    l = _mm256_min_epi16(_mm512_castsi512_si256(t.least), _mm512_extracti64x4_epi64(t.least, 1));
    s = _mm256_max_epi16(s, _mm256_min_epi16(f, f2));
    f = _mm256_max_epi16(f, f2);
    a = _mm256_castsi256_si128(f), a2 = _mm256_extracti128_si256(f, 1);
    b = _mm_max_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    c = _mm_min_epi16(_mm256_castsi256_si128(l), _mm256_extracti128_si256(l, 1));
    b = _mm_max_epi16(b, _mm_min_epi16(a, a2));
    a = _mm_max_epi16(a, a2);
    for (int step = 0; step < 3; step++) {
        __m128i x = step == 0 ? _mm_shuffle_epi32(a, 0x4e) : step == 1 ? _mm_shuffle_epi32(a, 0xb1) : _mm_shufflelo_epi16(a, 0xb1);
        __m128i y = step == 0 ? _mm_shuffle_epi32(b, 0x4e) : step == 1 ? _mm_shuffle_epi32(b, 0xb1) : _mm_shufflelo_epi16(b, 0xb1);
        __m128i z = step == 0 ? _mm_shuffle_epi32(c, 0x4e) : step == 1 ? _mm_shuffle_epi32(c, 0xb1) : _mm_shufflelo_epi16(c, 0xb1);
        b = _mm_max_epi16(_mm_max_epi16(b, y), _mm_min_epi16(a, x));
        a = _mm_max_epi16(a, x);
        c = _mm_min_epi16(c, z);
    }
    *first = (int16_t)_mm_cvtsi128_si32(a);
    *second = (int16_t)_mm_cvtsi128_si32(b);
    *least = (int16_t)_mm_cvtsi128_si32(c);
}

#endif
