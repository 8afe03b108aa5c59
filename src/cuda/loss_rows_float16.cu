/* loss_rows.cuh for float16 logits. */
#include "loss_rows.cuh"

cudaError_t softmax_cuda_loss_float16(const softmax_job *job, const cuda_shape *shape) { return launch_loss_rows<ELEMENT_FLOAT16>(job, shape); }
