/* float (results float32 and 16-bit) and double: the constants and the terms that kernels are templates over. */
#ifndef SOFTMAX_CUDA_REAL_CUH
#define SOFTMAX_CUDA_REAL_CUH

#include <float.h>

#include "../numerics/readout.h"
#include "../numerics/state.h"

template <typename REAL> struct real;

template <> struct real<float> {
    typedef uint32_t bits;
    typedef term32 term;
    static const int out_bias = 64, far_spread = 121, far_block = -140, far_shift = 100, least_exponent = -195;
    static const element its_element = ELEMENT_FLOAT32;
    static __device__ float limit() { return TERM32_WIDE_LIMIT; }
    static __device__ float spread() { return TERM32_SPREAD; }
    static __device__ float smallest() { return 0x1p-126f; }
    static __device__ float largest() { return FLT_MAX; }
    static __device__ float cancelled_limit() { return 0x1p20f; }
    static __device__ bool is_wild(double scale) { return score_scale_is_wild(scale); }
    static __device__ float infinity() { return bits_float(0x7f800000u); }
    static __device__ float nan() { return bits_float(0x7fc00000u); }
    static __device__ float magic() { return TERM32_MAGIC; }
    static __device__ float nothing() { return 0x1p-124f; }
    static __device__ float exponent(float z) { return term32_exponent(z); }
    static __device__ float floor_of(float kb) { return term32_floor(kb); }
    static __device__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
    static __device__ float size_of(float x) { return fabsf(x); }
    static __device__ float two_to(int e) { return bits_float((uint32_t)(127 + e) << 23); }
    static __device__ float unbiased(float y) { return bits_float(float_bits(y) - (64u << 23)); }
    static __device__ term32 near(float z, float low, float magic, arithmetic kind, float maximum) {
        return term32_near(z, low, magic, kind, maximum);
    }
    static __device__ term32 far(reduced a, int64_t kb, arithmetic kind) { return term32_far(a, kb, kind); }
};

template <> struct real<double> {
    typedef uint64_t bits;
    typedef term64 term;
    static const int out_bias = 256, far_spread = 1010, far_block = -1030, far_shift = 900, least_exponent = -1790;
    static const element its_element = ELEMENT_FLOAT64;
    static __device__ double limit() { return SOFTMAX_DOUBLE_LIMIT; }
    static __device__ double spread() { return TERM64_SPREAD; }
    static __device__ double smallest() { return 0x1p-1022; }
    static __device__ double largest() { return DBL_MAX; }
    static __device__ double cancelled_limit() { return 0x1p38; }
    static __device__ bool is_wild(double) { return false; }
    static __device__ double infinity() { return bits_double(0x7ff0000000000000ULL); }
    static __device__ double nan() { return bits_double(0x7ff8000000000000ULL); }
    static __device__ double magic() { return SOFTMAX_MAGIC64; }
    static __device__ double nothing() { return 0x1p-1021; }
    static __device__ double exponent(double z) { return term64_exponent(z); }
    static __device__ double floor_of(double kb) { return term64_floor(kb); }
    static __device__ double fused(double a, double b, double c) { return fma(a, b, c); }
    static __device__ double size_of(double x) { return fabs(x); }
    static __device__ double two_to(int e) { return bits_double((uint64_t)(1023 + e) << 52); }
    static __device__ double unbiased(double y) { return bits_double(double_bits(y) - (256ULL << 52)); }
    static __device__ term64 near(double z, double low, double magic, arithmetic kind, double maximum) {
        (void)kind, (void)maximum;
        return term64_fast(z, low, magic);
    }
    static __device__ term64 far(reduced a, int64_t kb, arithmetic kind) {
        (void)kind;
        return term64_far(a, kb);
    }
};

#endif
