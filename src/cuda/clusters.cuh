/* A row's cluster of thread blocks: parts go to every thread block by asynchronous stores that complete on its barrier. A cluster barrier's
 * release would wait for the previous row's results to reach memory instead. */
#ifndef SOFTMAX_CUDA_CLUSTERS_CUH
#define SOFTMAX_CUDA_CLUSTERS_CUH

#include "row_merge.cuh"

#define MOST_WARPS 16   /* of a thread block, a block of columns each */
#define MOST_CLUSTER 16 /* thread blocks of a row */

static __device__ __forceinline__ void begin_exchange(uint64_t *barrier, int cluster) {
    if (threadIdx.x == 0) expect_stores(barrier, cluster * (int)sizeof(row_part));
    cluster_arrive_relaxed(); /* expect_stores has its own fence; a release would wait for all earlier stores */
}

/* Every thread block's barrier is ready. */
static __device__ __forceinline__ void wait_for_cluster() { cluster_wait(); }

/* By one warp: its thread block's part to all, and all parts here. */
static __device__ __forceinline__ void exchange(const row_part &mine, row_part *parts, uint64_t *barrier, int rank, int cluster) {
    const int words = sizeof(row_part) / 8, lane = threadIdx.x & 31;
    uint64_t word[words];
    memcpy(word, &mine, sizeof mine);
    if (lane < cluster) {
#pragma unroll
        for (int i = 0; i < words; i++) store_in_block((uint64_t *)(void *)&parts[rank] + i, word[i], (unsigned)lane, barrier);
    }
    wait_for_stores(barrier);
}

/* Which thread block of its row's cluster this is. */
template <bool CLUSTER> static __device__ __forceinline__ void place_of(int &rank, int64_t &row) {
    rank = CLUSTER ? (int)cluster_rank() : 0;
    row = CLUSTER ? cluster_number() : blockIdx.x;
}

#endif
