/* Rows in registers whose scores come through options, strides or types that rows.cuh has no accesses for: element by element, each with its low
 * part. A warp holds a block of columns as there; results float32 or of 16 bits. */
#ifndef SOFTMAX_CUDA_SCORE_ROWS_CUH
#define SOFTMAX_CUDA_SCORE_ROWS_CUH

#include "rows.cuh"
#include "scores.cuh"

static __device__ __forceinline__ float as_float(float x) { return x; }
static __device__ __forceinline__ float as_float(float16 x) { return widen_float16(x.bits); }
static __device__ __forceinline__ float as_float(bfloat16 x) { return widen_bfloat16(x.bits); }

/* A lane's columns lane, lane + 32, ... from `first` on, those before `end`. No branches: all loads are under way before the first is used. */
template <typename E> static __device__ __forceinline__ void fetch_as(const char *row, int64_t stride, int first, int end, float otherwise, float *to) {
    const int own = first + (int)(threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) to[i] = own + i * 32 < end ? as_float(*(const E *)(row + (own + i * 32) * stride)) : otherwise;
}

static __device__ __forceinline__ void fetch(const char *row, int64_t stride, element type, int first, int end, float otherwise, float *to) {
    if (type == ELEMENT_FLOAT32)
        fetch_as<float>(row, stride, first, end, otherwise, to);
    else if (type == ELEMENT_FLOAT16)
        fetch_as<float16>(row, stride, first, end, otherwise, to);
    else
        fetch_as<bfloat16>(row, stride, first, end, otherwise, to);
}

/* Which of a lane's columns take part, a bit each. */
static __device__ __forceinline__ uint32_t taken_columns(const char *mask, int64_t stride, int first, int end) {
    const int own = first + (int)(threadIdx.x & 31);
    uint32_t taken = 0;
    uint8_t m[LANE_COLUMNS];
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) m[i] = own + i * 32 < end ? (mask ? *(const uint8_t *)(mask + (own + i * 32) * stride) : 1) : 0;
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) taken |= m[i] ? 1u << i : 0u;
    return taken;
}

/* The scores of a lane's columns; -inf beyond the row and where masked out. True if some are doubtful. */
static __device__ __forceinline__ bool load_scores(const softmax_job &job, const row_source<float> &s, int first, float *z, float *low) {
    bool doubtful = false;
    const int end = (int)(s.limit < job.columns ? s.limit : job.columns);
    const uint32_t taken = taken_columns(s.mask, job.mask.column_stride, first, end);
    fetch(s.x, job.x.column_stride, job.x.type, first, end, -INFINITY, z);
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++) low[i] = 0.0f;
    if (job.softcap != 0.0) {
#pragma unroll
        for (int i = 0; i < LANE_COLUMNS; i++)
            if (taken >> i & 1) z[i] = softmax_cuda_softcap(z[i], job.softcap);
    }
    if (s.has_low) {
        if (s.bias) fetch(s.bias, job.bias.column_stride, job.bias.type, first, end, 0.0f, low);
#pragma unroll
        for (int i = 0; i < LANE_COLUMNS; i++) {
            const score<float> scaled = scaled_score(z[i], low[i], s, job.scale);
            doubtful |= scaled.doubtful && (taken >> i & 1);
            z[i] = scaled.z;
            low[i] = scaled.low;
        }
    }
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        if (!(taken >> i & 1)) {
            z[i] = -INFINITY;
            low[i] = 0.0f;
        }
    return doubtful;
}

static __device__ __forceinline__ void store_cell(float *to, uint32_t w) { *to = bits_float(w); }
static __device__ __forceinline__ void store_cell(float16 *to, uint32_t w) { to->bits = (uint16_t)w; }
static __device__ __forceinline__ void store_cell(bfloat16 *to, uint32_t w) { to->bits = (uint16_t)w; }

/* sum_block for scores with low parts. */
template <arithmetic KIND, bool KEEP_SCORES> static __device__ __forceinline__ block_sums sum_scores(float *z, const float *low) {
    const int N = LANE_COLUMNS;
    block_sums s;
    float first = -INFINITY, second = -INFINITY, top_low = -INFINITY;
#pragma unroll
    for (int i = 0; i < N; i++) take_in(z[i], first, second);
    uint32_t key = order_of(first + 0.0f), top = __reduce_max_sync(EVERY_LANE, key);
    const uint32_t owners = __ballot_sync(EVERY_LANE, key == top);
    if ((int)(threadIdx.x & 31) == __ffs(owners) - 1) key = order_of(second);
    second = of_order(__reduce_max_sync(EVERY_LANE, key));
    s.maximum = of_order(top) + 0.0f;
    const float maximum = s.maximum == -INFINITY ? 0.0f : s.maximum;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (z[i] == s.maximum) top_low = fmaxf(top_low, low[i]);
    s.maximum_low = of_order(__reduce_max_sync(EVERY_LANE, order_of(top_low))) + 0.0f;
    s.kb = term32_exponent(fmaxf(second, maximum - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
    uint32_t high_sum = 0, low_sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        term32 t = term32_fast(fmaxf(z[i], floor_score), z[i] >= floor_score ? low[i] : 0.0f, magic, KIND);
        high_sum += t.high;
        low_sum += t.low;
        if (!KEEP_SCORES) z[i] = t.v;
    }
    s.high = __reduce_add_sync(EVERY_LANE, high_sum);
    s.low = __reduce_add_sync(EVERY_LANE, low_sum);
    return s;
}

/* results.cuh's log_result_of. */
static __device__ __forceinline__ float log_of_score(const row_answer &r, float z, float low, bool has_low, float least) {
    float d = z - r.maximum, y;
    if (has_low) {
        float t = d - z, e = (z - (d - t)) + (-r.maximum - t);
        if (d == -INFINITY) return d;
        y = (d + r.minus_log) + (((e + low) - r.maximum_low) + r.minus_log_low);
    } else {
        y = d + r.minus_log;
    }
    return fabsf(y) >= least ? y : 0.0f;
}

/* T: of the results, which says the arithmetic. */
template <typename T, bool LOG, bool CLUSTER> static __device__ __forceinline__ void rows_of_scores(const softmax_job &job, int cluster) {
    const arithmetic KIND = cell<T>::kind;
    block_board &board = row_board();
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    int rank;
    int64_t row;
    place_of<CLUSTER>(rank, row);
    const int first = (rank * (int)(blockDim.x >> 5) + warp) * SOFTMAX_BLOCK_COLUMNS;
    const row_source<float> source = source_of<float>(job, row);
    float z[LANE_COLUMNS], low[LANE_COLUMNS];
    if (CLUSTER) begin_exchange(&board.barrier, cluster);
    const bool doubtful = load_scores(job, source, first, z, low);
    block_sums sums = sum_scores<KIND, LOG>(z, low);
    if (__any_sync(EVERY_LANE, doubtful) && fabsf(sums.maximum) < INFINITY) sums.maximum = FLT_MAX; /* as scores that are far out */
    if (lane == 0) board.sums[warp] = sums;
    __syncthreads();
    if (CLUSTER) wait_for_cluster();
    if (warp == 0) read_out<KIND, LOG, true, CLUSTER>(board, (int)(blockDim.x >> 5), rank, cluster, false);
    __syncthreads();
    const row_answer answer = board.answer;
    if (answer.slow) {
        if (rank == 0 && warp == 0) softmax_cuda_slow_scores(job, row);
        return;
    }
    char *out = row_of(job, job.out, row);
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (rank == 0 && threadIdx.x == 0) store_result(out, job.out.type, answer.logsumexp);
        return;
    }
    const int own = first + lane;
    if (is_constant(answer)) {
        const uint32_t value = constant_of<T>(answer, LOG, job.empty_zero);
#pragma unroll 4
        for (int i = 0; i < LANE_COLUMNS; i++)
            if (own + i * 32 < (int)job.columns) store_cell((T *)(out + (own + i * 32) * job.out.column_stride), value);
        return;
    }
    if (LOG) {
#pragma unroll
        for (int i = 0; i < LANE_COLUMNS; i++) z[i] = log_of_score(answer, z[i], low[i], source.has_low, cell<T>::least());
    } else {
        const block_note note = note_of<KIND>(sums);
        register_factor f = factor_of<KIND>(answer, note);
        if (f.is_plain) { /* with options neighbours may be so near that only the cut keeps them below the largest result */
            f.is_plain = false;
            f.hi = bits_float(float_bits(f.hi) + (64u << 23));
            if (note.maximum == answer.maximum && note.maximum_low == answer.maximum_low) f.cut = note.top * f.hi;
        }
        scale_block<KIND, LANE_COLUMNS>(f, z);
    }
#pragma unroll
    for (int i = 0; i < LANE_COLUMNS; i++)
        if (own + i * 32 < (int)job.columns) store_cell((T *)(out + (own + i * 32) * job.out.column_stride), cell<T>::close_one(z[i]));
}

#endif
