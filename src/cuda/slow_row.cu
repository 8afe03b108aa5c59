#include "slow_row.cuh"
#include "generic_row.cuh"

__device__ void softmax_cuda_slow_row(const softmax_job &job, int64_t row) {
    row_source<float> source;
    memset(&source, 0, sizeof source);
    source.x = row_of(job, job.x, row);
    row_state state = reduce_columns<float, true>(job, source, job.kind, 0, 1);
    write_row<float, true>(job, source, row, state, 0, 1);
}

__device__ void softmax_cuda_slow_scores(const softmax_job &job, int64_t row) {
    row_source<float> source = source_of<float>(job, row);
    row_state state = reduce_columns<float, false>(job, source, job.kind, 0, 1);
    write_row<float, false>(job, source, row, state, 0, 1);
}

__device__ double softmax_cuda_top_power(float m, float m_low, int &k) {
    power e = exp_of_maximum(score_of_pair((double)m, (double)m_low), ARITHMETIC_32);
    k = (int)e.k;
    return e.f.hi;
}

__device__ float softmax_cuda_softcap(float x, double softcap) { return (float)softcap_value((double)x, softcap); }
