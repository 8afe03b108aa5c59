/* What a warp does with one block of a row's columns, whatever its scores are: the operations of src/cpu/block.h, in any order of columns.
 * GET is a function of (column) that gives score<REAL>; columns are fetched again in every sweep, so that nothing need be kept. */
#ifndef SOFTMAX_CUDA_BLOCK_SUM_CUH
#define SOFTMAX_CUDA_BLOCK_SUM_CUH

#include "scores.cuh"
#include "warp_sums.cuh"

/* A block, as src/cpu/block.h has it, and how its terms are computed. The same in every lane. */
template <typename REAL> struct block_sum {
    REAL maximum; /* -inf: nothing in it */
    REAL maximum_low;
    int64_t kb;
    REAL top; /* the maximum's v */
    bool has_rest;
    int64_t rest, rest_low, rest_exponent;
    uint32_t flags;
    enum { NOTHING, NEAR, FAR, EQUALS } way; /* EQUALS: beyond SOFTMAX_HUGE only what equals the maximum counts, as 1 */
    bool by_low;                              /* beyond SOFTMAX_HUGE: by the low parts of what shares the maximum's high part */
    REAL magic, floor_score;                  /* NEAR */
    REAL its_maximum;                         /* of the scores, or by_low of the low parts */
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

/* A score as the block takes it. */
template <typename REAL> static __device__ __forceinline__ score<REAL> taken(const block_sum<REAL> &block, score<REAL> s) {
    if (block.by_low) {
        s.z = s.z == block.maximum ? s.low : -real<REAL>::infinity();
        s.low = 0;
    }
    return s;
}

template <typename REAL, typename GET>
static __device__ largest_two<REAL> find_largest(const block_sum<REAL> &block, GET get, int64_t first, int count, bool &nan) {
    const score<REAL> nothing = {-real<REAL>::infinity(), 0};
    largest_two<REAL> m = {nothing, nothing};
    bool mine = false;
    for (int i = threadIdx.x & 31; i < count; i += 32) {
        score<REAL> s = taken(block, get(first + i));
        mine |= s.z != s.z;
        take_in(m, s);
    }
    for (int step = 16; step > 0; step /= 2) {
        score<REAL> a, b;
        a.z = __shfl_xor_sync(EVERY_LANE, m.first.z, step);
        a.low = __shfl_xor_sync(EVERY_LANE, m.first.low, step);
        b.z = __shfl_xor_sync(EVERY_LANE, m.second.z, step);
        b.low = __shfl_xor_sync(EVERY_LANE, m.second.low, step);
        take_in(m, a);
        take_in(m, b);
    }
    nan = __any_sync(EVERY_LANE, mine);
    m.first.z += 0; /* -0 is taken as +0: which of equal zeros came first depends on the lanes */
    return m;
}

/* One column's term, given what the block found. */
template <typename REAL>
static __device__ __noinline__ typename real<REAL>::term term_of(const block_sum<REAL> &block, score<REAL> s, arithmetic kind) {
    typedef real<REAL> R;
    typename R::term t = {R::nothing(), 0, 0};
    s = taken(block, s);
    if (block.way == block.NEAR) {
        REAL low = s.z >= block.floor_score ? s.low : 0;
        return R::near(s.z > block.floor_score ? s.z : block.floor_score, low, block.magic, kind, block.its_maximum);
    }
    if (block.way == block.FAR && s.z >= (REAL)-SOFTMAX_HUGE && (double)block.its_maximum - (double)s.z < 0x1p30)
        return R::far(s.z, s.low, block.kb, kind); /* so far below, the difference of exponents might not even fit */
    if (block.way == block.EQUALS && s.z == block.maximum && s.low == block.maximum_low) {
        t.v = (REAL)(1 << SOFTMAX_BIAS);
        t.high = 1; /* counted */
    }
    return t;
}

static __device__ __forceinline__ void set_rest(block_sum<float> &block, uint32_t high, uint32_t low) {
    block.rest = (int64_t)(int32_t)high * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low;
    block.rest_low = 0;
    block.rest_exponent = block.kb - TERM32_LOW_UNIT;
    block.has_rest = block.rest != 0;
}
static __device__ __forceinline__ void set_rest(block_sum<double> &block, uint64_t high, uint64_t low) {
    block.rest = (int64_t)high;
    block.rest_low = (int64_t)low;
    block.rest_exponent = block.kb - TERM64_HIGH_UNIT;
    block.has_rest = block.rest != 0 || block.rest_low != 0;
}

/* kb and what else the terms need, from the two largest scores. */
template <typename REAL> static __device__ __noinline__ void choose_way(block_sum<REAL> &block, const largest_two<REAL> &m) {
    typedef real<REAL> R;
    REAL maximum = m.first.z;
    block.its_maximum = maximum;
    if (maximum < R::limit() && maximum > -R::limit()) {
        REAL near = maximum - R::spread(), kb = R::exponent(m.second.z > near ? m.second.z : near);
        block.way = block.NEAR;
        block.kb = (int64_t)kb;
        block.magic = R::magic() + SOFTMAX_BIAS - kb;
        block.floor_score = R::floor_of(kb);
    } else {
        int64_t k2 = reduce_pair((double)maximum, (double)m.first.low).k - R::far_spread;
        if (m.second.z >= (REAL)-SOFTMAX_HUGE) {
            int64_t k = reduce_pair((double)m.second.z, (double)m.second.low).k;
            if (k > k2) k2 = k;
        }
        block.way = block.FAR;
        block.kb = k2;
    }
}

/* Its sums, of columns [first, first + count), count <= SOFTMAX_BLOCK_COLUMNS. has_low: whether scores have low parts at all. */
template <typename REAL, typename GET>
static __device__ block_sum<REAL> block_sum_of(GET get, int64_t first, int count, arithmetic kind, bool has_low) {
    typedef real<REAL> R;
    typename R::bits high = 0, low = 0;
    typename R::term top = {(REAL)(1 << SOFTMAX_BIAS), 0, 0};
    bool nan;
    block_sum<REAL> block;
    largest_two<REAL> m;
    memset(&block, 0, sizeof block);
    m = find_largest<REAL>(block, get, first, count, nan);
    block.maximum = m.first.z;
    block.flags = (nan ? STATE_NAN : 0) | (block.maximum == R::infinity() ? STATE_INFINITE : 0);
    if (block.flags || block.maximum == -R::infinity()) return block;
    block.maximum_low = m.first.low;
    if (score_is_huge((double)block.maximum) && has_low && !score_is_huge((double)block.maximum_low)) {
        block.by_low = true;
        m = find_largest<REAL>(block, get, first, count, nan);
    }
    if (score_is_huge((double)m.first.z))
        block.way = block.EQUALS;
    else
        choose_way(block, m);
    for (int i = threadIdx.x & 31; i < count; i += 32) {
        typename R::term t = term_of(block, get(first + i), kind);
        high += t.high;
        low += t.low;
    }
    high = warp_sum(high);
    low = warp_sum(low);
    if (block.way == block.EQUALS) {
        block.rest = (int64_t)high - 1;
        block.has_rest = true;
    } else {
        top = block.way == block.NEAR ? R::near(m.first.z, m.first.low, block.magic, kind, m.first.z)
                                      : R::far(m.first.z, m.first.low, block.kb, kind);
        set_rest(block, high - top.high, low - top.low);
    }
    block.top = top.v;
    return block;
}

#endif
