/* vector_portable.h's operations for AVX2 with FMA and F16C. */
#ifndef SOFTMAX_VECTOR_AVX2_H
#define SOFTMAX_VECTOR_AVX2_H

#include <float.h>
#include <immintrin.h>

#include "../numerics/half.h"

#define VECTOR_NAME "avx2"
#define VF_LANES 8
#define VD_LANES 4

typedef __m256 vf;
typedef __m256i vi;
typedef __m256d vd;
typedef __m256i vl;
typedef __m256 vm;

static inline __m256i part_f(int count) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
static inline __m256i part_d(int count) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3)); }

static inline vf vf_set(float x) { return _mm256_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline vf vf_load_part(const float *p, int count, float fill) {
    __m256i part = part_f(count);
    return _mm256_blendv_ps(vf_set(fill), _mm256_maskload_ps(p, part), _mm256_castsi256_ps(part));
}
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline void vf_stream(float *p, vf a) { _mm256_stream_ps(p, a); }
static inline void vf_store_part(float *p, int count, vf a) { _mm256_maskstore_ps(p, part_f(count), a); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_raise(vf y, vf cut, vf most) { return _mm256_blendv_ps(y, most, _mm256_cmp_ps(y, cut, _CMP_GE_OQ)); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_power(vf t) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(t), 23), _mm256_set1_epi32(127 << 23)));
}
static inline vf vf_move_exponent(vf p, vf t) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
static inline vf vf_unbias(vf y, vf threshold, int exponent) {
    __m256 keep = _mm256_cmp_ps(vf_abs(y), threshold, _CMP_GE_OQ);
    __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(y), _mm256_set1_epi32((int)((unsigned)exponent << 23)));
    return _mm256_and_ps(keep, _mm256_castsi256_ps(bits));
}
static inline vf vf_keep_from(vf z, vf limit, vf a) { return _mm256_and_ps(_mm256_cmp_ps(z, limit, _CMP_GE_OQ), a); }
static inline vf vf_lower(vf a, vf b) { return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b))); }
static inline vf vf_most_bits(vf a, vf b) { return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b))); }
static inline vf vf_most_negated(vf a, vf b) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_castps_si256(b))));
}
static inline vf vf_held(vf a) {
    __asm__("" : "+x"(a));
    return a;
}
static inline vm vf_ordered(void) { return _mm256_castsi256_ps(_mm256_set1_epi32(-1)); }
static inline vm vf_still_ordered(vm m, vf a, vf b) { return _mm256_and_ps(m, _mm256_cmp_ps(a, b, _CMP_ORD_Q)); }
static inline int vf_all_ordered(vm m) { return _mm256_movemask_ps(m) == 0xff; }
static inline vf vf_unbias_positive(vf y, vf threshold, int exponent) {
    __m256i less = _mm256_cmpgt_epi32(_mm256_castps_si256(threshold), _mm256_castps_si256(y));
    return _mm256_castsi256_ps(_mm256_andnot_si256(less, _mm256_sub_epi32(_mm256_castps_si256(y), _mm256_set1_epi32((int)((unsigned)exponent << 23)))));
}
static inline int vf_find(vf a, vf b) { return __builtin_ctz((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) | 1u << 8); }
static inline vf vf_swap(vf a, int step) {
    switch (step) {
    case 4: return _mm256_permute2f128_ps(a, a, 1);
    case 2: return _mm256_permute_ps(a, 0x4e);
    default: return _mm256_permute_ps(a, 0xb1);
    }
}
static inline float vf_first(vf a) { return _mm256_cvtss_f32(a); }
static inline vi vi_zero(void) { return _mm256_setzero_si256(); }
static inline vi vi_add_bits(vi a, vf b) { return _mm256_add_epi32(a, _mm256_castps_si256(b)); }
static inline uint32_t vi_sum(vi a) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(s);
}
static inline vm vm_none(void) { return _mm256_setzero_ps(); }
static inline vm vf_or_nan(vm m, vf a) { return _mm256_or_ps(m, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
static inline int vm_any(vm m) { return _mm256_movemask_ps(m) != 0; }
static inline vf vf_load_bfloat16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vf vf_load_float16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline __m128i narrow_words(__m256i words) { /* the low 16 bits of every 32, which are below 2^16 */
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
/* to nearest even; below 2^-126 +0; NaN the positive quiet one */
static inline __m128i to_bfloat16(vf a) {
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i keep = _mm256_castps_si256(_mm256_cmp_ps(vf_abs(a), _mm256_set1_ps(0x1p-126f), _CMP_NLT_UQ));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(_mm256_and_si256(rounded, keep), _mm256_set1_epi32(0x7fc0), nan);
    return narrow_words(rounded);
}
/* the same of positive normal numbers */
static inline __m128i to_bfloat16_positive(vf a) {
    __m256i bits = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return narrow_words(_mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16));
}
static inline __m128i to_float16(vf a) {
    __m128i half = _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    __m128i nan16 = _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
    half = _mm_andnot_si128(_mm_cmpeq_epi16(half, _mm_set1_epi16((short)0x8000)), half); /* zeros are positive */
    return _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), nan16);
}
static inline void vf_store_bfloat16(uint16_t *p, vf a) { _mm_storeu_si128((__m128i *)p, to_bfloat16(a)); }
static inline void vf_store_bfloat16_positive(uint16_t *p, vf a) { _mm_storeu_si128((__m128i *)p, to_bfloat16_positive(a)); }
static inline void vf_stream_bfloat16_positive(uint16_t *p, vf a) { _mm_stream_si128((__m128i *)p, to_bfloat16_positive(a)); }
static inline void vf_store_float16(uint16_t *p, vf a) { _mm_storeu_si128((__m128i *)p, to_float16(a)); }
static inline void vf_stream_bfloat16(uint16_t *p, vf a) { _mm_stream_si128((__m128i *)p, to_bfloat16(a)); }
static inline void vf_stream_float16(uint16_t *p, vf a) { _mm_stream_si128((__m128i *)p, to_float16(a)); }

static inline vd vd_set(double x) { return _mm256_set1_pd(x); }
static inline vd vd_load(const double *p) { return _mm256_loadu_pd(p); }
static inline vd vd_load_part(const double *p, int count, double fill) {
    __m256i part = part_d(count);
    return _mm256_blendv_pd(vd_set(fill), _mm256_maskload_pd(p, part), _mm256_castsi256_pd(part));
}
static inline void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a); }
static inline void vd_stream(double *p, vd a) { _mm256_stream_pd(p, a); }
static inline void vd_store_part(double *p, int count, vd a) { _mm256_maskstore_pd(p, part_d(count), a); }
static inline vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
static inline vd vd_sub(vd a, vd b) { return _mm256_sub_pd(a, b); }
static inline vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
static inline vd vd_fms(vd a, vd b, vd c) { return _mm256_fmsub_pd(a, b, c); }
static inline vd vd_add_exact_product(vd a, vd b, vd c) { return vd_fma(a, b, c); }
static inline vd vd_max(vd a, vd b) { return _mm256_max_pd(a, b); }
static inline vd vd_min(vd a, vd b) { return _mm256_min_pd(a, b); }
static inline vd vd_raise(vd y, vd cut, vd most) { return _mm256_blendv_pd(y, most, _mm256_cmp_pd(y, cut, _CMP_GE_OQ)); }
static inline vd vd_abs(vd a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
static inline vd vd_power(vd t) {
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_slli_epi64(_mm256_castpd_si256(t), 52), _mm256_set1_epi64x(1023LL << 52)));
}
static inline vd vd_unbias(vd y, vd threshold, int exponent) {
    __m256d keep = _mm256_cmp_pd(vd_abs(y), threshold, _CMP_GE_OQ);
    __m256i bits = _mm256_sub_epi64(_mm256_castpd_si256(y), _mm256_set1_epi64x((long long)exponent << 52));
    return _mm256_and_pd(keep, _mm256_castsi256_pd(bits));
}
static inline vd vd_keep_from(vd z, vd limit, vd a) { return _mm256_and_pd(_mm256_cmp_pd(z, limit, _CMP_GE_OQ), a); }
static inline vd vd_lower(vd a, vd b) { return _mm256_min_pd(a, b); }
static inline vd vd_held(vd a) {
    __asm__("" : "+x"(a));
    return a;
}
static inline vm vd_ordered(void) { return vf_ordered(); }
static inline vm vd_still_ordered(vm m, vd a, vd b) { return _mm256_and_ps(m, _mm256_castpd_ps(_mm256_cmp_pd(a, b, _CMP_ORD_Q))); }
static inline int vd_all_ordered(vm m) { return vf_all_ordered(m); }
static inline vd vd_unbias_positive(vd y, vd threshold, int exponent) { return vd_unbias(y, threshold, exponent); }
static inline int vd_find(vd a, vd b) { return __builtin_ctz((unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_EQ_OQ)) | 1u << 4); }
static inline vd vd_swap(vd a, int step) { return step == 2 ? _mm256_permute2f128_pd(a, a, 1) : _mm256_permute_pd(a, 0x5); }
static inline double vd_first(vd a) { return _mm256_cvtsd_f64(a); }
static inline vl vl_zero(void) { return _mm256_setzero_si256(); }
static inline vl vl_add_bits(vl a, vd b) { return _mm256_add_epi64(a, _mm256_castpd_si256(b)); }
static inline uint64_t vl_sum(vl a) {
    __m128i s = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return (uint64_t)_mm_extract_epi64(s, 0) + (uint64_t)_mm_extract_epi64(s, 1);
}
static inline vm vd_or_nan(vm m, vd a) { return _mm256_or_ps(m, _mm256_castpd_ps(_mm256_cmp_pd(a, a, _CMP_UNORD_Q))); }
static inline vd vd_load_float(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
static inline void vd_store_float(float *p, vd a) { _mm_storeu_ps(p, _mm256_cvtpd_ps(a)); }

static inline vm vf_or_at_least(vm m, vf a, vf b) { return _mm256_or_ps(m, _mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
static inline vm vd_or_at_least(vm m, vd a, vd b) { return _mm256_or_ps(m, _mm256_castpd_ps(_mm256_cmp_pd(a, b, _CMP_GE_OQ))); }
static inline vf vf_select(vf a, vf limit, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, limit, _CMP_GE_OQ)); }
static inline vd vd_select(vd a, vd limit, vd yes, vd no) { return _mm256_blendv_pd(no, yes, _mm256_cmp_pd(a, limit, _CMP_GE_OQ)); }
static inline vf vf_add_if_finite(vf test, vf a, vf b) {
    return _mm256_blendv_ps(a, _mm256_add_ps(a, b), _mm256_cmp_ps(vf_abs(test), vf_set(FLT_MAX), _CMP_LE_OQ));
}
static inline vd vd_add_if_finite(vd test, vd a, vd b) {
    return _mm256_blendv_pd(a, _mm256_add_pd(a, b), _mm256_cmp_pd(vd_abs(test), vd_set(DBL_MAX), _CMP_LE_OQ));
}
static inline vf vf_masked(vf a, const uint8_t *mask) {
    __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)mask));
    return _mm256_blendv_ps(a, vf_set(-INFINITY), _mm256_castsi256_ps(_mm256_cmpeq_epi32(bytes, _mm256_setzero_si256())));
}
static inline vd vd_masked(vd a, const uint8_t *mask) {
    int four;
    memcpy(&four, mask, sizeof four);
    __m256i bytes = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    return _mm256_blendv_pd(a, _mm256_set1_pd(-(double)INFINITY), _mm256_castsi256_pd(_mm256_cmpeq_epi64(bytes, _mm256_setzero_si256())));
}
static inline vf vf_max_seen(vf m, const float *p, const uint8_t *mask, vf *z) {
    __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)mask));
    vf seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(bytes, _mm256_setzero_si256()));
    *z = _mm256_and_ps(vf_load(p), seen);
    return _mm256_blendv_ps(m, vf_max(m, *z), seen);
}
static inline vd vd_max_seen(vd m, const double *p, const uint8_t *mask, vd *z) {
    int four;
    memcpy(&four, mask, sizeof four);
    vd seen = _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)), _mm256_setzero_si256()));
    *z = _mm256_and_pd(vd_load(p), seen);
    return _mm256_blendv_pd(m, vd_max(m, *z), seen);
}
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vd vd_div(vd a, vd b) { return _mm256_div_pd(a, b); }
static inline vd vd_log2_floor(vd a) { /* the exponent's bits as a double: in the low bits of 2^52 */
    __m256i exponent = _mm256_or_si256(_mm256_srli_epi64(_mm256_castpd_si256(a), 52), _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
    return _mm256_sub_pd(_mm256_castsi256_pd(exponent), _mm256_set1_pd(0x1p52 + 1023));
}
static inline vi vi_set(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline vl vl_set(uint64_t x) { return _mm256_set1_epi64x((long long)x); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vl vl_add(vl a, vl b) { return _mm256_add_epi64(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vl vl_sub(vl a, vl b) { return _mm256_sub_epi64(a, b); }
static inline void vi_store(uint32_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline void vl_store(uint64_t *p, vl a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline vi vi_load(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline vl vl_load(const uint64_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline vd vd_of_integers(vi a, int half) { return _mm256_cvtepi32_pd(half ? _mm256_extracti128_si256(a, 1) : _mm256_castsi256_si128(a)); }
static inline vd vd_of_floats(vf a, int half) {
    return _mm256_cvtps_pd(half ? _mm256_extractf128_ps(a, 1) : _mm256_castps256_ps128(a));
}
static inline vf vf_of_doubles(vd lower, vd upper) { return _mm256_set_m128(_mm256_cvtpd_ps(upper), _mm256_cvtpd_ps(lower)); }
/* pieces of four columns of rows i and i + 4; four such vectors are transposed within their pieces */
static inline void transpose_pieces(const vf a[4], vf b[4]) {
    vd x = _mm256_castps_pd(_mm256_unpacklo_ps(a[0], a[1])), y = _mm256_castps_pd(_mm256_unpackhi_ps(a[0], a[1]));
    vd z = _mm256_castps_pd(_mm256_unpacklo_ps(a[2], a[3])), w = _mm256_castps_pd(_mm256_unpackhi_ps(a[2], a[3]));
    b[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, z));
    b[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, z));
    b[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(y, w));
    b[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(y, w));
}
static inline void vf_load_columns(const float *rows, int64_t pitch, vf column[4]) {
    vf a[4];
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows + i * pitch)), _mm_loadu_ps(rows + (i + 4) * pitch), 1);
    transpose_pieces(a, column);
}
static inline void vf_store_columns(float *rows, int64_t pitch, const vf column[4]) {
    vf a[4];
    transpose_pieces(column, a);
    for (int i = 0; i < 4; i++) {
        _mm_storeu_ps(rows + i * pitch, _mm256_castps256_ps128(a[i]));
        _mm_storeu_ps(rows + (i + 4) * pitch, _mm256_extractf128_ps(a[i], 1));
    }
}
static inline void transpose_doubles(const vd a[4], vd b[4]) {
    vd x = _mm256_unpacklo_pd(a[0], a[1]), y = _mm256_unpackhi_pd(a[0], a[1]);
    vd z = _mm256_unpacklo_pd(a[2], a[3]), w = _mm256_unpackhi_pd(a[2], a[3]);
    b[0] = _mm256_permute2f128_pd(x, z, 0x20);
    b[1] = _mm256_permute2f128_pd(y, w, 0x20);
    b[2] = _mm256_permute2f128_pd(x, z, 0x31);
    b[3] = _mm256_permute2f128_pd(y, w, 0x31);
}
static inline void vd_load_columns(const double *rows, int64_t pitch, vd column[4]) {
    vd a[4];
    for (int i = 0; i < 4; i++) a[i] = _mm256_loadu_pd(rows + i * pitch);
    transpose_doubles(a, column);
}
static inline void vd_store_columns(double *rows, int64_t pitch, const vd column[4]) {
    vd a[4];
    transpose_doubles(column, a);
    for (int i = 0; i < 4; i++) _mm256_storeu_pd(rows + i * pitch, a[i]);
}

static inline void stream_end(void) { _mm_sfence(); }
/* always inline: gcc 12 takes a call of a function that only prefetches for one that does nothing */
static inline __attribute__((always_inline)) void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

#include "vector_find.h"

#endif
