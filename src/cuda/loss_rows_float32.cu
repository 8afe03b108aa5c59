/* loss_rows.cuh for float32 logits. */
#include "loss_rows.cuh"

cudaError_t softmax_cuda_loss_float32(const softmax_job *job, const cuda_shape *shape) { return launch_loss_rows<ELEMENT_FLOAT32>(job, shape); }
