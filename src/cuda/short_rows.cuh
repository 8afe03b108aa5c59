/* Contiguous rows of at most SOFTMAX_BLOCK_COLUMNS columns in registers: a warp holds 32 / N of them, N columns of each in a lane. What is done once
 * a row, in double, is done for all of them at once: lane r reads row r out. */
#ifndef SOFTMAX_CUDA_SHORT_ROWS_CUH
#define SOFTMAX_CUDA_SHORT_ROWS_CUH

#include "generic_row.cuh"
#include "row_merge.cuh"

/* Lane r's row as its writer needs it: passed round by shuffles. */
struct short_answer {
    row_answer row;
    register_factor factor;
};

template <typename T, int N, int VEC>
static __device__ __forceinline__ void write_short_row(const softmax_job &job, int64_t row, const short_answer &all, int r, float *v) {
    typedef lane_words<T, VEC, N> lanes;
    const arithmetic kind = cell<T>::kind;
    const bool want_log = job.op != OPERATION_SOFTMAX;
    const int count = row < job.rows ? (int)job.columns : 0;
    short_answer mine;
    mine.row.maximum = __shfl_sync(EVERY_LANE, all.row.maximum, r);
    if (fabsf(mine.row.maximum) >= TERM32_LIMIT && fabsf(mine.row.maximum) < INFINITY) {
        if (count) slow_row(job, row);
        return;
    }
    if (job.op == OPERATION_LOGSUMEXP) return;
    char *out = flat_row(job.out, row);
    if (is_constant(mine.row)) {
        lanes::fill(out, count, constant_of<T>(mine.row, want_log, job.empty_zero));
        return;
    }
    if (want_log) {
        mine.row.minus_log = __shfl_sync(EVERY_LANE, all.row.minus_log, r);
        log_block<T, N>(mine.row, v);
    } else {
        mine.factor.hi = __shfl_sync(EVERY_LANE, all.factor.hi, r);
        mine.factor.is_far = false; /* a block is never far from its own maximum */
        mine.factor.is_plain = kind != ARITHMETIC_32 && __shfl_sync(EVERY_LANE, all.factor.is_plain, r);
        if (!mine.factor.is_plain) {
            mine.factor.lo = __shfl_sync(EVERY_LANE, all.factor.lo, r);
            mine.factor.cut = __shfl_sync(EVERY_LANE, all.factor.cut, r);
            mine.factor.most = __shfl_sync(EVERY_LANE, all.factor.most, r);
        }
        scale_block<kind, N>(mine.factor, v);
    }
    lanes::store(out, count, v);
}

template <typename T, int N, int VEC> static __device__ __forceinline__ void short_rows(const softmax_job &job) {
    typedef lane_words<T, VEC, N> lanes;
    const int rows_of_warp = 32 / N, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const arithmetic kind = cell<T>::kind;
    const bool want_log = job.op != OPERATION_SOFTMAX;
    for (int64_t first = ((int64_t)blockIdx.x * warps + (threadIdx.x >> 5)) * rows_of_warp; first < job.rows;
         first += (int64_t)gridDim.x * warps * rows_of_warp) {
        uint32_t words[rows_of_warp][lanes::words];
        float v[rows_of_warp][N];
        block_note mine = {0.0f, 0.0f, 0, 0};
        short_answer answer;
#pragma unroll
        for (int r = 0; r < rows_of_warp; r++)
            lanes::load(flat_row(job.x, first + r), first + r < job.rows ? (int)job.columns : 0, words[r]);
#pragma unroll
        for (int r = 0; r < rows_of_warp; r++) {
            block_note note;
            float m1, m2;
            cell<T>::template largest_two<lanes::words>(words[r], m1, m2);
            lanes::open(words[r], v[r]);
            note = want_log ? sum_block<kind, N, true>(m1, m2, v[r]) : sum_block<kind, N, false>(m1, m2, v[r]);
            if (lane == r) mine = note;
        }
        answer.row = answer_of_block<kind>(mine, job.op);
        answer.factor = factor_of<kind>(answer.row, mine.maximum, mine.top, mine.kb);
        if (job.op == OPERATION_LOGSUMEXP && lane < rows_of_warp && first + lane < job.rows && !answer.row.slow)
            store_result(flat_row(job.out, first + lane), job.out.type, answer.row.logsumexp);
#pragma unroll
        for (int r = 0; r < rows_of_warp; r++) write_short_row<T, N, VEC>(job, first + r, answer, r, v[r]);
    }
}

#endif
