/* Several blocks' notes, and several thread blocks' parts, made into a row's answer by one warp. The sums are those of numerics/accumulator.h:
 * integers on an absolute grid, so that neither order nor grouping matters. */
#ifndef SOFTMAX_CUDA_ROW_MERGE_CUH
#define SOFTMAX_CUDA_ROW_MERGE_CUH

#include "register_block.cuh"

#define NO_TOP (-0x40000000) /* below the top of any term */

/* What is known of some of a row's blocks: their maximum, e^maximum = f 2^k, and the sum of all else. 56 bytes */
struct row_part {
    double f;
    int64_t limb[ACCUMULATOR_FIRST_LIMBS];
    float maximum;
    int k;
    int top;
    int slow;
};

static __device__ __forceinline__ double read_rest(const row_part &p) {
    accumulator rest;
    if (p.top == NO_TOP) return 0.0;
    rest.top = p.top;
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) rest.limb[i] = p.limb[i];
    return accumulator_read_first(&rest, p.k);
}

/* Lane b has the note of block b, for count <= 32 blocks. The same in every lane. */
template <arithmetic KIND> static __device__ __forceinline__ row_part merge_notes(const block_note *notes, int count) {
    const int lane = threadIdx.x & 31;
    block_note n = notes[lane < count ? lane : 0];
    row_part p;
    double f = 0.0;
    int k = 0, top = NO_TOP;
    if (lane >= count) {
        n.maximum = -INFINITY;
        n.digits = 0;
    }
    const uint32_t key = order_of(n.maximum), top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs(__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    p.slow = __any_sync(EVERY_LANE, is_slow(n));
    p.maximum = of_order(top_key);
    if (fabsf(n.maximum) < TERM32_LIMIT) f = top_power<KIND>(n, k);
    p.k = __shfl_sync(EVERY_LANE, k, owner);
    p.f = __shfl_sync(EVERY_LANE, f, owner);
    if (lane == owner) f = 0.0;
    if (n.digits) top = (n.kb - TERM32_LOW_UNIT + 62) >> 5;
    if (f != 0.0) top = max(top, (k - 52 + 62) >> 5);
    p.top = __reduce_max_sync(EVERY_LANE, top);
    uint32_t word[ACCUMULATOR_LIMBS], word_f[ACCUMULATOR_LIMBS];
    accumulator_words(n.digits, n.kb - TERM32_LOW_UNIT, p.top, word);
    accumulator_words((uint64_t)(f * 0x1p52), k - 52, p.top, word_f);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) {
        uint32_t low = (word[i] & 0xffffu) + (word_f[i] & 0xffffu), high = (word[i] >> 16) + (word_f[i] >> 16);
        p.limb[i] = ((int64_t)__reduce_add_sync(EVERY_LANE, high) << 16) + __reduce_add_sync(EVERY_LANE, low);
    }
    return p;
}

/* Lane c has part c, for count <= 32 parts. */
static __device__ __forceinline__ row_part merge_parts(const row_part *parts, int count) {
    const int lane = threadIdx.x & 31;
    row_part n = parts[lane < count ? lane : 0], p;
    uint32_t word[ACCUMULATOR_LIMBS];
    double f = n.f;
    if (lane >= count) {
        n.maximum = -INFINITY;
        n.top = NO_TOP;
        n.slow = 0;
        f = 0.0;
    }
    const uint32_t key = order_of(n.maximum), top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs(__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    p.slow = __any_sync(EVERY_LANE, n.slow);
    p.maximum = of_order(top_key);
    p.k = __shfl_sync(EVERY_LANE, n.k, owner);
    p.f = __shfl_sync(EVERY_LANE, n.f, owner);
    if (lane == owner) f = 0.0;
    p.top = __reduce_max_sync(EVERY_LANE, f != 0.0 ? max(n.top, (n.k - 52 + 62) >> 5) : n.top);
    accumulator_words((uint64_t)(f * 0x1p52), n.k - 52, p.top, word);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) {
        int64_t limb = word[i];
        const int from = i - (p.top - n.top); /* whole limbs move down, as accumulator_raise moves them */
#pragma unroll
        for (int j = 0; j < ACCUMULATOR_FIRST_LIMBS; j++)
            if (j == from && n.top != NO_TOP) limb += n.limb[j];
        for (int step = 16; step > 0; step /= 2) limb += __shfl_xor_sync(EVERY_LANE, limb, step);
        p.limb[i] = limb;
    }
    return p;
}

/* A row of one block needs no accumulator: the digits are exact in a double. */
template <arithmetic KIND, bool LOG> static __device__ __forceinline__ row_answer answer_of_block(const block_note &n) {
    int k = 0;
    double f = 1.0, rest = 0.0;
    row_answer r;
    if (fabsf(n.maximum) < TERM32_LIMIT) {
        f = top_power<KIND>(n, k);
        rest = (double)n.digits * bits_double((uint64_t)(1023 + n.kb - TERM32_LOW_UNIT - k) << 52);
    }
    r = answer_of<KIND, LOG>(n.maximum, k, f, rest);
    r.slow = is_slow(n);
    return r;
}

template <arithmetic KIND, bool LOG> static __device__ __forceinline__ row_answer answer_of_part(const row_part &p) {
    row_answer r = answer_of<KIND, LOG>(p.maximum, p.k, p.f, read_rest(p));
    r.slow = p.slow;
    return r;
}

#endif
