/* A row's cluster of thread blocks: parts go to every thread block by asynchronous stores that complete on its barrier. A cluster barrier's
 * release would wait for the previous row's results to reach memory instead. */
#ifndef SOFTMAX_CUDA_CLUSTERS_CUH
#define SOFTMAX_CUDA_CLUSTERS_CUH

#include "row_merge.cuh"

#define MOST_WARPS 16   /* of a thread block, a block of columns each */
#define MOST_CLUSTER 16 /* thread blocks of a row */

#if __CUDA_ARCH__ >= 900
static __device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
#endif

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

/* Which thread block of its row's cluster this is. */
static __device__ __forceinline__ void place_of(int cluster, int &rank, int64_t &row) {
    rank = 0;
    row = blockIdx.x;
#if __CUDA_ARCH__ >= 900
    if (cluster > 1) {
        unsigned r, c;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
        asm("mov.u32 %0, %%clusterid.x;" : "=r"(c));
        rank = (int)r;
        row = c;
    }
#else
    (void)cluster;
#endif
}

#endif
