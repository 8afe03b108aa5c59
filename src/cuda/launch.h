/* What the host side of the CUDA backend is made of: each kernel file has functions that put a job's work on its stream. */
#ifndef SOFTMAX_CUDA_LAUNCH_H
#define SOFTMAX_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "choice.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t softmax_cuda_generic_forward(const softmax_job *job, const cuda_shape *shape); /* generic.cu */

/* rows_*.cu: contiguous rows in registers; the job's x and out are of that type. */
cudaError_t softmax_cuda_rows_float32(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_rows_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_rows_bfloat16(const softmax_job *job, const cuda_shape *shape);
/* options_*.cu: the same with a scale, a mask, lengths or the causal mask */
cudaError_t softmax_cuda_options_float32(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_options_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_options_bfloat16(const softmax_job *job, const cuda_shape *shape);
/* noted_*.cu: the same by a warp more, that reads the rows out */
cudaError_t softmax_cuda_noted_float32(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_noted_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_noted_bfloat16(const softmax_job *job, const cuda_shape *shape);
/* scores_*.cu: rows in registers with any options and strides; results of that type, the scores' type may be another beside float32 */
cudaError_t softmax_cuda_scores_float32(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_scores_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_scores_bfloat16(const softmax_job *job, const cuda_shape *shape);
/* short_*.cu: several rows a warp */
cudaError_t softmax_cuda_short_float32(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_short_float16(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_short_bfloat16(const softmax_job *job, const cuda_shape *shape);

/* states.cu: a tile and its rows' states, and states alone */
cudaError_t softmax_cuda_state_tile(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_states_alone(const softmax_state_job *job);
/* contiguous rows of any length: online.cu, split.cu (with scratch), and three_pass.cu, whose bits are its own */
cudaError_t softmax_cuda_online(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_split(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_three_pass(const softmax_job *job, const cuda_shape *shape);
cudaError_t softmax_cuda_strips(const softmax_job *job, const cuda_shape *shape); /* strips.cu: axes that are not the last */

#ifdef __cplusplus
}
#endif
#endif
