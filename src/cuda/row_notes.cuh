/* What the blocks of a row tell, and its answer from that, by one warp more than compute: the reader. Every warp tells its thread block's reader twice: its
 * block's maximum and kb as soon as they are known, the sums of its terms at the end; and so do the readers of a cluster tell each other. What the first
 * words say is worked out while terms are computed, so that little is left to do between the last sum and the first result. The sums are those of
 * row_merge.cuh. */
#ifndef SOFTMAX_CUDA_ROW_NOTES_CUH
#define SOFTMAX_CUDA_ROW_NOTES_CUH

#include "row_merge.cuh"

#define NOTED_WARPS 16  /* that compute, of a thread block: a half of a warp's lanes */
#define NOTED_CLUSTER 16 /* thread blocks of a row, likewise */

enum { TOP_WORDS = 2, SUM_WORDS = 4 };

/* A row's notes in each of its thread blocks. */
struct note_board {
    uint64_t tops[NOTED_WARPS];  /* maximum and kb, of this thread block's blocks of columns */
    uint64_t sums[NOTED_WARPS];  /* high and low */
    float4 factors[NOTED_WARPS]; /* hi, lo, cut, most */
    uint64_t part_tops[NOTED_CLUSTER][TOP_WORDS]; /* f; maximum and k */
    uint64_t part_sums[NOTED_CLUSTER][SUM_WORDS]; /* three limbs; top and slow */
    row_answer answer;
    int ordinary; /* factors, or the answer's difference, are all that is needed */
    uint64_t tops_gate, sums_gate, part_tops_gate, part_sums_gate, answer_gate;
};

static __device__ __forceinline__ uint64_t word_of(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* By one thread. */
static __device__ __forceinline__ void begin_notes(note_board &board, int warps, int cluster) {
    gate_begin_for(&board.tops_gate, (uint32_t)warps);
    gate_begin_for(&board.sums_gate, (uint32_t)warps);
    gate_begin(&board.part_tops_gate);
    gate_begin(&board.part_sums_gate);
    gate_begin(&board.answer_gate);
    gates_begun();
    if (cluster > 1) {
        gate_expect(&board.part_tops_gate, (uint32_t)cluster * TOP_WORDS * 8);
        gate_expect(&board.part_sums_gate, (uint32_t)cluster * SUM_WORDS * 8);
    }
}

/* By one warp: of its block, the same in all lanes. */
static __device__ __forceinline__ void tell_top(note_board &board, const block_sums &s, int warp) {
    if ((threadIdx.x & 31) != 0) return;
    board.tops[warp] = word_of(float_bits(s.maximum), float_bits(s.kb));
    gate_arrive(&board.tops_gate);
}
static __device__ __forceinline__ void tell_sums(note_board &board, const block_sums &s, int warp) {
    if ((threadIdx.x & 31) != 0) return;
    board.sums[warp] = word_of(s.high, s.low);
    gate_arrive(&board.sums_gate);
}

static __device__ __forceinline__ block_sums told_top(const note_board &board, int warp) {
    const uint64_t word = board.tops[warp];
    block_sums s;
    s.maximum = bits_float((uint32_t)word);
    s.maximum_low = 0.0f;
    s.kb = bits_float((uint32_t)(word >> 32));
    s.high = s.low = 0;
    return s;
}

/* What the reader knows before the sums: lanes below 16 of a block, or a thread block, each; those from 16 on of the same ones' maxima. */
struct told_tops {
    float maximum; /* of all */
    int slow;
    double f; /* e^maximum = f 2^k */
    int k;
    uint64_t magnitude; /* of this lane's maximum's own term, 2^exponent each, but for the largest */
    int exponent;
};

/* From the maximum, f and k of this lane's. */
static __device__ __forceinline__ told_tops read_tops(bool present, float maximum, double f, int k) {
    const int lane = (int)(threadIdx.x & 31);
    const uint32_t key = present ? order_of(maximum) : 0u, top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    told_tops t;
    t.maximum = of_order(top_key);
    t.slow = 0;
    t.k = __shfl_sync(EVERY_LANE, k, owner);
    t.f = __shfl_sync(EVERY_LANE, f, owner);
    t.magnitude = lane < 16 || !present || lane == owner + 16 || f == 0.0 ? 0 : power_magnitude(f);
    t.exponent = k - 52;
    return t;
}

static __device__ __forceinline__ row_part part_of(const told_tops &t) {
    row_part p;
    p.maximum = t.maximum;
    p.maximum_low = 0.0f;
    p.f = t.f;
    p.k = t.k;
    p.slow = t.slow;
    p.unused = 0;
    return p;
}

/* The readers' own exchange: first what the maxima say, later the sums. */
static __device__ __forceinline__ told_tops exchange_tops(note_board &board, const told_tops &mine, int rank, int cluster) {
    const int lane = (int)(threadIdx.x & 31);
    const bool present = (lane & 15) < cluster;
    if (lane < cluster) {
        send_word(&board.part_tops[rank][0], &board.part_tops_gate, (unsigned)lane, double_bits(mine.f));
        send_word(&board.part_tops[rank][1], &board.part_tops_gate, (unsigned)lane, word_of(float_bits(mine.maximum), (uint32_t)mine.k));
    }
    gate_wait(&board.part_tops_gate, 0);
    const uint64_t *n = board.part_tops[present ? lane & 15 : 0];
    return read_tops(present, bits_float((uint32_t)n[1]), bits_double(n[0]), (int)(n[1] >> 32));
}

static __device__ __forceinline__ row_part exchange_sums(note_board &board, const row_part &mine, const told_tops &tops, int rank, int cluster) {
    const int lane = (int)(threadIdx.x & 31);
    const bool present = (lane & 15) < cluster, sums = lane < 16;
    if (lane < cluster) {
#pragma unroll
        for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) send_word(&board.part_sums[rank][i], &board.part_sums_gate, (unsigned)lane, (uint64_t)mine.limb[i]);
        send_word(&board.part_sums[rank][3], &board.part_sums_gate, (unsigned)lane, word_of((uint32_t)mine.top, (uint32_t)mine.slow));
    }
    gate_wait(&board.part_sums_gate, 0);
    const uint64_t *n = board.part_sums[present ? lane & 15 : 0];
    const int top = (int)(uint32_t)n[3];
    row_part p = part_of(tops);
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    int64_t limb[ACCUMULATOR_FIRST_LIMBS];
    p.slow = __any_sync(EVERY_LANE, present && n[3] >> 32 != 0);
    p.top = __reduce_max_sync(EVERY_LANE, sums ? (present ? top : NO_TOP) : tops.magnitude ? (tops.exponent + 62) >> 5 : NO_TOP);
    first_words(tops.magnitude, tops.exponent, p.top, word);
    const int down = p.top - top; /* whole limbs, as accumulator_raise moves them */
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) {
        limb[i] = sums ? 0 : word[i];
#pragma unroll
        for (int j = 0; j <= i; j++)
            if (sums && present && down == i - j) limb[i] = (int64_t)n[j];
    }
    add_limbs(limb, p.limb);
    return p;
}

/* By the reader: the answer, and this thread block's factors, onto the board. */
template <arithmetic KIND, bool LOG, bool CLUSTER>
static __device__ __forceinline__ row_answer read_notes(note_board &board, int warps, int rank, int cluster, bool want_logsumexp) {
    const int lane = (int)(threadIdx.x & 31), warp = (lane & 15) < warps ? lane & 15 : 0;
    const bool present = (lane & 15) < warps, digits = lane < 16;
    gate_wait(&board.tops_gate, 0);
    block_sums own = told_top(board, warp);
    const term32 top = term32_fast(fmaxf(own.maximum, term32_floor(own.kb)), 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - own.kb, KIND);
    block_note n = {own.maximum, 0.0f, top.v, (int)own.kb, 0};
    double f = 0.0;
    int k = 0;
    if (present && fabsf(n.maximum) < TERM32_LIMIT) f = top_power<KIND>(n, k);
    told_tops tops = read_tops(present, n.maximum, f, k), of_row;
    tops.slow = __any_sync(EVERY_LANE, present && is_slow(n));
    if (CLUSTER) of_row = exchange_tops(board, tops, rank, cluster);
    gate_wait(&board.sums_gate, 0);
    const uint64_t sums = board.sums[warp];
    n.digits = (uint64_t)((int64_t)(int32_t)((uint32_t)sums - top.high) * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)((uint32_t)(sums >> 32) - top.low));
    const uint64_t magnitude = digits ? (present ? n.digits : 0) : tops.magnitude;
    const int exponent = digits ? n.kb - TERM32_LOW_UNIT : tops.exponent;
    row_part part = part_of(tops);
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    part.top = __reduce_max_sync(EVERY_LANE, magnitude ? (exponent + 62) >> 5 : NO_TOP);
    first_words(magnitude, exponent, part.top, word);
    add_words(word, part.limb);
    if (CLUSTER) part = exchange_sums(board, part, of_row, rank, cluster);
    const row_answer answer = answer_of_part<KIND, LOG, false>(part, want_logsumexp);
    bool ordinary = !answer.slow && !is_constant(answer);
    if (!LOG) {
        const register_factor factor = factor_of<KIND>(answer, n);
        ordinary = __all_sync(EVERY_LANE, is_usual<KIND>(factor, n)) && ordinary;
        if (lane < warps) board.factors[lane] = make_float4(factor.hi, factor.lo, factor.cut, factor.most);
    }
    if (lane == 0) {
        board.answer = answer;
        board.ordinary = ordinary;
    }
    __syncwarp();
    if (lane == 0) gate_arrive(&board.answer_gate);
    return answer;
}

#endif
