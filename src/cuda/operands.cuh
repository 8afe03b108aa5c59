/* Where a row's elements are in device memory, and single elements of any type. */
#ifndef SOFTMAX_CUDA_OPERANDS_CUH
#define SOFTMAX_CUDA_OPERANDS_CUH

#include "../kernels.h"
#include "../numerics/half.h"

/* row's element 0 of an operand; NULL where it is absent. */
static __device__ __forceinline__ char *row_of(const softmax_job &job, const operand &a, int64_t row) {
    if (!a.data) return NULL;
    if (job.dimensions == 1) return a.data + row * a.row_stride[0];
    char *address = a.data;
#pragma unroll 1
    for (int d = job.dimensions - 1; d > 0; d--) {
        int64_t rest = row / job.shape[d];
        address += (row - rest * job.shape[d]) * a.row_stride[d];
        row = rest;
    }
    return address + row * a.row_stride[0];
}

/* The same where the rows have one dimension. */
static __device__ __forceinline__ char *flat_row(const operand &a, int64_t row) { return a.data + row * a.row_stride[0]; }

/* The row's coordinate in one dimension. */
static __device__ __forceinline__ int64_t coordinate_of(const softmax_job &job, int64_t row, int dimension) {
#pragma unroll 1
    for (int d = job.dimensions - 1; d > dimension; d--) row /= job.shape[d];
    return dimension == 0 ? row : row % job.shape[dimension];
}

/* Element by element the arrays may lie on any address that DLPack's consumer gave: aligned to the element in all but rare cases. */
template <typename T> static __device__ __forceinline__ T load_as(const char *address) {
    if ((uintptr_t)address % sizeof(T) == 0) return *(const T *)address;
    T value;
    for (unsigned i = 0; i < sizeof(T); i++) ((char *)&value)[i] = address[i];
    return value;
}

template <typename T> static __device__ __forceinline__ void store_as(char *address, T value) {
    if ((uintptr_t)address % sizeof(T) == 0) {
        *(T *)address = value;
        return;
    }
    for (unsigned i = 0; i < sizeof(T); i++) address[i] = ((const char *)&value)[i];
}

template <typename REAL> static __device__ __forceinline__ REAL load_element(const char *address, element type) {
    switch (type) {
    case ELEMENT_FLOAT32: return (REAL)load_as<float>(address);
    case ELEMENT_FLOAT64: return (REAL)load_as<double>(address);
    case ELEMENT_FLOAT16: return (REAL)widen_float16(load_as<uint16_t>(address));
    default: return (REAL)widen_bfloat16(load_as<uint16_t>(address));
    }
}

static __device__ __forceinline__ int64_t load_index(const char *address, element type) {
    return type == ELEMENT_INT32 ? (int64_t)load_as<int32_t>(address) : load_as<int64_t>(address);
}

/* A float result that is +0 already where it is below the smallest normal. NaN is the positive quiet one. */
static __device__ __forceinline__ void store_result(char *address, element type, float x) {
    uint16_t h;
    if (type == ELEMENT_FLOAT32) {
        store_as<float>(address, x);
        return;
    }
    h = type == ELEMENT_FLOAT16 ? round_to_float16(x) : round_to_bfloat16(x);
    store_as<uint16_t>(address, h == 0x8000 ? 0 : h);
}
static __device__ __forceinline__ void store_result(char *address, element type, double x) {
    (void)type;
    store_as<double>(address, x);
}

/* A double as a result of any type, rounded once: below the smallest normal +0 (float16 keeps its subnormals). */
static __device__ __forceinline__ void store_rounded(char *address, element type, double x) {
    if (type == ELEMENT_FLOAT64)
        store_as<double>(address, x != x ? bits_double(0x7ff8000000000000ULL) : fabs(x) < 0x1p-1022 ? 0.0 : x);
    else
        store_result(address, type, round_to_float32(x));
}

#endif
