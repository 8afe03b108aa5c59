/* Elements of the types that rows in registers are made of: read and written some bytes at a time, as floats in between. */
#ifndef SOFTMAX_CUDA_CELLS_CUH
#define SOFTMAX_CUDA_CELLS_CUH

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
static __device__ __forceinline__ void join(const uint32_t *part, uint2 &w) { w.x = part[0], w.y = part[1]; }
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
        first = __uint_as_float(w[0]);
        second = -INFINITY;
#pragma unroll
        for (int i = 1; i < WORDS; i++) take_in(__uint_as_float(w[i]), first, second);
    }
};

/* Two 16-bit elements at a time. */
template <typename CELL, int WORDS> static __device__ __forceinline__ void largest_two_of_pairs(const uint32_t *w, float &first, float &second) {
    uint32_t a = w[0], b = CELL::nothing;
    float a2[2], b2[2];
#pragma unroll
    for (int i = 1; i < WORDS; i++) {
        b = CELL::larger(b, CELL::smaller(a, w[i]));
        a = CELL::larger_or_nan(a, w[i]);
    }
    CELL::open(a, a2);
    CELL::open(b, b2);
    first = a2[0];
    second = b2[0];
    take_in(a2[1], first, second);
    second = fmaxf(second, b2[1]);
}

template <> struct cell<bfloat16> {
    static const arithmetic kind = ARITHMETIC_BFLOAT16;
    static const int in_word = 2;
    static const uint32_t nothing = 0xff80ff80u;
    static const uint32_t nan = 0x7fc07fc0u;
    static __device__ __forceinline__ uint32_t smaller(uint32_t a, uint32_t b) { return smaller_bfloat16(a, b); }
    static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return larger_bfloat16(a, b); }
    static __device__ __forceinline__ uint32_t larger_or_nan(uint32_t a, uint32_t b) { return larger_or_nan_bfloat16(a, b); }
    static __device__ __forceinline__ void open(uint32_t w, float *z) {
        z[0] = __uint_as_float(w << 16);
        z[1] = __uint_as_float(w & 0xffff0000u);
    }
    static __device__ __forceinline__ uint32_t close(const float *y) { return pack_bfloat16(y[0], y[1]); }
    static __device__ __forceinline__ uint32_t close_one(float y) { return pack_bfloat16(y, 0.0f); }
    static __device__ __forceinline__ float least() { return 0x1p-126f; }
    template <int WORDS> static __device__ __forceinline__ void largest_two(const uint32_t *w, float &first, float &second) {
        largest_two_of_pairs<cell, WORDS>(w, first, second);
    }
};

template <> struct cell<float16> {
    static const arithmetic kind = ARITHMETIC_FLOAT16;
    static const int in_word = 2;
    static const uint32_t nothing = 0xfc00fc00u;
    static const uint32_t nan = 0x7e007e00u;
    static __device__ __forceinline__ uint32_t smaller(uint32_t a, uint32_t b) { return smaller_float16(a, b); }
    static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return larger_float16(a, b); }
    static __device__ __forceinline__ uint32_t larger_or_nan(uint32_t a, uint32_t b) { return larger_or_nan_float16(a, b); }
    static __device__ __forceinline__ void open(uint32_t w, float *z) { open_float16(w, z); }
    static __device__ __forceinline__ uint32_t close(const float *y) { return pack_float16_as_is(y[0], y[1]); }
    static __device__ __forceinline__ uint32_t close_one(float y) { return pack_float16_as_is(y, 0.0f); }
    static __device__ __forceinline__ float least() { return 0x1.000002p-25f; } /* up to 2^-25 rounds to 0, which is +0 */
    template <int WORDS> static __device__ __forceinline__ void largest_two(const uint32_t *w, float &first, float &second) {
        largest_two_of_pairs<cell, WORDS>(w, first, second);
    }
};

/* ---- What a lane holds of a block --------------------------------------------------------------------------------- */

/* What a lane holds of LANES lanes' N columns each: accesses lane, lane + LANES, ... of VEC elements; columns from count on are `nothing`.
 * As 32-bit words of one or two elements (VEC 1: each element in a word of its own, whose other half is `nothing`). */
template <typename T, int VEC, int N, int LANES = 32> struct lane_words {
    static const int per_access = VEC < cell<T>::in_word ? 1 : VEC / cell<T>::in_word;
    static const int in_word = VEC < cell<T>::in_word ? 1 : cell<T>::in_word; /* elements that count */
    static const int words = N / in_word;
    static const int elements = N, edge = 0, folds = 0;
    typedef typename access<VEC * sizeof(T)>::word word;

    /* Where this lane's first access is; how many columns there are from there on. */
    static __device__ __forceinline__ unsigned offset() { return (threadIdx.x & (LANES - 1u)) * (unsigned)(VEC * sizeof(T)); }
    static __device__ __forceinline__ int left(int count) { return count - (int)(threadIdx.x & (LANES - 1u)) * VEC; }
    /* Columns that accesses hold, from the first on. */
    static __device__ __forceinline__ int in_accesses(const char *from, int count) {
        (void)from;
        return count;
    }

    /* Where there is an edge: edged_words. */
    static __device__ __forceinline__ void open_edge(const uint32_t *, float *) {}
    static __device__ __forceinline__ void store_edge(char *, int, const float *) {}

    /* from: the block's first column. By ordinary accesses, though nobody reads it again: with the hint for that, what other kernels left stays in the
     * caches, and rows take up to 8 % longer (docs/results, losses 4). */
    static __device__ __forceinline__ void load(const char *from, int count, uint32_t *w) {
        const word *at = (const word *)(from + offset());
        const int columns = left(count);
        if (VEC >= cell<T>::in_word && count == N * LANES) { /* the same in all lanes; without conditions */
#pragma unroll
            for (int i = 0; i < N / VEC; i++) split(at[i * LANES], w + i * per_access);
            return;
        }
#pragma unroll
        for (int i = 0; i < N / VEC; i++) {
#pragma unroll
            for (int j = 0; j < per_access; j++) w[i * per_access + j] = cell<T>::nothing;
            if (columns > i * LANES * VEC) {
                split(at[i * LANES], w + i * per_access);
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
            if (count == N * LANES || columns > i * LANES * VEC) __stcs(at + i * LANES, w);
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
            if (columns > i * LANES * VEC) __stcs(at + i * LANES, w);
    }
};

/* The same for rows that begin anywhere: accesses of 16 bytes between the multiples of 32, which memory is written in, and one element a lane more
 * for the few columns before and after them. Where a row and its results begin must differ by a multiple of 32 bytes. */
template <typename T, int N> struct edged_words {
    static const int per = 16 / (int)sizeof(T), in_word = cell<T>::in_word;
    static const int words = N / in_word + 1, elements = N + 1, edge = 1, folds = 0;
    typedef typename access<sizeof(T)>::word one;

    struct parts {
        int head, left, edge_column; /* vectors from this lane's first on; edge_column: -1 where the lane has none */
    };
    static __device__ __forceinline__ int head_of(const char *from, int count) {
        const int head = (int)((0u - (unsigned)(uintptr_t)from) & 31u) / (int)sizeof(T);
        return head < count ? head : count;
    }
    static __device__ __forceinline__ parts parts_of(const char *from, int count) {
        const int lane = threadIdx.x & 31, columns = count < 0 ? 0 : count;
        parts p;
        int rest;
        p.head = head_of(from, columns);
        rest = columns - p.head;
        p.left = rest / (2 * per) * 2 - lane;
        rest &= 2 * per - 1;
        p.edge_column = lane < p.head ? lane : lane >= 16 && lane < 16 + rest ? columns - rest + lane - 16 : -1;
        return p;
    }
    static __device__ __forceinline__ int in_accesses(const char *from, int count) {
        return count < 0 ? 0 : (count - head_of(from, count)) / (2 * per) * (2 * per);
    }

    static __device__ __forceinline__ void load(const char *from, int count, uint32_t *w) {
        const parts p = parts_of(from, count);
        const int last = N / per - 1; /* full blocks lack vectors in this access alone */
        const uint4 *at = (const uint4 *)(from + p.head * (int)sizeof(T)) + (threadIdx.x & 31);
        if (count == N * 32) {
#pragma unroll
            for (int i = 0; i < last; i++) split(at[i * 32], w + 4 * i);
        } else {
#pragma unroll
            for (int i = 0; i < last; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) w[4 * i + j] = cell<T>::nothing;
                if (p.left > i * 32) split(at[i * 32], w + 4 * i);
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) w[4 * last + j] = cell<T>::nothing;
        if (p.left > last * 32) split(at[last * 32], w + 4 * last);
        w[words - 1] = cell<T>::nothing;
        if (p.edge_column >= 0) {
            w[words - 1] = *(const one *)(from + p.edge_column * (int)sizeof(T));
            if (sizeof(T) == 2) w[words - 1] |= cell<T>::nothing & 0xffff0000u;
        }
    }
    static __device__ __forceinline__ void open_edge(const uint32_t *w, float *z) {
        float two[2];
        cell<T>::open(w[words - 1], two);
        z[N] = two[0];
    }
    static __device__ __forceinline__ void open(const uint32_t *w, float *z) {
#pragma unroll
        for (int i = 0; i < N / in_word; i++) cell<T>::open(w[i], z + i * in_word);
        open_edge(w, z);
    }
    static __device__ __forceinline__ void store_edge(char *to, int count, const float *y) {
        const parts p = parts_of(to, count);
        if (p.edge_column >= 0) *(one *)(to + p.edge_column * (int)sizeof(T)) = (one)cell<T>::close_one(y[N]);
    }
    static __device__ __forceinline__ void store(char *to, int count, const float *y) {
        const parts p = parts_of(to, count);
        const int last = N / per - 1;
        uint4 *at = (uint4 *)(to + p.head * (int)sizeof(T)) + (threadIdx.x & 31), w[N / per];
#pragma unroll
        for (int i = 0; i < N / per; i++) {
            uint32_t part[4];
#pragma unroll
            for (int j = 0; j < 4; j++) part[j] = cell<T>::close(y + i * per + j * in_word);
            join(part, w[i]);
        }
        if (count == N * 32) {
#pragma unroll
            for (int i = 0; i < last; i++) __stcs(at + i * 32, w[i]);
        } else {
#pragma unroll
            for (int i = 0; i < last; i++)
                if (p.left > i * 32) __stcs(at + i * 32, w[i]);
        }
        if (p.left > last * 32) __stcs(at + last * 32, w[last]);
        store_edge(to, count, y);
    }
    static __device__ __forceinline__ void fill(char *to, int count, uint32_t value) {
        const parts p = parts_of(to, count);
        const int lane = threadIdx.x & 31;
        uint4 *at = (uint4 *)(to + p.head * (int)sizeof(T)) + lane;
#pragma unroll
        for (int i = 0; i < N / per; i++)
            if (p.left > i * 32) __stcs(at + i * 32, make_uint4(value, value, value, value));
        if (p.edge_column >= 0) *(one *)(to + p.edge_column * (int)sizeof(T)) = (one)value;
    }
};

#endif
