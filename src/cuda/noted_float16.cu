#include "noted_rows.cuh"

cudaError_t softmax_cuda_noted_float16(const softmax_job *job, const cuda_shape *shape) { return launch_noted_rows<float16>(job, shape); }
