/* The exponential, measured instead of assumed: one kernel, one block per row, in which only the exponential differs:
 * CUDA's expf, its fast __expf, and the library's pair. And the textbook's three-pass softmax with either of CUDA's. Built by bench/gpu/run.py:
 * nvcc -arch=sm_90 -O3 --fmad=false --ftz=false --prec-div=true -std=c++17 -shared -Xcompiler=-fPIC -Isrc/numerics bench/gpu/exponential.cu */
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "terms.h"

enum { EXPF, FAST_EXPF, PAIR, FORMS };

template <int FORM> static __device__ __forceinline__ float power_of(float x, float maximum) {
    if (FORM == EXPF) return expf(x - maximum);
    if (FORM == FAST_EXPF) return __expf(x - maximum);
    const float kb = term32_exponent(maximum); /* e^x relative to 2^kb: no x - maximum is rounded */
    return term32_fast(fmaxf(x, term32_floor(kb)), 0.0f, TERM32_MAGIC + SOFTMAX_BIAS - kb, ARITHMETIC_32).v;
}

template <typename T> static __device__ __forceinline__ float value_of(T x) { return (float)x; }

template <typename OP> static __device__ float over_block(float mine, OP op) {
    __shared__ float parts[32];
    for (int step = 16; step > 0; step /= 2) mine = op(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = mine;
    __syncthreads();
    mine = parts[threadIdx.x & 31 & ((blockDim.x >> 5) - 1)];
    for (int step = 16; step > 0; step /= 2) mine = op(mine, __shfl_xor_sync(0xffffffffu, mine, step));
    return mine;
}

/* PASSES 3: maximum, sum, result, each from memory. PASSES 1: the exponential alone, element by element, against a given maximum. */
template <typename T, int FORM, int PASSES> static __global__ void row_kernel(const T *x, T *y, long columns) {
    const T *from = x + (long)blockIdx.x * columns;
    T *to = y + (long)blockIdx.x * columns;
    float maximum = PASSES == 1 ? 8.0f : -INFINITY, sum = 0.0f;
    if (PASSES == 3) {
        for (long j = threadIdx.x; j < columns; j += blockDim.x) maximum = fmaxf(maximum, value_of(from[j]));
        maximum = over_block(maximum, [](float a, float b) { return fmaxf(a, b); });
        for (long j = threadIdx.x; j < columns; j += blockDim.x) sum += power_of<FORM>(value_of(from[j]), maximum);
        sum = over_block(sum, [](float a, float b) { return a + b; });
        const float inverse = 1.0f / sum;
        for (long j = threadIdx.x; j < columns; j += blockDim.x) to[j] = T(power_of<FORM>(value_of(from[j]), maximum) * inverse);
    } else {
        for (long j = threadIdx.x; j < columns; j += blockDim.x) to[j] = T(power_of<FORM>(value_of(from[j]), maximum));
    }
}

template <typename T> static int launch(int form, int passes, const void *x, void *y, long rows, long columns, cudaStream_t stream) {
    typedef void (*kernel)(const T *, T *, long);
    static const kernel kernels[FORMS][2] = {{row_kernel<T, EXPF, 1>, row_kernel<T, EXPF, 3>},
                                             {row_kernel<T, FAST_EXPF, 1>, row_kernel<T, FAST_EXPF, 3>},
                                             {row_kernel<T, PAIR, 1>, row_kernel<T, PAIR, 3>}};
    int threads = columns >= 4096 ? 1024 : columns >= 1024 ? 256 : 128;
    kernels[form][passes == 3]<<<(unsigned)rows, threads, 0, stream>>>((const T *)x, (T *)y, columns);
    return (int)cudaGetLastError();
}

/* form 0 expf, 1 __expf, 2 the pair (its results are 2^(4 - kb) e^x); passes 1 or 3; type 0 float32, 1 bfloat16. */
extern "C" int exponential_run(int type, int form, int passes, const void *x, void *y, long rows, long columns, void *stream) {
    return type == 0 ? launch<float>(form, passes, x, y, rows, columns, (cudaStream_t)stream)
                     : launch<__nv_bfloat16>(form, passes, x, y, rows, columns, (cudaStream_t)stream);
}
