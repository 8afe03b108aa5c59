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
struct block_board {
    block_sums sums[MOST_WARPS];
    float4 factors[MOST_WARPS]; /* hi, lo, cut, most */
    row_answer answer;
    int ordinary;
    row_part parts[MOST_CLUSTER];
    uint64_t barrier;
};

/* By warp 0. LOW: scores have low parts. */
template <arithmetic KIND, bool LOG, bool LOW> static __device__ __forceinline__ void read_out(block_board &board, int rank, int cluster) {
    const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const bool present = (lane & 15) < warps;
    const block_note n = note_of<KIND>(board.sums[present ? lane & 15 : 0]);
    row_part part = merge_notes<KIND, LOW>(n, present);
    if (cluster > 1) {
        exchange(part, board.parts, &board.barrier, rank, cluster);
        part = merge_parts<LOW>(board.parts, cluster);
    }
    const row_answer answer = answer_of_part<KIND, LOG>(part);
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

/* Rows that need more than a factor: constant ones, blocks far below the row's maximum, logsumexp. */
template <typename T, int VEC, bool LOG>
static __device__ __forceinline__ void write_careful(const softmax_job &job, const block_board &board, const block_sums &sums, int64_t row, int rank, char *out, int count,
                                                     float *v) {
    typedef lane_words<T, VEC, LANE_COLUMNS> lanes;
    const arithmetic kind = cell<T>::kind;
    const row_answer answer = board.answer;
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (rank == 0 && threadIdx.x == 0) store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
        return;
    }
    if (is_constant(answer)) {
        lanes::fill(out, count, constant_of<T>(answer, LOG, job.empty_zero));
        return;
    }
    if (LOG)
        log_block<T, LANE_COLUMNS>(answer, v);
    else
        scale_block<kind, LANE_COLUMNS>(factor_of<kind>(answer, note_of<kind>(sums)), v);
    lanes::store(out, count, v);
}

/* PARTS: of a block, see sum_block. */
template <typename T, int VEC, bool LOG, int PARTS>
static __device__ __forceinline__ void rows_of_blocks(const softmax_job &job, int cluster) {
    typedef lane_words<T, VEC, LANE_COLUMNS> lanes;
    const arithmetic kind = cell<T>::kind;
    __shared__ block_board board;
    const int warp = threadIdx.x >> 5;
    int rank;
    int64_t row;
    place_of(cluster, rank, row);
    const int first = (rank * (int)(blockDim.x >> 5) + warp) * SOFTMAX_BLOCK_COLUMNS, left = (int)job.columns - first;
    const int count = left < SOFTMAX_BLOCK_COLUMNS ? left : SOFTMAX_BLOCK_COLUMNS;
    uint32_t words[lanes::words];
    float v[LANE_COLUMNS], m1, m2;

    lanes::load(flat_row(job.x, row) + (int64_t)first * (int)sizeof(T), count, words);
    if (cluster > 1) begin_exchange(&board.barrier, cluster);
    cell<T>::template largest_two<lanes::words>(words, m1, m2);
    lanes::open(words, v);
    const block_sums sums = sum_block<kind, LANE_COLUMNS, LOG, PARTS>(m1, m2, v, count);
    if ((threadIdx.x & 31) == 0) board.sums[warp] = sums;
    __syncthreads();
    if (cluster > 1) wait_for_cluster();
    if (warp == 0) read_out<kind, LOG, false>(board, rank, cluster); /* every warp for itself costs more: the schedulers are the limit */
    __syncthreads();
    char *out = flat_row(job.out, row) + (int64_t)first * (int)sizeof(T);
    if (board.ordinary && !(LOG && job.op == OPERATION_LOGSUMEXP)) {
        if (LOG) {
            log_block<T, LANE_COLUMNS>(board.answer, v);
        } else {
            const float4 factor = board.factors[warp];
            const register_factor f = {factor.x, factor.y, factor.z, factor.w, false, kind != ARITHMETIC_32};
            scale_block<kind, LANE_COLUMNS>(f, v);
        }
        lanes::store(out, count, v);
        return;
    }
    if (!board.answer.slow)
        write_careful<T, VEC, LOG>(job, board, sums, row, rank, out, count, v);
    else if (rank == 0 && warp == 0)
        softmax_cuda_slow_row(job, row);
}

#endif
