/* The scores of a row, one at a time: fetched, through softcap, scale, bias and masks. The operations are those of src/cpu/scores.h. */
#ifndef SOFTMAX_CUDA_SCORES_CUH
#define SOFTMAX_CUDA_SCORES_CUH

#include "../numerics/hyperbolic.h"
#include "operands.cuh"
#include "real.cuh"

template <typename REAL> struct score {
    REAL z;
    REAL low; /* the score is z + low */
    bool doubtful; /* or that is not what it should be */
};

template <typename REAL> struct row_source {
    const char *x;
    const char *bias;
    const char *mask;
    int64_t limit; /* columns at or beyond it are masked out */
    REAL scale_hi; /* scale = scale_hi + scale_lo */
    REAL scale_lo;
    bool has_low; /* scale or bias: low parts may be other than 0 */
    bool is_wild; /* ... but pairs of REAL are not right for this scale */
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
    s.is_wild = real<REAL>::is_wild(job.scale);
    return s;
}

/* The score of one column where no pair is right: src/cpu/scores.h's wild_score. */
template <typename REAL> static __device__ __noinline__ REAL wild_score(REAL x, REAL b, double scale) {
    typedef real<REAL> R;
    double z = (double)x * scale + (double)b;
    if (b == -R::infinity()) return b;
    if (scale == 0.0 && x == x && x - x != 0 && b - b == 0) return x;
    if (x - x != 0 || b - b != 0) return (REAL)z;
    return z > (double)R::largest() ? R::largest() : z < -(double)R::largest() ? -R::largest() : z == z ? (REAL)z : 0;
}

/* scale x + b as z + low. A bias of -inf masks out; infinities and NaN stand alone. Doubtful: not what the pair should be. */
template <typename REAL> static __device__ __forceinline__ score<REAL> scaled_score(REAL x, REAL b, const row_source<REAL> &source, double scale) {
    typedef real<REAL> R;
    score<REAL> s;
    REAL hi = x * source.scale_hi, lo = R::fused(x, source.scale_hi, -hi), size = R::size_of(hi), sum;
    lo = R::fused(x, source.scale_lo, lo);
    if (source.bias) {
        REAL t;
        sum = hi + b;
        t = sum - hi;
        lo += (hi - (sum - t)) + (b - t);
        hi = sum;
    }
    sum = hi + lo;
    s.z = sum;
    s.low = lo - (sum - hi);
    s.doubtful = source.bias && (REAL)0.75 * size - R::size_of(sum) > R::cancelled_limit();
    if (source.is_wild || !(sum - sum == 0)) {
        s.z = wild_score(x, b, scale);
        s.low = 0;
        s.doubtful = x - x == 0 && b - b == 0;
    }
    if (b == -R::infinity()) {
        s.z = b;
        s.low = 0;
        s.doubtful = false;
    }
    return s;
}

template <typename REAL> static __device__ __forceinline__ bool is_seen(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    return column < s.limit && (!s.mask || s.mask[column * job.mask.column_stride]);
}

/* What the scale is multiplied with, and the bias. */
template <typename REAL> static __device__ __forceinline__ REAL capped_at(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    REAL x = load_element<REAL>(s.x + column * job.x.column_stride, job.x.type);
    return job.softcap != 0.0 ? (REAL)softcap_value((double)x, job.softcap) : x;
}
template <typename REAL> static __device__ __forceinline__ REAL bias_at(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    return s.bias ? load_element<REAL>(s.bias + column * job.bias.column_stride, job.bias.type) : 0;
}

template <typename REAL> static __device__ __noinline__ score<REAL> score_at(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    score<REAL> result = {-real<REAL>::infinity(), 0, false};
    if (!is_seen(job, s, column)) return result;
    result.z = capped_at(job, s, column);
    return s.has_low ? scaled_score(result.z, bias_at(job, s, column), s, job.scale) : result;
}

/* The same without rounding. */
template <typename REAL> static __device__ __noinline__ exact_score exact_score_at(const softmax_job &job, const row_source<REAL> &s, int64_t column) {
    const REAL z = score_at(job, s, column).z;
    if (!s.has_low || z - z != 0) return score_of_value((double)z);
    return exact_score_of((double)capped_at(job, s, column), job.scale, (double)bias_at(job, s, column));
}

/* The scores of a row as blocks ask for them. */
template <typename REAL, bool PLAIN> struct row_scores {
    const softmax_job &job;
    const row_source<REAL> &source;
    __device__ score<REAL> operator()(int64_t column) const {
        if (!PLAIN) return score_at(job, source, column);
        score<REAL> s = {load_element<REAL>(source.x + column * job.x.column_stride, job.x.type), 0, false};
        return s;
    }
    __device__ exact_score exact(int64_t column) const {
        return PLAIN ? score_of_value((double)(*this)(column).z) : exact_score_at(job, source, column);
    }
};

#endif
