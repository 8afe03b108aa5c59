/* Sums and maxima over the lanes of a warp: the same value in every lane. */
#ifndef SOFTMAX_CUDA_WARP_SUMS_CUH
#define SOFTMAX_CUDA_WARP_SUMS_CUH

#include <stdint.h>

#define EVERY_LANE 0xffffffffu

static __device__ __forceinline__ uint32_t warp_sum(uint32_t x) { return __reduce_add_sync(EVERY_LANE, x); }

static __device__ __forceinline__ uint64_t warp_sum(uint64_t x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(EVERY_LANE, x, step);
    return x;
}

/* Integers in the order of floats. -0 comes below +0. */
static __device__ __forceinline__ uint32_t order_of(float x) {
    uint32_t bits = __float_as_uint(x);
    return bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
}
static __device__ __forceinline__ float of_order(uint32_t key) { return __uint_as_float(key ^ ((uint32_t)(~(int32_t)key >> 31) | 0x80000000u)); }

#endif
