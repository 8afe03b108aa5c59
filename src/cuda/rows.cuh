/* Contiguous rows in registers, one read and one write: a warp holds a block of SOFTMAX_BLOCK_COLUMNS columns, a thread block up to 16, a cluster
 * of thread blocks up to 256. One exchange a row. A row whose scores are out of the fast terms' range is left to slow_row.cuh. */
#ifndef SOFTMAX_CUDA_ROWS_CUH
#define SOFTMAX_CUDA_ROWS_CUH

#include "clusters.cuh"
#include "operands.cuh"
#include "row_merge.cuh"
#include "slow_row.cuh"

#define LANE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / 32)

/* ---- The kernel: a thread block or a cluster a row ---------------------------------------------------------------------------------------- */

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
static __device__ __forceinline__ void read_out(block_board &board, int rank, int cluster, bool want_logsumexp) {
    const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
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

/* A thread block's shared memory: the board, then what warp 0 parks. In no template, for the emulator's compiler. */
#define PARKED_BYTES (((LANE_COLUMNS + 4) / 4) * 512)
static __device__ __forceinline__ unsigned char *row_memory() {
    __shared__ __align__(16) unsigned char memory[sizeof(block_board) + PARKED_BYTES];
    return memory;
}
static __device__ __forceinline__ block_board &row_board() { return *(block_board *)(void *)row_memory(); }

/* Rows that need more than a factor: constant ones, blocks far below the row's maximum, logsumexp. */
template <typename T, typename LANES, bool LOG>
static __device__ __forceinline__ void write_careful(const softmax_job &job, const block_board &board, const block_sums &sums, int64_t row, int rank, char *out, int count,
                                                     float *v) {
    const arithmetic kind = cell<T>::kind;
    const row_answer answer = board.answer;
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (rank == 0 && threadIdx.x == 0) store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
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

/* LANES: how a lane's columns are read and written. PARTS: of a block, see sum_block. */
template <typename T, typename LANES, bool LOG, int PARTS, bool CLUSTER>
static __device__ __forceinline__ void rows_of_blocks(const softmax_job &job, int cluster) {
    const arithmetic kind = cell<T>::kind;
    const int N = LANE_COLUMNS, ELEMENTS = LANES::elements;
    block_board &board = row_board();
    parking<ELEMENTS> &parked = *(parking<ELEMENTS> *)(void *)(row_memory() + sizeof board);
    const int warp = threadIdx.x >> 5;
    int rank;
    int64_t row;
    place_of<CLUSTER>(rank, row);
    const int first = (rank * (int)(blockDim.x >> 5) + warp) * SOFTMAX_BLOCK_COLUMNS, left = (int)job.columns - first;
    const int count = left < SOFTMAX_BLOCK_COLUMNS ? left : SOFTMAX_BLOCK_COLUMNS;
    float v[ELEMENTS]; /* values, or where logarithms are wanted the scores */
    {
        const char *from = flat_row(job.x, row) + (int64_t)first * (int)sizeof(T);
        uint32_t words[LANES::words];
        float m1, m2;
        LANES::load(from, count, words);
        if (CLUSTER) begin_exchange(&board.barrier, cluster);
        cell<T>::template largest_two<LANES::words>(words, m1, m2);
        LANES::open(words, v);
        const block_sums sums = sum_block<kind, N, LANES::edge, LOG, PARTS>(m1, m2, v, PARTS > 1 ? LANES::in_accesses(from, count) : count);
        if ((threadIdx.x & 31) == 0) board.sums[warp] = sums;
    }
    if (warp == 0) { /* every warp for itself costs more */
        parked.leave(v);
        wait_for_warps();
        if (CLUSTER) wait_for_cluster();
        read_out<kind, LOG, false, CLUSTER>(board, rank, cluster, job.op == OPERATION_LOGSUMEXP);
        wait_for_warps();
        parked.take(v);
    } else {
        wait_for_warps();
        if (CLUSTER) wait_for_cluster();
        wait_for_warps();
    }
    char *out = flat_row(job.out, row) + (int64_t)first * (int)sizeof(T);
    if (board.ordinary && !(LOG && job.op == OPERATION_LOGSUMEXP)) {
        if (LOG) {
            log_block<ELEMENTS>(board.answer, v);
        } else {
            const float4 factor = board.factors[warp];
            const register_factor f = {factor.x, factor.y, factor.z, factor.w, false, kind != ARITHMETIC_32};
            scale_block<kind, ELEMENTS>(f, v);
        }
        LANES::store(out, count, v);
        return;
    }
    if (!board.answer.slow)
        write_careful<T, LANES, LOG>(job, board, board.sums[warp], row, rank, out, count, v);
    else if (rank == 0 && warp == 0)
        softmax_cuda_slow_row(job, row);
}

#endif
