/* What kernels of rows in registers leave to one warp: a row without options whose scores are out of the fast terms' range. In a file of its own,
 * slow_row.cu, so that it is compiled once and takes no registers from them. */
#ifndef SOFTMAX_CUDA_SLOW_ROW_CUH
#define SOFTMAX_CUDA_SLOW_ROW_CUH

#include "../kernels.h"

#define SLOW_ROW_REGISTERS 48 /* the least that a caller may have: cmake/cuda.cmake */

__device__ void softmax_cuda_slow_row(const softmax_job &job, int64_t row);
/* The same for rows with options. */
__device__ void softmax_cuda_slow_scores(const softmax_job &job, int64_t row);
/* e^(m + m_low) = f 2^k, and the softcap: once a block or a rare option. */
__device__ double softmax_cuda_top_power(float m, float m_low, int &k);
__device__ float softmax_cuda_softcap(float x, double softcap);

#endif
