#include "short_launch.cuh"

cudaError_t softmax_cuda_short_float16(const softmax_job *job, const cuda_shape *shape) { return launch_short<float16>(job, shape); }
