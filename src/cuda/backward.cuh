/* The gradients of src/cpu/backward.h, element by element. */
#ifndef SOFTMAX_CUDA_BACKWARD_CUH
#define SOFTMAX_CUDA_BACKWARD_CUH

#include "exact_sum.cuh"
#include "operands.cuh"
#include "real.cuh"

/* What every element of a row's gradient takes from its sum. */
template <typename REAL> struct gradient_of_sum {
    REAL hi, lo;  /* softmax: the sum, negated low part; log_softmax: minus the sum 2^-e */
    REAL magic, floor, cap;
    REAL zero; /* log_softmax: a score whose term is 0, its power's bits being none */
    bool huge; /* softmax: dy - hi might overflow where y (dy - hi) does not */
};

template <typename REAL> struct backward_limits;
template <> struct backward_limits<float> {
    static const int sum_exponent = 120;
    static __device__ double nearly_largest() { return 0x1p100; } /* added to any number it rounds away, or may overflow */
};
template <> struct backward_limits<double> {
    static const int sum_exponent = 1000;
    static __device__ double nearly_largest() { return 0x1p968; }
};

static __device__ __forceinline__ float without_subnormals(float x) { return flush_to_zero(x); }
static __device__ __forceinline__ double without_subnormals(double x) { return fabs(x) < 0x1p-1022 ? 0.0 : x; }

template <typename REAL> static __device__ gradient_of_sum<REAL> softmax_gradient_of(pair sum) {
    gradient_of_sum<REAL> g;
    g.huge = fabs(sum.hi) >= backward_limits<REAL>::nearly_largest();
    g.hi = g.huge ? (REAL)(sum.hi * 0.25) : (REAL)sum.hi;
    g.lo = -(REAL)((sum.hi - (double)g.hi) + sum.lo);
    g.magic = g.floor = g.cap = g.zero = 0;
    return g;
}

/* y (dy - hi) - y lo, subnormal or -0 as it may be */
template <typename REAL> static __device__ __forceinline__ REAL softmax_gradient_as_is(const gradient_of_sum<REAL> &g, REAL y, REAL dy) {
    if (g.huge) return 4 * (y * (dy * (REAL)0.25 - g.hi));
    return real<REAL>::fused(y, dy - g.hi, y * g.lo);
}

/* The same, +0 below the smallest normal and where y = 0 */
template <typename REAL> static __device__ __forceinline__ REAL softmax_gradient(const gradient_of_sum<REAL> &g, REAL y, REAL dy) {
    return without_subnormals(softmax_gradient_as_is(g, y, dy));
}

/* e^y sum = e^y 2^e (sum 2^-e), 1 <= |sum 2^-e| < 2 */
template <typename REAL> static __device__ gradient_of_sum<REAL> log_softmax_gradient_of(pair sum) {
    const int most = backward_limits<REAL>::sum_exponent;
    gradient_of_sum<REAL> g;
    int e = exponent_of(sum.hi);
    REAL kb;
    e = e > most ? most : e < -most ? -most : e;
    const double factor = bits_double((uint64_t)(1023 - e) << 52);
    g.hi = (REAL)(sum.hi * factor);
    g.lo = (REAL)((sum.hi * factor - (double)g.hi) + sum.lo * factor);
    g.hi = -g.hi;
    g.lo = -g.lo;
    kb = (REAL)(SOFTMAX_BIAS - e);
    g.floor = real<REAL>::floor_of(kb);
    g.magic = real<REAL>::magic() + SOFTMAX_BIAS - kb;
    g.zero = (kb - (127 + SOFTMAX_BIAS)) * (REAL)0.6931471805599453; /* float32's; nobody asks for float64's */
    g.cap = (kb + most) * (REAL)0.693; /* only beyond e^y sum = 2^most, which no log-probability reaches */
    g.huge = false;
    return g;
}

/* dy - e^y sum; y = -inf: 0 */
template <typename REAL> static __device__ __forceinline__ REAL log_softmax_gradient(const gradient_of_sum<REAL> &g, REAL y, REAL dy) {
    REAL z = y < g.cap ? y : g.cap, v, b;
    z = z > g.floor ? z : g.floor;
    v = real<REAL>::near(z, 0, g.magic, ARITHMETIC_32, 0).v;
    v = y >= g.floor ? v : 0;
    b = real<REAL>::fused(v, g.hi, real<REAL>::fused(v, g.lo, dy));
    return without_subnormals(y >= -real<REAL>::largest() ? b : 0);
}

/* The same with fewer instructions, subnormal or -0 as it may be, where y is not above the cap, and where dy is 0 if y is -inf. ABOVE_FLOOR: where y
 * is not below the floor. */
template <bool ABOVE_FLOOR> static __device__ __forceinline__ float log_softmax_gradient_within_as_is(const gradient_of_sum<float> &g, float y, float dy) {
    const float v = term32_fast(ABOVE_FLOOR || y >= g.floor ? y : g.zero, 0.0f, g.magic, ARITHMETIC_32).v;
    return fmaf(v, g.hi, fmaf(v, g.lo, dy));
}

template <typename REAL> static __device__ gradient_of_sum<REAL> gradient_of(bool is_log, pair sum) {
    return is_log ? log_softmax_gradient_of<REAL>(sum) : softmax_gradient_of<REAL>(sum);
}

#endif
