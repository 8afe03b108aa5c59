/* Contiguous rows in registers, one read and one write: a warp holds a block of SOFTMAX_BLOCK_COLUMNS columns, a thread block up to 32, a cluster
 * of thread blocks up to 512. One exchange a row. A row whose scores are out of the fast terms' range is left to generic_row.cuh. */
#ifndef SOFTMAX_CUDA_ROWS_CUH
#define SOFTMAX_CUDA_ROWS_CUH

#include "generic_row.cuh"
#include "row_merge.cuh"

#define MOST_WARPS 32
#define MOST_CLUSTER 16
#define LANE_COLUMNS (SOFTMAX_BLOCK_COLUMNS / 32)

/* ---- Clusters: parts go to every thread block by asynchronous stores that complete on its barrier. A cluster barrier's release would wait for
 * the previous row's results to reach memory instead. ---------------------------------------------------------------------------------------- */

static __device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

static __device__ __forceinline__ void begin_exchange(uint64_t *barrier, int cluster) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        uint32_t m = shared_address(barrier);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(m));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(m), "r"(cluster * (int)sizeof(row_part)) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
    (void)barrier, (void)cluster;
#endif
}

/* Every thread block's barrier is ready. */
static __device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* By one warp: its thread block's part to all, and all parts here. */
static __device__ __forceinline__ void exchange(const row_part &mine, row_part *parts, uint64_t *barrier, int rank, int cluster) {
#if __CUDA_ARCH__ >= 900
    const int words = sizeof(row_part) / 8, lane = threadIdx.x & 31;
    const uint32_t m = shared_address(barrier), slot = shared_address(&parts[rank]);
    uint64_t word[words];
    memcpy(word, &mine, sizeof mine);
#pragma unroll
    for (int i = 0; i < words; i++) {
        uint32_t there, barrier_there;
        if (lane < cluster) {
            asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(slot + 8 * i), "r"(lane));
            asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier_there) : "r"(m), "r"(lane));
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there), "l"(word[i]),
                         "r"(barrier_there)
                         : "memory");
        }
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(m) : "memory");
#else
    (void)mine, (void)parts, (void)barrier, (void)rank, (void)cluster;
#endif
}

/* ---- The kernel: a thread block or a cluster a row ---------------------------------------------------------------------------------------- */

template <typename T, int VEC, bool LOG>
static __device__ __forceinline__ void rows_of_blocks(const softmax_job &job, int cluster) {
    typedef lane_words<T, VEC, LANE_COLUMNS> lanes;
    const arithmetic kind = cell<T>::kind;
    __shared__ block_note notes[MOST_WARPS];
    __shared__ row_part parts[MOST_CLUSTER];
    __shared__ row_answer shared_answer;
    __shared__ uint64_t barrier;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const int rank = cluster > 1 ? (int)(blockIdx.x % (unsigned)cluster) : 0;
    const int64_t row = cluster > 1 ? blockIdx.x / (unsigned)cluster : blockIdx.x;
    const int64_t first = (int64_t)(rank * warps + warp) * SOFTMAX_BLOCK_COLUMNS, left = job.columns - first;
    const int count = left < SOFTMAX_BLOCK_COLUMNS ? (int)left : SOFTMAX_BLOCK_COLUMNS;
    uint32_t words[lanes::words];
    float v[LANE_COLUMNS], m1, m2;
    block_note note;
    row_answer answer;

    lanes::load(flat_row(job.x, row) + first * (int64_t)sizeof(T), count, words);
    if (cluster > 1) begin_exchange(&barrier, cluster);
    cell<T>::template largest_two<lanes::words>(words, m1, m2);
    lanes::open(words, v);
    note = sum_block<kind, LANE_COLUMNS, LOG>(m1, m2, v);
    if (lane == 0) notes[warp] = note;
    __syncthreads();
    if (cluster > 1) wait_for_cluster();
    if (warp == 0) { /* every warp for itself costs more: the schedulers are the limit */
        row_part part = merge_notes<kind>(notes, warps);
        if (cluster > 1) {
            exchange(part, parts, &barrier, rank, cluster);
            part = merge_parts(parts, cluster);
        }
        answer = answer_of_part<kind, LOG>(part);
        if (lane == 0) shared_answer = answer;
    }
    __syncthreads();
    answer = shared_answer;
    if (answer.slow) {
        if (rank == 0 && warp == 0) slow_row(job, row);
        return;
    }
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (rank == 0 && threadIdx.x == 0) store_result(flat_row(job.out, row), job.out.type, answer.logsumexp);
        return;
    }
    char *out = flat_row(job.out, row) + first * (int64_t)sizeof(T);
    if (is_constant(answer)) {
        lanes::fill(out, count, constant_of<T>(answer, LOG, job.empty_zero));
        return;
    }
    if (LOG)
        log_block<T, LANE_COLUMNS>(answer, v);
    else
        scale_block<kind, LANE_COLUMNS>(factor_of<kind>(answer, note.maximum, note.top, note.kb), v);
    lanes::store(out, count, v);
}

#endif
