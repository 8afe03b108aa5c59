/* vector_portable.h's operations for AVX-512 (F, BW, DQ, VL). */
#ifndef SOFTMAX_VECTOR_AVX512_H
#define SOFTMAX_VECTOR_AVX512_H

#include <immintrin.h>

#include "../numerics/half.h"

#define VECTOR_NAME "avx512"
#define VF_LANES 16
#define VD_LANES 8
#define VECTOR_PIPELINE /* registers enough for term_pipeline.h */
#define VECTOR_HALVES   /* half_vectors.h */

typedef __m512 vf;
typedef __m512i vi;
typedef __m512d vd;
typedef __m512i vl;
typedef __mmask16 vm;

static inline __mmask16 part_f(int count) { return (__mmask16)((1u << count) - 1u); }
static inline __mmask8 part_d(int count) { return (__mmask8)((1u << count) - 1u); }

static inline vf vf_set(float x) { return _mm512_set1_ps(x); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf vf_load_part(const float *p, int count, float fill) { return _mm512_mask_loadu_ps(vf_set(fill), part_f(count), p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline void vf_stream(float *p, vf a) { _mm512_stream_ps(p, a); }
static inline void vf_store_part(float *p, int count, vf a) { _mm512_mask_storeu_ps(p, part_f(count), a); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_raise(vf y, vf cut, vf most) { return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(y, cut, _CMP_GE_OQ), most); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_power(vf t) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(t), 23), _mm512_set1_epi32(127 << 23)));
}
/* the same of t = TERM32_MAGIC + 127 + j */
static inline vf vf_exponent(vf t) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23)); }
static inline vf vf_move_exponent(vf p, vf t) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
static inline vf vf_unbias(vf y, vf threshold, int exponent) {
    __mmask16 keep = _mm512_cmp_ps_mask(_mm512_abs_ps(y), threshold, _CMP_GE_OQ);
    return _mm512_castsi512_ps(_mm512_maskz_sub_epi32(keep, _mm512_castps_si512(y), _mm512_set1_epi32((int)((unsigned)exponent << 23))));
}
static inline vf vf_keep_from(vf z, vf limit, vf a) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(z, limit, _CMP_GE_OQ), a); }
static inline vf vf_lower(vf a, vf b) { return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b))); }
static inline vf vf_most_bits(vf a, vf b) { return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b))); }
static inline vf vf_most_negated(vf a, vf b) {
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_castps_si512(b))));
}
static inline vf vf_held(vf a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline vm vf_ordered(void) { return 0xffff; }
static inline vm vf_still_ordered(vm m, vf a, vf b) { return _mm512_mask_cmp_ps_mask(m, a, b, _CMP_ORD_Q); }
static inline int vf_all_ordered(vm m) { return m == 0xffff; }
/* by integers, which have more pipes */
static inline vf vf_unbias_positive(vf y, vf threshold, int exponent) {
    __mmask16 keep = _mm512_cmpge_epu32_mask(_mm512_castps_si512(y), _mm512_castps_si512(threshold));
    return _mm512_castsi512_ps(_mm512_maskz_sub_epi32(keep, _mm512_castps_si512(y), _mm512_set1_epi32((int)((unsigned)exponent << 23))));
}
/* y below cut without its bias, `most` from cut on */
static inline vf vf_unbias_below(vf y, vf cut, vf most, int exponent) {
    __mmask16 below = _mm512_cmp_ps_mask(y, cut, _CMP_LT_OQ);
    return _mm512_castsi512_ps(
        _mm512_mask_sub_epi32(_mm512_castps_si512(most), below, _mm512_castps_si512(y), _mm512_set1_epi32((int)((unsigned)exponent << 23))));
}
static inline int vf_find(vf a, vf b) { return __builtin_ctz(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) | 1u << 16); }
/* lane i from lane i ^ step, step a power of two */
static inline vf vf_swap(vf a, int step) {
    switch (step) {
    case 8: return _mm512_shuffle_f32x4(a, a, 0x4e);
    case 4: return _mm512_shuffle_f32x4(a, a, 0xb1);
    case 2: return _mm512_permute_ps(a, 0x4e);
    default: return _mm512_permute_ps(a, 0xb1);
    }
}
static inline float vf_first(vf a) { return _mm512_cvtss_f32(a); }
static inline vi vi_zero(void) { return _mm512_setzero_si512(); }
static inline vi vi_add_bits(vi a, vf b) { return _mm512_add_epi32(a, _mm512_castps_si512(b)); }
static inline uint32_t vi_sum(vi a) { return (uint32_t)_mm512_reduce_add_epi32(a); }
static inline vm vm_none(void) { return 0; }
static inline vm vf_or_nan(vm m, vf a) { return (vm)(m | _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q)); }
static inline int vm_any(vm m) { return m != 0; }
static inline vf vf_load_bfloat16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline vf vf_load_float16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
/* to nearest even; below 2^-126 +0; NaN the positive quiet one */
static inline __m256i to_bfloat16(vf a) {
    __m512i bits = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __mmask16 keep = _mm512_cmp_ps_mask(_mm512_abs_ps(a), _mm512_set1_ps(0x1p-126f), _CMP_NLT_UQ);
    rounded = _mm512_mask_mov_epi32(_mm512_maskz_mov_epi32(keep, rounded), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
    return _mm512_cvtepi32_epi16(rounded);
}
/* the same of positive normal numbers and +0 */
static inline __m256i to_bfloat16_positive(vf a) {
    __m512i bits = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16));
}
static inline __m256i to_float16(vf a) {
    __m256i half = _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    __mmask16 minus_zero = _mm256_cmpeq_epi16_mask(half, _mm256_set1_epi16((short)0x8000));
    half = _mm256_mask_mov_epi16(half, minus_zero, _mm256_setzero_si256());
    return _mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00));
}
static inline void vf_store_bfloat16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, to_bfloat16(a)); }
static inline void vf_store_bfloat16_positive(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, to_bfloat16_positive(a)); }
static inline void vf_stream_bfloat16_positive(uint16_t *p, vf a) { _mm256_stream_si256((__m256i *)p, to_bfloat16_positive(a)); }
static inline void vf_store_float16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, to_float16(a)); }
static inline void vf_stream_bfloat16(uint16_t *p, vf a) { _mm256_stream_si256((__m256i *)p, to_bfloat16(a)); }
static inline void vf_stream_float16(uint16_t *p, vf a) { _mm256_stream_si256((__m256i *)p, to_float16(a)); }

static inline vd vd_set(double x) { return _mm512_set1_pd(x); }
static inline vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
static inline vd vd_load_part(const double *p, int count, double fill) { return _mm512_mask_loadu_pd(vd_set(fill), part_d(count), p); }
static inline void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
static inline void vd_stream(double *p, vd a) { _mm512_stream_pd(p, a); }
static inline void vd_store_part(double *p, int count, vd a) { _mm512_mask_storeu_pd(p, part_d(count), a); }
static inline vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
static inline vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
static inline vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
static inline vd vd_fms(vd a, vd b, vd c) { return _mm512_fmsub_pd(a, b, c); }
static inline vd vd_add_exact_product(vd a, vd b, vd c) { return vd_fma(a, b, c); }
static inline vd vd_max(vd a, vd b) { return _mm512_max_pd(a, b); }
static inline vd vd_min(vd a, vd b) { return _mm512_min_pd(a, b); }
static inline vd vd_raise(vd y, vd cut, vd most) { return _mm512_mask_mov_pd(y, _mm512_cmp_pd_mask(y, cut, _CMP_GE_OQ), most); }
static inline vd vd_abs(vd a) { return _mm512_abs_pd(a); }
static inline vd vd_power(vd t) {
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_slli_epi64(_mm512_castpd_si512(t), 52), _mm512_set1_epi64(1023LL << 52)));
}
static inline vd vd_unbias(vd y, vd threshold, int exponent) {
    __mmask8 keep = _mm512_cmp_pd_mask(_mm512_abs_pd(y), threshold, _CMP_GE_OQ);
    return _mm512_castsi512_pd(_mm512_maskz_sub_epi64(keep, _mm512_castpd_si512(y), _mm512_set1_epi64((long long)exponent << 52)));
}
static inline vd vd_keep_from(vd z, vd limit, vd a) { return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(z, limit, _CMP_GE_OQ), a); }
static inline vd vd_lower(vd a, vd b) { return _mm512_castsi512_pd(_mm512_max_epu64(_mm512_castpd_si512(a), _mm512_castpd_si512(b))); }
static inline vd vd_held(vd a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline vm vd_ordered(void) { return 0xff; }
static inline vm vd_still_ordered(vm m, vd a, vd b) { return _mm512_mask_cmp_pd_mask((__mmask8)m, a, b, _CMP_ORD_Q); }
static inline int vd_all_ordered(vm m) { return m == 0xff; }
static inline vd vd_unbias_positive(vd y, vd threshold, int exponent) { return vd_unbias(y, threshold, exponent); }
static inline int vd_find(vd a, vd b) { return __builtin_ctz(_mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ) | 1u << 8); }
static inline vd vd_swap(vd a, int step) {
    switch (step) {
    case 4: return _mm512_shuffle_f64x2(a, a, 0x4e);
    case 2: return _mm512_shuffle_f64x2(a, a, 0xb1);
    default: return _mm512_permute_pd(a, 0x55);
    }
}
static inline double vd_first(vd a) { return _mm512_cvtsd_f64(a); }
static inline vl vl_zero(void) { return _mm512_setzero_si512(); }
static inline vl vl_add_bits(vl a, vd b) { return _mm512_add_epi64(a, _mm512_castpd_si512(b)); }
static inline uint64_t vl_sum(vl a) { return (uint64_t)_mm512_reduce_add_epi64(a); }
static inline vm vd_or_nan(vm m, vd a) { return (vm)(m | _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q)); }
static inline vd vd_load_float(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
static inline void vd_store_float(float *p, vd a) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(a)); }

static inline vm vf_or_at_least(vm m, vf a, vf b) { return m | _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vm vd_or_at_least(vm m, vd a, vd b) { return m | _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ); }
static inline vf vf_select(vf a, vf limit, vf yes, vf no) { return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, limit, _CMP_GE_OQ), yes); }
static inline vd vd_select(vd a, vd limit, vd yes, vd no) { return _mm512_mask_mov_pd(no, _mm512_cmp_pd_mask(a, limit, _CMP_GE_OQ), yes); }
/* not NaN (1, 80) and not infinite (8, 10) */
static inline vf vf_add_if_finite(vf test, vf a, vf b) { return _mm512_mask_add_ps(a, (__mmask16)~_mm512_fpclass_ps_mask(test, 0x99), a, b); }
static inline vd vd_add_if_finite(vd test, vd a, vd b) { return _mm512_mask_add_pd(a, (__mmask8)~_mm512_fpclass_pd_mask(test, 0x99), a, b); }
static inline vf vf_masked(vf a, const uint8_t *mask) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)mask);
    return _mm512_mask_mov_ps(vf_set(-INFINITY), _mm_test_epi8_mask(bytes, bytes), a);
}
static inline __mmask16 seen_f(const uint8_t *mask) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)mask);
    return _mm_test_epi8_mask(bytes, bytes);
}
static inline __mmask8 seen_d(const uint8_t *mask) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)mask);
    return (__mmask8)_mm_test_epi8_mask(bytes, bytes);
}
/* what is seen at p, else `otherwise` */
static inline vf vf_load_where(const float *p, __mmask16 seen, vf otherwise) { return _mm512_mask_loadu_ps(otherwise, seen, p); }
static inline vf vf_max_seen(vf m, const float *p, const uint8_t *mask, vf *z) {
    __mmask16 seen = seen_f(mask);
    *z = _mm512_maskz_mov_ps(seen, vf_load(p)); /* a masked load keeps compilers from holding others in registers */
    return _mm512_mask_max_ps(m, seen, m, *z);
}
static inline vd vd_max_seen(vd m, const double *p, const uint8_t *mask, vd *z) {
    __mmask8 seen = seen_d(mask);
    *z = _mm512_maskz_mov_pd(seen, vd_load(p));
    return _mm512_mask_max_pd(m, seen, m, *z);
}
static inline vd vd_masked(vd a, const uint8_t *mask) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)mask);
    return _mm512_mask_mov_pd(_mm512_set1_pd(-(double)INFINITY), (__mmask8)_mm_test_epi8_mask(bytes, bytes), a);
}
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vd vd_div(vd a, vd b) { return _mm512_div_pd(a, b); }
static inline vd vd_log2_floor(vd a) { return _mm512_getexp_pd(a); }
static inline vi vi_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline vl vl_set(uint64_t x) { return _mm512_set1_epi64((long long)x); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vl vl_add(vl a, vl b) { return _mm512_add_epi64(a, b); }
static inline vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vl vl_sub(vl a, vl b) { return _mm512_sub_epi64(a, b); }
static inline void vi_store(uint32_t *p, vi a) { _mm512_storeu_si512(p, a); }
static inline void vl_store(uint64_t *p, vl a) { _mm512_storeu_si512(p, a); }
static inline vi vi_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
static inline vl vl_load(const uint64_t *p) { return _mm512_loadu_si512(p); }
static inline vd vd_of_integers(vi a, int half) { return _mm512_cvtepi32_pd(half ? _mm512_extracti64x4_epi64(a, 1) : _mm512_castsi512_si256(a)); }
static inline vd vd_of_floats(vf a, int half) {
    return _mm512_cvtps_pd(half ? _mm512_extractf32x8_ps(a, 1) : _mm512_castps512_ps256(a));
}
static inline vf vf_of_doubles(vd lower, vd upper) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(lower)), _mm512_cvtpd_ps(upper), 1);
}
/* pieces of four columns of rows i, i + 4, i + 8, i + 12; four such vectors are transposed within their pieces */
static inline vf four_rows(const float *row, int64_t pitch) { /* by inserts: broadcasts under a mask take half as long again */
    __m256 a = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)), _mm_loadu_ps(row + 4 * pitch), 1);
    __m256 b = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row + 8 * pitch)), _mm_loadu_ps(row + 12 * pitch), 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}
static inline void transpose_pieces(const vf a[4], vf b[4]) {
    vd x = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1])), y = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1]));
    vd z = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3])), w = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
    b[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, z));
    b[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, z));
    b[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(y, w));
    b[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(y, w));
}
static inline void vf_load_columns(const float *rows, int64_t pitch, vf column[4]) {
    vf a[4] = {four_rows(rows, pitch), four_rows(rows + pitch, pitch), four_rows(rows + 2 * pitch, pitch), four_rows(rows + 3 * pitch, pitch)};
    transpose_pieces(a, column);
}
static inline void vf_store_columns(float *rows, int64_t pitch, const vf column[4]) {
    vf a[4];
    transpose_pieces(column, a);
    for (int i = 0; i < 4; i++, rows += pitch) {
        _mm_storeu_ps(rows, _mm512_castps512_ps128(a[i]));
        _mm_storeu_ps(rows + 4 * pitch, _mm512_extractf32x4_ps(a[i], 1));
        _mm_storeu_ps(rows + 8 * pitch, _mm512_extractf32x4_ps(a[i], 2));
        _mm_storeu_ps(rows + 12 * pitch, _mm512_extractf32x4_ps(a[i], 3));
    }
}
/* as vf_store_columns: a row is a line; streams: past the caches, where rows are at multiples of a vector's bytes */
static inline __attribute__((always_inline)) void vf_store_sixteen_columns(float *rows, int64_t pitch, const vf column[16], int streams) {
    vf a[4], b[4], c[4], d[4];
    transpose_pieces(column, a);
    transpose_pieces(column + 4, b);
    transpose_pieces(column + 8, c);
    transpose_pieces(column + 12, d);
    for (int i = 0; i < 4; i++, rows += pitch) {
        const vf x = _mm512_shuffle_f32x4(a[i], b[i], 0x44), y = _mm512_shuffle_f32x4(c[i], d[i], 0x44);
        const vf z = _mm512_shuffle_f32x4(a[i], b[i], 0xee), w = _mm512_shuffle_f32x4(c[i], d[i], 0xee);
        const vf row[4] = {_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd), _mm512_shuffle_f32x4(z, w, 0x88),
                           _mm512_shuffle_f32x4(z, w, 0xdd)};
        for (int k = 0; k < 4; k++) streams ? vf_stream(rows + 4 * k * pitch, row[k]) : vf_store(rows + 4 * k * pitch, row[k]);
    }
}
static inline __attribute__((always_inline)) void vf_store_eight_columns(float *rows, int64_t pitch, const vf column[8]) {
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    vf a[4], b[4];
    transpose_pieces(column, a);
    transpose_pieces(column + 4, b);
    for (int i = 0; i < 4; i++, rows += pitch) {
        const vd x = _mm512_permutex2var_pd(_mm512_castps_pd(a[i]), lower, _mm512_castps_pd(b[i]));
        const vd y = _mm512_permutex2var_pd(_mm512_castps_pd(a[i]), upper, _mm512_castps_pd(b[i]));
        _mm256_storeu_ps(rows, _mm256_castpd_ps(_mm512_castpd512_pd256(x)));
        _mm256_storeu_ps(rows + 4 * pitch, _mm256_castpd_ps(_mm512_extractf64x4_pd(x, 1)));
        _mm256_storeu_ps(rows + 8 * pitch, _mm256_castpd_ps(_mm512_castpd512_pd256(y)));
        _mm256_storeu_ps(rows + 12 * pitch, _mm256_castpd_ps(_mm512_extractf64x4_pd(y, 1)));
    }
}
static inline vd two_rows(const double *row, const double *other) {
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(row)), _mm256_loadu_pd(other), 1);
}
static inline void vd_load_columns(const double *rows, int64_t pitch, vd column[4]) {
    /* a[i]: four columns of rows i and i + 4 */
    vd a[4], x, y, z, w;
    for (int i = 0; i < 4; i++) a[i] = two_rows(rows + i * pitch, rows + (i + 4) * pitch);
    x = _mm512_unpacklo_pd(a[0], a[1]); /* columns 0 and 2 of rows 0 and 1, and of 4 and 5 */
    y = _mm512_unpackhi_pd(a[0], a[1]);
    z = _mm512_unpacklo_pd(a[2], a[3]);
    w = _mm512_unpackhi_pd(a[2], a[3]);
    column[0] = _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), z);
    column[1] = _mm512_permutex2var_pd(y, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), w);
    column[2] = _mm512_permutex2var_pd(x, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), z);
    column[3] = _mm512_permutex2var_pd(y, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), w);
}
static inline void vd_store_columns(double *rows, int64_t pitch, const vd column[4]) {
    vd x = _mm512_unpacklo_pd(column[0], column[1]), y = _mm512_unpackhi_pd(column[0], column[1]); /* rows 0 2 4 6; 1 3 5 7 */
    vd z = _mm512_unpacklo_pd(column[2], column[3]), w = _mm512_unpackhi_pd(column[2], column[3]);
    vd a[4];
    a[0] = _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), z); /* row 0, row 4 */
    a[1] = _mm512_permutex2var_pd(y, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), w);
    a[2] = _mm512_permutex2var_pd(x, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), z);
    a[3] = _mm512_permutex2var_pd(y, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), w);
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_pd(rows + i * pitch, _mm512_castpd512_pd256(a[i]));
        _mm256_storeu_pd(rows + (i + 4) * pitch, _mm512_extractf64x4_pd(a[i], 1));
    }
}

static inline void stream_end(void) { _mm_sfence(); }
/* into the second-level cache: arrays that begin at the same place in a page share the few ways of the first.
 * always inline: gcc 12 takes a call of a function that only prefetches for one that does nothing */
static inline __attribute__((always_inline)) void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

/* vector_find.h's, from the masks of comparisons */
static inline int vf_find_in_eight(const vf a[8], vf b) {
    __mmask16 k[8];
    uint64_t low, high;
    for (int i = 0; i < 8; i++) k[i] = _mm512_cmp_ps_mask(a[i], b, _CMP_EQ_OQ);
    low = _mm512_kunpackd(_mm512_kunpackw(k[3], k[2]), _mm512_kunpackw(k[1], k[0]));
    high = _mm512_kunpackd(_mm512_kunpackw(k[7], k[6]), _mm512_kunpackw(k[5], k[4]));
    return low ? __builtin_ctzll(low) : high ? 64 + __builtin_ctzll(high) : 128;
}
#define VECTOR_FINDS_IN_EIGHT
#include "vector_find.h"

#endif
