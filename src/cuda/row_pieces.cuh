/* Rows in registers: a warp holds a block of columns, each lane some 16-byte vectors of it, as they lie in memory. Vector v of lane l has the
 * columns from (32 v + l) PER on (PER elements a vector); which lane has which column does not matter to any sum. */
#ifndef SOFTMAX_CUDA_ROW_PIECES_CUH
#define SOFTMAX_CUDA_ROW_PIECES_CUH

#include "../kernels.h"
#include "../numerics/half.h"
#include "machine.cuh"

template <int TYPE> struct packed; /* of an `element` */

template <> struct packed<ELEMENT_FLOAT32> {
    static const int per = 4, bytes = 4;
    static __device__ __forceinline__ void unpack(uint32_t word, float *x) { x[0] = bits_float(word); }
    static __device__ __forceinline__ uint32_t pack(const float *x) { return float_bits(x[0]); }
};
template <> struct packed<ELEMENT_BFLOAT16> {
    static const int per = 8, bytes = 2;
    static __device__ __forceinline__ void unpack(uint32_t word, float *x) {
        x[0] = bits_float(word << 16);
        x[1] = bits_float(word & 0xffff0000u);
    }
    /* x is no subnormal and no -0: src/cuda's results are so. */
    static __device__ __forceinline__ uint32_t pack(const float *x) { return pack_bfloat16(x[0], x[1]); }
};
template <> struct packed<ELEMENT_FLOAT16> {
    static const int per = 8, bytes = 2;
    static __device__ __forceinline__ void unpack(uint32_t word, float *x) {
        x[0] = float16_value((uint16_t)word);
        x[1] = float16_value((uint16_t)(word >> 16));
    }
    static __device__ __forceinline__ uint32_t pack(const float *x) { return pack_float16(x[0], x[1]); }
};

/* 16-bit numbers in pairs, as they lie in a word. */
template <int TYPE> static __device__ __forceinline__ uint32_t larger_pair_or_nan(uint32_t a, uint32_t b) {
    return TYPE == ELEMENT_BFLOAT16 ? larger_or_nan_bfloat16(a, b) : larger_or_nan_float16(a, b);
}
template <int TYPE> static __device__ __forceinline__ uint32_t smaller_pair(uint32_t a, uint32_t b) {
    return TYPE == ELEMENT_BFLOAT16 ? smaller_bfloat16(a, b) : smaller_float16(a, b);
}

/* A word of -inf. */
template <int TYPE> static __device__ __forceinline__ uint32_t nothing_of() {
    return TYPE == ELEMENT_FLOAT32 ? 0xff800000u : TYPE == ELEMENT_BFLOAT16 ? 0xff80ff80u : 0xfc00fc00u;
}

/* VECTORS vectors a lane. */
template <int TYPE, int VECTORS> struct piece {
    static const int words_per_element_pair = packed<TYPE>::bytes / 2;
    static const int elements = VECTORS * packed<TYPE>::per;
    uint32_t word[VECTORS * 4];

    /* element number i of this lane */
    __device__ __forceinline__ float get(int i) const {
        float x[2];
        const int per_word = 4 / packed<TYPE>::bytes;
        packed<TYPE>::unpack(word[i / per_word], x);
        return x[i % per_word];
    }

    /* Between two sweeps: elements are unpacked once more, where unpacked they would take more registers. */
    __device__ __forceinline__ void unpack_again() {
        const int packed_words = packed<TYPE>::bytes == 2 ? VECTORS * 4 : 0;
#pragma unroll
        for (int i = 0; i < packed_words; i++) make_again(word[i]);
    }
};

/* How a row's columns are fetched and stored. */
typedef struct row_shape {
    int64_t columns;
    bool vectors; /* every array's rows lie on 16-byte addresses and have a whole number of vectors */
} row_shape;

/* The lane's first column of vector v, in a group of `lanes` lanes that starts at column `first`. */
template <int TYPE> static __device__ __forceinline__ int64_t column_of_vector(int64_t first, int v, int lane, int lanes) {
    return first + (int64_t)(v * lanes + lane) * packed<TYPE>::per;
}

/* Missing columns are `fill`, a word of it. One branch for all vectors: their loads are in flight together. */
template <int TYPE, int VECTORS>
static __device__ __forceinline__ void fetch(piece<TYPE, VECTORS> &p, const char *row, const row_shape &shape, int64_t first, int lane, int lanes,
                                             uint32_t fill) {
    const int per = packed<TYPE>::per, bytes = packed<TYPE>::bytes;
    const int64_t c0 = column_of_vector<TYPE>(first, 0, lane, lanes), left = shape.columns - c0;
    const int step = lanes * per, count = left < 0 ? 0 : left < VECTORS * step ? (int)left : VECTORS * step;
    const char *from = row + c0 * bytes;
    if (shape.vectors) {
        uint4 a[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            a[v] = make_uint4(fill, fill, fill, fill);
            if (v * step < count) a[v] = *(const uint4 *)(const void *)(from + v * step * bytes);
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            p.word[4 * v] = a[v].x;
            p.word[4 * v + 1] = a[v].y;
            p.word[4 * v + 2] = a[v].z;
            p.word[4 * v + 3] = a[v].w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTORS * per; i++) {
        const int at = i / per * step + i % per;
        if (bytes == 4) {
            p.word[i] = at < count ? *(const uint32_t *)(const void *)(from + at * 4) : fill;
        } else {
            uint32_t half = at < count ? *(const uint16_t *)(const void *)(from + at * 2) : fill & 0xffffu;
            p.word[i / 2] = i % 2 ? p.word[i / 2] | half << 16 : half;
        }
    }
}

/* One vector of results from column c on. as_float: 16-bit inputs with float32 results. */
template <int TYPE>
static __device__ __forceinline__ void store_vector(char *row, const row_shape &shape, bool as_float, int64_t c, const float *y) {
    const int per = packed<TYPE>::per, bytes = packed<TYPE>::bytes, per_word = 4 / bytes;
    if (c >= shape.columns) return;
    if (as_float && bytes == 2) {
        for (int j = 0; j < per; j++)
            if (c + j < shape.columns) *(float *)(void *)(row + (c + j) * 4) = y[j];
        return;
    }
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = packed<TYPE>::pack(y + i * per_word);
    if (shape.vectors) {
        __stcs((uint4 *)(void *)(row + c * bytes), make_uint4(w[0], w[1], w[2], w[3]));
        return;
    }
#pragma unroll
    for (int j = 0; j < per; j++)
        if (c + j < shape.columns) {
            if (bytes == 4)
                *(uint32_t *)(void *)(row + (c + j) * 4) = w[j];
            else
                *(uint16_t *)(void *)(row + (c + j) * 2) = (uint16_t)(w[j / 2] >> (j % 2 * 16));
        }
}

/* NaN as results have it. */
template <int TYPE> static __device__ void store_nan_vector(char *row, const row_shape &shape, bool as_float, int64_t c) {
    const int per = packed<TYPE>::per;
    for (int j = 0; j < per; j++)
        if (c + j < shape.columns) {
            if (packed<TYPE>::bytes == 4 || as_float)
                *(uint32_t *)(void *)(row + (c + j) * 4) = 0x7fc00000u;
            else
                *(uint16_t *)(void *)(row + (c + j) * 2) = TYPE == ELEMENT_BFLOAT16 ? BFLOAT16_NAN : FLOAT16_NAN;
        }
}

#endif
