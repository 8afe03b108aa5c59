/* A row over the whole GPU, for few rows or long ones, in two launches: the first leaves a part of the row's sum for every piece of it in scratch,
 * the second adds the parts up, each thread block for itself, and writes. The second may start while the first runs: it reads its columns and
 * waits for the parts alone. Sums are integers: the bits are those of any other kernel.
 *   fine    a piece is a block of columns, 256 columns a warp: the shortest way for one row
 *   coarse  a piece is several blocks, one a warp at a time, as online_rows.cuh has them */
#ifndef SOFTMAX_CUDA_SPLIT_ROWS_CUH
#define SOFTMAX_CUDA_SPLIT_ROWS_CUH

#include "online_rows.cuh"

#define FINE_WARPS 4
#define FINE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / FINE_WARPS / 32) /* of a lane */
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

/* The row's answer from all its parts, by a thread block of WARPS warps; the same in every thread. FEW: blocks that a thread's parts are of. */
template <arithmetic KIND, bool LOG, int WARPS, bool FEW>
static __device__ __forceinline__ row_answer answer_of_parts(const row_part *parts, int count, bool want_logsumexp) {
    __shared__ row_part sums[WARPS];
    const int lane = threadIdx.x & 31;
    row_part mine = empty_part();
    for (int p = threadIdx.x; p < count; p += 32 * WARPS) add_part(mine, parts[p]);
    __syncwarp();
    mine = merge_lanes<FEW>(mine);
    if (lane == 0) sums[threadIdx.x >> 5] = mine;
    __syncthreads();
    return answer_of_part<KIND, LOG, false>(merge_lanes<false, WARPS>(sums[lane & (WARPS - 1)]), want_logsumexp);
}

/* ---- Fine: a block of columns by FINE_WARPS warps ------------------------------------------------------------------------------------------ */

struct fine_board {
    float first[FINE_WARPS], second[FINE_WARPS];
    uint32_t high[FINE_WARPS], low[FINE_WARPS];
};

/* register_block.cuh's sum_block, over the warps of a thread block. */
template <arithmetic KIND> static __device__ __forceinline__ block_sums sum_fine(float first, float second, float *z, fine_board &board) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    uint32_t key = order_of(first), top = __reduce_max_sync(EVERY_LANE, key);
    const uint32_t owners = __ballot_sync(EVERY_LANE, key == top);
    if (lane == __ffs((int)owners) - 1) key = order_of(second);
    second = of_order(__reduce_max_sync(EVERY_LANE, key));
    if (lane == 0) {
        board.first[warp] = of_order(top);
        board.second[warp] = second;
    }
    __syncthreads();
    block_sums s;
    first = second = -INFINITY;
#pragma unroll
    for (int w = 0; w < FINE_WARPS; w++) {
        take_in(board.first[w], first, second);
        second = fmaxf(second, board.second[w]);
    }
    s.maximum = first + 0.0f;
    s.maximum_low = 0.0f;
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
    uint32_t high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < FINE_COLUMNS; i++) z[i] = add_term<KIND>(fmaxf(z[i], floor_score), magic, high, low);
    high = __reduce_add_sync(EVERY_LANE, high) - 32 * FINE_COLUMNS * float_bits(TERM32_HIGH);
    low = __reduce_add_sync(EVERY_LANE, low) - 32 * FINE_COLUMNS * float_bits(TERM32_LOW);
    if (lane == 0) {
        board.high[warp] = high;
        board.low[warp] = low;
    }
    __syncthreads();
    s.high = s.low = 0;
#pragma unroll
    for (int w = 0; w < FINE_WARPS; w++) {
        s.high += board.high[w];
        s.low += board.low[w];
    }
    return s;
}

/* This thread's columns of the piece's block. */
template <typename T, int VEC> struct fine_columns {
    typedef lane_words<T, VEC, FINE_COLUMNS> lanes;
    const char *x;
    int64_t offset; /* of the warp's first column in its row, in bytes */
    int count;      /* of the warp's columns */
    float v[FINE_COLUMNS], first, second;

    __device__ __forceinline__ void load(const softmax_job &job, const row_piece &piece) {
        const int before = (int)(threadIdx.x >> 5) * 32 * FINE_COLUMNS;
        uint32_t words[lanes::words];
        count = (int)piece.columns - before;
        offset = (piece.first + before) * (int64_t)sizeof(T);
        lanes::template load<true>(flat_row(job.x, piece.row) + offset, count, words);
        cell<T>::template largest_two<lanes::words>(words, first, second);
        lanes::open(words, v);
    }
};

template <typename T, int VEC> static __device__ __forceinline__ void fine_parts(const softmax_job &job, int pieces) {
    __shared__ fine_board board;
    const row_piece piece = piece_of(job, pieces);
    fine_columns<T, VEC> mine;
    let_next_kernel_start();
    mine.load(job, piece);
    const block_sums sums = sum_fine<cell<T>::kind>(mine.first, mine.second, mine.v, board);
    if (threadIdx.x == 0) ((row_part *)job.scratch)[blockIdx.x] = part_of_note<cell<T>::kind>(note_of<cell<T>::kind>(sums));
}

template <typename T, int VEC, bool LOG> static __device__ __forceinline__ void fine_results(const softmax_job &job, int pieces) {
    const arithmetic kind = cell<T>::kind;
    __shared__ fine_board board;
    const row_piece piece = piece_of(job, pieces);
    fine_columns<T, VEC> mine;
    block_note note = {};
    mine.load(job, piece);
    if (!LOG) note = note_of<kind>(sum_fine<kind>(mine.first, mine.second, mine.v, board));
    wait_for_previous_kernel();
    const row_answer answer = answer_of_parts<kind, LOG, FINE_WARPS, true>((const row_part *)job.scratch + piece.row * pieces, pieces, job.op == OPERATION_LOGSUMEXP);
    char *out = flat_row(job.out, piece.row);
    if (answer.slow) {
        if (piece.index == 0 && threadIdx.x < 32) softmax_cuda_slow_row(job, piece.row);
    } else if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (piece.index == 0 && threadIdx.x == 0) store_result(out, job.out.type, answer.logsumexp);
    } else {
        write_columns_of_block<T, VEC, LOG, FINE_COLUMNS>(job, answer, note, out + mine.offset, mine.count, mine.v);
    }
}

/* ---- Coarse -------------------------------------------------------------------------------------------------------------------------------- */

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
    const row_answer answer = answer_of_parts<cell<T>::kind, LOG, COARSE_WARPS, false>((const row_part *)job.scratch + piece.row * pieces, pieces, job.op == OPERATION_LOGSUMEXP);
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
