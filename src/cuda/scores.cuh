/* The scores of a row, one at a time: fetched, through softcap, scale, bias and masks. The operations are those of src/cpu/scores.h. */
#ifndef SOFTMAX_CUDA_SCORES_CUH
#define SOFTMAX_CUDA_SCORES_CUH

#include "../numerics/hyperbolic.h"
#include "operands.cuh"
#include "real.cuh"

template <typename REAL> struct score {
    REAL z;
    REAL low; /* the score is z + low */
};

template <typename REAL> struct row_source {
    const char *x;
    const char *bias;
    const char *mask;
    int64_t limit; /* columns at or beyond it are masked out */
    REAL scale_hi; /* scale = scale_hi + scale_lo */
    REAL scale_lo;
    bool has_low; /* scale or bias: low parts may be other than 0 */
};

/* How many of the row's columns are seen, by its length and the causal mask. */
static __device__ int64_t seen_columns(const softmax_job &job, int64_t row) {
    int64_t limit = job.columns;
    if (job.lengths.data) {
        int64_t length = load_index(row_of(job, job.lengths, row), job.lengths.type);
        length = length < job.first_column ? 0 : length - job.first_column;
        if (length < limit) limit = length;
    }
    if (job.causal) { /* the border keeps offset and first_column below 2^62 in size: nothing overflows */
        int64_t seen = coordinate_of(job, row, job.query_dimension) + job.causal_offset + 1 - job.first_column;
        if (seen < limit) limit = seen;
    }
    return limit < 0 ? 0 : limit;
}

template <typename REAL> static __device__ row_source<REAL> source_of(const softmax_job &job, int64_t row) {
    row_source<REAL> s;
    s.x = row_of(job, job.x, row);
    s.bias = row_of(job, job.bias, row);
    s.mask = row_of(job, job.mask, row);
    s.limit = seen_columns(job, row);
    s.scale_hi = (REAL)job.scale;
    s.scale_lo = (REAL)(job.scale - (double)s.scale_hi);
    s.has_low = job.scale != 1.0 || s.bias;
    return s;
}

/* scale x + b as z + low. A bias of -inf masks out; infinities and NaN stand alone; beyond REAL's range the end of it counts. */
template <typename REAL>
static __device__ __forceinline__ score<REAL> scaled_score(REAL x, REAL b, bool has_bias, REAL scale_hi, REAL scale_lo) {
    typedef real<REAL> R;
    score<REAL> s;
    REAL hi = x * scale_hi, lo = R::fused(x, scale_hi, -hi), sum;
    lo = R::fused(x, scale_lo, lo);
    if (has_bias) {
        REAL t;
        sum = hi + b;
        t = sum - hi;
        lo += (hi - (sum - t)) + (b - t);
        hi = sum;
    }
    sum = hi + lo;
    if (sum - sum == 0) {
        s.z = sum;
        s.low = lo - (sum - hi);
    } else {
        s.z = hi;
        s.low = 0;
        if (x - x == 0 && b - b == 0)
            s.z = hi > 0 ? R::largest() : -R::largest();
        else if (scale_hi == 0 && x == x && x - x != 0 && b - b == 0)
            s.z = x;
    }
    if (b == -R::infinity()) {
        s.z = b;
        s.low = 0;
    }
    return s;
}

template <typename REAL> static __device__ __noinline__ score<REAL> score_at(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    score<REAL> masked = {-real<REAL>::infinity(), 0}, result;
    REAL x;
    if (column >= s.limit) return masked;
    if (s.mask && !s.mask[column * job.mask.column_stride]) return masked;
    x = load_element<REAL>(s.x + column * job.x.column_stride, job.x.type);
    if (job.softcap != 0.0) x = (REAL)softcap_value((double)x, job.softcap);
    if (s.has_low) {
        REAL b = s.bias ? load_element<REAL>(s.bias + column * job.bias.column_stride, job.bias.type) : 0;
        return scaled_score(x, b, s.bias != NULL, s.scale_hi, s.scale_lo);
    }
    result.z = x;
    result.low = 0;
    return result;
}

#endif
