/* Cross-entropy of contiguous rows in registers, logits read once and the gradient written once: a warp a block of columns, a thread block up to 32
 * of them, a cluster a row; a thread block takes one row after another, the next ones' logits already on their way to shared memory.
 * It is softmax whose results are multiplied by the gradient's factor; what the target takes is computed for up to 32 rows at once (loss_cases.cuh).
 * Rows whose scores or factors are out of the fast arithmetic's range are left to cross_entropy_any.cuh. */
#ifndef SOFTMAX_CUDA_LOSS_ROWS_CUH
#define SOFTMAX_CUDA_LOSS_ROWS_CUH

#include "gradient.h"
#include "launch.cuh"
#include "loss_cases.cuh"
#include "row_stream.cuh"

#define LOSS_BLOCKS 32 /* of columns, in a thread block */
#define LANE_SCORES (SOFTMAX_BLOCK_COLUMNS / 32)
#define PLANNED_ROWS 32

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

/* What warps tell each other. */
typedef struct loss_board {
    block_sums sums[LOSS_BLOCKS];
    float4 factors[LOSS_BLOCKS]; /* hi, lo, cut, most */
    loss_answer answer;
    int ordinary; /* factors are all that is needed */
    int way;      /* ROW_... */
    part_exchange<row_part> exchange;
    uint64_t full[MOST_STAGES];
    loss_case cases[PLANNED_ROWS];
    loss_parts any_parts;
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

/* From the whole row's sum what all warps need, onto the board: by every lane of warp 0, a lane for each block of columns. */
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
    if (present) board.factors[lane] = make_float4(f.hi, f.lo, f.cut, f.most);
    if (lane == 0) board.ordinary = usual && board.way == ROW_RESULTS && a.factor.hi > 0.0 && a.size <= 1.0;
}

/* By warp 0, once every warp's sums are on the board. Z_LOSS: a call, which costs the scores' registers a way through memory. */
template <bool Z_LOSS>
static __device__ __forceinline__ void read_out(loss_board &board, loss_case &c, const softmax_job &job, int64_t row, int warps, unsigned rank, unsigned cluster,
                                                uint32_t turn) {
    const int lane = (int)(threadIdx.x & 31);
    const bool present = lane < warps;
    const block_note note = note_of<ARITHMETIC_32>(board.sums[present ? lane : 0]);
    row_part part = merge_all_notes(note, present);
    if (cluster > 1) part = merge_parts<false>(exchange_parts(board.exchange, part, rank, cluster, turn), (int)cluster);
    answer_row<Z_LOSS>(board, c, job, row, part, note, present);
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

/* ---- The kernel --------------------------------------------------------------------------------------------------------------------------- */

extern __device__ void softmax_loss_slow_row(const softmax_job &job, int64_t row, loss_parts *parts); /* loss_slow_row.cu, by one warp */

/* The two largest of a lane's scores; NaN sticks to the first. */
template <int TYPE, int VECTORS> static __device__ __forceinline__ void two_largest(const piece<TYPE, VECTORS> &p, float &first, float &second) {
    if (TYPE == ELEMENT_FLOAT32) {
        first = second = -INFINITY;
#pragma unroll
        for (int i = 0; i < p.elements; i++) {
            second = fmaxf(second, fminf(first, p.get(i)));
            first = max_or_nan(first, p.get(i));
        }
        return;
    }
    uint32_t a = p.word[0], b = TYPE == ELEMENT_BFLOAT16 ? 0xff80ff80u : 0xfc00fc00u;
    float a2[2], b2[2];
#pragma unroll
    for (int i = 1; i < VECTORS * 4; i++) {
        if (TYPE == ELEMENT_BFLOAT16) {
            b = larger_bfloat16(b, smaller_bfloat16(a, p.word[i]));
            a = larger_or_nan_bfloat16(a, p.word[i]);
        } else {
            b = larger_float16(b, smaller_float16(a, p.word[i]));
            a = larger_or_nan_float16(a, p.word[i]);
        }
    }
    packed<TYPE>::unpack(a, a2);
    packed<TYPE>::unpack(b, b2);
    first = max_or_nan(a2[0], a2[1]);
    second = fmaxf(fminf(a2[0], a2[1]), fmaxf(b2[0], b2[1]));
}

/* What a kernel's rows are like: ANY any layout and z_loss; else contiguous rows of whole vectors, in one dimension and without z_loss. RECORDS: all
 * with one factor; what is done once per row is left to the sum over rows. */
struct loss_any { static const bool any = true, stream = false, records = false; };
struct loss_planned { static const bool any = false, stream = true, records = false; };
struct loss_direct { static const bool any = false, stream = false, records = true; };

/* By one warp: the row's case where all rows have one factor. Its loads are waited for no longer than those of the row. */
template <int TYPE> static __device__ __forceinline__ void plan_recorded(loss_case &c, const softmax_job &job, int64_t row) {
    const int64_t target = load_index(flat_row(job.targets, row), job.targets.type);
    const bool ignored = target == job.ignore_index, bad = !ignored && (target < 0 || target >= job.columns);
    const float z = ignored || bad ? 0.0f : load_element<float>(flat_row(job.x, row) + target * packed<TYPE>::bytes, (element)TYPE);
    const pair factor = uniform_factor(job);
    if ((threadIdx.x & 31) != 0) return;
    c.factor = factor;
    c.z = z;
    c.ignored = ignored;
    c.bad = bad;
    c.is_plain = fabs(factor.hi) < 0x1p40;
}

/* By one thread. A row that the slow kernel does has a record of its own. */
static __device__ __forceinline__ void store_record(const softmax_job &job, const loss_case &c, int64_t row) {
    const loss_record record = {c.f, c.rest, c.z, c.maximum, c.k, c.way};
    if (c.way != ROW_BY_ANY) *record_of(job, row) = record;
}

template <int TYPE, typename MODE> static __device__ __forceinline__ void loss_rows(const softmax_job &job, const stream_shape &shape) {
    const int VECTORS = LANE_SCORES / packed<TYPE>::per, bytes = packed<TYPE>::bytes;
    const uint32_t nothing = TYPE == ELEMENT_FLOAT32 ? 0xff800000u : TYPE == ELEMENT_BFLOAT16 ? 0xff80ff80u : 0xfc00fc00u;
    const bool STREAM = MODE::stream, ANY = MODE::any, RECORDS = MODE::records;
    loss_board &board = the_board<loss_board>();
    const int warp = (int)(threadIdx.x >> 5), warps = (int)(blockDim.x >> 5);
    const unsigned rank = cluster_rank(), cluster = cluster_blocks();
    const int part_first = (int)rank * warps * SOFTMAX_BLOCK_COLUMNS, first = part_first + warp * SOFTMAX_BLOCK_COLUMNS;
    const int part_last = min((int)job.columns, part_first + warps * SOFTMAX_BLOCK_COLUMNS);
    const row_shape its = {job.columns, !ANY || shape.row.vectors};
    row_ring<1, loss_board> ring(board.full, shape, part_last - part_first, bytes);
    int row, end, step;
    uint32_t turn = 0;
    rows_of_block<STREAM>(shape, (int)job.rows, cluster, row, end, step);
    if (threadIdx.x == 0) {
        for (int s = 0; STREAM && s < shape.stages; s++) gate_begin(&board.full[s]);
        if (cluster > 1) begin_parts(board.exchange, cluster);
        gates_begun();
    }
    if (cluster > 1) {
        cluster_arrive();
        cluster_wait();
    } else if (STREAM) {
        __syncthreads();
    }
    auto ask = [&](int stage, int its_row) {
        if (its_row >= end) return;
        ring.expect(stage);
        ring.fill(stage, 0, flat_row(job.x, its_row) + part_first * bytes);
    };
    if (STREAM && threadIdx.x == 0)
        for (int s = 0; s < shape.stages; s++) ask(s, row + s * step);
    for (; row < end; row += step, turn++) {
        const unsigned planned = RECORDS ? 0 : turn % PLANNED_ROWS;
        /* each warp in turn, for a processor's four parts to share */
        const int reader = (int)((turn + blockIdx.x) % (unsigned)warps), planner = reader + 1 == warps ? 0 : reader + 1;
        float v[LANE_SCORES], m1, m2;
        if (!RECORDS && planned == 0) {
            __syncthreads(); /* the rows before are written */
            if (warp == 0) {
                if (turn != 0) finish_rows(board.cases, job, row - PLANNED_ROWS * step, end, step, part_first, part_last);
                plan_rows(board.cases, job, row, end, step); /* read from the next barrier on */
            }
        }
        {
            piece<TYPE, VECTORS> p;
            if (STREAM) {
                ring.wait();
                take(p, ring.current(0) + warp * SOFTMAX_BLOCK_COLUMNS * bytes, part_last - first, nothing);
            } else {
                fetch(p, ANY ? row_of(job, job.x, row) : flat_row(job.x, row), its, first, (int)(threadIdx.x & 31), 32, nothing);
            }
            if (RECORDS && warp == planner) plan_recorded<TYPE>(board.cases[0], job, row);
            two_largest(p, m1, m2);
#pragma unroll
            for (int j = 0; j < LANE_SCORES; j++) v[j] = p.get(j);
        }
        const block_sums sums = sum_block<ARITHMETIC_32, LANE_SCORES, 0, false, 1>(m1, m2, v, SOFTMAX_BLOCK_COLUMNS);
        if ((threadIdx.x & 31) == 0) board.sums[warp] = sums;
        __syncthreads();
        if (STREAM && threadIdx.x == 0) ask(ring.stage, row + shape.stages * step);
        if (STREAM) ring.next();
        if (warp == reader) {
            read_out<ANY>(board, board.cases[planned], job, row, warps, rank, cluster, turn);
            if (RECORDS && rank == 0 && (threadIdx.x & 31) == 0) store_record(job, board.cases[0], row);
        }
        __syncthreads();
        if (job.out.data)
            write_gradient<TYPE, VECTORS>(board, ANY ? row_of(job, job.x, row) : flat_row(job.x, row), ANY ? row_of(job, job.out, row) : flat_row(job.out, row), its,
                                          first, v);
        if (board.way == ROW_BY_ANY && rank == 0 && warp == 0) softmax_loss_slow_row(job, row, &board.any_parts);
    }
    if (RECORDS || turn == 0) return;
    __syncthreads();
    if (warp == 0) finish_rows(board.cases, job, row - (int)((turn - 1) % PLANNED_ROWS + 1) * step, end, step, part_first, part_last);
}

#ifndef LOSS_REGISTERS
#define LOSS_REGISTERS 64
#endif
template <int TYPE, typename MODE>
static __global__ void __maxnreg__(LOSS_REGISTERS) loss_row_kernel(const __grid_constant__ softmax_job job, stream_shape shape) {
    loss_rows<TYPE, MODE>(job, shape);
}

template <int TYPE> static cudaError_t launch_loss_rows(const softmax_job *job, const cuda_shape *shape) {
    const int slice = shape->warps * SOFTMAX_BLOCK_COLUMNS * packed<TYPE>::bytes, turns = shape->turns > 0 ? shape->turns : 1;
    const stream_shape stream = {{job->columns, shape->vectors != 0}, shape->stages, slice, turns};
    launch_shape l = launch_of((job->rows + turns - 1) / turns * shape->cluster, 32 * shape->warps, shape->cluster, (size_t)board_bytes<loss_board>(),
                               (cudaStream_t)job->stream);
    if (job->rows == 0) return cudaSuccess;
    if (shape->stages == 0 && shape->records) return launch(l, loss_row_kernel<TYPE, loss_direct>, *job, stream);
    if (shape->stages == 0) return launch(l, loss_row_kernel<TYPE, loss_any>, *job, stream);
    l.shared += (size_t)(shape->stages * slice);
    return launch_resident(l, shape->multiprocessors, loss_row_kernel<TYPE, loss_planned>, *job, stream);
}

#endif
