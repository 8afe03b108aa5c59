/* The backwards of softmax and log_softmax on a GPU: y and dy are read once and dx is written once, rows in registers.
 *   row_groups     several rows a warp, to 512 columns
 *   row_blocks     a warp per block of 1024 columns, several warps a thread block, several thread blocks a cluster; one row after another, the
 *                  next ones already on their way to shared memory
 *   row_any        every type, stride and width: a thread block per row, which is read twice
 * Each block's sum is two integers (exact_sum.cuh), so no kernel's order matters: one result, which is the CPU's. */
#include "backward.cuh"
#include "gradient.h"
#include "launch.cuh"
#include "operands.cuh"
#include "row_stream.cuh"

static const float largest_float = 0x1.fffffep127f;

/* ---- The digits of what a lane holds ------------------------------------------------------------------------------------------------------- */

/* log_softmax: dy where y is not -inf. */
static __device__ __forceinline__ float counted(float y, float dy) { return y >= -largest_float ? dy : 0.0f; }

/* The largest and the smallest of y, and the largest size of dy, of what a lane holds; NaN where one is. */
typedef struct extremes {
    float top, bottom, size;
} extremes;

template <int TYPE, int VECTORS>
static __device__ __forceinline__ extremes extremes_of(const piece<TYPE, VECTORS> &y, const piece<TYPE, VECTORS> &dy) {
    extremes e = {-INFINITY, INFINITY, 0.0f};
    if (TYPE == ELEMENT_FLOAT32) {
#pragma unroll
        for (int i = 0; i < y.elements; i++) {
            e.top = max_or_nan(e.top, y.get(i));
            e.bottom = fminf(e.bottom, y.get(i));
            e.size = max_or_nan(e.size, fabsf(dy.get(i)));
        }
        return e;
    }
    uint32_t top = y.word[0], bottom = y.word[0], size = dy.word[0] & 0x7fff7fffu;
    float a[2], b[2], c[2];
#pragma unroll
    for (int i = 1; i < VECTORS * 4; i++) {
        top = larger_pair_or_nan<TYPE>(top, y.word[i]);
        bottom = smaller_pair<TYPE>(bottom, y.word[i]);
        size = larger_pair_or_nan<TYPE>(size, dy.word[i] & 0x7fff7fffu);
    }
    packed<TYPE>::unpack(top, a);
    packed<TYPE>::unpack(bottom, b);
    packed<TYPE>::unpack(size, c);
    e.top = max_or_nan(a[0], a[1]);
    e.bottom = fminf(b[0], b[1]);
    e.size = max_or_nan(c[0], c[1]);
    return e;
}

/* What log_softmax's results need of the y that a lane holds. */
typedef struct row_range {
    float top, bottom;
} row_range;

/* The size of a lane's largest term, as bits that compare like it: of a product, toward zero. A NaN or infinity in y or dy shows as such.
 * missing: a column of log_softmax that does not count is among the lane's. */
template <bool LOG, int TYPE, int VECTORS>
static __device__ __forceinline__ uint32_t largest_term(const piece<TYPE, VECTORS> &y, const piece<TYPE, VECTORS> &dy, bool &missing, row_range &range) {
    float size = 0.0f;
    missing = false;
    range.top = range.bottom = 0.0f;
    if (LOG) {
        const extremes e = extremes_of(y, dy);
        missing = e.bottom < -largest_float;
        range.top = e.top;
        range.bottom = e.bottom;
        if (!(e.top <= largest_float)) return 0x7fffffffu; /* NaN, +inf */
        if (!missing || !(e.size <= largest_float)) return float_bits(e.size);
    }
#pragma unroll
    for (int i = 0; i < y.elements; i++) {
        const float a = y.get(i), b = dy.get(i);
        size = max_or_nan(size, fabsf(LOG ? counted(a, b) : multiply_toward_zero(a, b)));
    }
    return float_bits(size);
}

/* Products whose largest is out of the range where its float tells its exponent: by the doubles' exponents. */
template <int TYPE, int VECTORS>
static __device__ __forceinline__ uint32_t largest_exponent(const piece<TYPE, VECTORS> &y, const piece<TYPE, VECTORS> &dy) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < y.elements; i++) {
        uint64_t bits = double_bits(widened(dy.get(i)) * widened(y.get(i)));
        largest = max(largest, (uint32_t)(bits >> 52) & 0x7ffu);
    }
    return largest;
}

#define LEAST_PRODUCT 27u    /* exponent fields of floats: 2^-100 */
#define MOST_PRODUCT 253u    /* products toward zero stop at the largest float */
#define LEAST_OF_BFLOAT16 83u /* 2^-44: a float product of bfloat16 numbers loses something below 2^-134 alone, which both digits have as 0 */
#define LEAST_OF_FLOAT16 91u  /* 2^-36; float16's products are exact floats of any size, but a kernel without the other way is slower (docs/results) */

/* dy of columns that do not count becomes 0. */
template <int TYPE, int VECTORS> static __device__ __forceinline__ void leave_out_missing(const piece<TYPE, VECTORS> &y, piece<TYPE, VECTORS> &dy) {
    const uint32_t nothing = nothing_of<TYPE>();
#pragma unroll
    for (int i = 0; i < VECTORS * 4; i++) {
        if (packed<TYPE>::bytes == 4) {
            if (y.word[i] == nothing) dy.word[i] = 0;
        } else {
            if ((y.word[i] & 0xffffu) == (nothing & 0xffffu)) dy.word[i] &= 0xffff0000u;
            if (y.word[i] >> 16 == nothing >> 16) dy.word[i] &= 0x0000ffffu;
        }
    }
}

/* The digits of a block that a group of lanes holds; all of its lanes get them. whole: all lanes of the warp. */
template <bool LOG, bool whole, int TYPE, int VECTORS>
static __device__ __forceinline__ block_digits sum_block(piece<TYPE, VECTORS> &y, piece<TYPE, VECTORS> &dy, int lanes, row_range &range) {
    block_digits d = no_digits();
    bool missing;
    uint32_t largest = largest_term<LOG>(y, dy, missing, range);
    int e;
    bool exact_in_float = LOG;
    largest = whole ? lanes_max(largest) : group_max(largest, lanes);
    e = (int)(largest >> 23) - 127;
    if (!LOG && !__all_sync(EVERY_LANE, largest >= 0x7f800000u || (largest >> 23 >= LEAST_PRODUCT && largest >> 23 <= MOST_PRODUCT))) {
        y.unpack_again();
        dy.unpack_again();
        uint32_t field = largest_exponent(y, dy);
        field = whole ? lanes_max(field) : group_max(field, lanes);
        e = (int)field - 1023;
        if (largest < 0x7f800000u) largest = field != 0;
    } else if (!LOG && TYPE != ELEMENT_FLOAT32) {
        exact_in_float = __all_sync(EVERY_LANE, largest >> 23 >= (TYPE == ELEMENT_BFLOAT16 ? LEAST_OF_BFLOAT16 : LEAST_OF_FLOAT16));
    }
    if (LOG && largest < 0x00800000u && largest != 0) e = (int)(31 - __clz((int)largest)) - 149; /* subnormal */
    if (largest >= 0x7f800000u) {
        d.flags = STATE_NAN;
        e = 0;
    }
    if (largest == 0) e = 0;
    if (e < -960) e = -960;
    lane_digits sums = digits_begin(e);
    y.unpack_again();
    dy.unpack_again();
    if (LOG) {
        if (__any_sync(EVERY_LANE, missing)) leave_out_missing(y, dy);
#pragma unroll
        for (int i = 0; i < y.elements; i++) digits_add(sums, widened(dy.get(i)));
    } else if (exact_in_float) {
#pragma unroll
        for (int i = 0; i < y.elements; i++) digits_add(sums, widened(y.get(i) * dy.get(i)));
    } else {
        y.unpack_again();
        dy.unpack_again();
#pragma unroll
        for (int i = 0; i < y.elements; i++) digits_add_product(sums, widened(dy.get(i)), widened(y.get(i)));
    }
    digits_end(sums, y.elements);
    y.unpack_again();
    dy.unpack_again();
    d.high = whole ? lanes_sum_wide((int64_t)sums.high) : group_sum_wide((int64_t)sums.high, lanes);
    d.low = whole ? lanes_sum_wide((int64_t)sums.low) : group_sum_wide((int64_t)sums.low, lanes);
    if (largest != 0 && !d.flags) d.exponent = e;
    return d;
}

/* ---- Results ------------------------------------------------------------------------------------------------------------------------------ */

template <bool LOG, int TYPE, int VECTORS>
static __device__ __forceinline__ void store_any_gradient(const piece<TYPE, VECTORS> &y, const piece<TYPE, VECTORS> &dy, const gradient_of_sum<float> &g,
                                                          uint32_t flags, char *row, const row_shape &shape, bool as_float, int64_t first, int lane, int lanes) {
    const int per = packed<TYPE>::per;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        int64_t c = column_of_vector<TYPE>(first, v, lane, lanes);
        float dx[per];
#pragma unroll
        for (int j = 0; j < per; j++) {
            float a = y.get(v * per + j), b = dy.get(v * per + j);
            dx[j] = LOG ? log_softmax_gradient(g, a, b) : softmax_gradient(g, a, b);
        }
        if (flags)
            store_nan_vector<TYPE>(row, shape, as_float, c);
        else
            store_vector<TYPE>(row, shape, as_float, c, dx);
    }
}

/* KEPT: by ordinary stores; else with the hint that nobody reads the results again. Which is faster was measured (docs/results): ordinary ones for a
 * stream's softmax. */
template <bool LOG, bool KEPT, int TYPE, int VECTORS>
static __device__ __forceinline__ void store_gradient(const piece<TYPE, VECTORS> &y, const piece<TYPE, VECTORS> &dy, const gradient_of_sum<float> &g,
                                                      const row_range &range, uint32_t flags, char *row, const row_shape &shape, bool as_float, int first, int lane, int lanes) {
    const bool capped = LOG && __any_sync(EVERY_LANE, range.top > g.cap), within = LOG && __all_sync(EVERY_LANE, range.bottom >= g.floor);
    const int per = packed<TYPE>::per, step = lanes * per, left = (int)shape.columns - first - lane * per;
    uint4 *to = (uint4 *)(void *)(row + (int64_t)(first + lane * per) * packed<TYPE>::bytes);
    if (flags || !shape.vectors || as_float || capped) {
        store_any_gradient<LOG>(y, dy, g, flags, row, shape, as_float, first, lane, lanes);
        return;
    }
    auto store_all = [&](auto gradient) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            float dx[per];
            uint32_t w[4];
#pragma unroll
            for (int j = 0; j < per; j++) {
                const float x = gradient(y.get(v * per + j), dy.get(v * per + j));
                dx[j] = TYPE == ELEMENT_FLOAT16 ? x : without_subnormals(x); /* float16's are below 2^-25, and packed as +0 */
            }
#pragma unroll
            for (int j = 0; j < 4; j++) w[j] = packed<TYPE>::pack(dx + j * (per / 4));
            const uint4 packed_words = make_uint4(w[0], w[1], w[2], w[3]);
            if (left <= v * step) continue;
            if (KEPT)
                to[v * lanes] = packed_words;
            else
                __stcs(to + v * lanes, packed_words);
        }
    };
    if (!LOG)
        store_all([&](float a, float b) { return softmax_gradient_as_is(g, a, b); });
    else if (within)
        store_all([&](float a, float b) { return log_softmax_gradient_within_as_is<true>(g, a, b); });
    else
        store_all([&](float a, float b) { return log_softmax_gradient_within_as_is<false>(g, a, b); });
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------------------------------ */

#define GROUP_WARPS 8
#define BACKWARD_BLOCKS 16 /* of columns, in a thread block */
#ifndef BACKWARD_REGISTERS
#define BACKWARD_REGISTERS 128
#endif

/* Columns of a row in a lane: as many as registers hold beside each other, for a row is read out in all of its lanes. */
template <int TYPE> struct group_columns {
    static const int most = packed<TYPE>::bytes == 2 ? 32 : 16;
};

/* A row per group of 2^log_lanes lanes. */
template <bool LOG, int TYPE>
static __global__ void __launch_bounds__(32 * GROUP_WARPS, 3) row_groups(const __grid_constant__ softmax_job job, row_shape shape, bool as_float, int log_lanes) {
    const int VECTORS = group_columns<TYPE>::most / packed<TYPE>::per;
    const int lane = (int)(threadIdx.x & 31), lanes = 1 << log_lanes, place = lane & (lanes - 1), last = (int)job.rows - 1;
    int row = (int)(blockIdx.x * GROUP_WARPS + (threadIdx.x >> 5)) << (5 - log_lanes);
    piece<TYPE, VECTORS> y, dy;
    row_range range;
    if (row > last) return;
    row += lane >> log_lanes;
    if (row > last) {
        row = last;
        shape.columns = 0;
    }
    auto address = [&](const operand &a) { return job.dimensions == 1 ? flat_row(a, row) : row_of(job, a, row); };
    fetch(y, address(job.x), shape, 0, place, lanes, 0);
    fetch(dy, address(job.dy), shape, 0, place, lanes, 0);
    const row_sum sum = read_digits(sum_block<LOG, false>(y, dy, lanes, range));
    store_gradient<LOG, false>(y, dy, gradient_of<float>(LOG, sum.sum), range, sum.flags, address(job.out), shape, as_float, 0, place, lanes);
}

/* What a thread block's warps tell each other. */
typedef struct backward_board {
    block_digits digits[BACKWARD_BLOCKS];
    gradient_of_sum<float> gradient;
    uint32_t flags;
    part_exchange<digits_part> exchange;
    uint64_t full[MOST_STAGES];
} backward_board;

/* By one warp: the row's sum, and what all need of it onto the board. */
template <bool LOG>
static __device__ __forceinline__ void read_out(backward_board &board, int warps, unsigned rank, unsigned cluster, uint32_t turn) {
    row_sum sum;
    if (cluster * (unsigned)warps == 1) {
        sum = read_digits(board.digits[0]);
    } else {
        digits_part part = merge_digits(board.digits, warps);
        if (cluster > 1) part = merge_digit_parts(exchange_parts(board.exchange, part, rank, cluster, turn), (int)cluster);
        sum = read_part(part);
    }
    if ((threadIdx.x & 31) != 0) return;
    board.gradient = gradient_of<float>(LOG, sum.sum);
    board.flags = sum.flags;
}

/* A row per thread block or cluster, one after another: its warps hold a block of columns each. STREAM: the next ones come meanwhile. */
template <bool LOG, int TYPE, bool STREAM>
static __device__ __forceinline__ void rows_of_blocks(const softmax_job &job, const stream_shape &shape, bool as_float) {
    const int VECTORS = 32 / packed<TYPE>::per, bytes = packed<TYPE>::bytes;
    backward_board &board = the_board<backward_board>();
    const int lane = (int)(threadIdx.x & 31);
    const row_place p = place_of_warp((int)job.columns, (int)(blockDim.x >> 5));
    const row_shape its = {job.columns, STREAM || shape.row.vectors};
    row_ring<2, backward_board> ring(board.full, shape, p.part_last - p.part_first, bytes);
    int row, end, step;
    uint32_t turn = 0;
    rows_of_block<STREAM>(shape, (int)job.rows, p.cluster, row, end, step);
    if (threadIdx.x == 0) {
        for (int s = 0; STREAM && s < shape.stages; s++) gate_begin(&board.full[s]);
        if (p.cluster > 1) begin_parts(board.exchange, p.cluster);
        gates_begun();
    }
    if (STREAM || p.cluster > 1) wait_for_gates(p.cluster);
    auto ask = [&](int stage, int its_row) {
        if (its_row >= end) return;
        ring.expect(stage);
        ring.fill(stage, 0, flat_row(job.x, its_row) + p.part_first * bytes);
        ring.fill(stage, 1, flat_row(job.dy, its_row) + p.part_first * bytes);
    };
    if (STREAM && threadIdx.x == 0)
        for (int s = 0; s < shape.stages; s++) ask(s, row + s * step);
    for (; row < end; row += step, turn++) {
        const int reader = (int)((turn + blockIdx.x) % (unsigned)p.warps); /* in turn, for a processor's four parts to share */
        piece<TYPE, VECTORS> y, dy;
        if (STREAM) {
            ring.wait();
            take(y, ring.current(0) + p.warp * SOFTMAX_BLOCK_COLUMNS * bytes, p.part_last - p.first, 0);
            take(dy, ring.current(1) + p.warp * SOFTMAX_BLOCK_COLUMNS * bytes, p.part_last - p.first, 0);
        } else {
            fetch(y, row_of(job, job.x, row), its, p.first, lane, 32, 0);
            fetch(dy, row_of(job, job.dy, row), its, p.first, lane, 32, 0);
        }
        row_range range;
        const block_digits mine = sum_block<LOG, true>(y, dy, 32, range);
        if (lane == 0) board.digits[p.warp] = mine;
        __syncthreads();
        if (STREAM && threadIdx.x == 0) ask(ring.stage, row + shape.stages * step);
        if (STREAM) ring.next();
        if (p.warp == reader) read_out<LOG>(board, p.warps, p.rank, p.cluster, turn);
        __syncthreads();
        char *out = STREAM ? flat_row(job.out, row) : row_of(job, job.out, row);
        store_gradient<LOG, STREAM && !LOG>(y, dy, board.gradient, range, board.flags, out, its, as_float, p.first, lane, 32);
    }
}

template <bool LOG, int TYPE, bool STREAM>
static __global__ void __maxnreg__(BACKWARD_REGISTERS) row_blocks(const __grid_constant__ softmax_job job, stream_shape shape, bool as_float) {
    if constexpr (HAS_CLUSTERS || !STREAM) rows_of_blocks<LOG, TYPE, STREAM>(job, shape, as_float);
}

#define ANY_WARPS 8

/* One element's term of the sum; NaN where y or dy makes the row NaN. */
template <typename REAL> static __device__ __forceinline__ pair term_of(bool is_log, REAL y, REAL dy) {
    const pair bad = {bits_double(0x7ff8000000000000ULL), 0.0};
    pair x = {0.0, 0.0};
    if (is_log) {
        if (y != y || y > real<REAL>::largest() || !(dy - dy == 0)) return bad;
        if (y >= -real<REAL>::largest()) x.hi = (double)dy;
        return x;
    }
    if (!(y - y == 0) || !(dy - dy == 0)) return bad;
    x.hi = (double)dy * (double)y;
    if (sizeof(REAL) == 8) x.lo = fma((double)dy, (double)y, -x.hi); /* of floats the product is exact */
    return x;
}

/* Any type and stride: a thread block per row. */
template <typename REAL> static __global__ void __launch_bounds__(32 * ANY_WARPS) row_any(const __grid_constant__ softmax_job job, bool is_log) {
    __shared__ accumulator sums[ANY_WARPS];
    __shared__ uint32_t flags[ANY_WARPS];
    __shared__ pair whole;
    const int lane = (int)(threadIdx.x & 31), warp = (int)(threadIdx.x >> 5);
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const char *y = row_of(job, job.x, row), *dy = row_of(job, job.dy, row);
        char *out = row_of(job, job.out, row);
        accumulator sum = accumulator_empty();
        uint32_t bad = 0;
        for (int64_t c = (int64_t)warp * SOFTMAX_BLOCK_COLUMNS; c < job.columns; c += ANY_WARPS * SOFTMAX_BLOCK_COLUMNS) {
            auto get = [&](int64_t at) {
                return term_of(is_log, load_element<REAL>(y + at * job.x.column_stride, job.x.type),
                               load_element<REAL>(dy + at * job.dy.column_stride, job.dy.type));
            };
            block_digits d = sum_terms(get, c, min(c + (int64_t)SOFTMAX_BLOCK_COLUMNS, job.columns));
            digits_accumulate(sum, d);
            bad |= d.flags;
        }
        if (lane == 0) {
            sums[warp] = sum;
            flags[warp] = bad;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 1; i < ANY_WARPS; i++) {
                accumulator_merge(&sums[0], &sums[i]);
                flags[0] |= flags[i];
            }
            whole = accumulator_read(&sums[0], 0);
        }
        __syncthreads();
        gradient_of_sum<REAL> g = gradient_of<REAL>(is_log, whole);
        bool is_bad = flags[0] != 0;
        for (int64_t c = threadIdx.x; c < job.columns; c += 32 * ANY_WARPS) {
            REAL a = load_element<REAL>(y + c * job.x.column_stride, job.x.type), b = load_element<REAL>(dy + c * job.dy.column_stride, job.dy.type);
            REAL dx = is_bad ? real<REAL>::nan() : is_log ? log_softmax_gradient(g, a, b) : softmax_gradient(g, a, b);
            store_result(out + c * job.out.column_stride, job.out.type, dx);
        }
        __syncthreads(); /* sums and flags are written again */
    }
}

/* ---- Launches ----------------------------------------------------------------------------------------------------------------------------- */

template <bool LOG, int TYPE> static cudaError_t launch_rows(const softmax_job *job, const cuda_shape *shape) {
    const row_shape rows = {job->columns, shape->vectors != 0};
    const bool as_float = job->out.type != job->x.type;
    cudaStream_t stream = (cudaStream_t)job->stream;
    if (shape->kernel == CUDA_WARP) {
        int log_lanes = 0;
        while (group_columns<TYPE>::most << log_lanes < job->columns) log_lanes++;
        const int each = GROUP_WARPS * 32 >> log_lanes;
        launch_shape l = launch_of((job->rows + each - 1) / each, 32 * GROUP_WARPS, 1, 0, stream); /* rows: see choose_gradient */
        return launch(l, row_groups<LOG, TYPE>, *job, rows, as_float, log_lanes);
    }
    const int slice = shape->warps * SOFTMAX_BLOCK_COLUMNS * packed<TYPE>::bytes, turns = shape->turns > 0 ? shape->turns : 1;
    const stream_shape its = {rows, shape->stages, slice, turns};
    launch_shape l = launch_of((job->rows + turns - 1) / turns * shape->cluster, 32 * shape->warps, shape->cluster, (size_t)board_bytes<backward_board>(), stream);
    if (shape->stages == 0) return launch(l, row_blocks<LOG, TYPE, false>, *job, its, as_float);
    l.shared += (size_t)(2 * shape->stages * slice);
    return launch_resident(l, shape->multiprocessors, row_blocks<LOG, TYPE, true>, *job, its, as_float);
}

template <int TYPE> static cudaError_t launch_type(const softmax_job *job, const cuda_shape *shape) {
    return job->op == OPERATION_LOG_SOFTMAX_BACKWARD ? launch_rows<true, TYPE>(job, shape) : launch_rows<false, TYPE>(job, shape);
}

cudaError_t softmax_cuda_backward(const softmax_job *job, const cuda_shape *shape) {
    const bool is_log = job->op == OPERATION_LOG_SOFTMAX_BACKWARD;
    if (shape->kernel != CUDA_GENERIC) {
        if (job->x.type == ELEMENT_FLOAT32) return launch_type<ELEMENT_FLOAT32>(job, shape);
        if (job->x.type == ELEMENT_BFLOAT16) return launch_type<ELEMENT_BFLOAT16>(job, shape);
        return launch_type<ELEMENT_FLOAT16>(job, shape);
    }
    launch_shape l = launch_of(launch_blocks(job->rows), 32 * ANY_WARPS, 1, 0, (cudaStream_t)job->stream);
    if (job->kind == ARITHMETIC_64) return launch(l, row_any<double>, *job, is_log);
    return launch(l, row_any<float>, *job, is_log);
}
