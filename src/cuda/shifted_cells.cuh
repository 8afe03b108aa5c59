/* What a lane holds of a block of columns that begins anywhere, by accesses of 16 bytes on multiples of 16 ("places"), and without a column more than a
 * block on such a multiple has. A block lies in one place more than it fills: of its first place the columns before the block belong to others, and of its
 * last just as many are its own. Those of both that are its own are lane 0's first access together: one element a lane, moved through shared memory. In
 * which lane a column is does not matter to any sum. A row and its results begin at the same distance from a multiple of 16 bytes. */
#ifndef SOFTMAX_CUDA_SHIFTED_CELLS_CUH
#define SOFTMAX_CUDA_SHIFTED_CELLS_CUH

#include "cells.cuh"

#define PLACE_BYTES 16

/* A warp's two places in shared memory; in no template, for the emulator's compiler. */
static __device__ __forceinline__ uint4 *shifted_room() {
    __shared__ __align__(16) unsigned char memory[32 * 2 * PLACE_BYTES];
    return (uint4 *)(void *)(memory + (threadIdx.x >> 5) * (2 * PLACE_BYTES));
}

template <typename T, int N> struct shifted_words {
    static const int per = 16 / (int)sizeof(T), in_word = cell<T>::in_word, accesses = N / per, most = 32 * N;
    static const int words = N / in_word, elements = N, edge = 0, folds = 1;
    static const int place_columns = PLACE_BYTES / (int)sizeof(T), joined = PLACE_BYTES / 16; /* lanes whose first access is joined */
    typedef typename access<sizeof(T)>::word one;

    /* Where a block lies: `shift` columns after a place. */
    struct place {
        int shift;
        int end; /* shift + its columns */
        bool full;
    };
    static __device__ __forceinline__ place place_of(const char *from, int count) {
        place p;
        p.shift = (int)((unsigned)(uintptr_t)from & (PLACE_BYTES - 1u)) / (int)sizeof(T);
        p.full = count >= most;
        p.end = p.shift + (p.full ? most : count > 0 ? count : 0);
        return p;
    }
    static __device__ __forceinline__ int in_accesses(const char *from, int count) {
        const place p = place_of(from, count);
        return count <= 0 ? 0 : p.end < most ? p.end : most;
    }
    static __device__ __forceinline__ char *first_place(const char *from) { return (char *)((uintptr_t)from & ~(uintptr_t)(PLACE_BYTES - 1)); }

    /* The column, from the first place on, that this lane moves alone: of the joined accesses, and from lane `place_columns` on of the place that a block ends
     * in if that is neither its first nor filled. -1: none. */
    static __device__ __forceinline__ int own_column(const place &p) {
        const int lane = (int)(threadIdx.x & 31), column = lane < p.shift ? most + lane : lane;
        if (p.full) return lane < place_columns ? column : -1;
        const int first = p.end / place_columns * place_columns, last = first > 0 && first < most ? first + lane - place_columns : p.end;
        const int its = lane < place_columns ? column : lane < 2 * place_columns ? last : p.end;
        return its < p.end ? its : -1;
    }
    /* Whether this lane's access number i is one. */
    static __device__ __forceinline__ bool is_whole(const place &p, int i) {
        const int number = i * 32 + (int)(threadIdx.x & 31);
        return number >= joined && (number + 1) * per <= p.end / place_columns * place_columns;
    }
    /* Whether it is of the place that a block ends in. */
    static __device__ __forceinline__ bool is_last(const place &p, int i) {
        const int number = i * 32 + (int)(threadIdx.x & 31);
        return number / joined == p.end / place_columns && number >= joined;
    }

    static __device__ __forceinline__ uint4 vector_of(const uint32_t *w) { return make_uint4(w[0], w[1], w[2], w[3]); }

    /* from: the block's first column. */
    static __device__ __forceinline__ void load(const char *from, int count, uint32_t *w) {
        const place p = place_of(from, count);
        const int lane = (int)(threadIdx.x & 31), column = own_column(p);
        const char *at = first_place(from);
        const uint4 *vectors = (const uint4 *)(const void *)at + lane;
        uint4 *room = shifted_room();
        one x = (one)cell<T>::nothing;
        if (column >= 0) x = *(const one *)(const void *)(at + column * (int)sizeof(T));
        if (p.full) {
            uint4 first;
            if (lane >= joined) first = *vectors;
#pragma unroll
            for (int i = 1; i < accesses; i++) split(vectors[i * 32], w + 4 * i);
            __syncwarp();
            if (lane < place_columns) ((one *)(void *)room)[lane] = x;
            __syncwarp();
            if (lane < joined) first = room[lane];
            split(first, w);
        } else {
#pragma unroll
            for (int i = 0; i < accesses; i++) {
                uint4 v = make_uint4(cell<T>::nothing, cell<T>::nothing, cell<T>::nothing, cell<T>::nothing);
                if (is_whole(p, i)) v = vectors[i * 32];
                split(v, w + 4 * i);
            }
            __syncwarp();
            if (lane < 2 * place_columns) ((one *)(void *)room)[lane] = x;
            __syncwarp();
            if (lane < joined) split(room[lane], w);
#pragma unroll
            for (int i = 0; i < accesses; i++)
                if (is_last(p, i)) split(room[joined + lane % joined], w + 4 * i);
        }
    }
    static __device__ __forceinline__ void open(const uint32_t *w, float *z) {
#pragma unroll
        for (int i = 0; i < words; i++) cell<T>::open(w[i], z + i * in_word);
    }
    static __device__ __forceinline__ void store(char *to, int count, const float *y) {
        const place p = place_of(to, count);
        const int lane = (int)(threadIdx.x & 31), column = own_column(p);
        char *at = first_place(to);
        uint4 *vectors = (uint4 *)(void *)at + lane, *room = shifted_room();
        uint32_t w[accesses][4];
#pragma unroll
        for (int i = 0; i < accesses; i++) {
#pragma unroll
            for (int m = 0; m < 4; m++) w[i][m] = cell<T>::close(y + i * per + m * in_word);
        }
        __syncwarp();
        if (lane < joined) room[lane] = vector_of(w[0]);
        if (p.full) {
            if (lane >= joined) __stcs(vectors, vector_of(w[0]));
#pragma unroll
            for (int i = 1; i < accesses; i++) __stcs(vectors + i * 32, vector_of(w[i]));
        } else {
#pragma unroll
            for (int i = 0; i < accesses; i++) {
                if (is_whole(p, i)) __stcs(vectors + i * 32, vector_of(w[i]));
                if (is_last(p, i)) room[joined + lane % joined] = vector_of(w[i]);
            }
        }
        __syncwarp();
        if (column >= 0) *(one *)(void *)(at + column * (int)sizeof(T)) = ((const one *)(const void *)room)[lane];
    }
    /* Of edged_words alone. */
    static __device__ __forceinline__ void open_edge(const uint32_t *, float *) {}
    static __device__ __forceinline__ void store_edge(char *, int, const float *) {}

    static __device__ __forceinline__ void fill(char *to, int count, uint32_t value) {
        for (int column = (int)(threadIdx.x & 31); column < count; column += 32) *(one *)(void *)(to + column * (int)sizeof(T)) = (one)value;
    }
};

#endif
