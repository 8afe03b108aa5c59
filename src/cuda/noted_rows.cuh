/* Contiguous rows in registers, one read and one write, as rows.cuh has them, but that a warp of their own, the reader, reads the rows out: row_notes.cuh.
 * For rows of whole vectors, and for those of clusters that begin anywhere. */
#ifndef SOFTMAX_CUDA_NOTED_ROWS_CUH
#define SOFTMAX_CUDA_NOTED_ROWS_CUH

#include "launch.cuh"
#include "row_notes.cuh"
#include "rows.cuh"

static __device__ __forceinline__ note_board &the_notes() { /* in no template, for the emulator's compiler */
    __shared__ __align__(16) unsigned char memory[sizeof(note_board)];
    return *(note_board *)(void *)memory;
}

/* A warp's block of a row whose answer is there; v: its values, or where logarithms are wanted its scores. */
template <typename T, typename LANES, bool LOG>
static __device__ __forceinline__ void write_noted_block(const note_board &board, const softmax_job &job, int warp, char *out, int count, float *v) {
    const arithmetic kind = cell<T>::kind;
    const int ELEMENTS = LANES::elements;
    if (board.ordinary) {
        const float4 factor = board.factors[warp];
        const register_factor f = {factor.x, factor.y, factor.z, factor.w, false, kind != ARITHMETIC_32};
        if (LOG)
            log_block<ELEMENTS>(board.answer, v);
        else
            scale_block<kind, ELEMENTS>(f, v);
        LANES::store(out, count, v);
        return;
    }
    const row_answer answer = board.answer;
    if (answer.slow) return;
    if (is_constant(answer)) {
        LANES::fill(out, count, constant_of<T>(answer, LOG, job.empty_zero));
        return;
    }
    if (LOG)
        log_block<ELEMENTS>(answer, v);
    else
        scale_block<kind, ELEMENTS>(factor_of<kind>(answer, note_of<kind>(told_top(board, warp))), v);
    LANES::store(out, count, v);
}

/* By the reader. Every block of the row has been read before its answer is known: the slow code may write over it. */
template <typename T, bool LOG, bool CLUSTER>
static __device__ __forceinline__ void read_row(note_board &board, const softmax_job &job, int64_t row, int warps, int rank, int cluster) {
    const bool want_logsumexp = LOG && job.op == OPERATION_LOGSUMEXP;
    const row_answer answer = read_notes<cell<T>::kind, LOG, CLUSTER>(board, warps, rank, cluster, want_logsumexp);
    if (rank != 0) return;
    if (answer.slow)
        softmax_cuda_slow_row(job, row);
    else if (want_logsumexp && (threadIdx.x & 31) == 0)
        store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
}

/* ahead: rows that are on their way to the L2 cache, as in rows.cuh. */
template <typename T, typename LANES, bool LOG, bool CLUSTER> static __device__ __forceinline__ void noted_rows(const softmax_job &job, int cluster, int ahead) {
    const int warps = (int)(blockDim.x >> 5) - 1, warp = (int)(threadIdx.x >> 5);
    note_board &board = the_notes();
    int rank;
    int64_t row;
    place_of<CLUSTER>(rank, row);
    if (threadIdx.x == 0) begin_notes(board, warps, CLUSTER ? cluster : 1);
    if (CLUSTER) cluster_arrive_relaxed(); /* begin_notes has its own fence; a release would wait for all earlier stores */
    if (warp == warps) {
        if (CLUSTER)
            cluster_wait();
        else
            __syncthreads();
        read_row<T, LOG, CLUSTER>(board, job, row, warps, rank, cluster);
        return;
    }
    const int first = (rank * warps + warp) * SOFTMAX_BLOCK_COLUMNS, left = (int)job.columns - first;
    const int count = left < SOFTMAX_BLOCK_COLUMNS ? left : SOFTMAX_BLOCK_COLUMNS;
    if (ahead && warp == 0 && (threadIdx.x & 31) == 0) prefetch_row<T>(job, row + ahead, first, warps * SOFTMAX_BLOCK_COLUMNS);
    float v[LANES::elements];
    {
        uint32_t words[LANES::words];
        float m1, m2;
        LANES::load(flat_row(job.x, row) + (int64_t)first * (int)sizeof(T), count, words);
        if (CLUSTER)
            cluster_wait();
        else
            __syncthreads();
        cell<T>::template largest_two<LANES::words>(words, m1, m2);
        block_sums sums = top_of_block(m1, m2);
        tell_top(board, sums, warp);
        LANES::open(words, v);
        add_terms<cell<T>::kind, LANE_COLUMNS, LANES::edge, LOG, 1>(sums, v, count);
        tell_sums(board, sums, warp);
    }
    gate_wait(&board.answer_gate, 0);
    if (LOG && job.op == OPERATION_LOGSUMEXP) return;
    write_noted_block<T, LANES, LOG>(board, job, warp, flat_row(job.out, row) + (int64_t)first * (int)sizeof(T), count, v);
}

template <typename T, typename LANES, bool LOG, bool CLUSTER>
static __global__ void __maxnreg__(56) noted_row_kernel(const __grid_constant__ softmax_job job, int cluster, int ahead) {
    if constexpr (HAS_CLUSTERS) noted_rows<T, LANES, LOG, CLUSTER>(job, cluster, ahead); /* gates */
}

/* Rows that begin anywhere: what was seen to be sooner. */
template <typename T> struct words_anywhere { typedef shifted_words<T, LANE_COLUMNS> words; };
template <> struct words_anywhere<float> { typedef edged_words<float, LANE_COLUMNS> words; };

template <typename T, bool LOG> static cudaError_t launch_noted(const softmax_job *job, const cuda_shape *shape) {
    typedef lane_words<T, 16 / (int)sizeof(T), LANE_COLUMNS> whole;
    typedef typename words_anywhere<T>::words anywhere;
    launch_shape l = launch_of(job->rows * shape->cluster, 32 * (shape->warps + 1), shape->cluster, 0, (cudaStream_t)job->stream);
    l.balanced = shape->balanced;
    if (shape->edges) return launch(l, noted_row_kernel<T, anywhere, LOG, true>, *job, shape->cluster, shape->ahead);
    return shape->cluster > 1 ? launch(l, noted_row_kernel<T, whole, LOG, true>, *job, shape->cluster, shape->ahead)
                              : launch(l, noted_row_kernel<T, whole, LOG, false>, *job, 1, shape->ahead);
}

template <typename T> static cudaError_t launch_noted_rows(const softmax_job *job, const cuda_shape *shape) {
    return job->op == OPERATION_SOFTMAX ? launch_noted<T, false>(job, shape) : launch_noted<T, true>(job, shape);
}

#endif
