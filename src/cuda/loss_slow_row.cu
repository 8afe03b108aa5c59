/* A row of cross-entropy that the kernels of loss_rows.cuh leave to one warp; compiled once, to be linked to them. */
#include "cross_entropy_any.cuh"

extern __device__ void softmax_loss_slow_row(const softmax_job &job, int64_t row, loss_part *part);

__device__ __noinline__ void softmax_loss_slow_row(const softmax_job &job, int64_t row, loss_part *part) {
    loss_of_any_row<float>(job, row, 0, 1, part);
}
