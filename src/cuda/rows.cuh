/* Contiguous rows in registers, one read and one write: a warp holds a block of SOFTMAX_BLOCK_COLUMNS columns, a thread block up to 16, a cluster
 * of thread blocks up to 256. One exchange a row. A row whose scores are out of the fast terms' range is left to slow_row.cuh. */
#ifndef SOFTMAX_CUDA_ROWS_CUH
#define SOFTMAX_CUDA_ROWS_CUH

#include "clusters.cuh"
#include "operands.cuh"
#include "row_merge.cuh"
#include "shifted_cells.cuh"
#include "slow_row.cuh"

#define LANE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / 32)

/* ---- The kernel: a thread block or a cluster a row ---------------------------------------------------------------------------------------- */

#define MOST_ROWS 4 /* of a thread block, where they are short */

/* What warp 0 finds for all: a factor for each block, and whether nothing but factors is needed. */
struct __align__(16) block_board {
    block_sums sums[MOST_WARPS];
    float4 factors[MOST_WARPS]; /* hi, lo, cut, most */
    row_answer answer;
    int ordinary;
    row_part parts[MOST_CLUSTER];
    uint64_t barrier;
};

/* By warp 0. LOW: scores have low parts. CLUSTER: there may be several thread blocks. */
template <arithmetic KIND, bool LOG, bool LOW, bool CLUSTER>
static __device__ __forceinline__ void read_out(block_board &board, int warps, int rank, int cluster, bool want_logsumexp) {
    const int lane = threadIdx.x & 31;
    const bool present = (lane & 15) < warps;
    block_sums sums = board.sums[present ? lane & 15 : 0];
    if (!LOW) sums.maximum_low = 0.0f;
    const block_note n = note_of<KIND>(sums);
    row_part part = merge_notes<KIND, LOW>(n, present);
    if (CLUSTER && cluster > 1) {
        exchange(part, board.parts, &board.barrier, rank, cluster);
        part = merge_parts<LOW>(board.parts, cluster);
    }
    const row_answer answer = answer_of_part<KIND, LOG, LOW>(part, want_logsumexp);
    bool ordinary = !answer.slow && !is_constant(answer);
    if (!LOG) {
        const register_factor f = factor_of<KIND>(answer, n);
        const bool all = __all_sync(EVERY_LANE, KIND == ARITHMETIC_32 ? !f.is_far : f.is_plain);
        ordinary = ordinary && all;
        if (lane < warps) board.factors[lane] = make_float4(f.hi, f.lo, f.cut, f.most);
    }
    if (lane == 0) {
        board.answer = answer;
        board.ordinary = ordinary;
    }
}

/* What warp 0 holds is kept in shared memory while it reads out, for it needs the registers. */
template <int WORDS> struct parking {
    static const int accesses = (WORDS + 3) / 4;
    float4 words[accesses][32];

    __device__ __forceinline__ void leave(const float *w) {
        float4 *at = &words[0][threadIdx.x & 31];
#pragma unroll
        for (int i = 0; i + 3 < WORDS; i += 4) at[i * 8] = make_float4(w[i], w[i + 1], w[i + 2], w[i + 3]);
        if (WORDS % 4) at[WORDS / 4 * 32].x = w[WORDS - 1];
    }
    __device__ __forceinline__ void take(float *w) const {
        const float4 *at = &words[0][threadIdx.x & 31];
#pragma unroll
        for (int i = 0; i + 3 < WORDS; i += 4) {
            const float4 four = at[i * 8];
            w[i] = four.x, w[i + 1] = four.y, w[i + 2] = four.z, w[i + 3] = four.w;
        }
        if (WORDS % 4) w[WORDS - 1] = at[WORDS / 4 * 32].x;
    }
};

/* A row's shared memory: the board, then what its first warp parks. In no template, for the emulator's compiler. */
#define PARKED_BYTES (((LANE_COLUMNS + 4) / 4) * 512)
#define ROW_BYTES (sizeof(block_board) + PARKED_BYTES)
static __device__ __forceinline__ unsigned char *row_memory() {
    __shared__ __align__(16) unsigned char memory[ROW_BYTES];
    return memory;
}
static __device__ __forceinline__ unsigned char *rows_memory() { /* of several rows */
    __shared__ __align__(16) unsigned char memory[MOST_ROWS * ROW_BYTES];
    return memory;
}
static __device__ __forceinline__ block_board &row_board() { return *(block_board *)(void *)row_memory(); }

/* Rows that need more than a factor: constant ones, blocks far below the row's maximum, logsumexp. */
template <typename T, typename LANES, bool LOG>
static __device__ __forceinline__ void write_careful(const softmax_job &job, const block_board &board, const block_sums &sums, int64_t row, bool leads, char *out, int count,
                                                     float *v) {
    const arithmetic kind = cell<T>::kind;
    const row_answer answer = board.answer;
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (leads && (threadIdx.x & 31) == 0) store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
        return;
    }
    if (is_constant(answer)) {
        LANES::fill(out, count, constant_of<T>(answer, LOG, job.empty_zero));
        return;
    }
    if (LOG)
        log_block<LANES::elements>(answer, v);
    else
        scale_block<kind, LANES::elements>(factor_of<kind>(answer, note_of<kind>(sums)), v);
    LANES::store(out, count, v);
}

/* Columns [first, first + count) of a row on their way to the L2 cache. */
template <typename T> static __device__ __forceinline__ void prefetch_row(const softmax_job &job, int64_t row, int first, int count) {
    const int left = (int)job.columns - first, columns = left < count ? left : count;
    if (row >= job.rows || columns <= 0) return;
    const char *from = flat_row(job.x, row) + (int64_t)first * (int)sizeof(T);
    const int head = (int)((0u - (unsigned)(uintptr_t)from) & 15u), bytes = columns * (int)sizeof(T) - head;
    if (bytes >= 16) prefetch_bytes_to_l2(from + head, bytes & ~15);
}

/* A block's sums, whose values or scores become v. False: it has nothing but an edge, v's last. */
template <typename T, typename LANES, bool LOG, int PARTS>
static __device__ __forceinline__ bool take_block(const char *from, int count, const uint32_t *words, float *v, block_sums &sums) {
    const arithmetic kind = cell<T>::kind;
    const int N = LANES::elements - LANES::edge, in_accesses = PARTS == 1 ? count : LANES::in_accesses(from, count);
    float m1, m2;
    if (LANES::edge && in_accesses == 0) {
        LANES::open_edge(words, v);
        sums = sum_block<kind, 0, 1, LOG, 1>(max_or_nan(v[N], v[N]), -INFINITY, v + N, 0); /* one NaN of all */
        return false;
    }
    cell<T>::template largest_two<LANES::words>(words, m1, m2);
    LANES::open(words, v);
    if (PARTS == 1 || (PARTS == 0 && count == SOFTMAX_BLOCK_COLUMNS))
        sums = sum_block<kind, N, LANES::edge, LOG, 1>(m1, m2, v, count);
    else
        sums = sum_block<kind, N, LANES::edge, LOG, 4>(m1, m2, v, in_accesses);
    return true;
}

/* Rows whose results are a factor's or a difference's. whole: as of take_block. */
template <typename T, typename LANES, bool LOG>
static __device__ __forceinline__ void write_plain(const block_board &board, int warp, bool whole, char *out, int count, float *v) {
    const arithmetic kind = cell<T>::kind;
    const int ELEMENTS = LANES::elements;
    const float4 factor = board.factors[warp];
    const register_factor f = {factor.x, factor.y, factor.z, factor.w, false, kind != ARITHMETIC_32};
    if (LANES::edge && !whole) {
        if (LOG)
            log_block<1>(board.answer, v + ELEMENTS - 1);
        else
            scale_block<kind, 1>(f, v + ELEMENTS - 1);
        LANES::store_edge(out, count, v);
        return;
    }
    if (LOG)
        log_block<ELEMENTS>(board.answer, v);
    else
        scale_block<kind, ELEMENTS>(f, v);
    LANES::store(out, count, v);
}

/* A row's last block where it has a column a lane at most: the warp of the block before has it too. */
template <typename T, bool LOG> struct thin_block {
    typedef lane_words<T, 1, 1> lanes;
    uint32_t word[1];
    float v[1];

    __device__ __forceinline__ void load(const char *from, int count) { lanes::load(from, count, word); }
    __device__ __forceinline__ block_sums take() {
        lanes::open(word, v);
        return sum_block<cell<T>::kind, 1, 0, LOG, 1>(max_or_nan(v[0], v[0]), -INFINITY, v, 32);
    }
};

/* A warp's block of results, and after it the row's thin block, which has notes of its own (board.sums[thin_note]). leads: this warp answers for the row. */
template <typename T, typename LANES, bool LOG>
static __device__ __forceinline__ void write_warp(const softmax_job &job, const block_board &board, int64_t row, int warp, bool leads, bool whole, char *out,
                                                  int count, float *v, bool has_thin, int thin_note, int thin_columns, thin_block<T, LOG> &thin) {
    using thin_lanes = lane_words<T, 1, 1>;
    char *thin_out = out + SOFTMAX_BLOCK_COLUMNS * (int)sizeof(T);
    if (board.ordinary && !(LOG && job.op == OPERATION_LOGSUMEXP)) {
        write_plain<T, LANES, LOG>(board, warp, whole, out, count, v);
        if (has_thin) write_plain<T, thin_lanes, LOG>(board, thin_note, true, thin_out, thin_columns, thin.v);
    } else if (!board.answer.slow) {
        write_careful<T, LANES, LOG>(job, board, board.sums[warp], row, leads, out, count, v);
        if (has_thin) write_careful<T, thin_lanes, LOG>(job, board, board.sums[thin_note], row, false, thin_out, thin_columns, thin.v);
    } else if (leads) {
        softmax_cuda_slow_row(job, row);
    }
}

/* LANES: how a lane's columns are read and written. PARTS: of a block, see sum_block; 0: of blocks that are not full. ahead: rows that are on their
 * way to the L2 cache, so that this thread block's part of a row is there when its turn comes. SEVERAL: a thread block has as many rows as it has
 * times `split_into` warps, and they do not wait for one another: thread blocks of two warps would be more than can be started in time. Else split_into is the
 * thread blocks of a row. */
template <typename T, typename LANES, bool LOG, int PARTS, bool CLUSTER, bool SEVERAL>
static __device__ __forceinline__ void rows_of_blocks(const softmax_job &job, int split_into, int ahead) {
    const arithmetic kind = cell<T>::kind;
    const int ELEMENTS = LANES::elements;
    const int warps = SEVERAL ? split_into : (int)(blockDim.x >> 5), cluster = SEVERAL ? 1 : split_into;
    const int slot = SEVERAL ? (int)(threadIdx.x >> 5) / warps : 0, warp = (int)(threadIdx.x >> 5) - slot * warps;
    unsigned char *memory = SEVERAL ? rows_memory() + slot * ROW_BYTES : row_memory();
    block_board &board = *(block_board *)(void *)memory;
    parking<ELEMENTS> &parked = *(parking<ELEMENTS> *)(void *)(memory + sizeof board);
    int rank;
    int64_t row;
    place_of<CLUSTER>(rank, row);
    if (SEVERAL) {
        row = row * ((int)(blockDim.x >> 5) / warps) + slot;
        if (row >= job.rows) return;
    }
    const int first = (rank * warps + warp) * SOFTMAX_BLOCK_COLUMNS, left = (int)job.columns - first;
    const int count = left < SOFTMAX_BLOCK_COLUMNS ? left : SOFTMAX_BLOCK_COLUMNS;
    if (ahead && warp == 0 && (threadIdx.x & 31) == 0) prefetch_row<T>(job, row + ahead, first, warps * SOFTMAX_BLOCK_COLUMNS);
    const int thin_columns = LANES::folds && !CLUSTER ? (int)job.columns - warps * SOFTMAX_BLOCK_COLUMNS : 0, notes = warps + (thin_columns > 0);
    const bool has_thin = thin_columns > 0 && warp == warps - 1;
    thin_block<T, LOG> thin;
    bool whole;
    float v[ELEMENTS]; /* values, or where logarithms are wanted the scores */
    {
        const char *from = flat_row(job.x, row) + (int64_t)first * (int)sizeof(T);
        uint32_t words[LANES::words];
        LANES::load(from, count, words);
        if (has_thin) thin.load(from + SOFTMAX_BLOCK_COLUMNS * (int)sizeof(T), thin_columns);
        if (CLUSTER) begin_exchange(&board.barrier, cluster);
        block_sums sums;
        whole = take_block<T, LANES, LOG, PARTS>(from, count, words, v, sums);
        if ((threadIdx.x & 31) == 0) board.sums[warp] = sums;
        if (has_thin) {
            const block_sums last = thin.take();
            if ((threadIdx.x & 31) == 0) board.sums[warps] = last;
        }
    }
    if (warp == 0) { /* every warp for itself costs more */
        parked.leave(v);
        wait_for_warps(slot, 32 * warps);
        if (CLUSTER) wait_for_cluster();
        read_out<kind, LOG, false, CLUSTER>(board, notes, rank, cluster, job.op == OPERATION_LOGSUMEXP);
        wait_for_warps(slot, 32 * warps);
        parked.take(v);
    } else {
        wait_for_warps(slot, 32 * warps);
        if (CLUSTER) wait_for_cluster();
        wait_for_warps(slot, 32 * warps);
    }
    char *out = flat_row(job.out, row) + (int64_t)first * (int)sizeof(T);
    write_warp<T, LANES, LOG>(job, board, row, warp, rank == 0 && warp == 0, whole, out, count, v, has_thin, warps, thin_columns, thin);
}

#endif
