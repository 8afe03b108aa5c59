/* From a row's state and a block's terms to results: the operations of src/cpu/forward.h, element by element. */
#ifndef SOFTMAX_CUDA_RESULTS_CUH
#define SOFTMAX_CUDA_RESULTS_CUH

#include "block_sum.cuh"

template <typename REAL> static __device__ __noinline__ void add_block(row_state *row, const block_sum<REAL> &block, arithmetic kind) {
    row_state added = row_state_empty();
    added.maximum = block.maximum;
    added.flags = block.flags;
    if (block.has_rest) {
        accumulator_add(&added.rest, block.rest, block.rest_exponent);
        if (sizeof(REAL) == 8) accumulator_add(&added.rest, block.rest_low, wrapped_difference(block.rest_exponent, TERM64_LOW_UNIT - TERM64_HIGH_UNIT));
    }
    row_state_merge(row, &added, kind);
}

/* How a row's terms become results. */
template <typename REAL> struct row_result {
    bool constant; /* every result is `value` */
    REAL value;
    exact_score maximum;
    REAL m, m_low;   /* the same, rounded */
    bool m_is_value; /* m alone is the maximum */
    int64_t k;
    pair factor; /* 2^k / sum */
    pair most;   /* factor times the maximum's term: the largest result */
    pair log;        /* log(sum) - maximum */
    REAL minus_log, minus_log_low;
};

template <typename REAL>
static __device__ __noinline__ row_result<REAL> result_of_state(const row_state *s, arithmetic kind, bool want_log, bool empty_zero) {
    row_result<REAL> r;
    row_total total;
    memset(&r, 0, sizeof r);
    r.constant = true;
    r.value = real<REAL>::nan();
    if (s->flags) return r;
    if (s->maximum.high == -(double)INFINITY) {
        if (empty_zero) r.value = want_log ? -real<REAL>::infinity() : 0;
        return r;
    }
    r.constant = false;
    r.maximum = s->maximum;
    r.m = (REAL)r.maximum.high;
    r.m_low = (REAL)((r.maximum.high - (double)r.m) + (r.maximum.middle + r.maximum.low));
    r.m_is_value = r.m_low == 0 && score_is_single(r.maximum) && r.m - r.m == 0;
    total = row_state_total(s, kind);
    r.k = total.k;
    if (want_log) {
        r.log = row_total_log(&total, kind);
        r.minus_log = (REAL)(0.0 - r.log.hi);
        r.minus_log_low = (REAL)((-r.log.hi - (double)r.minus_log) - r.log.lo);
    } else {
        r.factor = row_total_inverse(&total, kind);
        r.most = pair_multiply(total.e_max, r.factor);
    }
    return r;
}

/* What a block's values are multiplied by. */
template <typename REAL> struct block_factor {
    enum { ZERO, USUAL, FAR } way;
    REAL hi, lo;
    REAL threshold;
    REAL cut;
    REAL most;
};

template <typename REAL>
static __device__ __noinline__ block_factor<REAL> factor_of(const row_result<REAL> &r, const block_sum<REAL> &block, arithmetic kind) {
    typedef real<REAL> R;
    const int64_t distance = wrapped_difference(block.kb, r.k);
    int64_t exponent = distance - SOFTMAX_BIAS + R::out_bias;
    bool is_far = distance < R::far_block, equal = scores_are_equal(block.maximum, r.maximum);
    pair g;
    block_factor<REAL> f;
    memset(&f, 0, sizeof f);
    f.way = f.ZERO;
    if (block.maximum.high == -(double)INFINITY || !scores_meet(block.maximum, r.maximum) || exponent < R::least_exponent) return f;
    f.way = is_far ? f.FAR : f.USUAL;
    if (is_far) exponent += R::far_shift;
    g.hi = scale_by_power(r.factor.hi, exponent);
    g.lo = scale_by_power(r.factor.lo, exponent);
    f.hi = (REAL)g.hi;
    f.lo = arithmetic_is_short(kind) ? 0 : (REAL)((g.hi - (double)f.hi) + g.lo);
    f.threshold = R::smallest() * R::two_to(R::out_bias);
    f.most = (REAL)(r.most.hi * (double)R::two_to(R::out_bias));
    f.cut = equal ? R::fused(block.top, f.hi, block.top * f.lo) : f.most;
    return f;
}

template <typename REAL> static __device__ __forceinline__ REAL result_of(const block_factor<REAL> &f, REAL v) {
    typedef real<REAL> R;
    REAL y;
    if (f.way == f.ZERO) return 0;
    if (f.way == f.FAR) { /* only the block's own maximum, far above kb, may be more than 0 */
        const REAL least = R::two_to(8);
        v = (v > least ? v : least) * R::two_to(-R::far_shift);
        y = R::fused(v, f.hi, v * f.lo);
    } else {
        y = R::fused(v, f.hi, v * f.lo);
        y = y >= f.cut ? f.most : y;
    }
    return y >= f.threshold ? R::unbiased(y) : 0;
}

/* log_softmax: (z - m) - log; with low parts the errors of both are added. */
template <typename REAL> static __device__ __forceinline__ REAL log_result_of(const row_result<REAL> &r, score<REAL> s, bool has_low) {
    typedef real<REAL> R;
    REAL d = s.z - r.m, y;
    if (!has_low) {
        y = d + r.minus_log;
    } else {
        REAL t = d - s.z, e = (s.z - (d - t)) + (-r.m - t);
        if (d == -R::infinity()) return d;
        y = (d + r.minus_log) + (((e + s.low) - r.m_low) + r.minus_log_low);
    }
    return y >= R::smallest() || -y >= R::smallest() ? y : 0;
}

/* The same of an exact score. */
template <typename REAL> static __device__ __noinline__ REAL exact_log_result_of(const row_result<REAL> &r, exact_score s) {
    return (REAL)log_of_exact_score(s, r.maximum, r.log, (double)real<REAL>::smallest());
}

#endif
