/* block.h for float and for double. Included after a vector_*.h. */
#ifndef SOFTMAX_BLOCK_TYPES_H
#define SOFTMAX_BLOCK_TYPES_H

#include <float.h>
#include <stddef.h>

#include "../api_state.h"
#include "../kernels.h"
#include "../numerics/readout.h"
#include "backward_sum.h"
#include "element_vectors.h"
#include "gather.h"
#include "lane_elements.h"
#include "memory.h"
#include "softcap_vectors.h"
#include "term_pipeline.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* The maximum's own term, in the arithmetic of its block. */
static inline term32 term_fast_float(float z, float low, float magic, arithmetic kind) { return term32_near(z, low, magic, kind, z); }
static inline term32 term_far_float(reduced a, int64_t kb, arithmetic kind) { return term32_far(a, kb, kind); }
static ALWAYS_INLINE float size_of_float(float x) { return fabsf(x); }
static inline float term_exponent_float(float z) { return term32_exponent(z); }
static inline float term_floor_float(float kb) { return term32_floor(kb); }
/* ... where a term is 0: 2^(k - kb + SOFTMAX_BIAS) as a float whose exponent is 0. The short polynomials are moved there, by their exponent, and must not be. */
#define NOTHING_FLOOR32 (-131.0f)
static inline float zero_floor_float(float kb, arithmetic kind) {
    return arithmetic_is_short(kind) ? term32_floor(kb) : (kb + NOTHING_FLOOR32) * 0x1.62e430p-1f;
}
static inline uint32_t bits_of_float(float x) { return float_bits(x); }
static inline float two_to_float(int exponent) { return bits_float((uint32_t)(127 + exponent) << 23); }
static inline float unbiased_float(float y) { return bits_float(float_bits(y) - (64u << 23)); }

/* What rows in lanes (lanes.h) are read out for. */
typedef enum lane_want { LANE_FACTOR, LANE_LOG, LANE_LOGSUMEXP } lane_want;

static inline vf exponent_vector_float(vf z) {
    return vf_sub(vf_fma(z, vf_set(TERM32_LOG2E), vf_set(TERM32_MAGIC)), vf_set(TERM32_MAGIC));
}
static inline vf floor_vector_float(vf kb) { return vf_mul(vf_add(kb, vf_set(TERM32_FLOOR)), vf_set(0x1.62e430p-1f)); }
static inline vf zero_floors_float(vf kb, arithmetic kind) {
    return arithmetic_is_short(kind) ? floor_vector_float(kb) : vf_mul(vf_add(kb, vf_set(NOTHING_FLOOR32)), vf_set(0x1.62e430p-1f));
}
static inline vd exponent_vector_double(vd z) {
    return vd_sub(vd_fma(z, vd_set(SOFTMAX_LOG2E), vd_set(SOFTMAX_MAGIC64)), vd_set(SOFTMAX_MAGIC64));
}
static inline vd floor_vector_double(vd kb) { return vd_mul(vd_add(kb, vd_set(TERM64_FLOOR)), vd_set(SOFTMAX_LN2_HI)); }

#define NOTHING_FLOOR64 (-1027.0)
static inline vd zero_floors_double(vd kb, arithmetic kind) {
    (void)kind;
    return vd_mul(vd_add(kb, vd_set(NOTHING_FLOOR64)), vd_set(SOFTMAX_LN2_HI));
}

#define NAME(x) JOIN(x, _float)
#define V(x) JOIN(vf_, x)
#define I(x) JOIN(vi_, x)
#define REAL float
#define BITS uint32_t
#define VECTOR vf
#define INTEGERS vi
#define LANES VF_LANES
#define TERM term32
#define TERM_NOTHING 0x1p-124f
#define MAGIC TERM32_MAGIC
#define HIGH_MAGIC TERM32_HIGH
#define LOW_MAGIC TERM32_LOW
#define SCORE_LIMIT TERM32_WIDE_LIMIT
#define WIDE_FROM TERM32_LIMIT
#define SPREAD TERM32_SPREAD
#define TERMS_APART 0x1p-14f /* terms of scores so far apart keep their order: their errors are below 2^-17, bfloat16 included */
#define FAR_SPREAD 121
#define OUT_BIAS 64
#define FAR_BLOCK (-140)
#define FAR_SHIFT 100
#define LEAST_EXPONENT (-195) /* all of the block is below the smallest normal */
#define SMALLEST_NORMAL 0x1p-126f
#define LARGEST FLT_MAX
#define CANCELLED_LIMIT 0x1p20f /* where 3/4 of the product is larger than the score by that, a pair may be too short for it */
#define NEARLY_LARGEST 0x1p100 /* added to any number it rounds away, or may overflow */
#define REAL_ELEMENT ELEMENT_FLOAT32
#define FMA fmaf
#define SUM_EXPONENT 120
#define LOW_PRODUCT(a, b, product) 0.0
#include "score_vectors.h"
#include "block_top.h"
#include "scores.h"
#include "block_scores.h"
#include "block.h"
#include "block_results.h"
#include "value_pipeline.h"
#include "row_sum.h"
#include "block_walk.h"
#include "forward.h"
#include "lanes.h"
#include "block_batch.h"
#include "lane_scores.h"
#include "short_rows.h"
#include "block_rows.h"
#include "strips.h"
#include "backward_pipeline.h"
#include "backward.h"
#include "backward_strips.h"
#include "cross_entropy.h"
#include "template_end.h"

static inline term64 term_fast_double(double z, double low, double magic, arithmetic kind) {
    (void)kind;
    return term64_fast(z, low, magic);
}
static inline term64 term_far_double(reduced a, int64_t kb, arithmetic kind) {
    (void)kind;
    return term64_far(a, kb);
}
static ALWAYS_INLINE double size_of_double(double x) { return fabs(x); }
static inline double term_exponent_double(double z) { return term64_exponent(z); }
static inline double term_floor_double(double kb) { return term64_floor(kb); }
static inline double zero_floor_double(double kb, arithmetic kind) {
    (void)kind;
    return (kb + NOTHING_FLOOR64) * SOFTMAX_LN2_HI;
}
static inline uint64_t bits_of_double(double x) { return double_bits(x); }
static inline double two_to_double(int exponent) { return bits_double((uint64_t)(1023 + exponent) << 52); }
static inline double unbiased_double(double y) { return bits_double(double_bits(y) - (256ULL << 52)); }

#define NAME(x) JOIN(x, _double)
#define V(x) JOIN(vd_, x)
#define I(x) JOIN(vl_, x)
#define REAL double
#define BITS uint64_t
#define VECTOR vd
#define INTEGERS vl
#define LANES VD_LANES
#define TERM term64
#define TERM_NOTHING 0x1p-1021
#define MAGIC SOFTMAX_MAGIC64
#define HIGH_MAGIC TERM64_HIGH
#define LOW_MAGIC TERM64_LOW
#define SCORE_LIMIT SOFTMAX_DOUBLE_LIMIT
#define WIDE_FROM SOFTMAX_DOUBLE_LIMIT
#define SPREAD TERM64_SPREAD
#define TERMS_APART 0x1p-40
#define FAR_SPREAD 1010
#define OUT_BIAS 256
#define FAR_BLOCK (-1030)
#define FAR_SHIFT 900
#define LEAST_EXPONENT (-1790)
#define SMALLEST_NORMAL 0x1p-1022
#define LARGEST DBL_MAX
#define CANCELLED_LIMIT 0x1p38
#define NEARLY_LARGEST 0x1p968
#define REAL_ELEMENT ELEMENT_FLOAT64
#define FMA fma
#define SUM_EXPONENT 1000
#define LOW_PRODUCT(a, b, product) fma(a, b, -(product))
#include "score_vectors.h"
#include "block_top.h"
#include "scores.h"
#include "block_scores.h"
#include "block.h"
#include "block_results.h"
#include "row_sum.h"
#include "block_walk.h"
#include "forward.h"
#include "lanes.h"
#include "block_batch.h"
#include "lane_scores.h"
#include "short_rows.h"
#include "block_rows.h"
#include "strips.h"
#include "backward.h"
#include "backward_strips.h"
#include "cross_entropy.h"
#include "template_end.h"

#include "lane_readout.h"
#include "plain_rows.h"

#endif
