#include "option_launch.cuh"

cudaError_t softmax_cuda_options_float16(const softmax_job *job, const cuda_shape *shape) { return launch_options<float16>(job, shape); }
