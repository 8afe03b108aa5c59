/* Cross-entropy of one row, what is computed once per row: the operations of src/cpu/cross_entropy.h. With l = logsumexp(z), t_j the weight of
 * column j in the loss:
 *   loss = sum_j t_j (l - z_j) + z_loss l^2,  l - z_j = (m - z_j) + log
 *   dz_j = p_j (G sum_j t_j + 2 z_loss l G') - G t_j */
#ifndef SOFTMAX_CUDA_LOSS_ROW_CUH
#define SOFTMAX_CUDA_LOSS_ROW_CUH

#include "bad_row.cuh"
#include "operands.cuh"
#include "real.cuh"

template <typename REAL> struct loss_row {
    double maximum;
    row_total total;
    pair log;       /* l - m */
    double l;
    int64_t target; /* -1: probabilities */
    bool ignored;
    bool bad;         /* the target is neither a class nor ignore_index */
    bool spread;      /* columns other than the target count */
    pair keep;        /* 1 - e */
    pair on_target;   /* w_y (1 - e) */
    pair smoothing;   /* e / V */
    pair g;           /* gradient of the row's first terms */
    pair g_of_z;      /* G' */
    pair g_z;         /* 2 z_loss l G' */
    pair sum_weights; /* sum_j t_j */
};

/* A row's loss in the two parts that a mean divides differently. */
typedef struct loss_value {
    double terms;
    double z_loss;
} loss_value;

static __device__ pair quotient(double a, double b) {
    pair n = {a, 0.0}, d = {b, 0.0}, plain = {a / b, 0.0};
    return plain.hi - plain.hi == 0.0 ? pair_divide(n, d) : plain;
}

static __device__ __forceinline__ bool holds_classes(const softmax_job &job) {
    return job.targets.type == ELEMENT_INT32 || job.targets.type == ELEMENT_INT64;
}

/* What does not depend on the scores. */
template <typename REAL> static __device__ loss_row<REAL> loss_row_begin(const softmax_job &job, int64_t row) {
    loss_row<REAL> r;
    const pair nothing = {0.0, 0.0};
    r.target = -1;
    r.ignored = r.bad = false;
    r.maximum = r.l = 0.0;
    r.log = r.on_target = r.smoothing = r.g = r.g_of_z = r.g_z = r.sum_weights = nothing;
    r.keep = two_sum(1.0, -job.label_smoothing);
    if (job.label_smoothing != 0.0) r.smoothing = quotient(job.label_smoothing, (double)job.columns);
    if (holds_classes(job)) {
        pair weight = {1.0, 0.0};
        r.target = load_index(row_of(job, job.targets, row), job.targets.type);
        r.ignored = r.target == job.ignore_index;
        r.bad = !r.ignored && (r.target < 0 || r.target >= job.columns);
        if (r.bad || r.ignored) r.target = 0; /* never an address */
        else if (job.weights.data)
            weight.hi = load_element<double>(row_of(job, job.weights, row) + r.target * job.weights.column_stride, job.weights.type);
        r.on_target = pair_multiply(weight, r.keep);
    }
    r.spread = r.target < 0 || job.label_smoothing != 0.0;
    return r;
}

/* a (d + log), rounded about once */
static __device__ double times_surprise(pair a, pair d, pair log) {
    if (a.hi == 0.0) return 0.0;
    if (!(d.hi <= DBL_MAX)) return a.hi * d.hi;
    return pair_multiply(a, pair_add(d, log)).hi;
}

/* e^z of the target's score, where target_gradient will ask for it. */
template <typename REAL> static __device__ power power_of_target(REAL z) {
    power none = {0, {0.0, 0.0}};
    return z - z == 0 ? exp_pair((double)z, 0.0) : none;
}

/* p_y - 1 as minus the share of all others. distance = m - z, e = power_of_target(z). */
template <typename REAL>
static __device__ double target_gradient(const loss_row<REAL> &r, pair inverse, REAL z, power e, pair distance) {
    const pair minus_one = {-1.0, 0.0};
    pair scale = pair_multiply(r.g, r.on_target), p;
    if (distance.hi == 0.0) { /* the maximum itself, or a tie with it */
        pair share = pair_multiply(pair_multiply(r.total.rest, inverse), scale);
        share.hi = -share.hi;
        share.lo = -share.lo;
        return pair_add(pair_multiply(r.g_z, pair_multiply(r.total.e_max, inverse)), share).hi;
    }
    if (z == -real<REAL>::infinity() || !scores_meet(score_of_value((double)z), score_of_value(r.maximum))) return -scale.hi;
    e.f.hi = scale_by_power(e.f.hi, wrapped_difference(e.k, r.total.k));
    e.f.lo = scale_by_power(e.f.lo, wrapped_difference(e.k, r.total.k));
    p = pair_multiply(e.f, inverse);
    return pair_add(pair_multiply(r.g_z, p), pair_multiply(scale, pair_add(minus_one, p))).hi;
}

/* p_j times factor for a score whose p_j alone is below the smallest normal, where the product may not be. */
template <typename REAL>
static __device__ double small_gradient(double maximum, const row_total &total, arithmetic kind, REAL z, pair factor) {
    double limit = sizeof(REAL) == 4 ? 87.0 : 708.0, distance = maximum - (double)z;
    power e;
    pair p;
    if (z == -real<REAL>::infinity() || !(distance >= limit && distance <= 3.0 * limit)) return 0.0;
    e = exp_pair((double)z, 0.0);
    p = pair_multiply(pair_multiply(e.f, row_total_inverse(&total, kind)), factor);
    return scale_by_power(p.hi, wrapped_difference(e.k, total.k));
}

/* G, and what G' is multiplied by for 2 z_loss l G': not of the scores. */
template <typename REAL> static __device__ void divide_gradient(const softmax_job &job, int64_t row, loss_row<REAL> &r, const loss_divisors &divisors) {
    double upstream = job.grad_output.data ? load_element<double>(row_of(job, job.grad_output, row), job.grad_output.type) : 1.0;
    r.g = quotient(upstream, divisors.terms);
    if (job.z_loss != 0.0) r.g_of_z = quotient(upstream, divisors.z_loss);
}

/* 2 z_loss l G', once log is known. */
template <typename REAL> static __device__ void enlarge_by_z_loss(const softmax_job &job, loss_row<REAL> &r) {
    pair z_loss = {2.0 * job.z_loss, 0.0}, maximum = {r.maximum, 0.0};
    if (job.z_loss != 0.0) r.g_z = pair_multiply(pair_multiply(z_loss, pair_add(maximum, r.log)), r.g_of_z);
}

/* The target's own term, and the last. */
template <typename REAL> static __device__ loss_value loss_of_target(const softmax_job &job, const loss_row<REAL> &r, pair distance) {
    loss_value loss = {0.0, 0.0};
    if (r.target >= 0) loss.terms = times_surprise(r.on_target, distance, r.log);
    loss.z_loss = job.z_loss * r.l * r.l;
    return loss;
}

/* Whether the gradient is every p_j times one factor, but at the target. */
template <typename REAL> static __device__ bool is_plain_gradient(const softmax_job &job, const loss_row<REAL> &r) {
    return !r.spread && job.softcap == 0.0 && fabs(r.g.hi * r.on_target.hi) < 0x1p40 && fabs(r.g_z.hi) < 0x1p40;
}

/* ---- Results of a row that are no gradient ------------------------------------------------------------------------------------------------- */

/* The only rounding of a result that is a number of its own: below the smallest normal, once rounded, +0. */
static __device__ void store_real(char *address, element type, double x) {
    float f = (float)x;
    if (type == ELEMENT_FLOAT64) {
        store_as<double>(address, x != x ? bits_double(0x7ff8000000000000ULL) : fabs(x) < 0x1p-1022 ? 0.0 : x);
        return;
    }
    store_result(address, type, x != x ? bits_float(0x7fc00000u) : fabsf(f) < 0x1p-126f ? 0.0f : f);
}

/* Scratch of a loss that is a sum or a mean: this, then a loss_record for every row. Sums over rows are integers on the accumulator's absolute
 * grid, all of it: what an accumulator holds of any terms is a window of these limbs. */
#define SUM_LIMBS 72
#define SUM_LOWEST (-37) /* the grid's place of limb 0: below any double */
typedef struct wide_sum {
    unsigned long long limb[SUM_LIMBS];
    int top; /* the largest of the terms' tops, SUM_LOWEST added; 0: no term */
    int unused;
} wide_sum;

enum { ROWS_KEPT, WEIGHT_NANS, WEIGHT_INFINITIES, WEIGHT_MINUS_INFINITIES, LOSS_NANS, LOSS_INFINITIES, LOSS_COUNTS };

typedef struct loss_scratch {
    loss_divisors divisors;
    pair factor; /* of every row's gradient, where all have one: uniform_factor */
    wide_sum weights, terms, z_loss;
    unsigned long long count[LOSS_COUNTS];
    unsigned int targets_done, losses_done; /* thread blocks */
} loss_scratch;

/* What a row leaves for the sum over rows, and where `way` says so for its loss and its target's gradient too, which are computed there. */
typedef struct loss_record {
    double f, rest; /* e^maximum = f 2^k, and the sum of all else times 2^-k; ROW_DONE: the loss's two parts */
    float z;        /* the target's score */
    float maximum;
    int k;
    int way;
} loss_record;

enum { ROW_RESULTS, ROW_ZEROS, ROW_NANS, ROW_BY_ANY, ROW_DONE };

static __host__ __device__ __forceinline__ size_t loss_scratch_bytes() { return (sizeof(loss_scratch) + 255) / 256 * 256; }

static __device__ __forceinline__ loss_record *record_of(const softmax_job &job, int64_t row) {
    return (loss_record *)(void *)((char *)job.scratch + loss_scratch_bytes()) + row;
}

static __device__ __forceinline__ loss_divisors divisors_of(const softmax_job &job) {
    const loss_divisors one = {1.0, 1.0};
    return job.reduction == SOFTMAX_NONE || job.reduction == SOFTMAX_SUM ? one : ((const loss_scratch *)job.scratch)->divisors;
}

/* G of every row, where no row has its own: without class weights, the upstream gradient one number. What divide_gradient gives. */
static __device__ __forceinline__ pair uniform_factor(const softmax_job &job) {
    pair factor = {job.grad_output.data ? load_element<double>(job.grad_output.data, job.grad_output.type) : 1.0, 0.0};
    if (job.reduction != SOFTMAX_SUM) factor = ((const loss_scratch *)job.scratch)->factor;
    return factor;
}

/* By one thread. */
static __device__ void store_loss_of_row(const softmax_job &job, int64_t row, loss_value loss) {
    const loss_record record = {loss.terms, loss.z_loss, 0.0f, 0.0f, 0, ROW_DONE};
    if (job.reduction == SOFTMAX_NONE && !job.loss.data) return;
    if (job.reduction == SOFTMAX_NONE)
        store_real(row_of(job, job.loss, row), job.loss.type, loss.terms + loss.z_loss);
    else
        *record_of(job, row) = record;
}

#endif
