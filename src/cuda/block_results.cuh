/* A block's columns in a warp's registers, written by its row's answer. */
#ifndef SOFTMAX_CUDA_BLOCK_RESULTS_CUH
#define SOFTMAX_CUDA_BLOCK_RESULTS_CUH

#include "operands.cuh"
#include "register_block.cuh"

#define LANE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / 32)

/* v: N columns a lane of the block's values, or with LOG its scores; out: the warp's first column. For rows that are not slow, and not for
 * logsumexp. */
template <typename T, int VEC, bool LOG, int N>
static __device__ __forceinline__ void write_columns_of_block(const softmax_job &job, const row_answer &answer, const block_note &note, char *out, int count, float *v) {
    typedef lane_words<T, VEC, N> lanes;
    const arithmetic kind = cell<T>::kind;
    if (is_constant(answer)) {
        lanes::fill(out, count, constant_of<T>(answer, LOG, job.empty_zero));
        return;
    }
    if (LOG)
        log_block<N>(answer, v);
    else
        scale_block<kind, N>(factor_of<kind>(answer, note), v);
    lanes::store(out, count, v);
}

#endif
