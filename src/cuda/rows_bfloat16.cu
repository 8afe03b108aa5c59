#include "half_rows.cuh"

cudaError_t softmax_cuda_rows_bfloat16(const softmax_job *job, const cuda_shape *shape) { return launch_half_rows<bfloat16>(job, shape); }
