/* Backwards and cross-entropy on a GPU, for the choice and the launch. */
#ifndef SOFTMAX_CUDA_GRADIENT_H
#define SOFTMAX_CUDA_GRADIENT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "choice.h"

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this file's functions are for the operation. */
int softmax_cuda_is_gradient(operation op);

/* As softmax_cuda_choose. */
int softmax_cuda_choose_gradient(const softmax_job *job, const cuda_device *device, cuda_kernel wanted,
                                 cuda_shape *shape);

#if defined(CUDART_VERSION)
cudaError_t softmax_cuda_backward(const softmax_job *job, const cuda_shape *shape);      /* backward.cu */
cudaError_t softmax_cuda_cross_entropy(const softmax_job *job, const cuda_shape *shape); /* cross_entropy.cu */
cudaError_t softmax_cuda_loss_float32(const softmax_job *job, const cuda_shape *shape);  /* its rows in registers: loss_rows_*.cu */
cudaError_t softmax_cuda_loss_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_loss_bfloat16(const softmax_job *job, const cuda_shape *shape);
#endif

/* Scratch that the job cannot do without. */
size_t softmax_cuda_gradient_scratch(const softmax_job *job);

#ifdef __cplusplus
}
#endif
#endif
