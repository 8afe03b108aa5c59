/* Contiguous rows of any length, a thread block each: read once for the state, a block of columns a warp at a time, and once more for the results
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). */
#ifndef SOFTMAX_CUDA_ONLINE_ROWS_CUH
#define SOFTMAX_CUDA_ONLINE_ROWS_CUH

#include "block_results.cuh"
#include "row_parts.cuh"
#include "slow_row.cuh"

#define ONLINE_WARPS 8

static __device__ __forceinline__ int columns_from(int64_t columns, int64_t first) {
    const int64_t left = columns - first;
    return left < SOFTMAX_BLOCK_COLUMNS ? (int)left : SOFTMAX_BLOCK_COLUMNS;
}

/* This warp's block of columns: its sums, and v its values (KEEP_SCORES: its scores). */
template <typename T, int VEC, bool KEEP_SCORES>
static __device__ __forceinline__ block_sums open_block(const char *from, int count, float *v) {
    typedef lane_words<T, VEC, LANE_COLUMNS> lanes;
    uint32_t words[lanes::words];
    float m1, m2;
    lanes::load(from, count, words);
    cell<T>::template largest_two<lanes::words>(words, m1, m2);
    lanes::open(words, v);
    return sum_block<cell<T>::kind, LANE_COLUMNS, 0, KEEP_SCORES, 1>(m1, m2, v, count);
}

/* What this warp's of so many columns add up to. Lane i takes every 32nd of its blocks, so that what is done once a block is done for 32 of them at once. */
template <typename T, int VEC> static __device__ __forceinline__ row_part reduce_blocks(const char *x, int64_t columns, int warp, int warps) {
    const arithmetic kind = cell<T>::kind;
    const int lane = threadIdx.x & 31;
    const int64_t step = (int64_t)warps * SOFTMAX_BLOCK_COLUMNS;
    row_part mine = empty_part();
    for (int64_t group = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; group < columns; group += 32 * step) {
        block_sums own = {-INFINITY, 0.0f, 0.0f, 0, 0};
        int held = 0;
#pragma unroll 1
        for (int64_t c = group; held < 32 && c < columns; c += step, held++) {
            float v[LANE_COLUMNS];
            const block_sums sums = open_block<T, VEC, false>(x + c * (int)sizeof(T), columns_from(columns, c), v);
            if (lane == held) own = sums;
        }
        if (lane < held) add_part(mine, part_of_note<kind>(note_of<kind>(own)));
        __syncwarp();
    }
    return merge_lanes(mine);
}

/* Their results, by one warp of so many. */
template <typename T, int VEC, bool LOG>
static __device__ __forceinline__ void write_blocks(const softmax_job &job, const row_answer &answer, const char *x, char *out, int64_t columns, int warp, int warps) {
#pragma unroll 1
    for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < columns; c += (int64_t)warps * SOFTMAX_BLOCK_COLUMNS) {
        const int count = columns_from(columns, c);
        float v[LANE_COLUMNS];
        const block_sums sums = open_block<T, VEC, LOG>(x + c * (int)sizeof(T), count, v);
        write_columns_of_block<T, VEC, LOG, LANE_COLUMNS>(job, answer, note_of<cell<T>::kind>(sums), out + c * (int)sizeof(T), count, v);
    }
}

template <typename T, int VEC, bool LOG> static __device__ __forceinline__ void online_rows(const softmax_job &job) {
    const arithmetic kind = cell<T>::kind;
    __shared__ row_part parts[ONLINE_WARPS];
    __shared__ row_answer answers[1];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const char *x = flat_row(job.x, row);
        const row_part part = reduce_blocks<T, VEC>(x, job.columns, warp, ONLINE_WARPS);
        if (lane == 0) parts[warp] = part;
        __syncthreads();
        if (warp == 0) {
            const row_part whole = merge_lanes(lane < ONLINE_WARPS ? parts[lane] : empty_part());
            const row_answer r = answer_of_part<kind, LOG, false>(whole, job.op == OPERATION_LOGSUMEXP);
            if (lane == 0) answers[0] = r;
        }
        __syncthreads();
        const row_answer answer = answers[0];
        if (answer.slow) {
            if (warp == 0) softmax_cuda_slow_row(job, row);
        } else if (LOG && job.op == OPERATION_LOGSUMEXP) {
            if (threadIdx.x == 0) store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
        } else {
            write_blocks<T, VEC, LOG>(job, answer, x, flat_row(job.out, row), job.columns, warp, ONLINE_WARPS);
        }
    }
}

#endif
