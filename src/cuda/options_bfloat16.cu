#include "option_launch.cuh"

cudaError_t softmax_cuda_options_bfloat16(const softmax_job *job, const cuda_shape *shape) { return launch_options<bfloat16>(job, shape); }
