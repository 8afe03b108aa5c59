/* Cross-entropy of a row of any type, stride and option, by the first `warps` warps of a thread block (all of it, where there are several): a warp
 * takes a block of columns at a time; scores are fetched again wherever they are needed. The operations are those of src/cpu/cross_entropy.h. */
#ifndef SOFTMAX_CUDA_CROSS_ENTROPY_ANY_CUH
#define SOFTMAX_CUDA_CROSS_ENTROPY_ANY_CUH

#include "exact_sum.cuh"
#include "loss_row.cuh"
#include "results.cuh"

#define LOSS_WARPS 8

/* What a warp tells the others; an array of one for each. */
typedef struct loss_part {
    row_state state;
    accumulator distances, weights;
    uint32_t flags;
} loss_part;

static __device__ __forceinline__ void wait_for_warps(int warps) {
    if (warps > 1)
        __syncthreads();
    else
        __syncwarp();
}

template <typename REAL> struct loss_work {
    const softmax_job &job;
    int64_t row;
    row_source<REAL> source;
    const char *weights, *targets;
    int warp, warps;
    loss_part *parts;
    loss_row<REAL> r;

    __device__ int64_t first_column() const { return (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; }
    __device__ int64_t step() const { return (int64_t)warps * SOFTMAX_BLOCK_COLUMNS; }
    __device__ int64_t end_of(int64_t first) const {
        return job.columns - first < SOFTMAX_BLOCK_COLUMNS ? job.columns : first + SOFTMAX_BLOCK_COLUMNS;
    }
    __device__ score<REAL> score_of(int64_t column) const { return score_at(job, source, column); }
    __device__ bool is_masked(int64_t column) const {
        return column >= source.limit || (source.mask && !source.mask[column * job.mask.column_stride]);
    }
    /* Calls here and below: this is for rows that nothing else takes, and inline it was half of all that the compiler made of the CUDA kernels. */
    __device__ __noinline__ pair class_weight(int64_t column) const {
        pair w = {1.0, 0.0};
        if (weights) w.hi = load_element<double>(weights + column * job.weights.column_stride, job.weights.type);
        return w;
    }
    /* t_j without the hard target's own part; 0 where the score is masked out. */
    __device__ __noinline__ pair column_weight(int64_t column) const {
        const pair nothing = {0.0, 0.0};
        pair t = r.smoothing;
        if (is_masked(column)) return nothing;
        if (!holds_classes(job)) {
            pair q = {load_element<double>(targets + column * job.targets.column_stride, job.targets.type), 0.0};
            t = pair_add(pair_multiply(r.keep, q), r.smoothing);
        }
        return weights ? pair_multiply(t, class_weight(column)) : t;
    }
};

template <typename REAL> static __device__ row_state reduce_scores(const loss_work<REAL> &w) {
    row_state state = row_state_empty();
    const row_scores<REAL, false> get = {w.job, w.source};
    for (int64_t c = w.first_column(); c < w.job.columns; c += w.step())
        add_block(&state, block_sum_of<REAL>(get, c, (int)(w.end_of(c) - c), w.job.kind), w.job.kind);
    if ((threadIdx.x & 31) == 0) w.parts[w.warp].state = state;
    wait_for_warps(w.warps);
    state = w.parts[0].state;
    for (int i = 1; i < w.warps; i++) row_state_merge(&state, &w.parts[i].state, w.job.kind);
    wait_for_warps(w.warps);
    return state;
}

/* sum_j t_j (m - z_j) and sum_j t_j, without the hard target's own part. A weight of 0 contributes 0, whatever the score. */
template <typename REAL> static __device__ pair spread_loss(loss_work<REAL> &w, uint32_t &flags) {
    accumulator distances = accumulator_empty(), sum = accumulator_empty();
    flags = 0;
    for (int64_t c = w.first_column(); c < w.job.columns; c += w.step()) {
        bool infinite = false;
        auto product = [&](int64_t column) {
            pair t = w.column_weight(column), p = {0.0, 0.0};
            double d = w.r.maximum - (double)w.score_of(column).z;
            if (t.hi == 0.0) return p;
            p.hi = t.hi * d;
            if (p.hi > DBL_MAX) {
                infinite = true;
                p.hi = 0.0;
            } else {
                p.lo = fma(t.hi, d, -p.hi) + t.lo * d;
            }
            return p;
        };
        block_digits d = sum_terms(product, c, w.end_of(c));
        digits_accumulate(distances, d);
        flags |= d.flags;
        if (__any_sync(EVERY_LANE, infinite)) flags |= STATE_INFINITE;
        d = sum_terms([&](int64_t column) { return w.column_weight(column); }, c, w.end_of(c));
        digits_accumulate(sum, d);
        flags |= d.flags;
    }
    if ((threadIdx.x & 31) == 0) {
        w.parts[w.warp].distances = distances;
        w.parts[w.warp].weights = sum;
        w.parts[w.warp].flags = flags;
    }
    wait_for_warps(w.warps);
    distances = sum = accumulator_empty();
    for (int i = 0; i < w.warps; i++) {
        accumulator_merge(&distances, &w.parts[i].distances);
        accumulator_merge(&sum, &w.parts[i].weights);
        flags |= w.parts[i].flags;
    }
    wait_for_warps(w.warps);
    w.r.sum_weights = accumulator_read(&sum, 0);
    return accumulator_read(&distances, 0);
}

/* ---- Gradients ---------------------------------------------------------------------------------------------------------------------------- */

/* result_of for factors of either sign, `threshold` in the result's own size. */
template <typename REAL> static __device__ REAL signed_result(const block_factor<REAL> &f, REAL v, REAL threshold) {
    typedef real<REAL> R;
    REAL y;
    threshold *= R::two_to(R::out_bias);
    if (f.way == f.ZERO) return 0;
    if (f.way == f.FAR) {
        const REAL least = R::two_to(8);
        v = (v > least ? v : least) * R::two_to(-R::far_shift);
        y = R::fused(v, f.hi, v * f.lo);
    } else {
        y = R::fused(v, f.hi, v * f.lo);
        if (f.hi < 0 ? y <= f.cut : y >= f.cut) y = f.most;
    }
    return y >= threshold || -y >= threshold ? R::unbiased(y) : 0;
}

template <typename REAL> static __device__ __noinline__ double gradient_at_target(const loss_work<REAL> &w, REAL z, pair distance) {
    return target_gradient(w.r, row_total_inverse(&w.r.total, w.job.kind), z, power_of_target(z), distance);
}
template <typename REAL> static __device__ __noinline__ double gradient_of_small(const loss_work<REAL> &w, REAL z, pair factor) {
    return small_gradient(w.r.maximum, w.r.total, w.job.kind, z, factor);
}

/* p_j times a constant, then the target. */
template <typename REAL> static __device__ void plain_gradient(const loss_work<REAL> &w, const row_state &state, REAL z, pair distance) {
    const pair factor = pair_add(pair_multiply(w.r.g, w.r.on_target), w.r.g_z);
    const double size = fabs(factor.hi), target = gradient_at_target(w, z, distance);
    const REAL smallest = real<REAL>::smallest(), threshold = size > 1.0 ? (REAL)(size * (double)smallest) : smallest;
    char *out = row_of(w.job, w.job.out, w.row);
    row_result<REAL> result = result_of_state<REAL>(&state, w.job.kind, false, false);
    const row_scores<REAL, false> get = {w.job, w.source};
    result.factor = pair_multiply(result.factor, factor);
    result.most = pair_multiply(result.most, factor);
    for (int64_t c = w.first_column(); c < w.job.columns; c += w.step()) {
        int64_t end = w.end_of(c);
        block_sum<REAL> block = block_sum_of<REAL>(get, c, (int)(end - c), w.job.kind);
        block_factor<REAL> f = factor_of(result, block, w.job.kind);
        __syncwarp();
#pragma unroll 1
        for (int64_t j = c + (threadIdx.x & 31); j < end; j += 32) {
            score<REAL> s = w.score_of(j);
            REAL y = signed_result(f, term_of_value(block, s, w.job.kind).v, threshold);
            if (size > 1.0 && y == 0) {
                REAL b = (REAL)gradient_of_small(w, s.z, factor);
                y = b >= smallest || -b >= smallest ? b : 0;
            }
            if (j == w.r.target)
                store_real(out + j * w.job.out.column_stride, w.job.out.type, target);
            else
                store_result(out + j * w.job.out.column_stride, w.job.out.type, y);
        }
    }
}

/* dloss / dq_j = G (1 - e) w_j (l - z_j); 0 where q_j = 0 meets z_j = -inf, as in the loss. */
template <typename REAL> static __device__ double probability_gradient(const loss_work<REAL> &w, int64_t column, REAL z, pair t) {
    pair weight = pair_multiply(pair_multiply(w.class_weight(column), w.r.keep), w.r.g);
    if (z == -real<REAL>::infinity() && t.hi == 0.0) return 0.0;
    return times_surprise(weight, two_sum(w.r.maximum, -(double)z), w.r.log);
}

/* Probabilities, smoothing, softcap; column by column in double. */
template <typename REAL> static __device__ void general_gradient(const loss_work<REAL> &w, const row_state &state, REAL z_target, pair distance) {
    const softmax_job &job = w.job;
    const pair spread = pair_multiply(w.r.g, w.r.sum_weights);
    const pair factor = pair_add(pair_add(spread, pair_multiply(w.r.g, w.r.on_target)), w.r.g_z);
    const double target = w.r.target >= 0 ? gradient_at_target(w, z_target, distance) : 0.0;
    char *out = row_of(job, job.out, w.row), *q_out = row_of(job, job.targets_gradient, w.row);
    row_result<REAL> result = result_of_state<REAL>(&state, job.kind, false, false);
    const row_scores<REAL, false> get = {w.job, w.source};
    for (int64_t c = w.first_column(); c < job.columns; c += w.step()) {
        int64_t end = w.end_of(c);
        block_sum<REAL> block = block_sum_of<REAL>(get, c, (int)(end - c), job.kind);
        block_factor<REAL> f = factor_of(result, block, job.kind);
        __syncwarp();
#pragma unroll 1
        for (int64_t j = c + (threadIdx.x & 31); j < end; j += 32) {
            pair t = w.column_weight(j), slope = {1.0, 0.0}, each = pair_multiply(w.r.g, t);
            score<REAL> s = w.score_of(j);
            REAL v, raw = 0, y;
            double d;
            if (out && job.softcap != 0.0) raw = load_element<REAL>(w.source.x + j * job.x.column_stride, job.x.type);
            if (q_out)
                store_real(q_out + j * job.targets_gradient.column_stride, job.targets_gradient.type, probability_gradient(w, j, s.z, t));
            if (!out) continue;
            v = result_of(f, term_of_value(block, s, job.kind).v);
            /* masked out: never used */
            if (job.softcap != 0.0 && s.z >= -real<REAL>::largest()) slope = softcap_derivative((double)raw, job.softcap);
            if (j == w.r.target) { /* p - 1 relative, and the target's share of what is spread */
                d = target + (fma((double)v, spread.hi, (double)v * spread.lo) - each.hi);
                d = d == 0.0 ? 0.0 : fma(d, slope.hi, d * slope.lo);
            } else {
                pair g = pair_multiply(slope, factor);
                each = pair_multiply(slope, each);
                d = fma((double)v, g.hi, fma((double)v, g.lo, -each.hi));
                if (v == 0) d += gradient_of_small(w, s.z, g);
            }
            y = (REAL)d;
            if (!(fabs(d) >= (double)real<REAL>::smallest())) y = d == d ? 0 : real<REAL>::nan();
            store_result(out + j * job.out.column_stride, job.out.type, y);
        }
    }
}

template <typename REAL> static __device__ __noinline__ void fill_gradients(const loss_work<REAL> &w, REAL value) {
    char *out = row_of(w.job, w.job.out, w.row), *q_out = row_of(w.job, w.job.targets_gradient, w.row);
#pragma unroll 1
    for (int64_t j = w.warp * 32 + (threadIdx.x & 31); j < w.job.columns; j += 32 * w.warps) {
        if (out) store_result(out + j * w.job.out.column_stride, w.job.out.type, value);
        if (q_out) store_real(q_out + j * w.job.targets_gradient.column_stride, w.job.targets_gradient.type, (double)value);
    }
}

/* ---- The row ------------------------------------------------------------------------------------------------------------------------------ */

static __device__ __noinline__ double logsumexp_of(const row_state &state, arithmetic kind) { return row_state_logsumexp(&state, kind); }

/* Of a row that has a largest score: its loss, and its gradients written. */
template <typename REAL> static __device__ loss_value loss_of_scores(loss_work<REAL> &w, const row_state &state) {
    const softmax_job &job = w.job;
    loss_row<REAL> &r = w.r;
    loss_value loss;
    pair distance = {0.0, 0.0};
    REAL z = 0;
    uint32_t flags;
    r.maximum = value_of_score(state.maximum);
    r.total = row_state_total(&state, job.kind);
    r.log = row_total_log(&r.total, job.kind);
    r.l = logsumexp_of(state, job.kind);
    if (r.target >= 0) {
        z = w.score_of(r.target).z;
        distance = two_sum(r.maximum, -(double)z);
    }
    divide_gradient(job, w.row, r, divisors_of(job));
    enlarge_by_z_loss(job, r);
    loss = loss_of_target(job, r, distance);
    wait_for_warps(w.warps); /* the target's score was read before anybody writes there */
    if (r.spread) {
        pair spread = spread_loss(w, flags);
        spread = pair_add(spread, pair_multiply(r.sum_weights, r.log));
        loss.terms += spread.hi;
        if (flags & STATE_INFINITE) loss.terms = (double)INFINITY;
        if (flags & STATE_NAN) { /* a weight or a probability that is not finite: every p_j times their sum */
            loss.terms = (double)NAN;
            loss.z_loss = 0.0;
            fill_gradients(w, real<REAL>::nan());
            return loss;
        }
    }
    if (!job.out.data && !job.targets_gradient.data) return loss;
    if (is_plain_gradient(job, r) && job.out.data)
        plain_gradient(w, state, z, distance);
    else
        general_gradient(w, state, z, distance);
    return loss;
}

template <typename REAL> static __device__ void loss_of_any_row(const softmax_job &job, int64_t row, int warp, int warps, loss_part *parts) {
    loss_work<REAL> w = {job, row, source_of<REAL>(job, row), row_of(job, job.weights, row), row_of(job, job.targets, row), warp, warps, parts,
                         loss_row_begin<REAL>(job, row)};
    const bool writes = warp == 0 && (threadIdx.x & 31) == 0;
    loss_value loss = {0.0, 0.0};
    row_state state = row_state_empty();
    if (!w.r.ignored || job.row_logsumexp.data) state = reduce_scores(w);
    if (job.row_logsumexp.data && writes)
        store_real(row_of(job, job.row_logsumexp, row), job.row_logsumexp.type, logsumexp_of(state, job.kind));
    if (w.r.ignored) {
        fill_gradients(w, (REAL)0);
    } else if (w.r.bad) {
        if (writes) report_bad_row(job, row);
        fill_gradients(w, real<REAL>::nan());
        loss.terms = (double)NAN;
    } else if (state.flags || state.maximum.high == -(double)INFINITY) {
        bool zero = !state.flags && job.empty_zero;
        fill_gradients(w, zero ? (REAL)0 : real<REAL>::nan());
        loss.terms = zero ? 0.0 : (double)NAN;
    } else {
        loss = loss_of_scores(w, state);
    }
    if (writes) store_loss_of_row(job, row, loss);
}

#endif
