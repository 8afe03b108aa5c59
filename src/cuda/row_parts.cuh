/* Parts of a row, lane by lane: what rows longer than one exchange are made of. As row_merge.cuh, but for any number of blocks and in any
 * grouping: limbs have 64 bits here, of which sums of parts may use all. */
#ifndef SOFTMAX_CUDA_ROW_PARTS_CUH
#define SOFTMAX_CUDA_ROW_PARTS_CUH

#include "row_merge.cuh"

static __device__ __forceinline__ row_part empty_part() {
    row_part p;
    p.f = 0.0;
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) p.limb[i] = 0;
    p.maximum = -INFINITY;
    p.maximum_low = 0.0f;
    p.k = 0;
    p.top = NO_TOP;
    p.slow = p.unused = 0;
    return p;
}

/* One block's, without a warp's help: every lane may have its own. */
template <arithmetic KIND> static __device__ __forceinline__ row_part part_of_note(const block_note &n) {
    row_part p = empty_part();
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    const int exponent = n.kb - TERM32_LOW_UNIT;
    p.maximum = n.maximum;
    p.slow = is_slow(n);
    if (!(fabsf(n.maximum) < TERM32_LIMIT)) return p;
    p.f = top_power<KIND>(n, p.k);
    if (n.digits) p.top = (exponent + 62) >> 5;
    first_words(n.digits, exponent, p.top, word);
    if (n.digits)
#pragma unroll
        for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) p.limb[i] = word[i];
    return p;
}

/* Its limbs in the window of a top that is not below its own. */
static __device__ __forceinline__ void raise_limbs(const row_part &p, int top, int64_t limb[ACCUMULATOR_FIRST_LIMBS]) {
    const int down = top - p.top;
    limb[0] = down == 0 ? p.limb[0] : 0;
    limb[1] = down == 0 ? p.limb[1] : down == 1 ? p.limb[0] : 0;
    limb[2] = down == 0 ? p.limb[2] : down == 1 ? p.limb[1] : down == 2 ? p.limb[0] : 0;
}

/* The maximum as a term; 0 where it is none. */
static __device__ __forceinline__ uint64_t maximum_term(const row_part &p) { return (uint64_t)(p.f * 0x1p52); }
static __device__ __forceinline__ int term_top(uint64_t magnitude, int k) { return magnitude ? (k - 52 + 62) >> 5 : NO_TOP; }

/* into becomes both: numerics/state.h's row_state_merge. */
static __device__ __forceinline__ void add_part(row_part &into, const row_part &from) {
    const bool above = order_of(from.maximum) > order_of(into.maximum);
    const row_part high = above ? from : into, low = above ? into : from;
    const uint64_t magnitude = maximum_term(low);
    int64_t a[ACCUMULATOR_FIRST_LIMBS], b[ACCUMULATOR_FIRST_LIMBS];
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    const int top = max(max(high.top, low.top), term_top(magnitude, low.k));
    raise_limbs(high, top, a);
    raise_limbs(low, top, b);
    first_words(magnitude, low.k - 52, top, word);
    into = high;
    into.top = top;
    into.slow = high.slow | low.slow;
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) into.limb[i] = a[i] + b[i] + (magnitude ? (int64_t)word[i] : 0);
}

/* The parts of all lanes together, the same in every lane. SMALL: of few blocks each, so that limbs fit add_limbs. Of LANES lanes, where all groups of so
 * many have the same parts. */
template <bool SMALL = false, int LANES = 32> static __device__ __forceinline__ row_part merge_lanes(const row_part &mine) {
    const uint32_t key = order_of(mine.maximum), top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    const uint64_t magnitude = (int)(threadIdx.x & (LANES - 1)) == owner ? 0 : maximum_term(mine);
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    int64_t limb[ACCUMULATOR_FIRST_LIMBS];
    row_part p = empty_part();
    p.slow = __any_sync(EVERY_LANE, mine.slow);
    p.maximum = of_order(top_key);
    p.k = __shfl_sync(EVERY_LANE, mine.k, owner);
    p.f = __shfl_sync(EVERY_LANE, mine.f, owner);
    p.top = __reduce_max_sync(EVERY_LANE, max(mine.top, term_top(magnitude, mine.k)));
    raise_limbs(mine, p.top, limb);
    first_words(magnitude, mine.k - 52, p.top, word);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) limb[i] += magnitude ? word[i] : 0u;
    if (SMALL) {
        add_limbs(limb, p.limb);
    } else {
#pragma unroll
        for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) {
            p.limb[i] = limb[i];
#pragma unroll
            for (int step = LANES / 2; step > 0; step /= 2) p.limb[i] += (int64_t)__shfl_xor_sync(EVERY_LANE, (uint64_t)p.limb[i], step);
        }
    }
    return p;
}

#endif
