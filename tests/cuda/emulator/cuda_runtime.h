/* Runs CUDA kernels on the processor: every thread of a block (of a cluster's blocks) is a fiber; barriers, shuffles and reductions switch
 * between them. Kernels compile as C++ against this header instead of CUDA's, with src/cuda/machine.cuh's functions at its end. It shows
 * wrong results and missing barriers' deadlocks, not races: fibers switch only where threads wait. */
#ifndef EMULATOR_CUDA_RUNTIME_H
#define EMULATOR_CUDA_RUNTIME_H
#define CUDART_VERSION 13000

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
/* One section of static variables, which follow the running fiber's block. */
#define __shared__ static __attribute__((section("emulated_shared")))
extern char __start_emulated_shared[] __attribute__((weak)), __stop_emulated_shared[] __attribute__((weak));
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

/* ---- The host's side ---------------------------------------------------------------------------------------------- */

typedef enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 } cudaError_t;
typedef void *cudaStream_t;
enum cudaLaunchAttributeID {
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
enum cudaClusterSchedulingPolicy { cudaClusterSchedulingPolicyLoadBalancing = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributeNonPortableClusterSizeAllowed = 10 };
struct cudaLaunchAttributeValue {
    struct { unsigned x, y, z; } clusterDim;
    int programmaticStreamSerializationAllowed;
    cudaClusterSchedulingPolicy clusterSchedulingPolicyPreference;
};
struct cudaLaunchAttribute { cudaLaunchAttributeID id; cudaLaunchAttributeValue val; };
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
static inline const char *cudaGetErrorString(cudaError_t) { return "an emulated error"; }
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    memset(to, value, bytes);
    return cudaSuccess;
}
template <typename F> static inline cudaError_t cudaFuncSetAttribute(F *, cudaFuncAttribute, int) { return cudaSuccess; }
template <typename F> static inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, F *, const cudaLaunchConfig_t *) {
    *clusters = 3; /* few: they take one row after another */
    return cudaSuccess;
}
template <typename F> static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *, int, size_t) {
    *blocks = 1;
    return cudaSuccess;
}

/* The running thread's; set at every switch. */
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- Fibers ------------------------------------------------------------------------------------------------------- */

namespace emulator {

struct barrier {
    int arrived = 0;
    unsigned generation = 0;
};

struct warp {
    uint64_t slot[32];
    barrier gate[32]; /* by the mask's lowest lane */
};

struct block {
    std::vector<warp> warps;
    std::vector<unsigned char> shared;
    std::vector<char> variables; /* of the section, while another block runs */
    barrier gate, gates[16];
    unsigned rank;
};

struct fiber {
    dim3 thread, block_index;
    block *its_block;
    jmp_buf jump;
    ucontext_t context;
    char *stack;
    bool started, finished;
};

struct machine {
    std::vector<fiber> fibers;
    std::vector<block> blocks;
    std::vector<char *> stacks;
    dim3 block_size, grid_size;
    barrier cluster_gate, exchange_gate;
    block *running = NULL;
    size_t now = 0, finished = 0;
    std::function<void()> body;
    ucontext_t host;
};
inline machine &the_machine() {
    static machine m;
    return m;
}
inline fiber &self() { return the_machine().fibers[the_machine().now]; }

enum { STACK_BYTES = 96 << 10 };

static void fiber_main();

inline size_t variable_bytes() { return (size_t)(__stop_emulated_shared - __start_emulated_shared); }

/* Shared variables become those of the block that is to run. */
inline void enter(block *next) {
    machine &m = the_machine();
    if (next == m.running) return;
    if (m.running) memcpy(m.running->variables.data(), __start_emulated_shared, variable_bytes());
    memcpy(__start_emulated_shared, next->variables.data(), variable_bytes());
    m.running = next;
}

/* On to the next fiber that is not finished. */
inline void go_on() {
    machine &m = the_machine();
    do
        m.now = (m.now + 1) % m.fibers.size();
    while (m.fibers[m.now].finished);
    fiber &next = m.fibers[m.now];
    enter(next.its_block);
    threadIdx = next.thread;
    blockIdx = next.block_index;
    if (next.started) longjmp(next.jump, 1);
    next.started = true;
    setcontext(&next.context);
}

inline void yield() {
    if (setjmp(self().jump) == 0) go_on();
}

static void fiber_main() {
    machine &m = the_machine();
    m.body();
    self().finished = true;
    if (++m.finished == m.fibers.size()) setcontext(&m.host);
    go_on();
}

inline void wait_at(barrier &gate, int count) {
    unsigned generation = gate.generation;
    if (++gate.arrived == count) {
        gate.arrived = 0;
        gate.generation++;
        return;
    }
    for (long turns = 0; gate.generation == generation; turns++) {
        if (turns > 1000000) {
            fprintf(stderr, "emulator: a barrier of %d threads was reached by %d\n", count, gate.arrived);
            abort();
        }
        yield();
    }
}

inline unsigned thread_number() {
    const dim3 &t = self().thread, &size = the_machine().block_size;
    return t.x + size.x * (t.y + size.y * t.z);
}
inline warp &its_warp() { return self().its_block->warps[thread_number() / 32]; }
inline unsigned lane() { return thread_number() % 32; }
inline void warp_wait(unsigned mask) { wait_at(its_warp().gate[__builtin_ctz(mask)], __builtin_popcount(mask)); }

/* Every lane of the mask gives a value; f sees all of them. */
template <typename T, typename F> inline T exchange(unsigned mask, T x, F f) {
    static_assert(sizeof(T) <= 8, "slots have 8 bytes");
    warp &w = its_warp();
    T all[32] = {}, result;
    memcpy(&w.slot[lane()], &x, sizeof x);
    warp_wait(mask);
    for (int i = 0; i < 32; i++) memcpy(&all[i], &w.slot[i], sizeof x);
    result = f(all);
    warp_wait(mask);
    return result;
}

inline void run_cluster(unsigned first_block, unsigned blocks, size_t shared) {
    machine &m = the_machine();
    unsigned threads = m.block_size.x * m.block_size.y * m.block_size.z;
    m.blocks.assign(blocks, block());
    m.fibers.assign((size_t)blocks * threads, fiber());
    while (m.stacks.size() < m.fibers.size()) m.stacks.push_back((char *)malloc(STACK_BYTES));
    m.cluster_gate = m.exchange_gate = barrier();
    m.running = NULL;
    m.finished = 0;
    for (unsigned b = 0; b < blocks; b++) {
        block &its = m.blocks[b];
        its.warps.resize((threads + 31) / 32);
        its.shared.assign(shared + 16, 0xa5); /* what nobody wrote is no zero */
        its.variables.assign(variable_bytes() + 1, (char)0xa5);
        its.rank = b;
        for (unsigned t = 0; t < threads; t++) {
            fiber &f = m.fibers[(size_t)b * threads + t];
            f.thread = dim3(t % m.block_size.x, t / m.block_size.x % m.block_size.y, t / m.block_size.x / m.block_size.y);
            unsigned number = first_block + b;
            f.block_index = dim3(number % m.grid_size.x, number / m.grid_size.x % m.grid_size.y, number / m.grid_size.x / m.grid_size.y);
            f.its_block = &its;
            f.stack = m.stacks[(size_t)b * threads + t];
            getcontext(&f.context);
            f.context.uc_stack.ss_sp = f.stack;
            f.context.uc_stack.ss_size = STACK_BYTES;
            f.context.uc_link = NULL;
            makecontext(&f.context, fiber_main, 0);
        }
    }
    m.now = 0;
    m.fibers[0].started = true;
    enter(&m.blocks[0]);
    threadIdx = m.fibers[0].thread;
    blockIdx = m.fibers[0].block_index;
    swapcontext(&m.host, &m.fibers[0].context);
}

} // namespace emulator

template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A... arguments) {
    emulator::machine &m = emulator::the_machine();
    unsigned cluster = 1, blocks = config->gridDim.x * config->gridDim.y * config->gridDim.z;
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) cluster = config->attrs[i].val.clusterDim.x;
    if (blocks == 0 || blocks % cluster || config->blockDim.x * config->blockDim.y * config->blockDim.z > 1024) return cudaErrorInvalidValue;
    m.block_size = blockDim = config->blockDim;
    m.grid_size = gridDim = config->gridDim;
    m.body = [=]() { kernel(arguments...); };
    for (unsigned b = 0; b < blocks; b += cluster) emulator::run_cluster(b, cluster, config->dynamicSmemBytes);
    return cudaSuccess;
}

namespace emulator {
/* kernel<<<blocks, threads, shared, stream>>>(arguments) */
struct launcher {
    cudaLaunchConfig_t config = {};
    launcher(dim3 blocks, dim3 threads, size_t shared = 0, cudaStream_t stream = NULL) {
        config.gridDim = blocks;
        config.blockDim = threads;
        config.dynamicSmemBytes = shared;
        config.stream = stream;
    }
    template <typename... P, typename... A> void start(void (*kernel)(P...), A... arguments) { cudaLaunchKernelEx(&config, kernel, P(arguments)...); }
};
} // namespace emulator

/* ---- The device's side -------------------------------------------------------------------------------------------- */

static inline void __syncthreads() {
    emulator::wait_at(emulator::self().its_block->gate, (int)(blockDim.x * blockDim.y * blockDim.z));
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::warp_wait(mask); }
static inline void __threadfence() {}
static inline unsigned __activemask() { return 0xffffffffu; }

static inline uint32_t __reduce_max_sync(unsigned mask, uint32_t x) {
    return emulator::exchange(mask, x, [=](uint32_t *all) {
        uint32_t r = 0;
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1 && all[i] > r) r = all[i];
        return r;
    });
}
static inline int32_t __reduce_max_sync(unsigned mask, int32_t x) {
    return (int32_t)(__reduce_max_sync(mask, (uint32_t)x ^ 0x80000000u) ^ 0x80000000u);
}
static inline uint32_t __reduce_min_sync(unsigned mask, uint32_t x) { return ~__reduce_max_sync(mask, ~x); }
static inline uint32_t __reduce_add_sync(unsigned mask, uint32_t x) {
    return emulator::exchange(mask, x, [=](uint32_t *all) {
        uint32_t r = 0;
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1) r += all[i];
        return r;
    });
}
static inline int32_t __reduce_add_sync(unsigned mask, int32_t x) { return (int32_t)__reduce_add_sync(mask, (uint32_t)x); }
static inline uint32_t __reduce_or_sync(unsigned mask, uint32_t x) {
    return emulator::exchange(mask, x, [=](uint32_t *all) {
        uint32_t r = 0;
        for (int i = 0; i < 32; i++)
            if (mask >> i & 1) r |= all[i];
        return r;
    });
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) { return __reduce_or_sync(mask, predicate ? 1u << emulator::lane() : 0u); }
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <typename T> static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
    int at = (int)(emulator::lane() / width * width) + from % width;
    return emulator::exchange(mask, x, [=](T *all) { return all[at]; });
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32) {
    (void)width;
    int at = (int)emulator::lane() ^ bits;
    return emulator::exchange(mask, x, [=](T *all) { return all[at]; });
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((uint64_t)high << 32) | low) >> (shift & 31));
}
template <typename T> static inline T __ldcs(const T *p) { return *p; }
template <typename T> static inline T __ldg(const T *p) { return *p; }
template <typename T> static inline void __stcs(T *p, T x) { *p = x; }
template <typename T> static inline T atomicAdd(T *p, T x) { T old = *p; *p = old + x; return old; }
template <typename T> static inline T atomicOr(T *p, T x) { T old = *p; *p = old | x; return old; }
template <typename T> static inline T atomicMax(T *p, T x) { T old = *p; if (x > old) *p = x; return old; }
template <typename T> static inline T atomicCAS(T *p, T expected, T x) { T old = *p; if (old == expected) *p = x; return old; }
static inline float __uint_as_float(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
static inline double __hiloint2double(int hi, int lo) { uint64_t x = (uint64_t)(uint32_t)hi << 32 | (uint32_t)lo; double d; memcpy(&d, &x, 8); return d; }
static inline int __double2hiint(double d) { uint64_t x; memcpy(&x, &d, 8); return (int)(x >> 32); }
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

/* ---- src/cuda/machine.cuh's functions ----------------------------------------------------------------------------- */

#define SOFTMAX_CUDA_MACHINE_CUH
#include "numerics/half.h"
#define EVERY_LANE 0xffffffffu
#define HAS_CLUSTERS true
static inline unsigned char *shared_bytes() {
    unsigned char *bytes = emulator::self().its_block->shared.data();
    return bytes + (-(uintptr_t)bytes & 15);
}
static inline uint32_t lanes_max(uint32_t x) { return __reduce_max_sync(EVERY_LANE, x); }
static inline uint32_t lanes_sum(uint32_t x) { return __reduce_add_sync(EVERY_LANE, x); }
static inline int32_t lanes_sum_signed(int32_t x) { return __reduce_add_sync(EVERY_LANE, x); }
static inline float multiply_toward_zero(float a, float b) {
    double exact = (double)a * (double)b; /* of floats: exact */
    float f = (float)exact;
    if (f - f != 0 && exact - exact == 0) f = exact < 0 ? -0x1.fffffep127f : 0x1.fffffep127f;
    if (fabs((double)f) > fabs(exact) && exact - exact == 0) f = __uint_as_float(__float_as_uint(f) - 1);
    return f;
}
static inline void let_next_kernel_start() {}
static inline void wait_for_previous_kernel() {}
static inline double widened(float x) { return (double)x; }
template <int FIRST> static inline uint32_t marks_of_pair(uint32_t x) {
    return (x >> (8 * FIRST + 7) & 1 ? 0xffffu : 0u) | (x >> (8 * FIRST + 15) & 1 ? 0xffff0000u : 0u);
}
static inline void make_again(uint32_t &) {}
static inline void prefetch_to_l2(const void *) {}
static inline float flush_to_zero(float x) { return fabsf(x) < 0x1p-126f ? 0.0f : x; }
static inline uint32_t pack_bfloat16(float a, float b) { return (uint32_t)round_to_bfloat16(a) | (uint32_t)round_to_bfloat16(b) << 16; }
static inline uint32_t half_of(float a) {
    uint16_t half = round_to_float16(a);
    return half == 0x8000 ? 0 : half;
}
static inline uint32_t pack_float16(float a, float b) { return half_of(a) | half_of(b) << 16; }
static inline uint32_t pack_float16_as_is(float a, float b) { return (uint32_t)round_to_float16(a) | (uint32_t)round_to_float16(b) << 16; }
static inline void open_float16(uint32_t both, float *two) {
    two[0] = widen_float16((uint16_t)both);
    two[1] = widen_float16((uint16_t)(both >> 16));
}
static inline float float16_value(uint16_t half) { return widen_float16(half); }
static inline unsigned cluster_rank() { return emulator::self().its_block->rank; }
static inline unsigned cluster_blocks() { return (unsigned)emulator::the_machine().blocks.size(); }
static inline unsigned cluster_number() { return blockIdx.x / cluster_blocks(); }
static inline void cluster_arrive() {}
static inline void cluster_arrive_relaxed() {}
static inline void cluster_wait() {
    emulator::machine &m = emulator::the_machine();
    emulator::wait_at(m.cluster_gate, (int)m.fibers.size());
}
template <typename T> static inline T *address_in_block(T *mine, unsigned rank) {
    emulator::block &there = emulator::the_machine().blocks[rank];
    char *at = (char *)mine;
    if (at >= __start_emulated_shared && at < __stop_emulated_shared)
        return rank == cluster_rank() ? mine : (T *)(there.variables.data() + (at - __start_emulated_shared));
    unsigned char *bytes = there.shared.data();
    return (T *)(bytes + (-(uintptr_t)bytes & 15) + ((unsigned char *)mine - shared_bytes()));
}
/* One warp of every block of the cluster. */
static inline void wait_for_exchange() {
    emulator::machine &m = emulator::the_machine();
    emulator::wait_at(m.exchange_gate, (int)m.blocks.size() * 32);
}
static inline void expect_stores(uint64_t *, int) {}
static inline void store_in_block(uint64_t *to, uint64_t value, unsigned rank, uint64_t *) { *address_in_block(to, rank) = value; }
static inline void wait_for_stores(uint64_t *) { wait_for_exchange(); }
static inline float max_or_nan(float a, float b) { return a != a || b != b ? __uint_as_float(0x7fffffffu) : a > b ? a : b; }
static inline float shrink_and_flush(float x) { return fabsf(x) < 0x1p-62f ? copysignf(0.0f, x) : x * 0x1p-64f; }
static inline float multiply_and_flush(float a, float b) {
    double exact = (double)a * b; /* flushed where it is below 2^-126 once it is rounded as if exponents had no end */
    float f = (float)(exact * 0x1p100);
    return fabsf(f) < 0x1p-26f ? copysignf(0.0f, f) : a * b;
}
/* Which of two 16-bit elements, in both halves of a word. */
template <typename F> static inline uint32_t of_both(uint32_t a, uint32_t b, F choose) {
    return (uint32_t)choose((uint16_t)a, (uint16_t)b) | (uint32_t)choose((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;
}
#define EMULATED_HALVES(type, widen)                                                                                    \
    static inline uint32_t smaller_##type(uint32_t a, uint32_t b) {                                                     \
        return of_both(a, b, [](uint16_t p, uint16_t q) { return widen(p) != widen(p) ? q : widen(q) < widen(p) ? q : p; }); \
    }                                                                                                                   \
    static inline uint32_t larger_##type(uint32_t a, uint32_t b) {                                                      \
        return of_both(a, b, [](uint16_t p, uint16_t q) { return widen(p) != widen(p) ? q : widen(q) > widen(p) ? q : p; }); \
    }                                                                                                                   \
    static inline uint32_t larger_or_nan_##type(uint32_t a, uint32_t b) {                                               \
        return of_both(a, b, [](uint16_t p, uint16_t q) {                                                               \
            return widen(p) != widen(p) || widen(q) != widen(q) ? (uint16_t)0x7fff : widen(q) > widen(p) ? q : p;       \
        });                                                                                                             \
    }
EMULATED_HALVES(bfloat16, widen_bfloat16)
EMULATED_HALVES(float16, widen_float16)
#undef EMULATED_HALVES
static inline void prefetch_bytes_to_l2(const void *, int) {}
static inline void wait_for_warps(int number, int threads) { emulator::wait_at(emulator::self().its_block->gates[number], threads); }
static inline double nearly_inverse(double x) { return 1.0 / x; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmul_rn(float a, float b) { return a * b; }

/* A gate's word. Bytes come at once. */
struct emulated_gate {
    int32_t bytes;
    int8_t arrivals, of; /* to come, of so many a phase */
    uint16_t phase;
};
static inline void gate_step(uint64_t *gate, int bytes, int arrivals) {
    emulated_gate g;
    memcpy(&g, gate, sizeof g);
    g.bytes += bytes;
    g.arrivals = (int8_t)(g.arrivals - arrivals);
    if (g.bytes == 0 && g.arrivals == 0) {
        g.arrivals = g.of;
        g.phase++;
    }
    memcpy(gate, &g, sizeof g);
}
static inline void gate_begin_for(uint64_t *gate, uint32_t arrivals) {
    emulated_gate g = {0, (int8_t)arrivals, (int8_t)arrivals, 0};
    memcpy(gate, &g, sizeof g);
}
static inline void gate_begin(uint64_t *gate) { gate_begin_for(gate, 1); }
static inline void gate_arrive(uint64_t *gate) { gate_step(gate, 0, 1); }
static inline void before_copies() {}
static inline void gates_begun() {}
static inline void gate_expect(uint64_t *gate, uint32_t bytes) { gate_step(gate, (int)bytes, 1); }
static inline void gate_wait(uint64_t *gate, uint32_t phase) {
    emulated_gate g;
    for (long turns = 0;; turns++) {
        memcpy(&g, gate, sizeof g);
        if ((g.phase & 1u) != phase) return;
        if (turns > 1000000) {
            fprintf(stderr, "emulator: thread %u of block %u waits for a gate's phase %u; it expects %d bytes and %d arrivals in phase %u\n", threadIdx.x,
                    blockIdx.x, phase, g.bytes, g.arrivals, g.phase);
            abort();
        }
        emulator::yield();
    }
}
static inline void copy_in_background(void *to, const void *from, uint32_t bytes, uint64_t *gate) {
    if (bytes % 16 || (uintptr_t)from % 16 || (uintptr_t)to % 16) abort();
    memcpy(to, from, bytes);
    gate_step(gate, -(int)bytes, 0);
}
static inline void send_word(uint64_t *slot, uint64_t *gate, unsigned rank, uint64_t word) {
    *address_in_block(slot, rank) = word;
    gate_step(address_in_block(gate, rank), -8, 0);
}

#endif
