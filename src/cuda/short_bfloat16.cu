#include "short_launch.cuh"

cudaError_t softmax_cuda_short_bfloat16(const softmax_job *job, const cuda_shape *shape) { return launch_short<bfloat16>(job, shape); }
