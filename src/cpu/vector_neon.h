/* vector_portable.h's operations for NEON on 64-bit Arm. */
#ifndef SOFTMAX_VECTOR_NEON_H
#define SOFTMAX_VECTOR_NEON_H

#include <arm_neon.h>
#include <float.h>

#include "../numerics/half.h"

#define VECTOR_NAME "neon"
#define VF_LANES 4
#define VD_LANES 2

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef float64x2_t vd;
typedef uint64x2_t vl;
typedef uint32x4_t vm;

static inline vf vf_set(float x) { return vdupq_n_f32(x); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_stream(float *p, vf a) { vst1q_f32(p, a); } /* C has no intrinsic for stnp */
static inline vf vf_load_part(const float *p, int count, float fill) {
    float lane[VF_LANES] = {fill, fill, fill, fill};
    for (int i = 0; i < count; i++) lane[i] = p[i];
    return vld1q_f32(lane);
}
static inline void vf_store_part(float *p, int count, vf a) {
    float lane[VF_LANES];
    vst1q_f32(lane, a);
    for (int i = 0; i < count; i++) p[i] = lane[i];
}
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_fms(vf a, vf b, vf c) { return vfmaq_f32(vnegq_f32(c), a, b); }
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_raise(vf y, vf cut, vf most) { return vbslq_f32(vcgeq_f32(y, cut), most, y); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_power(vf t) {
    return vreinterpretq_f32_u32(vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23), vdupq_n_u32(127u << 23)));
}
static inline vf vf_move_exponent(vf p, vf t) {
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
}
static inline vf vf_unbias(vf y, vf threshold, int exponent) {
    uint32x4_t bits = vsubq_u32(vreinterpretq_u32_f32(y), vdupq_n_u32((uint32_t)exponent << 23));
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(vabsq_f32(y), threshold), bits));
}
static inline vf vf_keep_from(vf z, vf limit, vf a) {
    return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(z, limit), vreinterpretq_u32_f32(a)));
}
static inline vf vf_lower(vf a, vf b) { return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b))); }
static inline vf vf_most_bits(vf a, vf b) { return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b))); }
static inline vf vf_most_negated(vf a, vf b) {
    return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vsubq_u32(vdupq_n_u32(0), vreinterpretq_u32_f32(b))));
}
static inline vf vf_held(vf a) { return a; }
static inline vm vf_ordered(void) { return vdupq_n_u32(~0u); }
static inline vm vf_still_ordered(vm m, vf a, vf b) { return vandq_u32(m, vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))); }
static inline int vf_all_ordered(vm m) { return vminvq_u32(m) != 0; }
static inline vf vf_unbias_positive(vf y, vf threshold, int exponent) { return vf_unbias(y, threshold, exponent); }
static inline int vf_find(vf a, vf b) {
    float x[VF_LANES], y[VF_LANES];
    vf_store(x, a);
    vf_store(y, b);
    for (int i = 0; i < VF_LANES; i++)
        if (x[i] == y[i]) return i;
    return VF_LANES;
}
static inline vf vf_swap(vf a, int step) { return step == 2 ? vextq_f32(a, a, 2) : vrev64q_f32(a); }
static inline float vf_first(vf a) { return vgetq_lane_f32(a, 0); }
static inline vi vi_zero(void) { return vdupq_n_u32(0); }
static inline vi vi_add_bits(vi a, vf b) { return vaddq_u32(a, vreinterpretq_u32_f32(b)); }
static inline uint32_t vi_sum(vi a) { return vaddvq_u32(a); }
static inline vm vm_none(void) { return vdupq_n_u32(0); }
static inline vm vf_or_nan(vm m, vf a) { return vorrq_u32(m, vmvnq_u32(vceqq_f32(a, a))); }
static inline int vm_any(vm m) { return vmaxvq_u32(m) != 0; }
static inline vf vf_load_bfloat16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
static inline vf vf_load_float16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
/* to nearest even; below 2^-126 +0; NaN the positive quiet one */
static inline void vf_store_bfloat16(uint16_t *p, vf a) {
    uint32x4_t bits = vreinterpretq_u32_f32(a);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
    rounded = vandq_u32(rounded, vcgeq_f32(vabsq_f32(a), vdupq_n_f32(0x1p-126f)));
    vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(a, a), rounded, vdupq_n_u32(0x7fc0))));
}
static inline void vf_store_float16(uint16_t *p, vf a) {
    uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(a));
    half = vbic_u16(half, vceq_u16(half, vdup_n_u16(0x8000))); /* zeros are positive */
    vst1_u16(p, vbsl_u16(vmovn_u32(vceqq_f32(a, a)), half, vdup_n_u16(0x7e00)));
}
static inline void vf_store_bfloat16_positive(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_bfloat16_positive(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_bfloat16(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_float16(uint16_t *p, vf a) { vf_store_float16(p, a); }

static inline vd vd_set(double x) { return vdupq_n_f64(x); }
static inline vd vd_load(const double *p) { return vld1q_f64(p); }
static inline void vd_store(double *p, vd a) { vst1q_f64(p, a); }
static inline void vd_stream(double *p, vd a) { vst1q_f64(p, a); }
static inline vd vd_load_part(const double *p, int count, double fill) {
    double lane[VD_LANES] = {fill, fill};
    for (int i = 0; i < count; i++) lane[i] = p[i];
    return vld1q_f64(lane);
}
static inline void vd_store_part(double *p, int count, vd a) {
    double lane[VD_LANES];
    vst1q_f64(lane, a);
    for (int i = 0; i < count; i++) p[i] = lane[i];
}
static inline vd vd_add(vd a, vd b) { return vaddq_f64(a, b); }
static inline vd vd_sub(vd a, vd b) { return vsubq_f64(a, b); }
static inline vd vd_mul(vd a, vd b) { return vmulq_f64(a, b); }
static inline vd vd_fma(vd a, vd b, vd c) { return vfmaq_f64(c, a, b); }
static inline vd vd_fms(vd a, vd b, vd c) { return vfmaq_f64(vnegq_f64(c), a, b); }
static inline vd vd_add_exact_product(vd a, vd b, vd c) { return vd_fma(a, b, c); }
static inline vd vd_max(vd a, vd b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
static inline vd vd_min(vd a, vd b) { return vbslq_f64(vcltq_f64(a, b), a, b); }
static inline vd vd_raise(vd y, vd cut, vd most) { return vbslq_f64(vcgeq_f64(y, cut), most, y); }
static inline vd vd_abs(vd a) { return vabsq_f64(a); }
static inline vd vd_power(vd t) {
    return vreinterpretq_f64_u64(vaddq_u64(vshlq_n_u64(vreinterpretq_u64_f64(t), 52), vdupq_n_u64(1023ULL << 52)));
}
static inline vd vd_unbias(vd y, vd threshold, int exponent) {
    uint64x2_t bits = vsubq_u64(vreinterpretq_u64_f64(y), vdupq_n_u64((uint64_t)exponent << 52));
    return vreinterpretq_f64_u64(vandq_u64(vcgeq_f64(vabsq_f64(y), threshold), bits));
}
static inline vd vd_keep_from(vd z, vd limit, vd a) {
    return vreinterpretq_f64_u64(vandq_u64(vcgeq_f64(z, limit), vreinterpretq_u64_f64(a)));
}
static inline vd vd_lower(vd a, vd b) { return vd_min(a, b); }
static inline vd vd_held(vd a) { return a; }
static inline vm vd_ordered(void) { return vf_ordered(); }
static inline vm vd_still_ordered(vm m, vd a, vd b) {
    return vandq_u32(m, vreinterpretq_u32_u64(vandq_u64(vceqq_f64(a, a), vceqq_f64(b, b))));
}
static inline int vd_all_ordered(vm m) { return vf_all_ordered(m); }
static inline vd vd_unbias_positive(vd y, vd threshold, int exponent) { return vd_unbias(y, threshold, exponent); }
static inline int vd_find(vd a, vd b) {
    double x[VD_LANES], y[VD_LANES];
    vd_store(x, a);
    vd_store(y, b);
    for (int i = 0; i < VD_LANES; i++)
        if (x[i] == y[i]) return i;
    return VD_LANES;
}
static inline vd vd_swap(vd a, int step) {
    (void)step;
    return vextq_f64(a, a, 1);
}
static inline double vd_first(vd a) { return vgetq_lane_f64(a, 0); }
static inline vl vl_zero(void) { return vdupq_n_u64(0); }
static inline vl vl_add_bits(vl a, vd b) { return vaddq_u64(a, vreinterpretq_u64_f64(b)); }
static inline uint64_t vl_sum(vl a) { return vaddvq_u64(a); }
static inline vm vd_or_nan(vm m, vd a) {
    return vorrq_u32(m, vmvnq_u32(vreinterpretq_u32_u64(vceqq_f64(a, a))));
}
static inline vd vd_load_float(const float *p) { return vcvt_f64_f32(vld1_f32(p)); }
static inline void vd_store_float(float *p, vd a) { vst1_f32(p, vcvt_f32_f64(a)); }

static inline vm vf_or_at_least(vm m, vf a, vf b) { return vorrq_u32(m, vcgeq_f32(a, b)); }
static inline vm vd_or_at_least(vm m, vd a, vd b) { return vorrq_u32(m, vreinterpretq_u32_u64(vcgeq_f64(a, b))); }
static inline vf vf_select(vf a, vf limit, vf yes, vf no) { return vbslq_f32(vcgeq_f32(a, limit), yes, no); }
static inline vd vd_select(vd a, vd limit, vd yes, vd no) { return vbslq_f64(vcgeq_f64(a, limit), yes, no); }
static inline vf vf_add_if_finite(vf test, vf a, vf b) { return vbslq_f32(vcaleq_f32(test, vdupq_n_f32(FLT_MAX)), vaddq_f32(a, b), a); }
static inline vd vd_add_if_finite(vd test, vd a, vd b) { return vbslq_f64(vcaleq_f64(test, vdupq_n_f64(DBL_MAX)), vaddq_f64(a, b), a); }
static inline vf vf_masked(vf a, const uint8_t *mask) {
    uint32_t four;
    memcpy(&four, mask, sizeof four);
    uint32x4_t lanes = vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)))));
    return vbslq_f32(vceqq_u32(lanes, vdupq_n_u32(0)), vdupq_n_f32(-INFINITY), a);
}
static inline vd vd_masked(vd a, const uint8_t *mask) {
    uint64x2_t lanes = {mask[0], mask[1]};
    return vbslq_f64(vceqq_u64(lanes, vdupq_n_u64(0)), vdupq_n_f64(-(double)INFINITY), a);
}
static inline vf vf_max_seen(vf m, const float *p, const uint8_t *mask, vf *z) {
    uint32_t four;
    memcpy(&four, mask, sizeof four);
    uint32x4_t unseen = vceqq_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))), vdupq_n_u32(0));
    *z = vbslq_f32(unseen, vdupq_n_f32(0.0f), vf_load(p));
    return vbslq_f32(unseen, m, vf_max(m, *z));
}
static inline vd vd_max_seen(vd m, const double *p, const uint8_t *mask, vd *z) {
    uint64x2_t lanes = {mask[0], mask[1]}, unseen = vceqq_u64(lanes, vdupq_n_u64(0));
    *z = vbslq_f64(unseen, vdupq_n_f64(0.0), vd_load(p));
    return vbslq_f64(unseen, m, vd_max(m, *z));
}
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vd vd_div(vd a, vd b) { return vdivq_f64(a, b); }
static inline vd vd_log2_floor(vd a) { return vsubq_f64(vcvtq_f64_u64(vshrq_n_u64(vreinterpretq_u64_f64(a), 52)), vdupq_n_f64(1023.0)); }
static inline vi vi_set(uint32_t x) { return vdupq_n_u32(x); }
static inline vl vl_set(uint64_t x) { return vdupq_n_u64(x); }
static inline vi vi_add(vi a, vi b) { return vaddq_u32(a, b); }
static inline vl vl_add(vl a, vl b) { return vaddq_u64(a, b); }
static inline vi vi_sub(vi a, vi b) { return vsubq_u32(a, b); }
static inline vl vl_sub(vl a, vl b) { return vsubq_u64(a, b); }
static inline void vi_store(uint32_t *p, vi a) { vst1q_u32(p, a); }
static inline void vl_store(uint64_t *p, vl a) { vst1q_u64(p, a); }
static inline vi vi_load(const uint32_t *p) { return vld1q_u32(p); }
static inline vl vl_load(const uint64_t *p) { return vld1q_u64(p); }
static inline vd vd_of_integers(vi a, int half) {
    int32x4_t b = vreinterpretq_s32_u32(a);
    return vcvtq_f64_s64(vmovl_s32(half ? vget_high_s32(b) : vget_low_s32(b)));
}
static inline vd vd_of_floats(vf a, int half) { return half ? vcvt_high_f64_f32(a) : vcvt_f64_f32(vget_low_f32(a)); }
static inline vf vf_of_doubles(vd lower, vd upper) { return vcvt_high_f32_f64(vcvt_f32_f64(lower), upper); }
static inline void transpose_floats(const vf a[4], vf b[4]) {
    vf x = vzip1q_f32(a[0], a[2]), y = vzip2q_f32(a[0], a[2]), z = vzip1q_f32(a[1], a[3]), w = vzip2q_f32(a[1], a[3]);
    b[0] = vzip1q_f32(x, z);
    b[1] = vzip2q_f32(x, z);
    b[2] = vzip1q_f32(y, w);
    b[3] = vzip2q_f32(y, w);
}
static inline void vf_load_columns(const float *rows, int64_t pitch, vf column[4]) {
    vf a[4] = {vld1q_f32(rows), vld1q_f32(rows + pitch), vld1q_f32(rows + 2 * pitch), vld1q_f32(rows + 3 * pitch)};
    transpose_floats(a, column);
}
static inline void vf_store_columns(float *rows, int64_t pitch, const vf column[4]) {
    vf a[4];
    transpose_floats(column, a);
    for (int i = 0; i < 4; i++) vst1q_f32(rows + i * pitch, a[i]);
}
static inline void vd_load_columns(const double *rows, int64_t pitch, vd column[4]) {
    for (int j = 0; j < 4; j += 2) {
        vd a = vld1q_f64(rows + j), b = vld1q_f64(rows + pitch + j);
        column[j] = vzip1q_f64(a, b);
        column[j + 1] = vzip2q_f64(a, b);
    }
}
static inline void vd_store_columns(double *rows, int64_t pitch, const vd column[4]) {
    for (int j = 0; j < 4; j += 2) {
        vst1q_f64(rows + j, vzip1q_f64(column[j], column[j + 1]));
        vst1q_f64(rows + pitch + j, vzip2q_f64(column[j], column[j + 1]));
    }
}

static inline void stream_end(void) {}
/* always inline: gcc 12 takes a call of a function that only prefetches for one that does nothing */
static inline __attribute__((always_inline)) void prefetch_line(const void *p) { __builtin_prefetch(p, 0, 2); }

#include "vector_find.h"

#endif
