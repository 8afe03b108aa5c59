/* Axes that are not the last: rows whose neighbours are neighbours in memory. A thread block takes a tile of them, LANES threads side by side along
 * the rows and SLOTS along the columns, so that accesses to a column are of neighbouring bytes and nothing is copied round. A thread holds N columns
 * of PAIR rows: two where two rows of 16 bits lie in a word. What is done once a row is done for all of the tile's at once, a thread a row. Rows of
 * more than a block of columns take a cluster of thread blocks. One read, one write. */
#ifndef SOFTMAX_CUDA_STRIP_ROWS_CUH
#define SOFTMAX_CUDA_STRIP_ROWS_CUH

#include "choice.h"
#include "operands.cuh"
#include "row_parts.cuh"
#include "slow_row.cuh"

/* A tile's sizes. Where a cluster takes rows, they are as many as the thread block has warps. */
template <typename T_, int PAIR_, int LANES_, int N_, int THREADS_ = 512> struct strip_tile {
    typedef T_ T;
    static const arithmetic kind = cell<T>::kind;
    static const int PAIR = PAIR_, LANES = LANES_, N = N_, THREADS = THREADS_, WARPS = THREADS / 32, SLOTS = THREADS / LANES, ROWS = LANES * PAIR;
    static const int PARTS = LANES <= 32 ? WARPS : SLOTS; /* of a row, once lanes of a warp that share it have put theirs together */
    static const int bytes = PAIR * (int)sizeof(T);
    typedef typename access<PAIR * (int)sizeof(T)>::word word;
};

struct strip_row {
    float maximum, kb;
    row_answer answer;
    register_factor factor;
};

template <typename TILE> struct strip_board {
    float first[TILE::PARTS][TILE::ROWS], second[TILE::PARTS][TILE::ROWS];
    uint32_t high[TILE::PARTS][TILE::ROWS], low[TILE::PARTS][TILE::ROWS];
    row_part parts[TILE::WARPS], merged[TILE::WARPS]; /* clusters only: this thread block's, which the others read; and of all */
    strip_row rows[TILE::ROWS];
};

/* Where a thread is in its tile. */
template <typename TILE> struct strip_place {
    int64_t row; /* the tile's first */
    int rows;    /* of the tile */
    int at;      /* the thread's first row in the tile */
    int slot;
    int part;    /* of the board, that its warp or slot writes */
    int first_column;
    int count;   /* columns from the thread's first one on; 0 where its rows are none */

    __device__ __forceinline__ strip_place(const softmax_job &job, int cluster) {
        const int64_t inner = job.shape[job.dimensions - 1];
        const unsigned strips = (unsigned)((inner + TILE::ROWS - 1) / TILE::ROWS), tile = cluster > 1 ? cluster_number() : blockIdx.x;
        const int64_t first = (int64_t)(tile % strips) * TILE::ROWS;
        row = (int64_t)(tile / strips) * inner + first;
        rows = inner - first < TILE::ROWS ? (int)(inner - first) : TILE::ROWS;
        at = (int)(threadIdx.x % TILE::LANES) * TILE::PAIR;
        slot = (int)(threadIdx.x / TILE::LANES);
        part = TILE::LANES <= 32 ? (int)(threadIdx.x >> 5) : slot;
        first_column = cluster > 1 ? (int)cluster_rank() * SOFTMAX_BLOCK_COLUMNS : 0;
        const int columns = (int)job.columns - first_column < SOFTMAX_BLOCK_COLUMNS ? (int)job.columns - first_column : SOFTMAX_BLOCK_COLUMNS;
        count = at < rows ? columns - slot : 0;
    }
    /* The thread's first row, first column. */
    __device__ __forceinline__ char *in(const softmax_job &job, const operand &a) const {
        return row_of(job, a, row) + at * (int)sizeof(typename TILE::T) + (first_column + slot) * a.column_stride;
    }
    __device__ __forceinline__ bool holds(int i) const { return i * TILE::SLOTS < count; }
    /* Whether this thread is the one of its warp that writes for its rows. */
    __device__ __forceinline__ bool writes() const { return TILE::LANES >= 32 || (int)(threadIdx.x & 31) < TILE::LANES; }
};

template <typename TILE>
static __device__ __forceinline__ void load_strip(const softmax_job &job, const strip_place<TILE> &place, float v[TILE::PAIR][TILE::N]) {
    typedef typename TILE::T T;
    uint32_t words[TILE::N];
    const char *from = place.in(job, job.x);
    const int64_t step = job.x.column_stride * TILE::SLOTS;
#pragma unroll
    for (int i = 0; i < TILE::N; i++) {
        words[i] = cell<T>::nothing;
        if (place.holds(i)) {
            words[i] = __ldcs((const typename TILE::word *)(from + i * step));
            if (TILE::bytes < 4) words[i] |= cell<T>::nothing & 0xffff0000u;
        }
    }
#pragma unroll
    for (int i = 0; i < TILE::N; i++) {
        float two[2];
        cell<T>::open(words[i], two);
#pragma unroll
        for (int k = 0; k < TILE::PAIR; k++) v[k][i] = two[k];
    }
}

/* ---- The sums of each row of the tile, and its answer ---------------------------------------------------------------------------------------- */

/* Every row's two largest, and its kb. */
template <typename TILE>
static __device__ __forceinline__ void find_largest(strip_board<TILE> &board, const strip_place<TILE> &place, const float v[TILE::PAIR][TILE::N]) {
#pragma unroll
    for (int k = 0; k < TILE::PAIR; k++) {
        float first = -INFINITY, second = -INFINITY;
#pragma unroll
        for (int i = 0; i < TILE::N; i++) take_in(v[k][i], first, second);
#pragma unroll
        for (int step = TILE::LANES; step < 32; step *= 2) {
            const float a = __shfl_xor_sync(EVERY_LANE, first, step), b = __shfl_xor_sync(EVERY_LANE, second, step);
            take_in(a, first, second);
            second = fmaxf(second, b);
        }
        if (place.writes()) {
            board.first[place.part][place.at + k] = first;
            board.second[place.part][place.at + k] = second;
        }
    }
    __syncthreads();
    if (threadIdx.x < TILE::ROWS) {
        float first = -INFINITY, second = -INFINITY;
#pragma unroll
        for (int p = 0; p < TILE::PARTS; p++) {
            take_in(board.first[p][threadIdx.x], first, second);
            second = fmaxf(second, board.second[p][threadIdx.x]);
        }
        first += 0.0f; /* -0 is taken as +0 */
        board.rows[threadIdx.x].maximum = first;
        board.rows[threadIdx.x].kb = term32_exponent(fmaxf(second, (first == -INFINITY ? 0.0f : first) - TERM32_SPREAD));
    }
    __syncthreads();
}

/* Scores become values, unless they are kept; their digits go to the board. */
template <typename TILE, bool KEEP_SCORES>
static __device__ __forceinline__ void add_digits(strip_board<TILE> &board, const strip_place<TILE> &place, float v[TILE::PAIR][TILE::N]) {
#pragma unroll
    for (int k = 0; k < TILE::PAIR; k++) {
        const float kb = board.rows[place.at + k].kb, magic = TERM32_MAGIC + SOFTMAX_BIAS - kb, floor_score = term32_floor(kb);
        uint32_t high = 0, low = 0;
#pragma unroll
        for (int i = 0; i < TILE::N; i++) {
            const float value = add_term<TILE::kind>(fmaxf(v[k][i], floor_score), magic, high, low);
            if (!KEEP_SCORES) v[k][i] = value;
        }
        high -= TILE::N * float_bits(TERM32_HIGH);
        low -= TILE::N * float_bits(TERM32_LOW);
#pragma unroll
        for (int step = TILE::LANES; step < 32; step *= 2) {
            high += __shfl_xor_sync(EVERY_LANE, high, step);
            low += __shfl_xor_sync(EVERY_LANE, low, step);
        }
        if (place.writes()) {
            board.high[place.part][place.at + k] = high;
            board.low[place.part][place.at + k] = low;
        }
    }
    __syncthreads();
}

/* Of the thread's own row: thread r's is row r. */
template <typename TILE> static __device__ __forceinline__ block_note own_note(const strip_board<TILE> &board) {
    block_sums s = {board.rows[threadIdx.x].maximum, 0.0f, board.rows[threadIdx.x].kb, 0, 0};
#pragma unroll
    for (int p = 0; p < TILE::PARTS; p++) {
        s.high += board.high[p][threadIdx.x];
        s.low += board.low[p][threadIdx.x];
    }
    return note_of<TILE::kind>(s);
}

template <typename TILE> static __device__ __forceinline__ void set_answer(strip_board<TILE> &board, const row_answer &answer, const block_note &note) {
    board.rows[threadIdx.x].answer = answer;
    board.rows[threadIdx.x].factor = factor_of<TILE::kind>(answer, note);
}

/* Every row's answer, and the factor of this block of its columns. With clusters warp w merges row w's parts, and they have been read when
 * the cluster next waits. */
template <typename TILE, bool LOG> static __device__ __forceinline__ void answer_rows(strip_board<TILE> &board, int cluster, bool want_logsumexp) {
    const bool owns = threadIdx.x < TILE::ROWS;
    block_note note = {};
    if (owns) note = own_note<TILE>(board);
    if (cluster == 1) {
        if (owns) set_answer<TILE>(board, answer_of_block<TILE::kind, LOG>(note, want_logsumexp), note);
    } else {
        const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        if (owns) board.parts[threadIdx.x] = part_of_note<TILE::kind>(note);
        cluster_arrive();
        cluster_wait();
        const row_part whole = merge_lanes<true>(lane < cluster ? *address_in_block(&board.parts[warp], (unsigned)lane) : empty_part());
        if (lane == 0) board.merged[warp] = whole;
        cluster_arrive();
        __syncthreads();
        if (owns) set_answer<TILE>(board, answer_of_part<TILE::kind, LOG, false>(board.merged[threadIdx.x], want_logsumexp), note);
    }
    __syncthreads();
}

/* ---- The results ----------------------------------------------------------------------------------------------------------------------------- */

template <typename TILE, bool LOG>
static __device__ __forceinline__ void write_strip(const softmax_job &job, const strip_board<TILE> &board, const strip_place<TILE> &place,
                                                   float v[TILE::PAIR][TILE::N]) {
    typedef typename TILE::T T;
    uint32_t fixed = 0, keep = 0xffffffffu; /* of constant rows every result is the same */
    bool slow[TILE::PAIR], any_slow = false;
#pragma unroll
    for (int k = 0; k < TILE::PAIR; k++) {
        const strip_row &row = board.rows[place.at + k];
        slow[k] = row.answer.slow;
        any_slow |= slow[k];
        if (is_constant(row.answer)) {
            const uint32_t half = TILE::PAIR == 1 ? 0xffffffffu : 0xffffu << (16 * k);
            keep &= ~half;
            fixed |= constant_of<T>(row.answer, LOG, job.empty_zero) & half;
        } else if (LOG) {
            log_block<TILE::N>(row.answer, v[k]);
        } else {
            scale_block<TILE::kind, TILE::N>(row.factor, v[k]);
        }
    }
    char *to = place.in(job, job.out);
    const int64_t step = job.out.column_stride * TILE::SLOTS;
#pragma unroll
    for (int i = 0; i < TILE::N; i++) {
        float two[2] = {v[0][i], v[TILE::PAIR - 1][i]};
        const uint32_t w = ((TILE::PAIR == 2 ? cell<T>::close(two) : cell<T>::close_one(two[0])) & keep) | fixed;
        if (!place.holds(i)) continue;
        if (!any_slow) {
            __stcs((typename TILE::word *)(to + i * step), (typename TILE::word)w);
        } else if (TILE::PAIR == 2) {
            for (int k = 0; k < 2; k++)
                if (!slow[k]) *(uint16_t *)(to + i * step + 2 * k) = (uint16_t)(w >> (16 * k));
        }
    }
}

/* What is not for the tile: a row's logsumexp, or a slow row. */
template <typename TILE, bool LOG>
static __device__ __forceinline__ void finish_rows(const softmax_job &job, const strip_board<TILE> &board, const strip_place<TILE> &place) {
    for (int r = threadIdx.x >> 5; r < place.rows; r += TILE::WARPS) {
        const row_answer answer = board.rows[r].answer;
        if (answer.slow)
            softmax_cuda_slow_row(job, place.row + r);
        else if (LOG && job.op == OPERATION_LOGSUMEXP && (threadIdx.x & 31) == 0)
            store_result(row_of(job, job.out, place.row + r), job.out.type, answer.logsumexp);
    }
}

template <typename TILE, bool LOG> static __device__ __forceinline__ void strip_rows(const softmax_job &job, int cluster) {
    strip_board<TILE> &board = *(strip_board<TILE> *)shared_bytes();
    const strip_place<TILE> place(job, cluster);
    float v[TILE::PAIR][TILE::N];
    load_strip<TILE>(job, place, v);
    find_largest<TILE>(board, place, v);
    add_digits<TILE, LOG>(board, place, v);
    answer_rows<TILE, LOG>(board, cluster, job.op == OPERATION_LOGSUMEXP);
    if (!(LOG && job.op == OPERATION_LOGSUMEXP)) write_strip<TILE, LOG>(job, board, place, v);
    if (place.first_column == 0) finish_rows<TILE, LOG>(job, board, place);
    __syncwarp();
    if (cluster > 1) cluster_wait(); /* nobody reads parts here any more */
}

#endif
