/* Rows that come through shared memory, some rows ahead of the one in registers, and the parts of a row that its thread blocks tell each other.
 * A thread block, or a cluster, takes one row after another: what a row's exchange waits for, the next rows' bytes do not. */
#ifndef SOFTMAX_CUDA_ROW_STREAM_CUH
#define SOFTMAX_CUDA_ROW_STREAM_CUH

#include "row_pieces.cuh"

#define MOST_STAGES 4
#define MOST_ROW_BLOCKS 16 /* thread blocks of a row */

/* How rows come. */
typedef struct stream_shape {
    row_shape row;
    int stages;      /* 0: from memory into registers */
    int slice_bytes; /* of one array in a stage: a thread block's part of a row, rounded up to whole blocks of columns */
    int turns;       /* without stages: rows that a thread block, or a cluster, takes one after another */
} stream_shape;

/* Which rows are whose. With stages all blocks run at once and take rows in turn, else some neighbours each. */
template <bool STREAM> static __device__ __forceinline__ void rows_of_block(const stream_shape &shape, int rows, unsigned cluster, int &first, int &end, int &step) {
    const int number = (int)cluster_number();
    step = STREAM ? (int)(gridDim.x / cluster) : 1;
    first = STREAM ? number : number * shape.turns;
    end = STREAM ? rows : min(rows, first + shape.turns);
}

/* Where a warp's block of columns is. */
typedef struct row_place {
    int warp, warps;
    unsigned rank, cluster;
    int first;                 /* column */
    int part_first, part_last; /* its thread block's columns */
} row_place;

static __device__ __forceinline__ row_place place_of_warp(int columns, int warps) {
    row_place p;
    p.warp = (int)(threadIdx.x >> 5);
    p.warps = warps;
    p.rank = cluster_rank();
    p.cluster = cluster_blocks();
    p.part_first = (int)p.rank * warps * SOFTMAX_BLOCK_COLUMNS;
    p.part_last = min(columns, p.part_first + warps * SOFTMAX_BLOCK_COLUMNS);
    p.first = p.part_first + p.warp * SOFTMAX_BLOCK_COLUMNS;
    return p;
}

/* Until gates that one thread began can be used, in all thread blocks of the row. */
static __device__ __forceinline__ void wait_for_gates(unsigned cluster) {
    if (cluster > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        __syncthreads();
    }
}

/* What a kernel keeps in shared memory before its stages. It is dynamic, as they are: tests/cuda/emulator keeps blocks' static variables apart only
 * outside templates. */
template <typename BOARD> static __device__ __forceinline__ BOARD &the_board() { return *(BOARD *)(void *)shared_bytes(); }
template <typename BOARD> static __host__ __device__ __forceinline__ int board_bytes() { return (int)(sizeof(BOARD) + 127) / 128 * 128; }

/* ARRAYS arrays come together. */
template <int ARRAYS, typename BOARD> struct row_ring {
    uint64_t *full;
    int stages, slice_bytes;
    uint32_t bytes; /* of one array, that come */
    int stage;
    uint32_t phase;

    /* columns: of this thread block's part */
    __device__ __forceinline__ row_ring(uint64_t *gates, const stream_shape &shape, int64_t columns, int element_bytes)
        : full(gates), stages(shape.stages), slice_bytes(shape.slice_bytes), bytes(columns > 0 ? (uint32_t)columns * (uint32_t)element_bytes : 0), stage(0),
          phase(0) {}
    __device__ __forceinline__ unsigned char *slice(int s, int array) const { return shared_bytes() + board_bytes<BOARD>() + (s * ARRAYS + array) * slice_bytes; }
    __device__ __forceinline__ const unsigned char *current(int array) const { return slice(stage, array); }

    /* By one thread: a row's part into stage s, which nobody reads any more. */
    __device__ __forceinline__ void fill(int s, int array, const char *from) const {
        if (bytes) copy_in_background(slice(s, array), from, bytes, &full[s]);
    }
    __device__ __forceinline__ void expect(int s) const { gate_expect(&full[s], ARRAYS * bytes); }
    __device__ __forceinline__ void wait() const { gate_wait(&full[stage], phase); }
    __device__ __forceinline__ void next() {
        if (++stage == stages) {
            stage = 0;
            phase ^= 1;
        }
    }
};

/* A warp's block of columns out of a slice; count: how many columns it has. */
template <int TYPE, int VECTORS>
static __device__ __forceinline__ void take(piece<TYPE, VECTORS> &p, const unsigned char *block, int count, uint32_t fill) {
    const int per = packed<TYPE>::per, lane = (int)(threadIdx.x & 31);
    const uint4 *from = (const uint4 *)(const void *)block + lane;
    if (count >= VECTORS * 32 * per) { /* all but a row's last */
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            const uint4 a = from[v * 32];
            p.word[4 * v] = a.x;
            p.word[4 * v + 1] = a.y;
            p.word[4 * v + 2] = a.z;
            p.word[4 * v + 3] = a.w;
        }
        return;
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        uint4 a = make_uint4(fill, fill, fill, fill);
        if (v * 32 * per + lane * per < count) a = from[v * 32];
        p.word[4 * v] = a.x;
        p.word[4 * v + 1] = a.y;
        p.word[4 * v + 2] = a.z;
        p.word[4 * v + 3] = a.w;
    }
}

/* ---- Parts of a row ----------------------------------------------------------------------------------------------------------------------- */

/* Two sets: a thread block may be one row ahead of another, not two. */
template <typename PART> struct part_exchange {
    PART parts[2][MOST_ROW_BLOCKS];
    uint64_t gate[2];
};

template <typename PART> static __device__ __forceinline__ void begin_parts(part_exchange<PART> &x, unsigned cluster) {
    for (int i = 0; i < 2; i++) {
        gate_begin(&x.gate[i]);
        gate_expect(&x.gate[i], cluster * (uint32_t)sizeof(PART));
    }
}

/* By one warp: its thread block's part, the same in every lane, of row number `turn` to all, and all parts of that row here. */
template <typename PART>
static __device__ __forceinline__ const PART *exchange_parts(part_exchange<PART> &x, const PART &mine, unsigned rank, unsigned cluster, uint32_t turn) {
    const int words = sizeof(PART) / 8, lane = (int)(threadIdx.x & 31);
    const uint32_t set = turn & 1;
    uint64_t word[words];
    static_assert(sizeof(PART) % 8 == 0, "parts travel in words");
    memcpy(word, &mine, sizeof mine);
    if (lane < (int)cluster) {
#pragma unroll
        for (int i = 0; i < words; i++) send_word((uint64_t *)(void *)&x.parts[set][rank] + i, &x.gate[set], (unsigned)lane, word[i]);
    }
    gate_wait(&x.gate[set], turn >> 1 & 1);
    __syncwarp();
    if (lane == 0) gate_expect(&x.gate[set], cluster * (uint32_t)sizeof(PART));
    return x.parts[set];
}

#endif
