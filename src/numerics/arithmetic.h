/* The few operations that every result is made of: IEEE add, subtract, multiply, divide, fma and bit moves.
 * C that CUDA compiles too; everything in this folder includes only this folder and C's own headers.
 * Compile with contraction off (-ffp-contract=off; nvcc: --fmad=false --ftz=false --prec-div=true). */
#ifndef SOFTMAX_NUMERICS_ARITHMETIC_H
#define SOFTMAX_NUMERICS_ARITHMETIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__)
#error "libsoftmax is exact arithmetic: compile it without -ffast-math"
#endif

#if defined(__CUDACC__)
#define SOFTMAX_FN static __host__ __device__ __forceinline__
#define SOFTMAX_FN_APART static inline __host__ __device__ __noinline__ /* rare: kernels get a call */
#else
#define SOFTMAX_FN static inline
#define SOFTMAX_FN_APART static inline
#endif

SOFTMAX_FN uint32_t float_bits(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

SOFTMAX_FN float bits_float(uint32_t bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

SOFTMAX_FN uint64_t double_bits(double x) {
#if defined(__CUDA_ARCH__)
    return (uint64_t)__double_as_longlong(x);
#else
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

SOFTMAX_FN double bits_double(uint64_t bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double((long long)bits);
#else
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

/* x 2^exponent. Exact while the result is normal; results below 2^-1022 may be 0. */
SOFTMAX_FN double scale_by_power(double x, int64_t exponent) {
    const double up = 0x1p1000, down = 0x1p-1000;
    if (exponent >= -1000 && exponent <= 1000) return x * bits_double((uint64_t)(1023 + exponent) << 52);
    if (exponent > 3300) exponent = 3300;
    if (exponent < -3300) exponent = -3300;
    while (exponent > 1000) {
        x *= up;
        exponent -= 1000;
    }
    while (exponent < -1000) {
        x *= down;
        exponent += 1000;
    }
    return x * bits_double((uint64_t)(1023 + exponent) << 52);
}

/* A number as an unevaluated sum hi + lo, |lo| <= ulp(hi) / 2. */
typedef struct pair {
    double hi;
    double lo;
} pair;

/* hi + lo = a + b exactly (Knuth). */
SOFTMAX_FN pair two_sum(double a, double b) {
    pair s;
    double t;
    s.hi = a + b;
    t = s.hi - a;
    s.lo = (a - (s.hi - t)) + (b - t);
    return s;
}

/* The same where |a| >= |b| or a = 0 (Dekker). */
SOFTMAX_FN pair fast_two_sum(double a, double b) {
    pair s;
    s.hi = a + b;
    s.lo = b - (s.hi - a);
    return s;
}

SOFTMAX_FN pair pair_add(pair a, pair b) {
    pair s = two_sum(a.hi, b.hi);
    return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}

SOFTMAX_FN pair pair_multiply(pair a, pair b) {
    double hi = a.hi * b.hi;
    return fast_two_sum(hi, fma(a.hi, b.hi, -hi) + (a.hi * b.lo + a.lo * b.hi));
}

SOFTMAX_FN pair pair_divide(pair a, pair b) {
    double hi = a.hi / b.hi;
    double rest = fma(-hi, b.hi, a.hi) + (a.lo - hi * b.lo);
    return fast_two_sum(hi, rest / b.hi);
}

#endif
