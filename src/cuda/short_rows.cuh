/* Contiguous rows of at most SOFTMAX_BLOCK_COLUMNS columns in registers: a warp holds 32 / N of them, N columns of each in a lane. What is done once
 * a row, in double, is done for all of them at once: lane r reads row r out. */
#ifndef SOFTMAX_CUDA_SHORT_ROWS_CUH
#define SOFTMAX_CUDA_SHORT_ROWS_CUH

#include "operands.cuh"
#include "row_merge.cuh"
#include "slow_row.cuh"

/* Lane r's row as its writer needs it: passed round by shuffles. */
struct short_answer {
    row_answer row;
    register_factor factor;
};

/* ORDINARY: no row of the warp is constant or slow, and all factors are plain where the arithmetic is short. */
template <typename T, int N, int VEC, bool LOG, bool ORDINARY>
static __device__ __forceinline__ void write_short_row(const softmax_job &job, int64_t row, const short_answer &all, int r, float *v) {
    typedef lane_words<T, VEC, N> lanes;
    const arithmetic kind = cell<T>::kind;
    const int count = row < job.rows ? (int)job.columns : 0;
    char *out = flat_row(job.out, row);
    short_answer mine;
    if (!ORDINARY || LOG) mine.row.maximum = __shfl_sync(EVERY_LANE, all.row.maximum, r);
    if (!ORDINARY) {
        if (fabsf(mine.row.maximum) >= TERM32_LIMIT && fabsf(mine.row.maximum) < INFINITY) return; /* slow */
        if (is_constant(mine.row)) {
            lanes::fill(out, count, constant_of<T>(mine.row, LOG, job.empty_zero));
            return;
        }
    }
    if (LOG) {
        mine.row.minus_log = __shfl_sync(EVERY_LANE, all.row.minus_log, r);
        log_block<T, N>(mine.row, v);
    } else {
        mine.factor.hi = __shfl_sync(EVERY_LANE, all.factor.hi, r);
        mine.factor.is_far = false; /* a block is never far from its own maximum */
        mine.factor.is_plain = kind != ARITHMETIC_32 && (ORDINARY || __shfl_sync(EVERY_LANE, all.factor.is_plain, r));
        if (kind == ARITHMETIC_32 || !ORDINARY) {
            mine.factor.lo = __shfl_sync(EVERY_LANE, all.factor.lo, r);
            mine.factor.cut = __shfl_sync(EVERY_LANE, all.factor.cut, r);
            mine.factor.most = __shfl_sync(EVERY_LANE, all.factor.most, r);
        }
        scale_block<kind, N>(mine.factor, v);
    }
    lanes::store(out, count, v);
}

template <typename T, int N, int VEC, bool LOG> static __device__ __forceinline__ void short_rows(const softmax_job &job) {
    typedef lane_words<T, VEC, N> lanes;
    const int rows_of_warp = 32 / N, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const arithmetic kind = cell<T>::kind;
    for (int64_t first = ((int64_t)blockIdx.x * warps + (threadIdx.x >> 5)) * rows_of_warp; first < job.rows;
         first += (int64_t)gridDim.x * warps * rows_of_warp) {
        uint32_t words[rows_of_warp][lanes::words];
        float v[rows_of_warp][N];
        block_sums own = {0.0f, 0.0f, 0.0f, 0, 0}; /* lane r: row r's */
        short_answer answer;
#pragma unroll
        for (int r = 0; r < rows_of_warp; r++)
            lanes::load(flat_row(job.x, first + r), first + r < job.rows ? (int)job.columns : 0, words[r]);
#pragma unroll
        for (int r = 0; r < rows_of_warp; r++) {
            float m1, m2;
            cell<T>::template largest_two<lanes::words>(words[r], m1, m2);
            lanes::open(words[r], v[r]);
            const block_sums sums = sum_block<kind, N, LOG, N >= 16 ? 4 : 1>(m1, m2, v[r], (int)job.columns);
            if (lane == r) own = sums;
        }
        const block_note mine = note_of<kind>(own);
        answer.row = answer_of_block<kind, LOG>(mine);
        const bool its_row = lane < rows_of_warp && first + lane < job.rows;
        uint32_t slow = __ballot_sync(EVERY_LANE, its_row && answer.row.slow);
        if (LOG && job.op == OPERATION_LOGSUMEXP) {
            if (its_row && !answer.row.slow) store_result(flat_row(job.out, first + lane), job.out.type, answer.row.logsumexp);
        } else {
            if (!LOG) answer.factor = factor_of<kind>(answer.row, mine);
            const bool ordinary = !answer.row.slow && !is_constant(answer.row) && (LOG || kind == ARITHMETIC_32 || answer.factor.is_plain);
            if (__all_sync(EVERY_LANE, ordinary || lane >= rows_of_warp)) {
#pragma unroll
                for (int r = 0; r < rows_of_warp; r++) write_short_row<T, N, VEC, LOG, true>(job, first + r, answer, r, v[r]);
            } else {
#pragma unroll
                for (int r = 0; r < rows_of_warp; r++) write_short_row<T, N, VEC, LOG, false>(job, first + r, answer, r, v[r]);
            }
        }
        for (; slow; slow &= slow - 1) softmax_cuda_slow_row(job, first + __ffs(slow) - 1);
    }
}

#endif
