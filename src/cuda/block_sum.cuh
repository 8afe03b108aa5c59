/* What a warp does with one block of a row's columns, whatever its scores are: the operations of src/cpu/block.h, in any order of columns.
 * GET is a function of (column) that gives score<REAL>, and has exact(column); columns are fetched again in every sweep, so that nothing need
 * be kept. */
#ifndef SOFTMAX_CUDA_BLOCK_SUM_CUH
#define SOFTMAX_CUDA_BLOCK_SUM_CUH

#include "scores.cuh"
#include "warp_sums.cuh"

/* A block, as src/cpu/block.h has it, and how its terms are computed. The same in every lane. */
template <typename REAL> struct block_sum {
    exact_score maximum; /* -inf: nothing in it */
    int64_t kb;
    REAL top; /* the maximum's v */
    bool has_rest;
    int64_t rest, rest_low, rest_exponent;
    uint32_t flags;
    enum { NOTHING, NEAR, FAR } way;
    bool doubtful;                         /* scores in it are not what their pairs are */
    REAL magic, floor_score, near_maximum; /* NEAR */
};

/* The two largest scores, low parts counted. */
template <typename REAL> struct largest_two {
    score<REAL> first, second;
};

template <typename REAL> static __device__ __forceinline__ bool is_above(const score<REAL> &a, const score<REAL> &b) {
    return a.z > b.z || (a.z == b.z && a.low > b.low);
}

template <typename REAL> static __device__ __forceinline__ void take_in(largest_two<REAL> &m, const score<REAL> &s) {
    if (is_above(s, m.first)) {
        m.second = m.first;
        m.first = s;
    } else if (is_above(s, m.second)) {
        m.second = s;
    }
}

template <typename REAL, typename GET>
static __device__ largest_two<REAL> find_largest(GET get, int64_t first, int count, bool &nan, bool &doubtful) {
    const score<REAL> nothing = {-real<REAL>::infinity(), 0, false};
    largest_two<REAL> m = {nothing, nothing};
    bool mine = false, doubt = false;
    for (int i = threadIdx.x & 31; i < count; i += 32) {
        score<REAL> s = get(first + i);
        mine |= s.z != s.z;
        doubt |= s.doubtful;
        take_in(m, s);
    }
    for (int step = 16; step > 0; step /= 2) {
        score<REAL> a = nothing, b = nothing;
        a.z = __shfl_xor_sync(EVERY_LANE, m.first.z, step);
        a.low = __shfl_xor_sync(EVERY_LANE, m.first.low, step);
        b.z = __shfl_xor_sync(EVERY_LANE, m.second.z, step);
        b.low = __shfl_xor_sync(EVERY_LANE, m.second.low, step);
        take_in(m, a);
        take_in(m, b);
    }
    nan = __any_sync(EVERY_LANE, mine);
    doubtful = __any_sync(EVERY_LANE, doubt);
    m.first.z += 0; /* -0 is taken as +0: which of equal zeros came first depends on the lanes */
    return m;
}

/* The same of exact scores, for blocks that are far out or doubtful: src/cpu/exact_block.h. */
struct exact_two {
    exact_score first, second;
};

static __device__ __forceinline__ exact_score exchanged(const exact_score &s, int step) {
    exact_score other;
    other.high = __shfl_xor_sync(EVERY_LANE, s.high, step);
    other.middle = __shfl_xor_sync(EVERY_LANE, s.middle, step);
    other.low = __shfl_xor_sync(EVERY_LANE, s.low, step);
    other.level = __shfl_xor_sync(EVERY_LANE, s.level, step);
    return other;
}

static __device__ __noinline__ void take_in(exact_two &m, const exact_score &s) {
    if (score_is_above(s, m.first)) {
        m.second = m.first;
        m.first = s;
    } else if (score_is_above(s, m.second)) {
        m.second = s;
    }
}

template <typename GET> static __device__ exact_two find_exact_largest(GET get, int64_t first, int count) {
    const exact_score nothing = score_of_value(-(double)INFINITY);
    exact_two m = {nothing, nothing};
    for (int i = threadIdx.x & 31; i < count; i += 32) take_in(m, get.exact(first + i));
    for (int step = 16; step > 0; step /= 2) {
        const exact_score a = exchanged(m.first, step), b = exchanged(m.second, step);
        take_in(m, a);
        take_in(m, b);
    }
    return m;
}

template <typename REAL>
static __device__ __noinline__ typename real<REAL>::term near_term(const block_sum<REAL> &block, score<REAL> s, arithmetic kind) {
    REAL low = s.z >= block.floor_score ? s.low : 0;
    return real<REAL>::near(s.z > block.floor_score ? s.z : block.floor_score, low, block.magic, kind, block.near_maximum);
}

template <typename REAL>
static __device__ __noinline__ typename real<REAL>::term far_term(const block_sum<REAL> &block, exact_score s, arithmetic kind) {
    typename real<REAL>::term t = {real<REAL>::nothing(), 0, 0};
    if (s.high != -(double)INFINITY && scores_meet(s, block.maximum)) t = real<REAL>::far(reduce_for_terms(s, kind), block.kb, kind);
    return t;
}

/* One column's term, given what the block found. */
template <typename REAL, typename GET>
static __device__ __forceinline__ typename real<REAL>::term term_of(const block_sum<REAL> &block, GET get, int64_t column, arithmetic kind) {
    typename real<REAL>::term t = {real<REAL>::nothing(), 0, 0};
    if (block.way == block.NEAR) return near_term(block, get(column), kind);
    if (block.way == block.FAR) return far_term(block, get.exact(column), kind);
    return t;
}

/* The same of a score that has no low part. */
template <typename REAL>
static __device__ __forceinline__ typename real<REAL>::term term_of_value(const block_sum<REAL> &block, score<REAL> s, arithmetic kind) {
    typename real<REAL>::term t = {real<REAL>::nothing(), 0, 0};
    if (block.way == block.NEAR) return near_term(block, s, kind);
    if (block.way == block.FAR) return far_term(block, score_of_value((double)s.z), kind);
    return t;
}

static __device__ __forceinline__ void set_rest(block_sum<float> &block, uint32_t high, uint32_t low) {
    block.rest = (int64_t)(int32_t)high * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low;
    block.rest_low = 0;
    block.rest_exponent = wrapped_difference(block.kb, TERM32_LOW_UNIT);
    block.has_rest = block.rest != 0;
}
static __device__ __forceinline__ void set_rest(block_sum<double> &block, uint64_t high, uint64_t low) {
    block.rest = (int64_t)high;
    block.rest_low = (int64_t)low;
    block.rest_exponent = wrapped_difference(block.kb, TERM64_HIGH_UNIT);
    block.has_rest = block.rest != 0 || block.rest_low != 0;
}

/* kb and what else the terms need, from the two largest scores; the maximum's own term. */
template <typename REAL> static __device__ __noinline__ typename real<REAL>::term go_near(block_sum<REAL> &block, const largest_two<REAL> &m, arithmetic kind) {
    typedef real<REAL> R;
    REAL near = m.first.z - R::spread(), kb = R::exponent(m.second.z > near ? m.second.z : near);
    block.way = block.NEAR;
    block.maximum = score_of_pair((double)m.first.z, (double)m.first.low);
    block.near_maximum = m.first.z;
    block.kb = (int64_t)kb;
    block.magic = R::magic() + SOFTMAX_BIAS - kb;
    block.floor_score = R::floor_of(kb);
    return R::near(m.first.z, m.first.low, block.magic, kind, m.first.z);
}

template <typename REAL> static __device__ __noinline__ typename real<REAL>::term go_far(block_sum<REAL> &block, const exact_two &m, arithmetic kind) {
    typedef real<REAL> R;
    reduced first = reduce_for_terms(m.first, kind);
    block.way = block.FAR;
    block.maximum = m.first;
    block.kb = wrapped_difference(first.k, R::far_spread);
    if (m.second.high != -(double)INFINITY && scores_meet(m.second, m.first)) {
        int64_t k = reduce_for_terms(m.second, kind).k;
        if (wrapped_difference(k, block.kb) > 0) block.kb = k;
    }
    return R::far(first, block.kb, kind);
}

/* Its sums, of columns [first, first + count), count <= SOFTMAX_BLOCK_COLUMNS. A call, that the slow rows' code is there once. */
template <typename REAL, typename GET> static __device__ __noinline__ block_sum<REAL> block_sum_of(GET get, int64_t first, int count, arithmetic kind) {
    typedef real<REAL> R;
    typename R::bits high = 0, low = 0;
    typename R::term top;
    bool nan;
    block_sum<REAL> block;
    largest_two<REAL> m;
    REAL maximum;
    memset(&block, 0, sizeof block);
    m = find_largest<REAL>(get, first, count, nan, block.doubtful);
    maximum = m.first.z;
    block.maximum = score_of_value((double)maximum);
    block.flags = (nan ? STATE_NAN : 0) | (maximum == R::infinity() ? STATE_INFINITE : 0);
    if (block.flags || maximum == -R::infinity()) return block;
    if (!block.doubtful && R::size_of(maximum) < R::limit())
        top = go_near(block, m, kind);
    else
        top = go_far(block, find_exact_largest(get, first, count), kind);
    for (int i = threadIdx.x & 31; i < count; i += 32) {
        typename R::term t = term_of(block, get, first + i, kind);
        high += t.high;
        low += t.low;
    }
    high = warp_sum(high);
    low = warp_sum(low);
    set_rest(block, high - top.high, low - top.low);
    block.top = top.v;
    return block;
}

#endif
