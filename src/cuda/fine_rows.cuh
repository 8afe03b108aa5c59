/* split_rows.cuh's fine pieces: a block of columns by FINE_WARPS warps, and one warp more, the reader. In the first launch it works out what the block's maximum
 * tells while the others add up terms; in the second it reads the notes of all blocks, which the first left in scratch, and the row's answer from them, while
 * the others make the terms again. So little lies between the last sum and the first result. */
#ifndef SOFTMAX_CUDA_FINE_ROWS_CUH
#define SOFTMAX_CUDA_FINE_ROWS_CUH

#include "choice.h"
#include "split_rows.cuh"

#define FINE_WARPS 4
#define FINE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / FINE_WARPS / 32) /* of a lane */
#define FINE_NOTES (FINE_BLOCKS / 32)                          /* of blocks that a lane of the reader reads */

/* What the row must know of a block: e^maximum = f 2^k, and digits 2^(kb - TERM32_LOW_UNIT), the sum of all else. */
struct __align__(16) fine_note {
    float maximum;
    int kb;
    int k;
    int unused;
    uint64_t digits;
    double f; /* 0: no such term */
};
static_assert(sizeof(fine_note) == FINE_NOTE_BYTES, "the scratch of a note");

struct fine_board {
    float first[FINE_WARPS], second[FINE_WARPS]; /* the two largest of each warp's */
    uint32_t high[FINE_WARPS], low[FINE_WARPS];
    row_answer answer;
};

/* register_block.cuh's top_of_block over the warps of a thread block. */
static __device__ __forceinline__ block_sums top_of_shares(const fine_board &board) {
    block_sums s;
    float first = -INFINITY, second = -INFINITY;
#pragma unroll
    for (int w = 0; w < FINE_WARPS; w++) {
        take_in(board.first[w], first, second);
        second = fmaxf(second, board.second[w]);
    }
    s.maximum = first + 0.0f;
    s.maximum_low = 0.0f;
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    s.high = s.low = 0;
    return s;
}

/* This thread's columns of the piece's block. */
template <typename T, int VEC> struct fine_columns {
    typedef lane_words<T, VEC, FINE_COLUMNS> lanes;
    int64_t offset; /* of the warp's first column in its row, in bytes */
    int count;      /* of the warp's columns */
    float v[FINE_COLUMNS], first, second;

    __device__ __forceinline__ void load(const softmax_job &job, const row_piece &piece) {
        const int before = (int)(threadIdx.x >> 5) * 32 * FINE_COLUMNS;
        uint32_t words[lanes::words];
        count = (int)piece.columns - before;
        offset = (piece.first + before) * (int64_t)sizeof(T);
        lanes::load(flat_row(job.x, piece.row) + offset, count, words);
        cell<T>::template largest_two<lanes::words>(words, first, second);
        lanes::open(words, v);
    }

    /* The block's top; this warp's digits go onto the board. The thread block waits twice. */
    __device__ __forceinline__ block_sums add_up(fine_board &board) {
        const int warp = (int)(threadIdx.x >> 5), lane = (int)(threadIdx.x & 31);
        uint32_t key = order_of(first), top = __reduce_max_sync(EVERY_LANE, key);
        const uint32_t owners = __ballot_sync(EVERY_LANE, key == top);
        if (lane == __ffs((int)owners) - 1) key = order_of(second);
        const uint32_t next = __reduce_max_sync(EVERY_LANE, key);
        if (lane == 0) {
            board.first[warp] = of_order(top);
            board.second[warp] = of_order(next);
        }
        __syncthreads();
        block_sums sums = top_of_shares(board);
        add_terms<cell<T>::kind, FINE_COLUMNS, 0, false, 1>(sums, v, count);
        if (lane == 0) {
            board.high[warp] = sums.high;
            board.low[warp] = sums.low;
        }
        __syncthreads();
        return sums;
    }
};

/* ---- The first launch ----------------------------------------------------------------------------------------------------------------------- */

/* The block's note, by the reader, which meets the others where they wait. */
template <arithmetic KIND> static __device__ __forceinline__ fine_note note_block(const fine_board &board) {
    __syncthreads();
    const block_sums s = top_of_shares(board);
    const term32 top = term32_fast(fmaxf(s.maximum, term32_floor(s.kb)), 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - s.kb, KIND);
    const block_note b = {s.maximum, 0.0f, top.v, (int)s.kb, 0};
    const bool has_terms = fabsf(s.maximum) < TERM32_LIMIT;
    fine_note n = {s.maximum, (int)s.kb, 0, 0, 0, 0.0};
    if (has_terms) n.f = top_power<KIND>(b, n.k);
    __syncthreads();
    uint32_t high = 0, low = 0;
#pragma unroll
    for (int w = 0; w < FINE_WARPS; w++) {
        high += board.high[w];
        low += board.low[w];
    }
    if (has_terms) n.digits = (uint64_t)((int64_t)(int32_t)(high - top.high) * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)(low - top.low));
    return n;
}

template <typename T, int VEC> static __device__ __forceinline__ void fine_parts(const softmax_job &job, int pieces) {
    __shared__ fine_board board;
    const row_piece piece = piece_of(job, pieces);
    let_next_kernel_start();
    if (threadIdx.x < 32 * FINE_WARPS) {
        fine_columns<T, VEC> mine;
        mine.load(job, piece);
        mine.add_up(board);
        return;
    }
    const fine_note note = note_block<cell<T>::kind>(board);
    if (threadIdx.x == 32 * FINE_WARPS) ((fine_note *)job.scratch)[blockIdx.x] = note;
}

/* ---- The second ----------------------------------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ int top_of(uint64_t magnitude, int exponent) { return magnitude ? (exponent + 62) >> 5 : NO_TOP; }

static __device__ __forceinline__ void add_term_words(int64_t limb[ACCUMULATOR_FIRST_LIMBS], uint64_t magnitude, int exponent, int top) {
    uint32_t word[ACCUMULATOR_FIRST_LIMBS];
    first_words(magnitude, exponent, top, word);
#pragma unroll
    for (int j = 0; j < ACCUMULATOR_FIRST_LIMBS; j++) limb[j] += magnitude ? word[j] : 0u;
}

/* What a row's notes, at most NOTES a lane, add up to, by one warp; the same in every lane. */
template <int NOTES> static __device__ __forceinline__ row_part part_of_notes(const fine_note *notes, int count) {
    const int lane = (int)(threadIdx.x & 31);
    fine_note mine[NOTES];
    uint64_t term[NOTES]; /* the maxima's */
    int64_t limb[ACCUMULATOR_FIRST_LIMBS] = {0, 0, 0};
    uint32_t key = 0;
    int owned = 0, k = 0, top = NO_TOP;
    double f = 0.0;
    bool slow = false;
    row_part p = empty_part();
#pragma unroll
    for (int i = 0; i < NOTES; i++) {
        mine[i] = {-INFINITY, 0, 0, 0, 0, 0.0};
        if (i * 32 + lane < count) mine[i] = notes[i * 32 + lane];
    }
#pragma unroll
    for (int i = 0; i < NOTES; i++) {
        const uint32_t own = order_of(mine[i].maximum);
        slow = slow || (fabsf(mine[i].maximum) >= TERM32_LIMIT && fabsf(mine[i].maximum) < INFINITY);
        term[i] = mine[i].f == 0.0 ? 0 : power_magnitude(mine[i].f);
        if (i > 0 && own <= key) continue;
        key = own;
        owned = i;
        k = mine[i].k;
        f = mine[i].f;
    }
    const uint32_t top_key = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    p.slow = __any_sync(EVERY_LANE, slow);
    p.maximum = of_order(top_key);
    p.k = __shfl_sync(EVERY_LANE, k, owner);
    p.f = __shfl_sync(EVERY_LANE, f, owner);
#pragma unroll
    for (int i = 0; i < NOTES; i++) {
        if (lane == owner && i == owned) term[i] = 0; /* the row's maximum is not part of the rest */
        top = max(top, max(top_of(mine[i].digits, mine[i].kb - TERM32_LOW_UNIT), top_of(term[i], mine[i].k - 52)));
    }
    p.top = __reduce_max_sync(EVERY_LANE, top);
#pragma unroll
    for (int i = 0; i < NOTES; i++) {
        add_term_words(limb, mine[i].digits, mine[i].kb - TERM32_LOW_UNIT, p.top);
        add_term_words(limb, term[i], mine[i].k - 52, p.top);
    }
    add_limbs(limb, p.limb);
    return p;
}

/* By the reader: the answer onto the board, and what is left to one warp of a row. */
template <arithmetic KIND, bool LOG> static __device__ __forceinline__ void read_fine(const softmax_job &job, const row_piece &piece, int pieces, fine_board &board) {
    const bool want_logsumexp = LOG && job.op == OPERATION_LOGSUMEXP;
    wait_for_previous_kernel();
    const fine_note *notes = (const fine_note *)job.scratch + piece.row * pieces;
    const row_part part = pieces <= FINE_BLOCKS / 2 ? part_of_notes<FINE_NOTES / 2>(notes, pieces) : part_of_notes<FINE_NOTES>(notes, pieces);
    const row_answer answer = answer_of_part<KIND, LOG, false>(part, want_logsumexp);
    if ((threadIdx.x & 31) == 0) board.answer = answer;
    __syncthreads();
    if (piece.index != 0) return;
    if (answer.slow)
        softmax_cuda_slow_row(job, piece.row);
    else if (want_logsumexp && (threadIdx.x & 31) == 0)
        store_result(flat_row(job.out, piece.row), job.out.type, answer.logsumexp);
}

template <typename T, int VEC, bool LOG> static __device__ __forceinline__ void fine_results(const softmax_job &job, int pieces) {
    const arithmetic kind = cell<T>::kind;
    __shared__ fine_board board;
    const row_piece piece = piece_of(job, pieces);
    if (threadIdx.x >= 32 * FINE_WARPS) {
        if (!LOG) {
            __syncthreads();
            __syncthreads();
        }
        read_fine<kind, LOG>(job, piece, pieces, board);
        return;
    }
    fine_columns<T, VEC> mine;
    block_note note = {};
    mine.load(job, piece);
    if (!LOG) note = note_of<kind>(mine.add_up(board)); /* but for its digits, which are this warp's alone and not used */
    __syncthreads();
    const row_answer answer = board.answer;
    if (answer.slow || (LOG && job.op == OPERATION_LOGSUMEXP)) return;
    write_columns_of_block<T, VEC, LOG, FINE_COLUMNS>(job, answer, note, flat_row(job.out, piece.row) + mine.offset, mine.count, mine.v);
}

#endif
