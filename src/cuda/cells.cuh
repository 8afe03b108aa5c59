/* Elements of the types that rows in registers are made of: read and written VEC at a time, as floats in between. */
#ifndef SOFTMAX_CUDA_CELLS_CUH
#define SOFTMAX_CUDA_CELLS_CUH

#include <stdint.h>

#include "../kernels.h"
#include "machine.cuh"

struct float16 {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};

/* What one access moves. */
template <int BYTES> struct access;
template <> struct access<2> { typedef uint16_t word; };
template <> struct access<4> { typedef uint32_t word; };
template <> struct access<8> { typedef uint2 word; };
template <> struct access<16> { typedef uint4 word; };

static __device__ __forceinline__ void split(uint4 w, uint32_t *part) {
    part[0] = w.x, part[1] = w.y, part[2] = w.z, part[3] = w.w;
}
static __device__ __forceinline__ void split(uint2 w, uint32_t *part) { part[0] = w.x, part[1] = w.y; }
static __device__ __forceinline__ void split(uint32_t w, uint32_t *part) { part[0] = w; }
static __device__ __forceinline__ void split(uint16_t w, uint32_t *part) { part[0] = w; }
static __device__ __forceinline__ void join(const uint32_t *part, uint4 &w) { w = make_uint4(part[0], part[1], part[2], part[3]); }
static __device__ __forceinline__ void join(const uint32_t *part, uint2 &w) { w = make_uint2(part[0], part[1]); }
static __device__ __forceinline__ void join(const uint32_t *part, uint32_t &w) { w = part[0]; }
static __device__ __forceinline__ void join(const uint32_t *part, uint16_t &w) { w = (uint16_t)part[0]; }

/* first and second largest of one lane; NaN sticks to the first */
static __device__ __forceinline__ void take_in(float x, float &first, float &second) {
    second = fmaxf(second, fminf(first, x));
    first = max_or_nan(first, x);
}

template <typename T> struct cell;

template <> struct cell<float> {
    static const arithmetic kind = ARITHMETIC_32;
    static const int in_word = 1; /* elements in 32 bits */
    static const uint32_t nothing = 0xff800000u; /* -inf */
    static const uint32_t nan = 0x7fc00000u;
    static __device__ __forceinline__ void open(uint32_t w, float *z) { z[0] = __uint_as_float(w); }
    static __device__ __forceinline__ uint32_t close(const float *y) { return __float_as_uint(y[0]); }
    static __device__ __forceinline__ uint32_t close_one(float y) { return __float_as_uint(y); }
    static __device__ __forceinline__ float least() { return 0x1p-126f; } /* results below it are 0 */
    template <int WORDS> static __device__ __forceinline__ void largest_two(const uint32_t *w, float &first, float &second) {
        first = second = -INFINITY;
#pragma unroll
        for (int i = 0; i < WORDS; i++) take_in(__uint_as_float(w[i]), first, second);
    }
};

/* Two 16-bit elements at a time: the same code but for the instructions' type. */
#define PACKED_LARGEST_TWO(type)                                                                        \
    template <int WORDS> static __device__ __forceinline__ void largest_two(const uint32_t *w, float &first, float &second) { \
        uint32_t a = nothing, b = nothing;                                                              \
        float a2[2], b2[2];                                                                             \
        _Pragma("unroll") for (int i = 0; i < WORDS; i++) {                                             \
            b = larger_##type(b, smaller_##type(a, w[i]));                                              \
            a = larger_or_nan_##type(a, w[i]);                                                          \
        }                                                                                               \
        open(a, a2);                                                                                    \
        open(b, b2);                                                                                    \
        first = a2[0];                                                                                  \
        second = b2[0];                                                                                 \
        take_in(a2[1], first, second);                                                                  \
        second = fmaxf(second, b2[1]);                                                                  \
    }

template <> struct cell<bfloat16> {
    static const arithmetic kind = ARITHMETIC_BFLOAT16;
    static const int in_word = 2;
    static const uint32_t nothing = 0xff80ff80u;
    static const uint32_t nan = 0x7fc07fc0u;
    static __device__ __forceinline__ void open(uint32_t w, float *z) {
        z[0] = __uint_as_float(w << 16);
        z[1] = __uint_as_float(w & 0xffff0000u);
    }
    static __device__ __forceinline__ uint32_t close(const float *y) { return pack_bfloat16(y[0], y[1]); }
    static __device__ __forceinline__ uint32_t close_one(float y) {
        float pair[2] = {y, 0.0f};
        return close(pair);
    }
    static __device__ __forceinline__ float least() { return 0x1p-126f; }
    PACKED_LARGEST_TWO(bfloat16)
};

template <> struct cell<float16> {
    static const arithmetic kind = ARITHMETIC_FLOAT16;
    static const int in_word = 2;
    static const uint32_t nothing = 0xfc00fc00u;
    static const uint32_t nan = 0x7e007e00u;
    static __device__ __forceinline__ void open(uint32_t w, float *z) { open_float16(w, z); }
    static __device__ __forceinline__ uint32_t close(const float *y) { return pack_float16_as_is(y[0], y[1]); }
    static __device__ __forceinline__ uint32_t close_one(float y) {
        float pair[2] = {y, 0.0f};
        return close(pair);
    }
    static __device__ __forceinline__ float least() { return 0x1.000002p-25f; } /* up to 2^-25 rounds to 0, which is +0 */
    PACKED_LARGEST_TWO(float16)
};

/* What a lane holds of a block's N columns: accesses lane, lane + 32, ... of VEC elements; columns from count on are `nothing`.
 * As 32-bit words of one or two elements (VEC 1: each element in a word of its own, whose other half is `nothing`). */
template <typename T, int VEC, int N> struct lane_words {
    static const int per_access = VEC < cell<T>::in_word ? 1 : VEC / cell<T>::in_word;
    static const int in_word = VEC < cell<T>::in_word ? 1 : cell<T>::in_word; /* elements that count */
    static const int words = N / in_word;
    typedef typename access<VEC * sizeof(T)>::word word;

    /* Where this lane's first access is; how many columns there are from there on. */
    static __device__ __forceinline__ unsigned offset() { return (threadIdx.x & 31u) * (unsigned)(VEC * sizeof(T)); }
    static __device__ __forceinline__ int left(int count) { return count - (int)(threadIdx.x & 31u) * VEC; }

    /* from: the block's first column. AGAIN: it will be read again, and may stay in the caches. */
    template <bool AGAIN = false> static __device__ __forceinline__ void load(const char *from, int count, uint32_t *w) {
        const word *at = (const word *)(from + offset());
        const int columns = left(count);
#pragma unroll
        for (int i = 0; i < N / VEC; i++) {
#pragma unroll
            for (int j = 0; j < per_access; j++) w[i * per_access + j] = cell<T>::nothing;
            if (columns > i * 32 * VEC) {
                split(AGAIN ? at[i * 32] : __ldcs(at + i * 32), w + i * per_access);
                if (VEC < cell<T>::in_word) w[i] |= cell<T>::nothing & 0xffff0000u;
            }
        }
    }
    static __device__ __forceinline__ void open(const uint32_t *w, float *z) {
#pragma unroll
        for (int i = 0; i < words; i++) {
            float two[2];
            cell<T>::open(w[i], two);
            z[i * in_word] = two[0];
            if (in_word == 2) z[i * in_word + 1] = two[1];
        }
    }
    static __device__ __forceinline__ void store(char *to, int count, const float *y) {
        word *at = (word *)(to + offset());
        const int columns = left(count);
#pragma unroll
        for (int i = 0; i < N / VEC; i++) {
            uint32_t part[per_access];
            word w;
#pragma unroll
            for (int j = 0; j < per_access; j++)
                part[j] = in_word == 1 ? cell<T>::close_one(y[i * VEC + j]) : cell<T>::close(y + i * VEC + j * in_word);
            join(part, w);
            if (columns > i * 32 * VEC) __stcs(at + i * 32, w);
        }
    }
    static __device__ __forceinline__ void fill(char *to, int count, uint32_t value) {
        word *at = (word *)(to + offset());
        const int columns = left(count);
        uint32_t part[per_access];
        word w;
        for (int j = 0; j < per_access; j++) part[j] = value;
        join(part, w);
#pragma unroll
        for (int i = 0; i < N / VEC; i++)
            if (columns > i * 32 * VEC) __stcs(at + i * 32, w);
    }
};

#endif
