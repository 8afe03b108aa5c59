/* Axes that are not the last, where neighbouring rows lie at multiples of 16 bytes: a thread block takes 64 or 32 bytes of neighbouring rows and turns them
 * round in shared memory, so that memory is read and written 16 bytes at a time and warps have rows as short_rows.cuh has them. What is done once a row is
 * done for all of them at once, a thread a row. Rows of more than a block of columns take a cluster of thread blocks, whose warps then read a row out each
 * for all. One read, one write. */
#ifndef SOFTMAX_CUDA_STRIP_TILES_CUH
#define SOFTMAX_CUDA_STRIP_TILES_CUH

#include "choice.h"
#include "clusters.cuh"
#include "short_rows.cuh"

/* Rows of at most 32 LANES columns, LANES lanes a row; BYTES of neighbouring rows. */
template <typename T_, int LANES_, int BYTES_> struct turned_tile {
    typedef T_ T;
    static const int LANES = LANES_, COLUMNS = 32 * LANES, ROWS = BYTES_ / (int)sizeof(T), THREADS = ROWS * LANES;
    static const int VECTORS = BYTES_ / 16; /* of a column */
    static const int VEC = 16 / (int)sizeof(T), PITCH = COLUMNS + VEC; /* elements: columns of rows lie in other banks than their neighbours */
    static const int bytes = ROWS * PITCH * (int)sizeof(T);
};

/* Where the tile is. */
struct tile_place {
    int64_t row; /* its first */
    int rows;
    int first_column, columns; /* of this thread block */
};

template <typename TILE> static __device__ __forceinline__ tile_place place_of_tile(const softmax_job &job, bool in_cluster) {
    const unsigned tile = in_cluster ? cluster_number() : blockIdx.x;
    const int64_t inner = job.shape[job.dimensions - 1];
    const unsigned strips = (unsigned)((inner + TILE::ROWS - 1) / TILE::ROWS);
    const int64_t first = (int64_t)(tile % strips) * TILE::ROWS;
    tile_place place;
    place.row = (int64_t)(tile / strips) * inner + first;
    place.rows = inner - first < TILE::ROWS ? (int)(inner - first) : TILE::ROWS;
    place.first_column = in_cluster ? (int)cluster_rank() * TILE::COLUMNS : 0;
    place.columns = (int)job.columns - place.first_column < TILE::COLUMNS ? (int)job.columns - place.first_column : TILE::COLUMNS;
    return place;
}

/* ---- Turning: a thread moves VEC neighbouring rows' elements of a column, or of two columns where two make a word. Rows' columns lie in their row's place in
 * an order of their own, so that the threads of a warp are at different banks. ----------------------------------------------------------------------------- */

template <typename TILE> struct turning;

template <int LANES, int BYTES> struct turning<turned_tile<float, LANES, BYTES>> {
    typedef turned_tile<float, LANES, BYTES> TILE;
    static const int VECTORS = TILE::VECTORS, turns = TILE::COLUMNS * VECTORS / TILE::THREADS, between = TILE::THREADS / VECTORS;
    static __device__ __forceinline__ int vector() { return (int)threadIdx.x % VECTORS; }
    static __device__ __forceinline__ int column(int i) { return (int)threadIdx.x / VECTORS + i * between; }
    static __device__ __forceinline__ bool is_there(int i, int columns, int rows) { return column(0) < columns - i * between && vector() * 4 < rows; }
    static __device__ __forceinline__ uint32_t *place(uint32_t *tile, int i) { return tile + vector() * 4 * TILE::PITCH + (column(i) ^ vector() / 2 * 8); }

    static __device__ __forceinline__ void read(const char *from, uint32_t step, int columns, int rows, uint32_t *tile) {
        uint4 w[turns];
        const uint32_t nothing = cell<float>::nothing;
        from += (uint64_t)step * (uint32_t)column(0);
#pragma unroll
        for (int i = 0; i < turns; i++) {
            w[i] = make_uint4(nothing, nothing, nothing, nothing);
            if (is_there(i, columns, rows)) w[i] = __ldcs((const uint4 *)(from + (uint64_t)step * (uint32_t)(i * between)) + vector());
        }
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t part[4];
            split(w[i], part);
#pragma unroll
            for (int j = 0; j < 4; j++) place(tile, i)[j * TILE::PITCH] = part[j];
        }
    }
    static __device__ __forceinline__ void write(char *to, uint32_t step, int columns, int rows, uint32_t skipped, uint32_t *tile) {
        to += (uint64_t)step * (uint32_t)column(0);
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t part[4];
            uint4 w;
            uint4 *at = (uint4 *)(to + (uint64_t)step * (uint32_t)(i * between)) + vector();
#pragma unroll
            for (int j = 0; j < 4; j++) part[j] = place(tile, i)[j * TILE::PITCH];
            join(part, w);
            if (!is_there(i, columns, rows)) continue;
            if (!skipped) {
                __stcs(at, w);
            } else {
                for (int j = 0; j < 4; j++)
                    if (!(skipped >> (vector() * 4 + j) & 1)) ((uint32_t *)at)[j] = part[j];
            }
        }
    }
};

/* Two columns of eight rows of 16 bits: words of a column and its neighbour, a row each. */
template <typename T, int LANES, int BYTES> struct turning<turned_tile<T, LANES, BYTES>> {
    typedef turned_tile<T, LANES, BYTES> TILE;
    static const int VECTORS = TILE::VECTORS, turns = TILE::COLUMNS / 2 * VECTORS / TILE::THREADS, pitch = TILE::PITCH / 2, between = TILE::THREADS / VECTORS;
    static __device__ __forceinline__ int vector() { return (int)threadIdx.x % VECTORS; }
    static __device__ __forceinline__ int both(int i) { return (int)threadIdx.x / VECTORS + i * between; } /* columns 2 both, 2 both + 1 */
    static __device__ __forceinline__ bool is_there(int i, int k, int columns, int rows) { return 2 * both(0) < columns - (2 * i * between + k) && vector() * 8 < rows; }
    static __device__ __forceinline__ uint32_t *place(uint32_t *tile, int i) { return tile + vector() * 8 * pitch + (both(i) ^ vector() * (32 / VECTORS)); }
    /* Halves of a and b, the lower ones or the upper ones, a first. */
    static __device__ __forceinline__ uint32_t lower(uint32_t a, uint32_t b) { return (a & 0xffffu) | b << 16; }
    static __device__ __forceinline__ uint32_t upper(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

    static __device__ __forceinline__ void read(const char *from, uint32_t step, int columns, int rows, uint32_t *tile) {
        uint4 w[turns][2];
        const uint32_t nothing = cell<T>::nothing;
        from += (uint64_t)step * (uint32_t)(2 * both(0));
#pragma unroll
        for (int i = 0; i < turns; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                w[i][k] = make_uint4(nothing, nothing, nothing, nothing);
                if (is_there(i, k, columns, rows)) w[i][k] = __ldcs((const uint4 *)(from + (uint64_t)step * (uint32_t)(2 * i * between + k)) + vector());
            }
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t a[4], b[4];
            split(w[i][0], a);
            split(w[i][1], b);
#pragma unroll
            for (int j = 0; j < 8; j++) place(tile, i)[j * pitch] = j % 2 ? upper(a[j / 2], b[j / 2]) : lower(a[j / 2], b[j / 2]);
        }
    }
    static __device__ __forceinline__ void write(char *to, uint32_t step, int columns, int rows, uint32_t skipped, uint32_t *tile) {
        to += (uint64_t)step * (uint32_t)(2 * both(0));
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t word[8];
#pragma unroll
            for (int j = 0; j < 8; j++) word[j] = place(tile, i)[j * pitch];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t part[4];
                uint4 w, *at = (uint4 *)(to + (uint64_t)step * (uint32_t)(2 * i * between + k)) + vector();
#pragma unroll
                for (int j = 0; j < 4; j++) part[j] = k ? upper(word[2 * j], word[2 * j + 1]) : lower(word[2 * j], word[2 * j + 1]);
                join(part, w);
                if (!is_there(i, k, columns, rows)) continue;
                if (!skipped) {
                    __stcs(at, w);
                } else {
                    for (int j = 0; j < 8; j++)
                        if (!(skipped >> (vector() * 8 + j) & 1)) ((uint16_t *)at)[j] = (uint16_t)(word[j] >> 16 * k);
                }
            }
        }
    }
};

/* ---- A row in shared memory, as lane_words has them ------------------------------------------------------------------------------------------------ */

template <typename TILE> struct tile_row {
    typedef typename TILE::T T;
    static const int words = 32 / cell<T>::in_word, accesses = words / 4;
    static __device__ __forceinline__ void load(const uint4 *from, uint32_t *w) {
#pragma unroll
        for (int i = 0; i < accesses; i++) split(from[i * TILE::LANES], w + 4 * i);
    }
    static __device__ __forceinline__ void open(const uint32_t *w, float *z) {
#pragma unroll
        for (int i = 0; i < words; i++) cell<T>::open(w[i], z + i * cell<T>::in_word);
    }
    static __device__ __forceinline__ void store(uint4 *to, const float *y) {
#pragma unroll
        for (int i = 0; i < accesses; i++) {
            uint32_t part[4];
#pragma unroll
            for (int j = 0; j < 4; j++) part[j] = cell<T>::close(y + (i * 4 + j) * cell<T>::in_word);
            join(part, to[i * TILE::LANES]);
        }
    }
    static __device__ __forceinline__ void fill(uint4 *to, uint32_t value) {
#pragma unroll
        for (int i = 0; i < accesses; i++) to[i * TILE::LANES] = make_uint4(value, value, value, value);
    }
};

/* ---- The tile ----------------------------------------------------------------------------------------------------------------------------------------- */

/* A row's answer as its lanes need it. */
struct tile_answer {
    float maximum, minus_log;
    float hi, lo, cut, most;
    enum { PLAIN = 1, FAR = 2, CONSTANT = 4, SLOW = 8 };
    int flags;
};

template <arithmetic KIND, bool LOG> static __device__ __forceinline__ tile_answer tile_answer_of(const row_answer &answer, const block_note &note) {
    tile_answer mine = {answer.maximum, answer.minus_log, 0.0f, 0.0f, 0.0f, 0.0f, answer.slow ? tile_answer::SLOW : is_constant(answer) ? tile_answer::CONSTANT : 0};
    if (!LOG) {
        const register_factor factor = factor_of<KIND>(answer, note);
        mine.hi = factor.hi, mine.lo = factor.lo, mine.cut = factor.cut, mine.most = factor.most;
        mine.flags |= (factor.is_plain ? tile_answer::PLAIN : 0) | (factor.is_far ? tile_answer::FAR : 0);
    }
    return mine;
}

template <int ROWS> struct tile_board {
    block_sums sums[ROWS];
    tile_answer answers[ROWS];
};

/* A row's sums, by LANES lanes, whose elements become values, or with LOG stay. */
template <typename TILE, bool LOG> static __device__ __forceinline__ block_sums sum_row(const uint4 *at, float *v) {
    typedef typename TILE::T T;
    const arithmetic kind = cell<T>::kind;
    uint32_t words[tile_row<TILE>::words];
    float m1, m2;
    tile_row<TILE>::load(at, words);
    cell<T>::template largest_two<tile_row<TILE>::words>(words, m1, m2);
    tile_row<TILE>::open(words, v);
    return TILE::LANES < 32 ? sum_group<kind, 32, TILE::LANES, LOG>(m1, m2, v) : sum_block<kind, 32, 0, LOG, 1>(m1, m2, v, TILE::COLUMNS);
}

/* By one warp: every row's answer, a lane a row. */
template <typename TILE, bool LOG>
static __device__ __forceinline__ void answer_tile(const softmax_job &job, const tile_place &place, tile_board<TILE::ROWS> &board) {
    const arithmetic kind = cell<typename TILE::T>::kind;
    const int row = threadIdx.x & 31;
    if (row >= place.rows) return;
    const block_note note = note_of<kind>(board.sums[row]);
    const row_answer answer = answer_of_block<kind, LOG>(note, job.op == OPERATION_LOGSUMEXP);
    board.answers[row] = tile_answer_of<kind, LOG>(answer, note);
    if (LOG && job.op == OPERATION_LOGSUMEXP && !answer.slow) store_result(row_of(job, job.out, place.row + row), job.out.type, answer.logsumexp);
}

/* By a cluster's warps: each row's answer in one of its thread blocks, which tells all; a lane a block of columns. */
template <typename TILE, bool LOG>
static __device__ __forceinline__ void answer_tiles(const softmax_job &job, const tile_place &place, tile_board<TILE::ROWS> &board, int cluster) {
    const arithmetic kind = cell<typename TILE::T>::kind;
    const int lane = threadIdx.x & 31;
    const bool present = (lane & 15) < cluster;
    cluster_arrive();
    cluster_wait(); /* everybody's sums are there */
    for (int row = (int)cluster_rank() + cluster * (int)(threadIdx.x >> 5); row < place.rows; row += cluster * (TILE::THREADS / 32)) {
        const block_note note = note_of<kind>(*address_in_block(&board.sums[row], present ? lane & 15 : 0));
        const row_part whole = merge_notes<kind, false>(note, present);
        const row_answer answer = answer_of_part<kind, LOG, false>(whole, job.op == OPERATION_LOGSUMEXP);
        const tile_answer mine = tile_answer_of<kind, LOG>(answer, note);
        if (lane < cluster) *address_in_block(&board.answers[row], (unsigned)lane) = mine;
        if (LOG && job.op == OPERATION_LOGSUMEXP && lane == 0 && !answer.slow) store_result(row_of(job, job.out, place.row + row), job.out.type, answer.logsumexp);
    }
    cluster_arrive();
    cluster_wait();
}

template <typename TILE, bool LOG>
static __device__ __forceinline__ void write_row(const softmax_job &job, const tile_answer &answer, uint4 *at, float *v) {
    typedef typename TILE::T T;
    if (answer.flags & tile_answer::CONSTANT) {
        row_answer constant;
        constant.maximum = answer.maximum;
        tile_row<TILE>::fill(at, constant_of<T>(constant, LOG, job.empty_zero));
        return;
    }
    if (LOG) {
#pragma unroll
        for (int i = 0; i < 32; i++) v[i] = (v[i] - answer.maximum) + answer.minus_log;
    } else {
        const register_factor factor = {answer.hi, answer.lo, answer.cut, answer.most, (answer.flags & tile_answer::FAR) != 0, (answer.flags & tile_answer::PLAIN) != 0};
        scale_block<cell<T>::kind, 32>(factor, v);
    }
    tile_row<TILE>::store(at, v);
}

template <typename TILE, bool LOG, bool CLUSTER> static __device__ __forceinline__ void turned_rows(const softmax_job &job, int cluster) {
    typedef typename TILE::T T;
    tile_board<TILE::ROWS> &board = *(tile_board<TILE::ROWS> *)(void *)(shared_bytes() + TILE::bytes);
    uint32_t *const tile = (uint32_t *)(void *)shared_bytes();
    const int row = (int)threadIdx.x / TILE::LANES;
    const tile_place place = place_of_tile<TILE>(job, CLUSTER);
    uint4 *const at = (uint4 *)(void *)(shared_bytes() + row * (TILE::PITCH * (int)sizeof(T))) + threadIdx.x % TILE::LANES;
    float v[32];
    turning<TILE>::read(row_of(job, job.x, place.row) + place.first_column * job.x.column_stride, (uint32_t)job.x.column_stride, place.columns, place.rows, tile);
    __syncthreads();
    {
        const block_sums sums = sum_row<TILE, LOG>(at, v);
        if (threadIdx.x % TILE::LANES == 0) board.sums[row] = sums;
    }
    if (CLUSTER) {
        answer_tiles<TILE, LOG>(job, place, board, cluster);
    } else {
        __syncthreads();
        if (threadIdx.x < 32) answer_tile<TILE, LOG>(job, place, board);
        __syncthreads();
    }
    const int lane = threadIdx.x & 31;
    uint32_t slow = __ballot_sync(EVERY_LANE, lane < place.rows && (board.answers[lane < place.rows ? lane : 0].flags & tile_answer::SLOW));
    if (!(LOG && job.op == OPERATION_LOGSUMEXP)) {
        if (row < place.rows) write_row<TILE, LOG>(job, board.answers[row], at, v);
        __syncthreads();
        turning<TILE>::write(row_of(job, job.out, place.row) + place.first_column * job.out.column_stride, (uint32_t)job.out.column_stride, place.columns,
                             place.rows, slow, tile);
    }
    if (CLUSTER && cluster_rank() != 0) slow = 0; /* one thread block's */
    for (int r = (int)(threadIdx.x >> 5); r < TILE::ROWS; r += TILE::THREADS / 32)
        if (slow >> r & 1) softmax_cuda_slow_row(job, place.row + r);
}

/* ---- Few columns: a thread a row, whose accesses lie beside its neighbours' -------------------------------------------------------------------------- */

/* A thread's block_sums of elements that become values, or with LOG stay. */
template <arithmetic KIND, int N, bool LOG> static __device__ __forceinline__ block_sums sum_in_thread(float first, float second, float *v) {
    block_sums s = {first + 0.0f, 0.0f, 0.0f, 0, 0};
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float value = add_term<KIND>(fmaxf(v[i], floor_score), magic, s.high, s.low);
        if (!LOG) v[i] = value;
    }
    s.high -= N * float_bits(TERM32_HIGH);
    s.low -= N * float_bits(TERM32_LOW);
    return s;
}

/* FULL: rows of N columns, whose accesses need no conditions. */
template <typename T, int N, bool LOG, bool FULL>
static __device__ __forceinline__ void write_in_thread(const softmax_job &job, const row_answer &answer, const block_note &note, char *to, float *v) {
    typedef typename access<sizeof(T)>::word one;
    const uint32_t step = (uint32_t)job.out.column_stride;
    const int columns = (int)job.columns;
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        store_result(to, job.out.type, answer.logsumexp);
        return;
    }
    if (is_constant(answer)) {
        const uint32_t value = constant_of<T>(answer, LOG, job.empty_zero);
#pragma unroll 1
        for (int i = 0; i < columns; i++) *(one *)(to + (uint64_t)step * (uint32_t)i) = (one)value;
        return;
    }
    if (LOG)
        log_block<N>(answer, v);
    else
        scale_block<cell<T>::kind, N>(factor_of<cell<T>::kind>(answer, note), v);
#pragma unroll
    for (int i = 0; i < N; i++)
        if (FULL || i < columns) __stcs((one *)(to + (uint64_t)step * (uint32_t)i), (one)cell<T>::close_one(v[i]));
}

template <typename T, int N, bool LOG, bool FULL> static __device__ __forceinline__ void row_of_thread(const softmax_job &job) {
    const arithmetic kind = cell<T>::kind;
    const int64_t inner = job.shape[job.dimensions - 1], strips = (inner + blockDim.x - 1) / blockDim.x, outer = blockIdx.x / strips;
    const int64_t beside = (blockIdx.x - outer * strips) * blockDim.x + threadIdx.x, row = outer * inner + (beside < inner ? beside : inner - 1);
    const bool there = beside < inner; /* others read the last row too, and write nothing */
    const uint32_t step = (uint32_t)job.x.column_stride;
    const char *from = row_of(job, job.x, row);
    float v[N], first = -INFINITY, second = -INFINITY;
    uint32_t words[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        words[i] = cell<T>::nothing;
        if (FULL || i < (int)job.columns) words[i] = __ldcs((const typename access<sizeof(T)>::word *)(from + (uint64_t)step * (uint32_t)i));
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float two[2];
        cell<T>::open(words[i], two);
        v[i] = two[0];
        take_in(v[i], first, second);
    }
    const block_note note = note_of<kind>(sum_in_thread<kind, N, LOG>(first, second, v));
    const row_answer answer = answer_of_block<kind, LOG>(note, job.op == OPERATION_LOGSUMEXP);
    const bool is_slow_row = there && answer.slow;
    if (there && !answer.slow) write_in_thread<T, N, LOG, FULL>(job, answer, note, row_of(job, job.out, row), v);
    for (uint32_t rest = __ballot_sync(EVERY_LANE, is_slow_row); rest; rest &= rest - 1)
        softmax_cuda_slow_row(job, __shfl_sync(EVERY_LANE, row, __ffs((int)rest) - 1));
}

#endif
