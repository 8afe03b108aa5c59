#include "slow_row.cuh"
#include "generic_row.cuh"

__device__ void softmax_cuda_slow_row(const softmax_job &job, int64_t row) {
    row_source<float> source;
    memset(&source, 0, sizeof source);
    source.x = row_of(job, job.x, row);
    row_state state = reduce_columns<float, true>(job, source, 0, 1);
    write_row<float, true>(job, source, row, state, 0, 1);
}
