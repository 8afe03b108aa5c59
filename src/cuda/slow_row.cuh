/* What kernels of rows in registers leave to one warp: a row without options whose scores are out of the fast terms' range. In a file of its own,
 * slow_row.cu, so that it is compiled once and takes no registers from them. */
#ifndef SOFTMAX_CUDA_SLOW_ROW_CUH
#define SOFTMAX_CUDA_SLOW_ROW_CUH

#include "../kernels.h"

#define SLOW_ROW_REGISTERS 64 /* the least that a caller may have: cmake/cuda.cmake */

__device__ void softmax_cuda_slow_row(const softmax_job &job, int64_t row);

#endif
