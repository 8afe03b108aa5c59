/* loss_rows.cuh for bfloat16 logits. */
#include "loss_rows.cuh"

cudaError_t softmax_cuda_loss_bfloat16(const softmax_job *job, const cuda_shape *shape) { return launch_loss_rows<ELEMENT_BFLOAT16>(job, shape); }
