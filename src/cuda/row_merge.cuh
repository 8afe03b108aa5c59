/* Several blocks' notes, and several thread blocks' parts, made into a row's answer by one warp. The sums are those of numerics/accumulator.h:
 * integers on an absolute grid, so that neither order nor grouping matters. */
#ifndef SOFTMAX_CUDA_ROW_MERGE_CUH
#define SOFTMAX_CUDA_ROW_MERGE_CUH

#include "register_block.cuh"
#include "slow_row.cuh"

#define NO_TOP (-0x2000000) /* below the top of any term, and 32 times it fits an int */

/* What is known of some of a row's blocks: their maximum, e^maximum = f 2^k, and the sum of all else. */
struct row_part {
    double f;
    int64_t limb[ACCUMULATOR_FIRST_LIMBS];
    float maximum;
    float maximum_low;
    int k;
    int top;
    int slow;
    int unused;
};

/* x from 0 to 2^52: sooner than the conversion of any integer. */
static __device__ __forceinline__ double double_of(int64_t x) { return bits_double((uint64_t)x | 0x4330000000000000ULL) - 0x1p52; }

/* (uint64_t)(f 2^52) for f in [0.5, 2), likewise. */
static __device__ __forceinline__ uint64_t power_magnitude(double f) {
    const uint64_t bits = double_bits(f), mantissa = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    return bits >> 52 & 1 ? mantissa : mantissa >> 1;
}

/* Its sum of all else times 2^-k. So far below the maximum that it is not in this range, no result depends on it. */
static __device__ __forceinline__ double read_rest(const row_part &p) {
    const int exponent = 32 * (p.top - (ACCUMULATOR_FIRST_LIMBS - 1)) - p.k;
    double sum = double_of(p.limb[0]);
#pragma unroll
    for (int i = 1; i < ACCUMULATOR_FIRST_LIMBS; i++) sum = fma(sum, 0x1p32, double_of(p.limb[i]));
    return exponent < -1000 ? 0.0 : sum * bits_double((uint64_t)(1023 + exponent) << 52);
}

/* accumulator_words for the first limbs: magnitude 2^exponent, magnitude < 2^63, top not below its own. */
static __device__ __forceinline__ void first_words(uint64_t magnitude, int exponent, int top, uint32_t word[ACCUMULATOR_FIRST_LIMBS]) {
    const int down = 32 * top - exponent - 31, whole = down >> 5;
    const uint32_t high = (uint32_t)(magnitude >> 31), low = (uint32_t)(magnitude << 1);
    const uint32_t a = whole == 0 ? high : 0, b = whole == 0 ? low : whole == 1 ? high : 0, c = whole == 1 ? low : whole == 2 ? high : 0;
    word[0] = a >> (down & 31);
    word[1] = __funnelshift_r(b, a, down);
    word[2] = __funnelshift_r(c, b, down);
}

/* Sums over lanes of three words: their low 27 bits each, and the rest together. */
static __device__ __forceinline__ void add_words(const uint32_t mine[ACCUMULATOR_FIRST_LIMBS], int64_t sum[ACCUMULATOR_FIRST_LIMBS]) {
    const uint32_t mask = (1u << 27) - 1;
    const uint32_t high = __reduce_add_sync(EVERY_LANE, (mine[0] >> 27) | (mine[1] >> 27) << 10 | (mine[2] >> 27) << 20);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) {
        const uint64_t above = (uint64_t)(high >> 10 * i & 0x3ffu) << 27;
        sum[i] = (int64_t)(above + __reduce_add_sync(EVERY_LANE, mine[i] & mask));
    }
}

/* The same for three numbers below 2^37. */
static __device__ __forceinline__ void add_limbs(const int64_t mine[ACCUMULATOR_FIRST_LIMBS], int64_t sum[ACCUMULATOR_FIRST_LIMBS]) {
    const uint32_t mask = (1u << 27) - 1;
    const uint32_t high = __reduce_add_sync(EVERY_LANE, (uint32_t)(mine[0] >> 27) | (uint32_t)(mine[1] >> 27) << 16);
    const uint32_t high2 = __reduce_add_sync(EVERY_LANE, (uint32_t)(mine[2] >> 27));
    sum[0] = ((int64_t)(high & 0xffffu) << 27) + __reduce_add_sync(EVERY_LANE, (uint32_t)mine[0] & mask);
    sum[1] = ((int64_t)(high >> 16) << 27) + __reduce_add_sync(EVERY_LANE, (uint32_t)mine[1] & mask);
    sum[2] = ((int64_t)high2 << 27) + __reduce_add_sync(EVERY_LANE, (uint32_t)mine[2] & mask);
}

/* The first lane with the largest maximum. */
template <bool LOW> static __device__ __forceinline__ int owner_of(bool mine, float low) {
    if (LOW) {
        const uint32_t key = mine ? order_of(low) : 0u, top_key = __reduce_max_sync(EVERY_LANE, key); /* by every lane */
        mine = mine && key == top_key;
    }
    return __ffs(__ballot_sync(EVERY_LANE, mine)) - 1;
}

/* Notes of count <= 16 blocks, note b in lanes b and b + 16: one adds the digits, the other the maximum. The same in every lane. */
/* LOW: maxima have low parts. */
template <arithmetic KIND, bool LOW> static __device__ __forceinline__ row_part merge_notes(const block_note &n, bool present) {
    const int lane = threadIdx.x & 31;
    const bool digits = lane < 16;
    row_part p;
    double f = 0.0;
    int k = 0;
    const uint32_t key = present ? order_of(n.maximum) : 0u, top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = owner_of<LOW>(key == top_key, n.maximum_low); /* the digits' lane; the maximum's is 16 on */
    p.slow = __any_sync(EVERY_LANE, present && is_slow(n));
    p.maximum = of_order(top_key);
    if (present && fabsf(n.maximum) < TERM32_LIMIT) f = LOW && KIND == ARITHMETIC_32 ? softmax_cuda_top_power(n.maximum, n.maximum_low, k) : top_power<KIND>(n, k);
    p.maximum_low = LOW ? __shfl_sync(EVERY_LANE, n.maximum_low, owner) : 0.0f;
    p.k = __shfl_sync(EVERY_LANE, k, owner);
    p.f = __shfl_sync(EVERY_LANE, f, owner);
    uint64_t magnitude = digits ? (present ? n.digits : 0) : lane == owner + 16 || f == 0.0 ? 0 : power_magnitude(f);
    const int exponent = digits ? n.kb - TERM32_LOW_UNIT : k - 52;
    p.top = __reduce_max_sync(EVERY_LANE, magnitude ? (exponent + 62) >> 5 : NO_TOP);
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    first_words(magnitude, exponent, p.top, word);
    add_words(word, p.limb);
    return p;
}

/* Parts of count <= 16 thread blocks, part c in lanes c and c + 16 likewise. */
template <bool LOW> static __device__ __forceinline__ row_part merge_parts(const row_part *parts, int count) {
    const int lane = threadIdx.x & 31;
    const bool present = (lane & 15) < count, sums = lane < 16;
    const row_part n = parts[present ? lane & 15 : 0];
    row_part p;
    const uint32_t key = present ? order_of(n.maximum) : 0u, top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = owner_of<LOW>(key == top_key, n.maximum_low);
    p.maximum_low = LOW ? __shfl_sync(EVERY_LANE, n.maximum_low, owner) : 0.0f;
    p.slow = __any_sync(EVERY_LANE, present && n.slow);
    p.maximum = of_order(top_key);
    p.k = __shfl_sync(EVERY_LANE, n.k, owner);
    p.f = __shfl_sync(EVERY_LANE, n.f, owner);
    const uint64_t magnitude = sums || !present || lane == owner + 16 || n.f == 0.0 ? 0 : power_magnitude(n.f);
    const int exponent = n.k - 52;
    p.top = __reduce_max_sync(EVERY_LANE, sums ? (present ? n.top : NO_TOP) : magnitude ? (exponent + 62) >> 5 : NO_TOP);
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    int64_t mine[ACCUMULATOR_FIRST_LIMBS];
    first_words(magnitude, exponent, p.top, word);
    const int down = p.top - n.top; /* whole limbs, as accumulator_raise moves them */
    mine[0] = !sums ? word[0] : present && down == 0 ? n.limb[0] : 0;
    mine[1] = !sums ? word[1] : !present ? 0 : down == 0 ? n.limb[1] : down == 1 ? n.limb[0] : 0;
    mine[2] = !sums ? word[2] : !present ? 0 : down == 0 ? n.limb[2] : down == 1 ? n.limb[1] : down == 2 ? n.limb[0] : 0;
    add_limbs(mine, p.limb);
    return p;
}

/* A row of one block needs no accumulator: the digits are exact in a double. */
template <arithmetic KIND, bool LOG> static __device__ __forceinline__ row_answer answer_of_block(const block_note &n, bool want_logsumexp) {
    int k = 0;
    double f = 1.0, rest = 0.0;
    row_answer r;
    if (fabsf(n.maximum) < TERM32_LIMIT) {
        f = top_power<KIND>(n, k);
        rest = double_of((int64_t)n.digits) * bits_double((uint64_t)(1023 + n.kb - TERM32_LOW_UNIT - k) << 52);
    }
    r = answer_of<KIND, LOG, false>(n.maximum, 0.0f, k, f, rest, want_logsumexp);
    r.slow |= is_slow(n);
    return r;
}

template <arithmetic KIND, bool LOG, bool LOW> static __device__ __forceinline__ row_answer answer_of_part(const row_part &p, bool want_logsumexp) {
    row_answer r = answer_of<KIND, LOG, LOW>(p.maximum, p.maximum_low, p.k, p.f, read_rest(p), want_logsumexp);
    r.slow |= p.slow;
    return r;
}

#endif
