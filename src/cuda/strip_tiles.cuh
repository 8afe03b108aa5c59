/* Axes that are not the last, where neighbouring rows lie at multiples of 16 bytes: a thread block takes 32 bytes of neighbouring rows and turns them round in
 * shared memory, so that memory is read and written 16 bytes at a time and warps have rows as short_rows.cuh has them. One read, one write. */
#ifndef SOFTMAX_CUDA_STRIP_TILES_CUH
#define SOFTMAX_CUDA_STRIP_TILES_CUH

#include "choice.h"
#include "short_rows.cuh"

#define TILE_BYTES 32 /* of neighbouring rows */

/* Rows of at most 32 LANES columns, LANES lanes a row. */
template <typename T_, int LANES_> struct turned_tile {
    typedef T_ T;
    static const int LANES = LANES_, COLUMNS = 32 * LANES, ROWS = TILE_BYTES / (int)sizeof(T), AT_ONCE = 32 / LANES, THREADS = ROWS * LANES;
    static const int VEC = 16 / (int)sizeof(T), PITCH = COLUMNS + VEC; /* elements: columns of rows lie in other banks than their neighbours */
    static const int bytes = ROWS * PITCH * (int)sizeof(T);
};

/* Where the tile is. */
struct tile_place {
    int64_t row; /* its first */
    int rows;
};

template <typename TILE> static __device__ __forceinline__ tile_place place_of_tile(const softmax_job &job, unsigned tile) {
    const int64_t inner = job.shape[job.dimensions - 1];
    const unsigned strips = (unsigned)((inner + TILE::ROWS - 1) / TILE::ROWS);
    const int64_t first = (int64_t)(tile % strips) * TILE::ROWS;
    tile_place place;
    place.row = (int64_t)(tile / strips) * inner + first;
    place.rows = inner - first < TILE::ROWS ? (int)(inner - first) : TILE::ROWS;
    return place;
}

/* ---- Turning: a thread moves VEC neighbouring rows' elements of a column, or of two columns where two make a word -------------------------------- */

template <typename TILE> struct turning;

template <int LANES> struct turning<turned_tile<float, LANES>> {
    typedef turned_tile<float, LANES> TILE;
    static const int turns = TILE::COLUMNS * 2 / TILE::THREADS;
    static __device__ __forceinline__ int column(int i) { return (int)(threadIdx.x >> 1) + i * (TILE::THREADS / 2); }
    static __device__ __forceinline__ int first_row() { return (int)(threadIdx.x & 1) * 4; }

    static __device__ __forceinline__ void read(const char *from, int64_t step, int columns, int rows, uint32_t *tile) {
        uint4 w[turns];
        const uint32_t nothing = cell<float>::nothing;
#pragma unroll
        for (int i = 0; i < turns; i++) {
            w[i] = make_uint4(nothing, nothing, nothing, nothing);
            if (column(i) < columns && first_row() < rows) w[i] = __ldcs((const uint4 *)(from + column(i) * step) + (threadIdx.x & 1));
        }
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t part[4];
            split(w[i], part);
#pragma unroll
            for (int j = 0; j < 4; j++) tile[(first_row() + j) * TILE::PITCH + column(i)] = part[j];
        }
    }
    static __device__ __forceinline__ void write(char *to, int64_t step, int columns, int rows, uint32_t skipped, const uint32_t *tile) {
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t part[4];
            uint4 w;
            char *at = to + column(i) * step;
#pragma unroll
            for (int j = 0; j < 4; j++) part[j] = tile[(first_row() + j) * TILE::PITCH + column(i)];
            join(part, w);
            if (column(i) >= columns || first_row() >= rows) continue;
            if (!skipped) {
                __stcs((uint4 *)at + (threadIdx.x & 1), w);
            } else {
                for (int j = 0; j < 4; j++)
                    if (!(skipped >> (first_row() + j) & 1)) *((uint32_t *)at + first_row() + j) = part[j];
            }
        }
    }
};

/* Two columns of eight rows of 16 bits: words of a column and its neighbour, a row each. */
template <typename T, int LANES> struct turning<turned_tile<T, LANES>> {
    typedef turned_tile<T, LANES> TILE;
    static const int turns = TILE::COLUMNS / TILE::THREADS;
    static __device__ __forceinline__ int column(int i) { return ((int)(threadIdx.x >> 1) + i * (TILE::THREADS / 2)) * 2; }
    static __device__ __forceinline__ int first_row() { return (int)(threadIdx.x & 1) * 8; }
    /* Halves of a and b, the lower ones or the upper ones, a first. */
    static __device__ __forceinline__ uint32_t lower(uint32_t a, uint32_t b) { return (a & 0xffffu) | b << 16; }
    static __device__ __forceinline__ uint32_t upper(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

    static __device__ __forceinline__ void read(const char *from, int64_t step, int columns, int rows, uint32_t *tile) {
        uint4 w[turns][2];
        const uint32_t nothing = cell<T>::nothing;
#pragma unroll
        for (int i = 0; i < turns; i++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                w[i][k] = make_uint4(nothing, nothing, nothing, nothing);
                if (column(i) + k < columns && first_row() < rows) w[i][k] = __ldcs((const uint4 *)(from + (column(i) + k) * step) + (threadIdx.x & 1));
            }
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t a[4], b[4];
            uint32_t *to = tile + column(i) / 2;
            split(w[i][0], a);
            split(w[i][1], b);
#pragma unroll
            for (int j = 0; j < 8; j++)
                to[(first_row() + j) * (TILE::PITCH / 2)] = j % 2 ? upper(a[j / 2], b[j / 2]) : lower(a[j / 2], b[j / 2]);
        }
    }
    static __device__ __forceinline__ void write(char *to, int64_t step, int columns, int rows, uint32_t skipped, const uint32_t *tile) {
#pragma unroll
        for (int i = 0; i < turns; i++) {
            uint32_t word[8];
            const uint32_t *from = tile + column(i) / 2;
#pragma unroll
            for (int j = 0; j < 8; j++) word[j] = from[(first_row() + j) * (TILE::PITCH / 2)];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t part[4];
                uint4 w;
                char *at = to + (column(i) + k) * step;
#pragma unroll
                for (int j = 0; j < 4; j++) part[j] = k ? upper(word[2 * j], word[2 * j + 1]) : lower(word[2 * j], word[2 * j + 1]);
                join(part, w);
                if (column(i) + k >= columns || first_row() >= rows) continue;
                if (!skipped) {
                    __stcs((uint4 *)at + (threadIdx.x & 1), w);
                } else {
                    for (int j = 0; j < 8; j++)
                        if (!(skipped >> (first_row() + j) & 1)) *((uint16_t *)at + first_row() + j) = (uint16_t)(word[j] >> 16 * k);
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

/* A lane's part of its row becomes results. */
template <typename TILE, bool LOG>
static __device__ __forceinline__ void turn_into_results(const row_answer &answer, const register_factor &factor, bool empty_zero, uint4 *to, float *v) {
    typedef typename TILE::T T;
    if (is_constant(answer)) {
        tile_row<TILE>::fill(to, constant_of<T>(answer, LOG, empty_zero));
        return;
    }
    if (LOG)
        log_block<32>(answer, v);
    else
        scale_block<cell<T>::kind, 32>(factor, v);
    tile_row<TILE>::store(to, v);
}

/* A row of at most a block of columns, in LANES lanes. Returns whether it is slow. */
template <typename TILE, bool LOG>
static __device__ __forceinline__ bool take_row(const softmax_job &job, const tile_place &place, int row, uint4 *at) {
    typedef typename TILE::T T;
    const arithmetic kind = cell<T>::kind;
    uint32_t words[tile_row<TILE>::words];
    float v[32], m1, m2;
    tile_row<TILE>::load(at, words);
    cell<T>::template largest_two<tile_row<TILE>::words>(words, m1, m2);
    tile_row<TILE>::open(words, v);
    const block_sums sums = TILE::LANES < 32 ? sum_group<kind, 32, TILE::LANES, LOG>(m1, m2, v) : sum_block<kind, 32, 0, LOG, 1>(m1, m2, v, TILE::COLUMNS);
    const block_note note = note_of<kind>(sums);
    const row_answer answer = answer_of_block<kind, LOG>(note, job.op == OPERATION_LOGSUMEXP);
    if (answer.slow) return true;
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (threadIdx.x % TILE::LANES == 0 && row < place.rows) store_result(row_of(job, job.out, place.row + row), job.out.type, answer.logsumexp);
        return false;
    }
    register_factor factor = {};
    if (!LOG) factor = factor_of<kind>(answer, note);
    turn_into_results<TILE, LOG>(answer, factor, job.empty_zero, at, v);
    return false;
}

static __device__ __forceinline__ uint32_t *slow_rows_of_tile() {
    __shared__ uint32_t rows;
    return &rows;
}

template <typename TILE, bool LOG> static __device__ __forceinline__ void turned_rows(const softmax_job &job) {
    typedef typename TILE::T T;
    uint32_t *const tile = (uint32_t *)(void *)shared_bytes(), *const slow_rows = slow_rows_of_tile();
    const int row = (int)threadIdx.x / TILE::LANES;
    const tile_place place = place_of_tile<TILE>(job, blockIdx.x);
    if (threadIdx.x == 0) *slow_rows = 0;
    turning<TILE>::read(row_of(job, job.x, place.row), job.x.column_stride, (int)job.columns, place.rows, tile);
    __syncthreads();
    uint4 *const at = (uint4 *)(void *)((char *)tile + row * (TILE::PITCH * (int)sizeof(T))) + threadIdx.x % TILE::LANES;
    if (take_row<TILE, LOG>(job, place, row, at) && row < place.rows && threadIdx.x % TILE::LANES == 0) atomicOr(slow_rows, 1u << row);
    __syncthreads();
    const uint32_t slow = *slow_rows;
    if (!(LOG && job.op == OPERATION_LOGSUMEXP))
        turning<TILE>::write(row_of(job, job.out, place.row), job.out.column_stride, (int)job.columns, place.rows, slow, tile);
    for (int r = (int)(threadIdx.x >> 5); r < TILE::ROWS; r += TILE::THREADS / 32)
        if (slow >> r & 1) softmax_cuda_slow_row(job, place.row + r);
}

/* ---- Few columns: a thread a row, whose accesses lie beside its neighbours' -------------------------------------------------------------------------- */

template <typename T, int N, bool LOG> static __device__ __forceinline__ void row_of_thread(const softmax_job &job) {
    const arithmetic kind = cell<T>::kind;
    typedef typename access<sizeof(T)>::word one;
    const int64_t inner = job.shape[job.dimensions - 1], outer = blockIdx.x / ((inner + blockDim.x - 1) / blockDim.x);
    const int64_t beside = (blockIdx.x - outer * ((inner + blockDim.x - 1) / blockDim.x)) * blockDim.x + threadIdx.x, row = outer * inner + beside;
    const int columns = beside < inner ? (int)job.columns : 0;
    float v[N], first = -INFINITY, second = -INFINITY;
    const char *from = columns ? row_of(job, job.x, row) : NULL;
    uint32_t words[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        words[i] = cell<T>::nothing;
        if (i < columns) words[i] = __ldcs((const one *)(from + i * job.x.column_stride));
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float two[2];
        cell<T>::open(words[i], two);
        v[i] = two[0];
        take_in(v[i], first, second);
    }
    block_sums s = {first + 0.0f, 0.0f, 0.0f, 0, 0};
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float value = add_term<kind>(fmaxf(v[i], floor_score), magic, s.high, s.low);
        if (!LOG) v[i] = value;
    }
    s.high -= N * float_bits(TERM32_HIGH);
    s.low -= N * float_bits(TERM32_LOW);
    const block_note note = note_of<kind>(s);
    const row_answer answer = answer_of_block<kind, LOG>(note, job.op == OPERATION_LOGSUMEXP);
    const bool is_slow_row = columns && answer.slow;
    if (columns && !answer.slow) {
        char *to = row_of(job, job.out, row);
        if (LOG && job.op == OPERATION_LOGSUMEXP) {
            store_result(to, job.out.type, answer.logsumexp);
        } else {
            const bool constant = is_constant(answer);
            const uint32_t value = constant ? constant_of<T>(answer, LOG, job.empty_zero) : 0;
            if (LOG)
                log_block<N>(answer, v);
            else
                scale_block<kind, N>(factor_of<kind>(answer, note), v);
#pragma unroll
            for (int i = 0; i < N; i++)
                if (i < columns) __stcs((one *)(to + i * job.out.column_stride), (one)(constant ? value : cell<T>::close_one(v[i])));
        }
    }
    for (uint32_t rest = __ballot_sync(EVERY_LANE, is_slow_row); rest; rest &= rest - 1)
        softmax_cuda_slow_row(job, __shfl_sync(EVERY_LANE, row, __ffs((int)rest) - 1));
}

#endif
