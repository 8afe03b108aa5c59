/* Vectors of plain C: what every other vector_*.h must equal, lane by lane.
 * vf: floats, vi: their bits as integers, vd and vl the same of 64 bits, vm: a mask that is only ever gathered. The *_part forms touch
 * `count` elements of memory and no more; the missing lanes are `fill`. The stream forms store past the cache, to addresses that are
 * multiples of what they store; stream_end() comes before another thread may look, and before a call returns. */
#ifndef SOFTMAX_VECTOR_PORTABLE_H
#define SOFTMAX_VECTOR_PORTABLE_H

#include "../numerics/half.h"

#define VECTOR_NAME "portable"
#define VECTOR_CALLS /* structs of lanes are slow to compile into long pieces of code, and to run there */
#define VF_LANES 4
#define VD_LANES 2

typedef struct vf { float lane[VF_LANES]; } vf;
typedef struct vi { uint32_t lane[VF_LANES]; } vi;
typedef struct vd { double lane[VD_LANES]; } vd;
typedef struct vl { uint64_t lane[VD_LANES]; } vl;
typedef int vm;

#define LANES_F for (int i = 0; i < VF_LANES; i++)
#define LANES_D for (int i = 0; i < VD_LANES; i++)

/* Of what holds calls itself: gcc 12, once it has inlined much already, calls it, with structs through memory, and takes 1.3 times as long. */
#define LANES_FN static inline __attribute__((always_inline))

static inline vf vf_set(float x) { vf r; LANES_F r.lane[i] = x; return r; }
static inline vf vf_load(const float *p) { vf r; LANES_F r.lane[i] = p[i]; return r; }
static inline vf vf_load_part(const float *p, int count, float fill) { vf r; LANES_F r.lane[i] = i < count ? p[i] : fill; return r; }
static inline void vf_store(float *p, vf a) { LANES_F p[i] = a.lane[i]; }
static inline void vf_stream(float *p, vf a) { vf_store(p, a); }
static inline void vf_store_part(float *p, int count, vf a) { LANES_F if (i < count) p[i] = a.lane[i]; }
static inline vf vf_add(vf a, vf b) { LANES_F a.lane[i] += b.lane[i]; return a; }
static inline vf vf_sub(vf a, vf b) { LANES_F a.lane[i] -= b.lane[i]; return a; }
static inline vf vf_mul(vf a, vf b) { LANES_F a.lane[i] *= b.lane[i]; return a; }
LANES_FN vf vf_fma(vf a, vf b, vf c) { LANES_F a.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]); return a; }
LANES_FN vf vf_fms(vf a, vf b, vf c) { LANES_F a.lane[i] = fmaf(a.lane[i], b.lane[i], -c.lane[i]); return a; }
static inline vf vf_max(vf a, vf b) { LANES_F a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; return a; }
static inline vf vf_min(vf a, vf b) { LANES_F a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; return a; }
/* `most` where y >= cut, else y */
static inline vf vf_raise(vf y, vf cut, vf most) { LANES_F y.lane[i] = y.lane[i] >= cut.lane[i] ? most.lane[i] : y.lane[i]; return y; }
static inline vf vf_abs(vf a) { LANES_F a.lane[i] = fabsf(a.lane[i]); return a; }
/* 2^j from the low bits of t = TERM32_MAGIC + j */
static inline vf vf_power(vf t) { LANES_F t.lane[i] = bits_float((float_bits(t.lane[i]) << 23) + (127u << 23)); return t; }
/* p 2^j, j as for vf_power, where nothing overflows or gets subnormal */
static inline vf vf_move_exponent(vf p, vf t) {
    LANES_F p.lane[i] = bits_float(float_bits(p.lane[i]) + (float_bits(t.lane[i]) << 23));
    return p;
}
/* y 2^-exponent where |y| >= threshold, else +0 */
static inline vf vf_unbias(vf y, vf threshold, int exponent) {
    LANES_F y.lane[i] = fabsf(y.lane[i]) >= threshold.lane[i] ? bits_float(float_bits(y.lane[i]) - ((uint32_t)exponent << 23)) : 0.0f;
    return y;
}
/* a where z >= limit, else 0 */
static inline vf vf_keep_from(vf z, vf limit, vf a) { LANES_F a.lane[i] = z.lane[i] >= limit.lane[i] ? a.lane[i] : 0.0f; return a; }
/* the least of a and b if one of them is negative, else any of them: by integers where those are faster */
static inline vf vf_lower(vf a, vf b) { return vf_min(a, b); }
/* the larger of both as unsigned bits; of a's, and 0 less b's */
static inline vf vf_most_bits(vf a, vf b) { LANES_F a.lane[i] = float_bits(b.lane[i]) > float_bits(a.lane[i]) ? b.lane[i] : a.lane[i]; return a; }
static inline vf vf_most_negated(vf a, vf b) {
    LANES_F if (0u - float_bits(b.lane[i]) > float_bits(a.lane[i])) a.lane[i] = bits_float(0u - float_bits(b.lane[i]));
    return a;
}
/* kept in a register: not to be loaded once for each use */
static inline vf vf_held(vf a) { return a; }
/* masks of the lanes in which there was no NaN */
static inline vm vf_ordered(void) { return 1; }
static inline vm vf_still_ordered(vm m, vf a, vf b) { LANES_F m &= a.lane[i] == a.lane[i] && b.lane[i] == b.lane[i]; return m; }
static inline int vf_all_ordered(vm m) { return m; }
/* unbias where y is positive: by integers where those are faster */
static inline vf vf_unbias_positive(vf y, vf threshold, int exponent) { return vf_unbias(y, threshold, exponent); }
/* the first lane in which they are equal, or the number of lanes */
static inline int vf_find(vf a, vf b) { int i = 0; while (i < VF_LANES && a.lane[i] != b.lane[i]) i++; return i; }
/* lane i from lane i ^ step, step a power of two */
static inline vf vf_swap(vf a, int step) { vf r; LANES_F r.lane[i] = a.lane[i ^ step]; return r; }
static inline float vf_first(vf a) { return a.lane[0]; }
static inline vi vi_zero(void) { vi r; LANES_F r.lane[i] = 0; return r; }
static inline vi vi_add_bits(vi a, vf b) { LANES_F a.lane[i] += float_bits(b.lane[i]); return a; }
static inline uint32_t vi_sum(vi a) { uint32_t s = 0; LANES_F s += a.lane[i]; return s; }
static inline vm vm_none(void) { return 0; }
static inline vm vf_or_nan(vm m, vf a) { LANES_F m |= a.lane[i] != a.lane[i]; return m; }
static inline int vm_any(vm m) { return m; }
static inline vf vf_load_bfloat16(const uint16_t *p) { vf r; LANES_F r.lane[i] = widen_bfloat16(p[i]); return r; }
static inline vf vf_load_float16(const uint16_t *p) { vf r; LANES_F r.lane[i] = widen_float16(p[i]); return r; }
static inline void vf_store_bfloat16(uint16_t *p, vf a) { LANES_F p[i] = round_to_bfloat16(a.lane[i]); }
static inline void vf_store_float16(uint16_t *p, vf a) { LANES_F { uint16_t h = round_to_float16(a.lane[i]); p[i] = h == 0x8000 ? 0 : h; } }
static inline void vf_store_bfloat16_positive(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_bfloat16_positive(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_bfloat16(uint16_t *p, vf a) { vf_store_bfloat16(p, a); }
static inline void vf_stream_float16(uint16_t *p, vf a) { vf_store_float16(p, a); }

static inline vd vd_set(double x) { vd r; LANES_D r.lane[i] = x; return r; }
static inline vd vd_load(const double *p) { vd r; LANES_D r.lane[i] = p[i]; return r; }
static inline vd vd_load_part(const double *p, int count, double fill) { vd r; LANES_D r.lane[i] = i < count ? p[i] : fill; return r; }
static inline void vd_store(double *p, vd a) { LANES_D p[i] = a.lane[i]; }
static inline void vd_stream(double *p, vd a) { vd_store(p, a); }
static inline void vd_store_part(double *p, int count, vd a) { LANES_D if (i < count) p[i] = a.lane[i]; }
static inline vd vd_add(vd a, vd b) { LANES_D a.lane[i] += b.lane[i]; return a; }
static inline vd vd_sub(vd a, vd b) { LANES_D a.lane[i] -= b.lane[i]; return a; }
static inline vd vd_mul(vd a, vd b) { LANES_D a.lane[i] *= b.lane[i]; return a; }
LANES_FN vd vd_fma(vd a, vd b, vd c) { LANES_D a.lane[i] = fma(a.lane[i], b.lane[i], c.lane[i]); return a; }
LANES_FN vd vd_fms(vd a, vd b, vd c) { LANES_D a.lane[i] = fma(a.lane[i], b.lane[i], -c.lane[i]); return a; }
/* a b + c where a b is exact */
static inline vd vd_add_exact_product(vd a, vd b, vd c) { LANES_D a.lane[i] = a.lane[i] * b.lane[i] + c.lane[i]; return a; }
static inline vd vd_max(vd a, vd b) { LANES_D a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; return a; }
static inline vd vd_min(vd a, vd b) { LANES_D a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; return a; }
static inline vd vd_raise(vd y, vd cut, vd most) { LANES_D y.lane[i] = y.lane[i] >= cut.lane[i] ? most.lane[i] : y.lane[i]; return y; }
static inline vd vd_abs(vd a) { LANES_D a.lane[i] = fabs(a.lane[i]); return a; }
static inline vd vd_power(vd t) { LANES_D t.lane[i] = bits_double((double_bits(t.lane[i]) << 52) + (1023ULL << 52)); return t; }
static inline vd vd_unbias(vd y, vd threshold, int exponent) {
    LANES_D y.lane[i] = fabs(y.lane[i]) >= threshold.lane[i] ? bits_double(double_bits(y.lane[i]) - ((uint64_t)exponent << 52)) : 0.0;
    return y;
}
static inline vd vd_keep_from(vd z, vd limit, vd a) { LANES_D a.lane[i] = z.lane[i] >= limit.lane[i] ? a.lane[i] : 0.0; return a; }
static inline vd vd_lower(vd a, vd b) { return vd_min(a, b); }
static inline vd vd_held(vd a) { return a; }
static inline vm vd_ordered(void) { return 1; }
static inline vm vd_still_ordered(vm m, vd a, vd b) { LANES_D m &= a.lane[i] == a.lane[i] && b.lane[i] == b.lane[i]; return m; }
static inline int vd_all_ordered(vm m) { return m; }
static inline vd vd_unbias_positive(vd y, vd threshold, int exponent) { return vd_unbias(y, threshold, exponent); }
static inline int vd_find(vd a, vd b) { int i = 0; while (i < VD_LANES && a.lane[i] != b.lane[i]) i++; return i; }
static inline vd vd_swap(vd a, int step) { vd r; LANES_D r.lane[i] = a.lane[i ^ step]; return r; }
static inline double vd_first(vd a) { return a.lane[0]; }
static inline vl vl_zero(void) { vl r; LANES_D r.lane[i] = 0; return r; }
static inline vl vl_add_bits(vl a, vd b) { LANES_D a.lane[i] += double_bits(b.lane[i]); return a; }
static inline uint64_t vl_sum(vl a) { uint64_t s = 0; LANES_D s += a.lane[i]; return s; }
static inline vm vd_or_nan(vm m, vd a) { LANES_D m |= a.lane[i] != a.lane[i]; return m; }
static inline vd vd_load_float(const float *p) { vd r; LANES_D r.lane[i] = p[i]; return r; }
static inline void vd_store_float(float *p, vd a) { LANES_D p[i] = (float)a.lane[i]; }

/* For rows in lanes (lanes.h), where every lane has a row of its own. */
static inline vm vf_or_at_least(vm m, vf a, vf b) { LANES_F m |= a.lane[i] >= b.lane[i]; return m; }
static inline vm vd_or_at_least(vm m, vd a, vd b) { LANES_D m |= a.lane[i] >= b.lane[i]; return m; }
/* yes where a >= limit, else no */
static inline vf vf_select(vf a, vf limit, vf yes, vf no) { LANES_F yes.lane[i] = a.lane[i] >= limit.lane[i] ? yes.lane[i] : no.lane[i]; return yes; }
static inline vd vd_select(vd a, vd limit, vd yes, vd no) { LANES_D yes.lane[i] = a.lane[i] >= limit.lane[i] ? yes.lane[i] : no.lane[i]; return yes; }
/* a + b where test is neither NaN nor infinite, else a */
static inline vf vf_add_if_finite(vf test, vf a, vf b) { LANES_F a.lane[i] += test.lane[i] - test.lane[i] == 0 ? b.lane[i] : 0.0f; return a; }
static inline vd vd_add_if_finite(vd test, vd a, vd b) { LANES_D a.lane[i] += test.lane[i] - test.lane[i] == 0 ? b.lane[i] : 0.0; return a; }
/* a where the lane's byte is not 0, else -inf */
static inline vf vf_masked(vf a, const uint8_t *mask) { LANES_F a.lane[i] = mask[i] ? a.lane[i] : -INFINITY; return a; }
static inline vd vd_masked(vd a, const uint8_t *mask) { LANES_D a.lane[i] = mask[i] ? a.lane[i] : -(double)INFINITY; return a; }
/* *z: what the mask leaves at p, else 0; the larger of m and it, m where the mask is zero */
#define MAX_SEEN(vector, real, EACH_LANE)                                                                                      \
    static inline vector vector##_max_seen(vector m, const real *p, const uint8_t *mask, vector *z) {                          \
        vector x = vector##_load(p);                                                                                           \
        EACH_LANE z->lane[i] = mask[i] ? x.lane[i] : 0;                                                                        \
        x = vector##_max(m, *z);                                                                                               \
        EACH_LANE x.lane[i] = mask[i] ? x.lane[i] : m.lane[i];                                                                 \
        return x;                                                                                                              \
    }
MAX_SEEN(vf, float, LANES_F)
MAX_SEEN(vd, double, LANES_D)
#undef MAX_SEEN
static inline vf vf_div(vf a, vf b) { LANES_F a.lane[i] /= b.lane[i]; return a; }
static inline vd vd_div(vd a, vd b) { LANES_D a.lane[i] /= b.lane[i]; return a; }
/* floor(log2 a) of positive normal numbers */
static inline vd vd_log2_floor(vd a) { LANES_D a.lane[i] = (double)((int)(double_bits(a.lane[i]) >> 52) - 1023); return a; }
static inline vi vi_set(uint32_t x) { vi r; LANES_F r.lane[i] = x; return r; }
static inline vl vl_set(uint64_t x) { vl r; LANES_D r.lane[i] = x; return r; }
static inline vi vi_add(vi a, vi b) { LANES_F a.lane[i] += b.lane[i]; return a; }
static inline vl vl_add(vl a, vl b) { LANES_D a.lane[i] += b.lane[i]; return a; }
static inline vi vi_sub(vi a, vi b) { LANES_F a.lane[i] -= b.lane[i]; return a; }
static inline vl vl_sub(vl a, vl b) { LANES_D a.lane[i] -= b.lane[i]; return a; }
static inline void vi_store(uint32_t *p, vi a) { LANES_F p[i] = a.lane[i]; }
static inline void vl_store(uint64_t *p, vl a) { LANES_D p[i] = a.lane[i]; }
static inline vi vi_load(const uint32_t *p) { vi r; LANES_F r.lane[i] = p[i]; return r; }
static inline vl vl_load(const uint64_t *p) { vl r; LANES_D r.lane[i] = p[i]; return r; }
/* the lower (half 0) or upper half of the lanes as doubles; vi's lanes are signed */
static inline vd vd_of_integers(vi a, int half) { vd r; LANES_D r.lane[i] = (double)(int32_t)a.lane[half * VD_LANES + i]; return r; }
static inline vd vd_of_floats(vf a, int half) { vd r; LANES_D r.lane[i] = (double)a.lane[half * VD_LANES + i]; return r; }
static inline vf vf_of_doubles(vd lower, vd upper) {
    vf r;
    LANES_D r.lane[i] = (float)lower.lane[i], r.lane[VD_LANES + i] = (float)upper.lane[i];
    return r;
}
/* Four columns of as many rows as there are lanes, `pitch` elements apart; and back. */
static inline void vf_load_columns(const float *rows, int64_t pitch, vf column[4]) {
    for (int j = 0; j < 4; j++) LANES_F column[j].lane[i] = rows[i * pitch + j];
}
static inline void vf_store_columns(float *rows, int64_t pitch, const vf column[4]) {
    LANES_F for (int j = 0; j < 4; j++) rows[i * pitch + j] = column[j].lane[i];
}
static inline void vd_load_columns(const double *rows, int64_t pitch, vd column[4]) {
    for (int j = 0; j < 4; j++) LANES_D column[j].lane[i] = rows[i * pitch + j];
}
static inline void vd_store_columns(double *rows, int64_t pitch, const vd column[4]) {
    LANES_D for (int j = 0; j < 4; j++) rows[i * pitch + j] = column[j].lane[i];
}

static inline void stream_end(void) {}
/* the cache line of p, which need not be readable, is wanted soon */
/* always inline: gcc 12 takes a call of a function that only prefetches for one that does nothing */
static inline __attribute__((always_inline)) void prefetch_line(const void *p) { __builtin_prefetch(p, 0, 2); }

#include "vector_find.h"

#endif
