/* A row over the whole GPU, for few rows or long ones, in two launches: the first leaves a part of the row's sum for every piece of it in scratch,
 * the second adds the parts up, each thread block for itself, and writes. The second may start while the first runs: it reads its columns and
 * waits for the parts alone. Sums are integers: the bits are those of any other kernel.
 *   fine    a piece is a block of columns, 256 columns a warp: the shortest way for one row; fine_rows.cuh
 *   coarse  a piece is several blocks, one a warp at a time, as online_rows.cuh has them */
#ifndef SOFTMAX_CUDA_SPLIT_ROWS_CUH
#define SOFTMAX_CUDA_SPLIT_ROWS_CUH

#include "online_rows.cuh"

#define COARSE_WARPS ONLINE_WARPS

/* Where a piece is: of which row, and its columns. */
struct row_piece {
    int64_t row, first, columns;
    int index;
};

static __device__ __forceinline__ row_piece piece_of(const softmax_job &job, int pieces) {
    const int64_t blocks = (job.columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    row_piece p;
    p.row = blockIdx.x / (unsigned)pieces;
    p.index = (int)(blockIdx.x % (unsigned)pieces);
    p.first = blocks * p.index / pieces * SOFTMAX_BLOCK_COLUMNS;
    p.columns = blocks * (p.index + 1) / pieces * SOFTMAX_BLOCK_COLUMNS;
    p.columns = (p.columns < job.columns ? p.columns : job.columns) - p.first;
    return p;
}

/* The row's answer from all its parts, by a thread block of WARPS warps; the same in every thread. */
template <arithmetic KIND, bool LOG, int WARPS>
static __device__ __forceinline__ row_answer answer_of_parts(const row_part *parts, int count, bool want_logsumexp) {
    __shared__ row_part sums[WARPS];
    const int lane = threadIdx.x & 31;
    row_part mine = empty_part();
    for (int p = threadIdx.x; p < count; p += 32 * WARPS) add_part(mine, parts[p]);
    __syncwarp();
    mine = merge_lanes(mine);
    if (lane == 0) sums[threadIdx.x >> 5] = mine;
    __syncthreads();
    return answer_of_part<KIND, LOG, false>(merge_lanes<false, WARPS>(sums[lane & (WARPS - 1)]), want_logsumexp);
}

/* A job of the piece's columns alone, as online_rows.cuh reduces them. */
template <typename T, int VEC> static __device__ __forceinline__ void coarse_parts(const softmax_job &job, int pieces) {
    __shared__ row_part parts[COARSE_WARPS];
    const row_piece piece = piece_of(job, pieces);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    let_next_kernel_start();
    const row_part mine = reduce_blocks<T, VEC>(flat_row(job.x, piece.row) + piece.first * (int64_t)sizeof(T), piece.columns, warp, COARSE_WARPS);
    if (lane == 0) parts[warp] = mine;
    __syncthreads();
    if (warp != 0) return;
    const row_part whole = merge_lanes(lane < COARSE_WARPS ? parts[lane] : empty_part());
    if (lane == 0) ((row_part *)job.scratch)[blockIdx.x] = whole;
}

template <typename T, int VEC, bool LOG> static __device__ __forceinline__ void coarse_results(const softmax_job &job, int pieces) {
    const row_piece piece = piece_of(job, pieces);
    wait_for_previous_kernel();
    const row_answer answer = answer_of_parts<cell<T>::kind, LOG, COARSE_WARPS>((const row_part *)job.scratch + piece.row * pieces, pieces, job.op == OPERATION_LOGSUMEXP);
    char *out = flat_row(job.out, piece.row);
    if (answer.slow) {
        if (piece.index == 0 && threadIdx.x < 32) softmax_cuda_slow_row(job, piece.row);
    } else if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (piece.index == 0 && threadIdx.x == 0) store_result(out, job.out.type, answer.logsumexp);
    } else {
        const int64_t offset = piece.first * (int64_t)sizeof(T);
        write_blocks<T, VEC, LOG>(job, answer, flat_row(job.x, piece.row) + offset, out + offset, piece.columns, threadIdx.x >> 5, COARSE_WARPS);
    }
}

#endif
