/* What kernels need of the machine beyond CUDA C: sums and maxima over the lanes of a warp, thread-block clusters, arithmetic that PTX alone
 * has. tests/cuda/emulator has the same functions for processors, under this file's guard. */
#ifndef SOFTMAX_CUDA_MACHINE_CUH
#define SOFTMAX_CUDA_MACHINE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define EVERY_LANE 0xffffffffu

extern __shared__ __align__(16) unsigned char softmax_shared_bytes[];
static __device__ __forceinline__ unsigned char *shared_bytes() { return softmax_shared_bytes; }

static __device__ __forceinline__ uint32_t lanes_max(uint32_t x) { return __reduce_max_sync(EVERY_LANE, x); }
static __device__ __forceinline__ uint32_t lanes_sum(uint32_t x) { return __reduce_add_sync(EVERY_LANE, x); }
static __device__ __forceinline__ int32_t lanes_sum_signed(int32_t x) { return __reduce_add_sync(EVERY_LANE, x); }

/* a b rounded toward zero: in the product's own binade, and never infinite unless a or b is. */
static __device__ __forceinline__ float multiply_toward_zero(float a, float b) { return __fmul_rz(a, b); }

/* x as a double. Volatile: converted where it is needed, for a lane's elements kept as doubles would take twice the registers that there are. */
static __device__ __forceinline__ double widened(float x) {
    double y;
    asm volatile("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x));
    return y;
}

/* The top bits of bytes FIRST and FIRST + 1 of x, each 16 times. */
template <int FIRST> static __device__ __forceinline__ uint32_t marks_of_pair(uint32_t x) {
    uint32_t marks; /* the instruction's selectors from 8 on take a byte's sign, which __byte_perm leaves out */
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(marks) : "r"(x), "n"(FIRST == 0 ? 0x9988 : 0xbbaa));
    return marks;
}

/* Clusters and bulk copies come with compute capability 9.0. Below, choice.c and gradient_choice.c choose no kernel with them, which are then compiled empty. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS true
#else
#define HAS_CLUSTERS false
#endif

/* What was made of x before this is made again after it, and not kept in registers. */
static __device__ __forceinline__ void make_again(uint32_t &x) { asm volatile("" : "+r"(x)); }

static __device__ __forceinline__ void prefetch_to_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/* `bytes` bytes from p on, in one instruction where there is one; both multiples of 16. */
static __device__ __forceinline__ void prefetch_bytes_to_l2(const void *p, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes));
#else
    (void)p, (void)bytes;
#endif
}

/* x, or +0 where it is subnormal or zero. */
static __device__ __forceinline__ float flush_to_zero(float x) {
    float y;
    asm("fma.rn.ftz.f32 %0, %1, 0f3F800000, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
}

/* The larger; NaN where either is NaN. */
static __device__ __forceinline__ float max_or_nan(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}

/* x 2^-64, flushed where that is subnormal; to -0 where it is negative. */
static __device__ __forceinline__ float shrink_and_flush(float x) {
    float y;
    asm("mul.rn.ftz.f32 %0, %1, 0f1F800000;" : "=f"(y) : "f"(x));
    return y;
}

/* a b, flushed where that is below 2^-126 once it is rounded as if exponents had no end. */
static __device__ __forceinline__ float multiply_and_flush(float a, float b) {
    float y;
    asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

/* The smaller, the larger, and the larger or NaN, of two elements of 16 bits in a word: an instruction each. */
#define PAIRS_OF_HALVES(name, instruction)                                                                        \
    static __device__ __forceinline__ uint32_t name(uint32_t a, uint32_t b) {                                     \
        uint32_t both;                                                                                            \
        asm(instruction " %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));                                            \
        return both;                                                                                              \
    }
PAIRS_OF_HALVES(smaller_bfloat16, "min.bf16x2")
PAIRS_OF_HALVES(larger_bfloat16, "max.bf16x2")
PAIRS_OF_HALVES(larger_or_nan_bfloat16, "max.NaN.bf16x2")
PAIRS_OF_HALVES(smaller_float16, "min.f16x2")
PAIRS_OF_HALVES(larger_float16, "max.f16x2")
PAIRS_OF_HALVES(larger_or_nan_float16, "max.NaN.f16x2")
#undef PAIRS_OF_HALVES

/* The 16-bit types in pairs, a in the low half. Numbers only: NaN comes out with other bits than a result's. */
static __device__ __forceinline__ uint32_t pack_bfloat16(float a, float b) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
}
static __device__ __forceinline__ uint32_t pack_float16(float a, float b) {
    uint32_t both;
    asm("{ .reg .b32 r; cvt.rn.f16x2.f32 r, %1, %2; add.rn.f16x2 %0, r, %3; }" : "=r"(both) : "f"(b), "f"(a), "r"(0)); /* -0 + 0 = +0 */
    return both;
}
/* Without the addition: -0 stays. */
static __device__ __forceinline__ uint32_t pack_float16_as_is(float a, float b) {
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
    return both;
}
static __device__ __forceinline__ void open_float16(uint32_t both, float *two) {
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(two[0]), "=f"(two[1]) : "r"(both));
}
static __device__ __forceinline__ float float16_value(uint16_t half) {
    float x;
    asm volatile("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half)); /* volatile: done again where it is needed again, and not kept in a register */
    return x;
}

/* A barrier of `threads` threads of the block, whole warps, number 0 to 15: they may come to it in different places. */
static __device__ __forceinline__ void wait_for_warps(int number, int threads) { asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }

/* 1 / x but for the last few of its bits. */
static __device__ __forceinline__ double nearly_inverse(double x) {
    double y, e;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    e = fma(-x, y, 1.0);
    e = fma(e, e, e);
    return fma(e, y, y); /* 20 bits become 60 */
}

/* ---- Kernels that follow each other, launched so that the second may start early: Hopper and later; elsewhere it starts when the first has ended. ---- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
static __device__ __forceinline__ void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }
/* Until the first has ended, and all that it wrote is seen. */
static __device__ __forceinline__ void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
static __device__ __forceinline__ void let_next_kernel_start() {}
static __device__ __forceinline__ void wait_for_previous_kernel() {}
#endif

/* ---- Thread-block clusters: Hopper and later; elsewhere a cluster is one block. ----------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
static __device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
static __device__ __forceinline__ unsigned cluster_blocks() {
    unsigned blocks;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}
/* Which cluster of the grid. */
static __device__ __forceinline__ unsigned cluster_number() {
    unsigned number;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    return number;
}
static __device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
/* Orders no memory: only tells that this block runs. */
static __device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
static __device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/* Where another block of the cluster has what is at this address of shared memory here. */
template <typename T> static __device__ __forceinline__ T *address_in_block(T *mine, unsigned rank) {
    uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(rank));
    return (T *)there;
}
/* A barrier of this block, for one round: so many bytes will be stored here by store_in_block. */
static __device__ __forceinline__ void expect_stores(uint64_t *barrier, int bytes) {
    const uint32_t m = (uint32_t)__cvta_generic_to_shared(barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(m));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(m), "r"(bytes) : "memory");
}
/* Where `to` is in another block of the cluster; that block's barrier counts it. */
static __device__ __forceinline__ void store_in_block(uint64_t *to, uint64_t value, unsigned rank, uint64_t *barrier) {
    uint32_t there, barrier_there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((uint32_t)__cvta_generic_to_shared(to)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier_there) : "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(rank));
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there), "l"(value), "r"(barrier_there) : "memory");
}
static __device__ __forceinline__ void wait_for_stores(uint64_t *barrier) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}
#else
static __device__ __forceinline__ void expect_stores(uint64_t *, int) {}
static __device__ __forceinline__ void store_in_block(uint64_t *to, uint64_t value, unsigned, uint64_t *) { *to = value; }
static __device__ __forceinline__ void wait_for_stores(uint64_t *) {}
static __device__ __forceinline__ unsigned cluster_rank() { return 0; }
static __device__ __forceinline__ unsigned cluster_blocks() { return 1; }
static __device__ __forceinline__ unsigned cluster_number() { return blockIdx.x; }
static __device__ __forceinline__ void cluster_arrive() {}
static __device__ __forceinline__ void cluster_arrive_relaxed() {}
static __device__ __forceinline__ void cluster_wait() {}
template <typename T> static __device__ __forceinline__ T *address_in_block(T *mine, unsigned rank) {
    (void)rank;
    return mine;
}
#endif

/* ---- Gates: words of shared memory that are waited at, one phase after another: until one arrival and all bytes that it said to expect. Bytes
 * come by copies in the background and by words from other blocks of the cluster. Hopper and later; nobody asks for them elsewhere. ---------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
static __device__ __forceinline__ uint32_t in_shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void gate_begin(uint64_t *gate) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(in_shared(gate))); }
/* Of `arrivals` a phase. */
static __device__ __forceinline__ void gate_begin_for(uint64_t *gate, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(gate)), "r"(arrivals));
}
static __device__ __forceinline__ void gate_arrive(uint64_t *gate) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(gate)) : "memory");
}
/* What this thread saw of shared memory, and wrote there, comes before copies that it asks for from now on. */
static __device__ __forceinline__ void before_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* Gates that were begun can be used once a barrier has been passed. */
static __device__ __forceinline__ void gates_begun() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
static __device__ __forceinline__ void gate_expect(uint64_t *gate, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(gate)), "r"(bytes) : "memory");
}
/* phase: the lowest bit of its number, from 0. Its scope is the thread block: the cluster's would empty the first-level cache each time, and what
 * came in the background is in shared memory. */
static __device__ __forceinline__ void gate_wait(uint64_t *gate, uint32_t phase) {
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(in_shared(gate)),
                 "r"(phase)
                 : "memory");
}
/* Of multiples of 16 bytes. */
static __device__ __forceinline__ void copy_in_background(void *to, const void *from, uint32_t bytes, uint64_t *gate) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(in_shared(to)), "l"(from), "r"(bytes),
                 "r"(in_shared(gate))
                 : "memory");
}
/* To where the cluster's block `rank` has `slot`, and 8 bytes to its gate. */
static __device__ __forceinline__ void send_word(uint64_t *slot, uint64_t *gate, unsigned rank, uint64_t word) {
    uint32_t there, gate_there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(in_shared(slot)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(gate_there) : "r"(in_shared(gate)), "r"(rank));
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there), "l"(word), "r"(gate_there) : "memory");
}
#else
static __device__ __forceinline__ void gate_begin(uint64_t *) {}
static __device__ __forceinline__ void gate_begin_for(uint64_t *, uint32_t) {}
static __device__ __forceinline__ void gate_arrive(uint64_t *) {}
static __device__ __forceinline__ void before_copies() {}
static __device__ __forceinline__ void gates_begun() {}
static __device__ __forceinline__ void gate_expect(uint64_t *, uint32_t) {}
static __device__ __forceinline__ void gate_wait(uint64_t *, uint32_t) {}
static __device__ __forceinline__ void copy_in_background(void *, const void *, uint32_t, uint64_t *) {}
static __device__ __forceinline__ void send_word(uint64_t *, uint64_t *, unsigned, uint64_t) {}
#endif

#endif
