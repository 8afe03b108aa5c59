/* How rows of a cross-entropy whose scores are in registers or in shared memory get their gradients: what a row's sums become, by one warp for all of
 * a thread block's, and the gradient from that and the terms. */
#ifndef SOFTMAX_CUDA_LOSS_ANSWER_CUH
#define SOFTMAX_CUDA_LOSS_ANSWER_CUH

#include "loss_cases.cuh"
#include "row_stream.cuh"

#define LOSS_BLOCKS 16 /* of columns, in a thread block */
#define LANE_SCORES (SOFTMAX_BLOCK_COLUMNS / 32)

extern __device__ void softmax_loss_slow_row(const softmax_job &job, int64_t row, loss_part *part); /* loss_slow_row.cu, by one warp */

/* ---- A row's answer ----------------------------------------------------------------------------------------------------------------------- */

/* What every warp needs of its row's answer, where a factor of its own is not enough. */
typedef struct loss_answer {
    pair factor; /* of 2^-k e^z: the inverse of the sum, times the gradient's */
    double most; /* the largest term's result */
    double size; /* of the gradient's factor alone */
    pair gradient_factor;
    row_total total;
    float maximum;
} loss_answer;

/* What warps tell each other of a row. */
typedef struct loss_board {
    block_sums sums[LOSS_BLOCKS];
    float4 factors[LOSS_BLOCKS]; /* hi, lo, cut, most; cut infinite: no result of the block comes near the largest */
    loss_answer answer;
    int ordinary; /* factors are all that is needed */
    int way;      /* ROW_... */
} loss_board;

/* results.cuh's factor_of. */
static __device__ __forceinline__ block_factor<float> factor_of_loss(const loss_answer &a, const block_note &note) {
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
    const double move = bits_double((uint64_t)(1023 + exponent) << 52), hi = a.factor.hi * move, lo = a.factor.lo * move;
    f.hi = (float)hi;
    f.lo = (float)((hi - (double)f.hi) + lo);
    if (note.maximum == a.maximum) f.cut = fmaf(note.top, f.hi, note.top * f.lo);
    return f;
}

/* Notes of up to 32 blocks, a lane each, as one part: row_merge.cuh's merge_notes where lanes are too few for it. The same in every lane. */
static __device__ __forceinline__ row_part merge_all_notes(const block_note &n, bool present) {
    const int lane = (int)(threadIdx.x & 31);
    row_part p;
    double f = 0.0;
    int k = 0;
    const uint32_t key = present ? order_of(n.maximum) : 0u, top_key = lanes_max(key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top_key)) - 1;
    p.slow = __any_sync(EVERY_LANE, present && is_slow(n));
    p.maximum = of_order(top_key);
    p.maximum_low = 0.0f;
    p.unused = 0;
    if (present && fabsf(n.maximum) < TERM32_LIMIT) f = top_power<ARITHMETIC_32>(n, k);
    p.k = __shfl_sync(EVERY_LANE, k, owner);
    p.f = __shfl_sync(EVERY_LANE, f, owner);
    const uint64_t digits = present ? n.digits : 0, tops = lane == owner || f == 0.0 ? 0 : power_magnitude(f);
    const int of_digits = n.kb - TERM32_LOW_UNIT, of_tops = k - 52;
    const int top = max(digits ? (of_digits + 62) >> 5 : NO_TOP, tops ? (of_tops + 62) >> 5 : NO_TOP);
    p.top = __reduce_max_sync(EVERY_LANE, top);
    uint32_t a[ACCUMULATOR_FIRST_LIMBS], b[ACCUMULATOR_FIRST_LIMBS];
    int64_t mine[ACCUMULATOR_FIRST_LIMBS];
    first_words(digits, of_digits, p.top, a);
    first_words(tops, of_tops, p.top, b);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_FIRST_LIMBS; i++) mine[i] = (int64_t)a[i] + b[i];
    add_limbs(mine, p.limb);
    return p;
}

/* a b of a number and a pair, as pair_multiply's where both are finite. */
static __device__ __forceinline__ pair times_number(double a, pair b) {
    const double hi = a * b.hi;
    return fast_two_sum(hi, fma(a, b.hi, -hi) + a * b.lo);
}

/* Which way a row's results are written. */
static __device__ __forceinline__ int way_of(const loss_case &c, const softmax_job &job, const row_part &part, bool is_plain) {
    if (part.slow) return ROW_BY_ANY;
    if (c.ignored || c.bad || !(fabsf(part.maximum) < INFINITY))
        return c.ignored || (!c.bad && part.maximum == -INFINITY && job.empty_zero) ? ROW_ZEROS : ROW_NANS;
    return job.out.data && !is_plain ? ROW_BY_ANY : ROW_RESULTS;
}

/* From the whole row's sum what all warps need, onto the board: by every lane of one warp, a lane for each block of columns. */
template <bool Z_LOSS>
static __device__ __forceinline__ void answer_row(loss_board &board, loss_case &c, const softmax_job &job, int64_t row, const row_part &part,
                                                  const block_note &note, bool present) {
    const int lane = (int)(threadIdx.x & 31);
    loss_answer &a = board.answer;
    const double rest = fabsf(part.maximum) < INFINITY ? read_rest(part) : 0.0;
    bool is_plain = c.is_plain;
    pair factor = c.factor;
    if (lane == 0) {
        c.maximum = a.maximum = part.maximum;
        c.k = part.k;
        a.total.k = part.k;
        c.f = a.total.e_max.hi = part.f;
        c.rest = a.total.rest.hi = rest;
        a.total.e_max.lo = a.total.rest.lo = 0.0;
    }
    if (Z_LOSS && job.z_loss != 0.0) {
        __syncwarp();
        factor = factor_with_z_loss(job, row, c, is_plain);
    }
    const double inverse = 1.0 / (part.f + rest);
    const pair e_max = {part.f, 0.0};
    const double most = pair_multiply(times_number(inverse, e_max), factor).hi;
    if (lane == 0) {
        const int way = way_of(c, job, part, is_plain);
        board.way = way;
        c.way = way;
        a.gradient_factor = factor;
        a.size = fabs(factor.hi);
        a.factor = times_number(inverse, factor);
        a.most = most;
    }
    __syncwarp();
    const block_factor<float> f = factor_of_loss(a, note);
    const bool usual = __all_sync(EVERY_LANE, !present || f.way == f.USUAL || note.maximum == -INFINITY); /* where nothing is, 0 times 0 */
    /* The block's largest result is not far above what its maximum's term says. */
    const bool reaches = !(fmaf(note.top, f.hi, note.top * f.lo) < f.most * 0.999f);
    if (present) board.factors[lane] = make_float4(f.hi, f.lo, reaches ? f.cut : INFINITY, f.most);
    if (lane == 0) board.ordinary = usual && board.way == ROW_RESULTS && a.factor.hi > 0.0 && a.size <= 1.0;
}

/* By one warp, once every warp's sums are on the board. Z_LOSS: a call, which costs the scores' registers a way through memory. */
template <bool Z_LOSS>
static __device__ __forceinline__ void read_out(loss_board &board, part_exchange<row_part> &exchange, loss_case &c, const softmax_job &job, int64_t row,
                                                int warps, unsigned rank, unsigned cluster, uint32_t turn) {
    const int lane = (int)(threadIdx.x & 31);
    const bool present = lane < warps;
    const block_note note = note_of<ARITHMETIC_32>(board.sums[present ? lane : 0]);
    row_part part = merge_all_notes(note, present);
    if (cluster > 1) part = merge_parts<false>(exchange_parts(exchange, part, rank, cluster, turn), (int)cluster);
    answer_row<Z_LOSS>(board, c, job, row, part, note, present);
}

/* A row's target and its score, where all rows have one factor; loads alone, to be waited for later. */
typedef struct recorded_target {
    int64_t target;
    float z;
    bool ignored, bad;
} recorded_target;

static __device__ __forceinline__ int64_t target_of(const softmax_job &job, int64_t row) { return load_index(flat_row(job.targets, row), job.targets.type); }

template <int TYPE> static __device__ __forceinline__ recorded_target score_of_target(const softmax_job &job, int64_t row, int64_t target) {
    recorded_target t = {target, 0.0f, target == job.ignore_index, false};
    t.bad = !t.ignored && (target < 0 || target >= job.columns);
    if (!t.ignored && !t.bad) t.z = load_element<float>(flat_row(job.x, row) + target * packed<TYPE>::bytes, (element)TYPE);
    return t;
}

/* By one warp: the row's case. */
static __device__ __forceinline__ void plan_recorded(loss_case &c, const recorded_target &t, const pair &factor) {
    if ((threadIdx.x & 31) != 0) return;
    c.factor = factor;
    c.z = t.z;
    c.ignored = t.ignored;
    c.bad = t.bad;
    c.is_plain = fabs(factor.hi) < 0x1p40;
}

/* By one thread. A row that the slow kernel does has a record of its own. */
static __device__ __forceinline__ void store_record(const softmax_job &job, const loss_case &c, int64_t row) {
    const loss_record record = {c.f, c.rest, c.z, c.maximum, c.k, c.way};
    if (c.way != ROW_BY_ANY) *record_of(job, row) = record;
}

/* ---- Results ------------------------------------------------------------------------------------------------------------------------------ */

template <int TYPE, int VECTORS>
static __device__ __forceinline__ void store_block(char *row, const row_shape &shape, int first, const float *v) {
    const int per = packed<TYPE>::per, per_word = 4 / packed<TYPE>::bytes, lane = (int)(threadIdx.x & 31), left = (int)shape.columns - first - lane * per;
    if (!shape.vectors) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) store_vector<TYPE>(row, shape, false, column_of_vector<TYPE>(first, i, lane, 32), v + i * per);
        return;
    }
    uint4 *to = (uint4 *)(void *)(row + (int64_t)(first + lane * per) * packed<TYPE>::bytes);
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        uint32_t w[4];
#pragma unroll
        for (int j = 0; j < 4; j++) w[j] = packed<TYPE>::pack(v + i * per + j * per_word);
        if (left > i * 32 * per) __stcs(to + i * 32, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

/* v becomes the gradient: of a positive factor up to 1, whose results are flushed as they are. */
template <int N> static __device__ __forceinline__ void usual_gradient(const float4 &f, float *v) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        float b = fmaf(v[i], f.x, v[i] * f.y);
        v[i] = shrink_and_flush(b >= f.z ? f.w : b);
    }
}

/* Of any other factor; where it enlarges, a result of 0 is looked at once more: x is the score's own place. */
static __device__ __forceinline__ float other_result(const loss_answer &a, const block_factor<float> &f, float v, const char *x, element type) {
    const float y = signed_result(f, v, a.size > 1.0 ? (float)(a.size * 0x1p-126) : 0x1p-126f);
    if (y != 0.0f || a.size <= 1.0) return y;
    const float b = (float)small_gradient((double)a.maximum, a.total, ARITHMETIC_32, load_element<float>(x, type), a.gradient_factor);
    return fabsf(b) >= 0x1p-126f ? b : 0.0f;
}

/* Element by element, whatever the row is: the terms are made again, for the registers that hold them are needed. */
template <int TYPE>
static __device__ __noinline__ void other_gradient(const loss_board &board, const char *x, char *out, int columns, int first) {
    const loss_answer &a = board.answer;
    const block_note note = note_of<ARITHMETIC_32>(board.sums[threadIdx.x >> 5]);
    const block_factor<float> f = factor_of_loss(a, note);
    const float kb = (float)note.kb, magic = TERM32_MAGIC + SOFTMAX_BIAS - kb, floor_score = term32_floor(kb);
    const float constant = board.way == ROW_NANS ? bits_float(0x7fc00000u) : 0.0f;
    const bool is_constant = board.way != ROW_RESULTS || note.maximum == -INFINITY;
    const int bytes = packed<TYPE>::bytes, end = min(columns, first + SOFTMAX_BLOCK_COLUMNS);
    if (board.way == ROW_BY_ANY) return;
#pragma unroll 1
    for (int64_t column = first + (int)(threadIdx.x & 31); column < end; column += 32) {
        float y = constant;
        if (!is_constant) {
            const float z = load_element<float>(x + column * bytes, (element)TYPE);
            y = other_result(a, f, term32_fast(fmaxf(z, floor_score), 0.0f, magic, ARITHMETIC_32).v, x + column * bytes, (element)TYPE);
        }
        store_result(out + column * bytes, (element)TYPE, y);
    }
    __syncwarp(); /* the next row's sums are written by one lane */
}

/* The gradient of this warp's block, whose terms are v. */
template <int TYPE, int VECTORS>
static __device__ __forceinline__ void write_gradient(const loss_board &board, const char *x, char *out, const row_shape &shape, int first, float *v) {
    const int per = packed<TYPE>::per, N = VECTORS * per;
    if (board.ordinary) {
        usual_gradient<N>(board.factors[threadIdx.x >> 5], v);
        store_block<TYPE, VECTORS>(out, shape, first, v);
    } else {
        other_gradient<TYPE>(board, x, out, (int)shape.columns, first);
    }
}

#endif
