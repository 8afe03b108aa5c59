/* Cross-entropy of contiguous rows in registers, logits read once and the gradient written once: a warp a block of columns, a thread block up to 8
 * of them (16 in the largest clusters), a cluster a row. What a row's loss needs of its target is read before anybody may write.
 * Rows whose scores or factors are out of the fast arithmetic's range are left to cross_entropy_any.cuh. */
#ifndef SOFTMAX_CUDA_LOSS_ROWS_CUH
#define SOFTMAX_CUDA_LOSS_ROWS_CUH

#include "row_pieces.cuh"

#include "cross_entropy_any.cuh"
#include "gradient.h"
#include "launch.cuh"

/* ---- A block in a warp's registers, its maximum below TERM32_LIMIT in size ----------------------------------------------------------------- */

typedef struct loss_note {
    float maximum; /* -inf: nothing in it; NaN: a NaN */
    float top;     /* the maximum's v */
    int kb;
    uint32_t unused;
    int64_t digits; /* without the maximum, in units 2^(kb - 41) */
} loss_note;

static __device__ __forceinline__ float term_with_digits(float z, float magic, uint32_t &high, uint32_t &low) {
    term32 t = term32_fast(z, 0.0f, magic, ARITHMETIC_32);
    high += t.high + float_bits(TERM32_HIGH); /* the constants stay in */
    low += t.low + float_bits(TERM32_LOW);
    return t.v;
}

/* Scores become v. */
template <int N> static __device__ __forceinline__ loss_note sum_scores(float *z) {
    loss_note note;
    float first = -INFINITY, second = -INFINITY;
    uint32_t high = 0, low = 0, high_top = 0, low_top = 0, key, top;
#pragma unroll
    for (int i = 0; i < N; i++) {
        second = fmaxf(second, fminf(first, z[i]));
        first = max_or_nan(first, z[i]);
    }
    key = order_of(first);
    top = lanes_max(key);
    if ((int)(threadIdx.x & 31) == __ffs((int)__ballot_sync(EVERY_LANE, key == top)) - 1) key = order_of(second);
    second = of_order(lanes_max(key));
    note.maximum = of_order(top) + 0.0f; /* -0 is taken as +0 */
    const float maximum = fabsf(note.maximum) < TERM32_LIMIT ? note.maximum : 0.0f; /* others mean nothing here */
    const float kb = term32_exponent(fmaxf(second < maximum ? second : maximum, maximum - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - kb, floor_score = term32_floor(kb);
#pragma unroll
    for (int i = 0; i < N; i++) z[i] = term_with_digits(fmaxf(z[i], floor_score), magic, high, low);
    high = lanes_sum(high);
    low = lanes_sum(low);
    note.top = term_with_digits(fmaxf(maximum, floor_score), magic, high_top, low_top);
    high -= high_top + (uint32_t)(N * 32 - 1) * float_bits(TERM32_HIGH);
    low -= low_top + (uint32_t)(N * 32 - 1) * float_bits(TERM32_LOW);
    note.digits = (int64_t)(int32_t)high * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low;
    note.kb = (int)kb;
    note.unused = 0;
    return note;
}

/* ---- A row's sum of its blocks ------------------------------------------------------------------------------------------------------------ */

typedef struct row_part {
    float maximum;
    int k;
    double f; /* e^maximum = f 2^k */
    double rest; /* the sum of all other terms, 2^-k times */
    bool slow;   /* a maximum out of the fast terms' range */
} row_part;

/* By one warp; the same in every lane. The sums are numerics/accumulator.h's: neither order nor grouping matters. */
static __device__ row_part add_up_notes(const loss_note *notes, int count) {
    const int lane = (int)(threadIdx.x & 31);
    accumulator sum = accumulator_empty();
    float best = -INFINITY;
    int best_block = -1, k = 0, owner, top;
    double f = 1.0;
    bool slow = false;
    row_part p;
    for (int b = lane; b < count; b += 32) {
        float m = notes[b].maximum;
        slow |= fabsf(m) >= TERM32_LIMIT && fabsf(m) < INFINITY;
        if (best_block < 0 || order_of(m) > order_of(best)) {
            best = m;
            best_block = b;
        }
    }
    const uint32_t key = best_block < 0 ? 0 : order_of(best), top_key = lanes_max(key);
    owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    p.maximum = of_order(top_key);
    p.slow = __any_sync(EVERY_LANE, slow);
    p.k = 0;
    p.f = 1.0;
    p.rest = 0.0;
    if (p.slow || !(fabsf(p.maximum) < INFINITY)) return p;
    for (int b = lane; b < count; b += 32) {
        loss_note n = notes[b];
        if (n.maximum == -INFINITY) continue;
        power e = exp_of_maximum(score_of_value((double)n.maximum), ARITHMETIC_32);
        if (n.digits) accumulator_add(&sum, n.digits, n.kb - TERM32_LOW_UNIT);
        if (lane == owner && b == best_block) {
            k = (int)e.k;
            f = e.f.hi;
        } else {
            accumulator_add(&sum, (int64_t)(e.f.hi * 0x1p52), e.k - 52);
        }
    }
    p.k = __shfl_sync(EVERY_LANE, k, owner);
    p.f = __shfl_sync(EVERY_LANE, f, owner);
    top = sum.top == ACCUMULATOR_EMPTY ? -0x40000000 : (int)sum.top;
    top = (int)(lanes_max((uint32_t)top ^ 0x80000000u) ^ 0x80000000u);
    if (top == -0x40000000) return p;
    accumulator_raise(&sum, top);
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) sum.limb[i] = lanes_sum_wide(sum.limb[i]);
    p.rest = accumulator_read_first(&sum, p.k);
    return p;
}

/* ---- The row's answer --------------------------------------------------------------------------------------------------------------------- */

/* What every warp needs of its row's answer. */
typedef struct loss_answer {
    pair factor;   /* of 2^-k e^z: the inverse of the sum, times the gradient's */
    double most;   /* the largest term's result */
    double target; /* the target's: there when the row's results are written */
    double size;   /* of the gradient's factor alone */
    pair gradient_factor;
    row_total total;
    float maximum;
    enum { RESULTS, ZEROS, NANS, BY_ANY } way;
} loss_answer;

template <int TYPE> static __device__ __forceinline__ float logit_at(const char *row, int64_t column) {
    return load_element<float>(row + column * packed<TYPE>::bytes, (element)TYPE);
}

/* By one warp, in three parts: before its scores are asked for; what all warps wait for; what they need not wait for. Calls, over shared memory, in
 * which every lane writes the same: registers are for the scores. */
typedef struct row_work {
    loss_row<float> r;
    power e_target;
    pair distance, inverse;
    float z;
    bool constant;
} row_work;

static __device__ __noinline__ void prepare_loss(row_work &w, const softmax_job &job, int64_t row, float z) {
    w.r = loss_row_begin<float>(job, row);
    w.z = z;
    divide_gradient(job, row, w.r, divisors_of(job));
    w.e_target = power_of_target(z);
}

static __device__ __noinline__ void answer_row(row_work &w, loss_answer &a, const softmax_job &job, const loss_note *notes, int count) {
    const row_part part = add_up_notes(notes, count);
    loss_row<float> &r = w.r;
    pair factor;
    a.maximum = part.maximum;
    w.constant = !(fabsf(part.maximum) < INFINITY);
    r.maximum = (double)part.maximum;
    r.total.k = part.k;
    r.total.e_max.hi = part.f;
    r.total.rest.hi = part.rest;
    r.total.e_max.lo = r.total.rest.lo = 0.0;
    if (part.slow) {
        a.way = a.BY_ANY;
    } else if (r.ignored || r.bad || w.constant) {
        a.way = r.ignored || (!r.bad && part.maximum == -INFINITY && job.empty_zero) ? a.ZEROS : a.NANS;
    } else {
        a.way = a.RESULTS;
        w.distance = two_sum(r.maximum, -(double)w.z);
        w.inverse = row_total_inverse(&r.total, ARITHMETIC_32);
        if (job.z_loss != 0.0) {
            r.log = row_total_log(&r.total, ARITHMETIC_32);
            enlarge_by_z_loss(job, r);
        }
        factor = pair_add(pair_multiply(r.g, r.on_target), r.g_z);
        if (job.out.data && !is_plain_gradient(job, r)) a.way = a.BY_ANY;
        a.gradient_factor = factor;
        a.size = fabs(factor.hi);
        a.factor = pair_multiply(w.inverse, factor);
        a.most = pair_multiply(pair_multiply(r.total.e_max, w.inverse), factor).hi;
        a.total = r.total;
    }
}

/* writes: this lane does, what belongs to the row. */
static __device__ __noinline__ void finish_loss(row_work &w, loss_answer &a, const softmax_job &job, int64_t row, bool writes) {
    loss_row<float> &r = w.r;
    loss_value loss = {0.0, 0.0};
    if (a.way == a.BY_ANY) return;
    r.l = a.maximum != a.maximum ? (double)NAN : (double)a.maximum;
    if (!w.constant) {
        pair sum;
        r.log = row_total_log(&r.total, ARITHMETIC_32);
        sum = two_sum(r.maximum, r.log.hi);
        r.l = sum.hi + (sum.lo + (r.log.lo + 0.0));
        if (fabs(r.l) < 0x1p-1022) r.l = 0.0;
    }
    if (a.way == a.RESULTS) {
        loss = loss_of_target(job, r, w.distance);
        if (job.out.data) a.target = target_gradient(r, w.inverse, w.z, w.e_target, w.distance);
    } else if (a.way == a.NANS) {
        loss.terms = (double)NAN;
    }
    if (!writes) return;
    if (r.bad) report_bad_row(job, row);
    if (job.row_logsumexp.data) store_real(row_of(job, job.row_logsumexp, row), job.row_logsumexp.type, r.l);
    store_loss_of_row(job, row, loss);
}

/* What is computed where no factor of the fast arithmetic's fits: calls, so that nothing of it takes registers from the rest. */
extern __device__ void softmax_loss_slow_row(const softmax_job &job, int64_t row, loss_parts *parts); /* loss_slow_row.cu, by one warp */

/* results.cuh's factor_of. */
static __device__ __forceinline__ block_factor<float> factor_of_loss(const loss_answer &a, const loss_note &note) {
    int exponent = note.kb - SOFTMAX_BIAS - (int)a.total.k + 64;
    bool is_far = note.kb - (int)a.total.k < -140;
    block_factor<float> f;
    f.way = f.ZERO;
    f.hi = f.lo = 0.0f;
    f.threshold = 0x1p-62f;
    f.cut = f.most = (float)(a.most * 0x1p64);
    if (note.maximum == -INFINITY || exponent < -195) return f;
    f.way = is_far ? f.FAR : f.USUAL;
    if (is_far) exponent += 100;
    double hi = scale_by_power(a.factor.hi, exponent), lo = scale_by_power(a.factor.lo, exponent);
    f.hi = (float)hi;
    f.lo = (float)((hi - (double)f.hi) + lo);
    if (note.maximum == a.maximum) f.cut = fmaf(note.top, f.hi, note.top * f.lo);
    return f;
}

/* v becomes the gradient: of a positive factor up to 1, whose results are flushed as they are. */
template <int N> static __device__ __forceinline__ void usual_gradient(const block_factor<float> &f, float *v) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float b = fmaf(v[i], f.hi, v[i] * f.lo);
        v[i] = shrink_and_flush(b >= f.cut ? f.most : b);
    }
}

/* Of any other factor; where it enlarges, a result of 0 is looked at once more: x is the score's own place. */
static __device__ __forceinline__ float other_result(const loss_answer &a, const block_factor<float> &f, float v, const char *x, element type) {
    const float y = signed_result(f, v, a.size > 1.0 ? (float)(a.size * 0x1p-126) : 0x1p-126f);
    if (y != 0.0f || a.size <= 1.0) return y;
    const float b = (float)small_gradient((double)a.maximum, a.total, ARITHMETIC_32, load_element<float>(x, type), a.gradient_factor);
    return fabsf(b) >= 0x1p-126f ? b : 0.0f;
}

/* Element by element: the terms are made again, for the registers that hold them are needed. */
template <int TYPE, int VECTORS>
static __device__ __noinline__ void other_gradient(const loss_answer &a, const loss_note &note, const char *x, char *out, int64_t columns, int64_t first) {
    const block_factor<float> f = factor_of_loss(a, note);
    const float kb = (float)note.kb, magic = TERM32_MAGIC + SOFTMAX_BIAS - kb, floor_score = term32_floor(kb);
    const int per = packed<TYPE>::per, bytes = packed<TYPE>::bytes;
#pragma unroll 1
    for (int i = 0; i < VECTORS * per; i++) {
        const int64_t column = column_of_vector<TYPE>(first, i / per, (int)(threadIdx.x & 31), 32) + i % per;
        uint32_t unused = 0;
        if (column >= columns) continue;
        const float v = term_with_digits(fmaxf(logit_at<TYPE>(x, column), floor_score), magic, unused, unused);
        store_result(out + column * bytes, (element)TYPE, other_result(a, f, v, x + column * bytes, (element)TYPE));
    }
}

template <int TYPE, int VECTORS>
static __device__ __forceinline__ void store_block(char *row, const row_shape &shape, int64_t first, const float *v) {
    const int per = packed<TYPE>::per;
#pragma unroll
    for (int i = 0; i < VECTORS; i++)
        store_vector<TYPE>(row, shape, false, column_of_vector<TYPE>(first, i, (int)(threadIdx.x & 31), 32), v + i * per);
}

/* ---- The kernel --------------------------------------------------------------------------------------------------------------------------- */

/* The gradient of this warp's block, whose terms are v. */
template <int TYPE, int VECTORS>
static __device__ __forceinline__ void write_gradient(const loss_answer &answer, const loss_note &note, const char *x, char *out, const row_shape &shape,
                                                      int64_t first, float *v) {
    const int per = packed<TYPE>::per, N = VECTORS * per;
    if (answer.way == answer.RESULTS && answer.factor.hi > 0.0 && answer.size <= 1.0) {
        const block_factor<float> f = factor_of_loss(answer, note);
        if (f.way == f.USUAL) {
            usual_gradient<N>(f, v);
            store_block<TYPE, VECTORS>(out, shape, first, v);
            return;
        }
    }
    if (answer.way == answer.NANS) {
        for (int i = 0; i < VECTORS; i++) store_nan_vector<TYPE>(out, shape, false, column_of_vector<TYPE>(first, i, (int)(threadIdx.x & 31), 32));
    } else if (answer.way == answer.ZEROS || note.maximum == -INFINITY) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = 0.0f;
        store_block<TYPE, VECTORS>(out, shape, first, v);
    } else {
        other_gradient<TYPE, VECTORS>(answer, note, x, out, shape.columns, first);
    }
}

/* Every thread block of the row has every note. */
static __device__ __forceinline__ void share_note(loss_note *notes, const loss_note *mine, unsigned block, unsigned cluster) {
    const int lane = (int)(threadIdx.x & 31);
    if (cluster == 1) {
        if (mine && lane == 0) notes[block] = *mine;
        __syncthreads();
        return;
    }
    cluster_wait(); /* every block of the cluster runs: its shared memory may be written */
    if (mine && lane < (int)cluster) address_in_block(notes, (unsigned)lane)[block] = *mine;
    cluster_arrive();
    cluster_wait();
}

/* A thread block's last warp is its clerk: it holds no scores, and does what is done once per row. The others never call a function while they
 * hold theirs, for what a call may overwrite would lie in memory. */
template <int TYPE> static __device__ __forceinline__ void loss_rows(const softmax_job &job, const row_shape &shape) {
    const int per = packed<TYPE>::per, N = 32, VECTORS = N / per;
    __shared__ loss_answer answer;
    __shared__ loss_parts any_parts;
    __shared__ row_work work;
    const int warp = (int)(threadIdx.x >> 5), lane = (int)(threadIdx.x & 31), workers = (int)(blockDim.x >> 5) - 1;
    const unsigned rank = cluster_rank(), cluster = cluster_blocks(), block = rank * (unsigned)workers + (unsigned)warp;
    const int64_t row = cluster_number(), first = (int64_t)block * SOFTMAX_BLOCK_COLUMNS;
    const char *x = row_of(job, job.x, row);
    char *out = row_of(job, job.out, row);
    loss_note *notes = (loss_note *)(void *)shared_bytes();
    if (cluster > 1) cluster_arrive_relaxed();
    if (warp == workers) {
        int64_t target = load_index(row_of(job, job.targets, row), job.targets.type);
        prepare_loss(work, job, row, target >= 0 && target < job.columns ? logit_at<TYPE>(x, target) : 0.0f);
        share_note(notes, NULL, 0, cluster);
        answer_row(work, answer, job, notes, (int)cluster * workers);
        __syncthreads();
        finish_loss(work, answer, job, row, rank == 0 && lane == 0);
        if (answer.way == answer.BY_ANY && rank == 0) softmax_loss_slow_row(job, row, &any_parts);
        if (!out || answer.way != answer.RESULTS) return;
        __syncthreads();
        return;
    }
    const uint32_t nothing = TYPE == ELEMENT_FLOAT32 ? 0xff800000u : TYPE == ELEMENT_BFLOAT16 ? 0xff80ff80u : 0xfc00fc00u;
    piece<TYPE, VECTORS> p;
    float v[N];
    loss_note note;
    fetch(p, x, shape, first, lane, 32, nothing);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = p.get(i);
    note = sum_scores<N>(v);
    share_note(notes, &note, block, cluster);
    __syncthreads();
    if (!out || answer.way == answer.BY_ANY) return;
    write_gradient<TYPE, VECTORS>(answer, note, x, out, shape, first, v);
    if (answer.way != answer.RESULTS) return;
    __syncthreads();
    /* the target's own, by the lane that wrote there */
    const int64_t at = work.r.target - first;
    if (at >= 0 && at < SOFTMAX_BLOCK_COLUMNS && (int)(at / per % 32) == lane)
        store_real(out + work.r.target * packed<TYPE>::bytes, job.out.type, answer.target);
}

/* FEW: up to 8 workers and a clerk, with 64 registers each; else up to 16. */
template <int TYPE, bool FEW>
static __global__ void __launch_bounds__(FEW ? 320 : 544, FEW ? 3 : 2) loss_row_kernel(const __grid_constant__ softmax_job job, row_shape shape) {
    loss_rows<TYPE>(job, shape);
}

template <int TYPE> static cudaError_t launch_loss_rows(const softmax_job *job, const cuda_shape *shape) {
    const row_shape rows = {job->columns, shape->vectors != 0};
    const size_t shared = sizeof(loss_note) * (size_t)(shape->warps * shape->cluster);
    const launch_shape l = launch_of(job->rows * shape->cluster, 32 * (shape->warps + 1), shape->cluster, shared, (cudaStream_t)job->stream);
    if (job->rows == 0) return cudaSuccess;
    if (shape->warps <= 8) return launch(l, loss_row_kernel<TYPE, true>, *job, rows);
    return launch(l, loss_row_kernel<TYPE, false>, *job, rows);
}

#endif
