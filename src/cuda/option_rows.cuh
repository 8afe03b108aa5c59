/* Contiguous rows with a scale, a mask, lengths or the causal mask, in registers as rows.cuh has them: columns that are masked out become -inf as they
 * are read. A scaled score is a pair, z + low, made of the element anew wherever it is needed, so that it takes no more registers than the element:
 * the scale is positive here (elements change their sign where it is not), thus the largest scores are those of the largest elements. */
#ifndef SOFTMAX_CUDA_OPTION_ROWS_CUH
#define SOFTMAX_CUDA_OPTION_ROWS_CUH

#include "rows.cuh"
#include "scores.cuh"

/* ---- Columns that take part ---------------------------------------------------------------------------------------- */

/* VEC bytes of a mask in words. Those from `left` on count as 0. */
template <int VEC> struct mask_bytes {
    static const int words = VEC / 4;
    typedef typename access<VEC>::word word;
    static __device__ __forceinline__ void load(const char *mask, int left, uint32_t *m) {
        if (left >= VEC && (uintptr_t)mask % VEC == 0) {
            split(*(const word *)(const void *)mask, m);
            return;
        }
#pragma unroll
        for (int i = 0; i < words; i++) m[i] = 0;
#pragma unroll
        for (int j = 0; j < VEC; j++)
            if (j < left) m[j / 4] |= (uint32_t)*(const uint8_t *)(mask + j) << (j % 4 * 8);
    }
    /* Of no mask: all ones. */
    static __device__ __forceinline__ void fill(int left, uint32_t *m) {
#pragma unroll
        for (int i = 0; i < words; i++) m[i] = left >= 4 * i + 4 ? 0xffffffffu : left <= 4 * i ? 0u : (1u << 8 * (left - 4 * i)) - 1u;
    }
};
template <> struct mask_bytes<1> {
    static const int words = 1;
    static __device__ __forceinline__ void load(const char *mask, int left, uint32_t *m) { m[0] = left > 0 ? *(const uint8_t *)mask : 0u; }
    static __device__ __forceinline__ void fill(int left, uint32_t *m) { m[0] = left > 0; }
};

/* An access' elements whose byte is 0 become -inf. */
template <typename T, int VEC> struct marked_elements {
    static __device__ __forceinline__ void keep(const uint32_t *m, uint32_t *w) {
#pragma unroll
        for (int i = 0; i < VEC / 4; i++) {
            const uint32_t marks = ((m[i] & 0x7f7f7f7fu) + 0x7f7f7f7fu) | m[i]; /* the top bit of each byte that is not 0 */
            const uint32_t first = marks_of_pair<0>(marks), second = marks_of_pair<2>(marks);
            w[2 * i] = (w[2 * i] & first) | (cell<T>::nothing & ~first);
            w[2 * i + 1] = (w[2 * i + 1] & second) | (cell<T>::nothing & ~second);
        }
    }
};
template <typename T> struct marked_elements<T, 1> {
    static __device__ __forceinline__ void keep(const uint32_t *m, uint32_t *w) { w[0] = m[0] ? w[0] : cell<T>::nothing; }
};
template <> struct marked_elements<float, 4> {
    static __device__ __forceinline__ void keep(const uint32_t *m, uint32_t *w) {
#pragma unroll
        for (int j = 0; j < 4; j++) w[j] = m[0] & 0xffu << 8 * j ? w[j] : cell<float>::nothing;
    }
};

/* mask: of the block's first column; NULL: none. seen: columns of the block that are seen. */
template <typename T, int VEC, int N> static __device__ __forceinline__ void hide_columns(const char *mask, int seen, uint32_t *words) {
    typedef lane_words<T, VEC, N> lanes;
    const int lane = threadIdx.x & 31;
    uint32_t m[N / VEC][mask_bytes<VEC>::words];
#pragma unroll
    for (int i = 0; i < N / VEC; i++) {
        const int column = (i * 32 + lane) * VEC;
        if (mask)
            mask_bytes<VEC>::load(mask + column, seen - column, m[i]);
        else
            mask_bytes<VEC>::fill(seen - column, m[i]);
    }
#pragma unroll
    for (int i = 0; i < N / VEC; i++) marked_elements<T, VEC>::keep(m[i], words + i * lanes::per_access);
}

template <typename T, typename LANES> static __device__ __forceinline__ void change_signs(uint32_t *words) {
    const uint32_t signs = sizeof(T) == 4 ? 0x80000000u : LANES::in_word == 2 ? 0x80008000u : 0x8000u;
#pragma unroll
    for (int i = 0; i < LANES::words; i++) words[i] ^= signs;
}

/* ---- Scaled scores --------------------------------------------------------------------------------------------------- */

/* The scale's size, scale = hi + lo. */
struct row_scale {
    float hi, lo;
    float inverse;
    uint32_t doubtful, doubtful_to; /* bits of the largest element in size that the scale takes far from infinity, and what is above it */
};

static __device__ __forceinline__ row_scale scale_of(const softmax_job &job) {
    const double scale = fabs(job.scale);
    row_scale s;
    s.hi = (float)scale;
    s.lo = (float)(scale - (double)s.hi);
    s.inverse = 1.0f / s.hi;
    s.doubtful = float_bits(fminf(FLT_MAX, 0.5f * FLT_MAX * s.inverse));
    s.doubtful_to = 0x7f800000u - s.doubtful;
    return s;
}

enum scaling { NOT_SCALED, BY_A_FLOAT, BY_A_PAIR };

/* scores.cuh's scaled_score for elements and products that are finite, or -inf. By a float the product's rest is no more than half of its last place,
 * and the sum is the product. */
template <scaling BY> static __device__ __forceinline__ float scaled(float x, const row_scale &s, float &low) {
    const float hi = x * s.hi;
    low = fmaf(x, s.hi, -hi);
    if (BY == BY_A_FLOAT) return hi;
    low = fmaf(x, s.lo, low);
    const float sum = hi + low;
    low = low - (sum - hi);
    return sum;
}

/* add_term for a score with a low part, of 16-bit or float32 results. */
template <arithmetic KIND> static __device__ __forceinline__ float add_pair(float z, float z_low, float magic, uint32_t &high, uint32_t &low) {
    const term32 t = term32_fast(z, z_low, magic, KIND);
    high += t.high + float_bits(TERM32_HIGH);
    low += t.low + float_bits(TERM32_LOW);
    return t.v;
}

/* The block's maximum, made of the largest element. */
static __device__ __forceinline__ void set_maximum(const row_scale &scale, float first, float &second, block_sums &s) {
    float low, unused;
    s.maximum = scaled<BY_A_PAIR>(first, scale, low) + 0.0f; /* -0 is taken as +0 */
    if (!(fabsf(s.maximum) < INFINITY)) s.maximum = fabsf(first) < INFINITY ? FLT_MAX : first;
    s.maximum_low = fabsf(low) < INFINITY ? low + 0.0f : 0.0f;
    second = second == -INFINITY ? second : scaled<BY_A_PAIR>(second, scale, unused);
}

/* Whether a finite element's score may not be finite; large ones are seen by the maximum. */
template <int N> static __device__ __forceinline__ bool is_doubtful(const row_scale &scale, const float *x) {
    bool doubt = false;
    if (scale.hi <= 1.0f) return false;
#pragma unroll
    for (int i = 0; i < N; i++) doubt |= float_bits(x[i]) - (0x80000000u + scale.doubtful) < scale.doubtful_to;
    return doubt;
}

/* sum_block for elements x, which become values, or with KEEP_SCORES stay. Of PARTS parts those whose columns are all from `seen` on are left out. */
template <arithmetic KIND, int N, bool KEEP_SCORES, scaling BY, int PARTS>
static __device__ __forceinline__ block_sums sum_options(const row_scale &scale, float first, float second, float *x, int seen) {
    const bool SCALED = BY != NOT_SCALED;
    block_sums s;
    uint32_t key = order_of(first), top = __reduce_max_sync(EVERY_LANE, key);
    const uint32_t owners = __ballot_sync(EVERY_LANE, key == top);
    if ((int)(threadIdx.x & 31) == __ffs(owners) - 1) key = order_of(second);
    second = of_order(__reduce_max_sync(EVERY_LANE, key));
    s.maximum = of_order(top) + 0.0f;
    s.maximum_low = 0.0f;
    if (SCALED) set_maximum(scale, of_order(top), second, s);
    const float maximum = s.maximum == -INFINITY ? 0.0f : s.maximum;
    s.kb = term32_exponent(fmaxf(second, maximum - TERM32_SPREAD));
    /* Scaled elements are cut off where their scores lie below the floor of terms, by less than one: such terms too have no digits and no results. */
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
    const float least = SCALED ? (floor_score - 0.25f) * scale.inverse : floor_score;
    uint32_t high = 0, low = 0, taken = 0;
    const bool doubtful = SCALED && is_doubtful<N>(scale, x);
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        if (p * (N / PARTS) * 32 < seen) {
            taken += N / PARTS * 32;
#pragma unroll
            for (int i = p * (N / PARTS); i < (p + 1) * (N / PARTS); i++) {
                float low_part = 0.0f, v = fmaxf(x[i], least);
                if (SCALED) v = scaled<BY>(v, scale, low_part);
                v = SCALED ? add_pair<KIND>(v, low_part, magic, high, low) : add_term<KIND>(v, magic, high, low);
                if (!KEEP_SCORES) x[i] = v;
            }
        } else if (!KEEP_SCORES) {
#pragma unroll
            for (int i = p * (N / PARTS); i < (p + 1) * (N / PARTS); i++) x[i] = 0.0f;
        }
    }
    s.high = __reduce_add_sync(EVERY_LANE, high) - taken * float_bits(TERM32_HIGH);
    s.low = __reduce_add_sync(EVERY_LANE, low) - taken * float_bits(TERM32_LOW);
    if (SCALED && __any_sync(EVERY_LANE, doubtful) && fabsf(s.maximum) < INFINITY) s.maximum = FLT_MAX; /* as scores that are far out */
    return s;
}

/* ---- The results ------------------------------------------------------------------------------------------------------ */

/* results.cuh's log_result_of for the pair of an element. */
template <scaling BY> static __device__ __forceinline__ float log_of_scaled(const row_answer &r, float x, const row_scale &scale, float least) {
    float low;
    const float z = scaled<BY>(x, scale, low), d = z - r.maximum, t = d - z, e = (z - (d - t)) + (-r.maximum - t);
    const float y = (d + r.minus_log) + (((e + low) - r.maximum_low) + r.minus_log_low);
    return x == -INFINITY ? x : fabsf(y) >= least ? y : 0.0f;
}

template <typename T, int N, bool LOG, bool SCALED>
static __device__ __forceinline__ void finish_values(const block_board &board, int warp, const row_scale &scale, float *v) {
    const arithmetic kind = cell<T>::kind;
    const row_answer answer = board.answer;
    if (LOG && SCALED && scale.lo == 0.0f) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = log_of_scaled<BY_A_FLOAT>(answer, v[i], scale, cell<T>::least());
    } else if (LOG && SCALED) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = log_of_scaled<BY_A_PAIR>(answer, v[i], scale, cell<T>::least());
    } else if (LOG) {
        log_block<N>(answer, v);
    } else if (board.ordinary && (kind == ARITHMETIC_32 || !SCALED)) {
        const float4 factor = board.factors[warp];
        const register_factor f = {factor.x, factor.y, factor.z, factor.w, false, kind != ARITHMETIC_32};
        scale_block<kind, N>(f, v);
    } else {
        const block_note note = note_of<kind>(board.sums[warp]);
        register_factor f = factor_of<kind>(answer, note);
        if (SCALED && f.is_plain && note.maximum >= answer.maximum - 1.0f) {
            f.is_plain = false; /* scores may be so near the largest that only the cut keeps their results below its */
            f.hi = bits_float(float_bits(f.hi) + (64u << 23));
            if (note.maximum == answer.maximum && note.maximum_low == answer.maximum_low) f.cut = note.top * f.hi;
        }
        scale_block<kind, N>(f, v);
    }
}

template <arithmetic KIND, int N, bool LOG, scaling BY, int VEC>
static __device__ __forceinline__ block_sums sum_seen(const row_scale &scale, float m1, float m2, float *v, int seen) {
    return seen == 32 * N ? sum_options<KIND, N, LOG, BY, 1>(scale, m1, m2, v, seen)
                          : sum_options<KIND, N, LOG, BY, (N / VEC < 4 ? N / VEC : 4)>(scale, m1, m2, v, seen);
}

/* A block's sums, of those of its `count` columns that take part; v as in sum_options. In a cluster its exchange begins once loads are under way. */
template <typename T, int VEC, int N, bool LOG, bool SCALED, bool CLUSTER>
static __device__ __forceinline__ block_sums take_seen(const softmax_job &job, const row_scale &scale, int64_t row, int first, int count, uint64_t *barrier, int cluster,
                                                       float *v) {
    typedef lane_words<T, VEC, N> LANES;
    const arithmetic kind = cell<T>::kind;
    const int64_t limit = seen_columns(job, row) - first;
    const int seen = limit < 0 ? 0 : limit < count ? (int)limit : count, fetched = (seen + VEC - 1) / VEC * VEC;
    const bool negative = SCALED && job.scale < 0.0;
    uint32_t words[LANES::words];
    float m1, m2;
    LANES::load(row_of(job, job.x, row) + (int64_t)first * (int)sizeof(T), fetched, words);
    if (CLUSTER) begin_exchange(barrier, cluster);
    if (negative) change_signs<T, LANES>(words);
    if (job.mask.data || fetched != seen || (negative && seen < 32 * N))
        hide_columns<T, VEC, N>(job.mask.data ? row_of(job, job.mask, row) + first : NULL, seen, words);
    cell<T>::template largest_two<LANES::words>(words, m1, m2);
    LANES::open(words, v);
    if (!SCALED) return sum_seen<kind, N, LOG, NOT_SCALED, VEC>(scale, m1, m2, v, seen);
    if (scale.lo == 0.0f) return sum_seen<kind, N, LOG, BY_A_FLOAT, VEC>(scale, m1, m2, v, seen);
    return sum_seen<kind, N, LOG, BY_A_PAIR, VEC>(scale, m1, m2, v, seen);
}

/* By the warps of a row. Rows of a warp do not wait: barriers of their own for several rows of a thread block would leave room for few thread blocks. */
static __device__ __forceinline__ void wait_for_row(int warps) {
    if (warps == 1)
        __syncwarp();
    else
        __syncthreads();
}

/* ---- The kernel --------------------------------------------------------------------------------------------------------- */

/* VEC: elements of an access. N: columns of a block in a lane. Without CLUSTER a thread block has several rows where they are a warp each. */
template <typename T, int VEC, int N, bool LOG, bool SCALED, bool CLUSTER>
static __device__ __forceinline__ void rows_with_options(const softmax_job &job, int split_into, int ahead) {
    typedef lane_words<T, VEC, N> LANES;
    const arithmetic kind = cell<T>::kind;
    const int warps = CLUSTER ? (int)(blockDim.x >> 5) : split_into, cluster = CLUSTER ? split_into : 1;
    const int slot = CLUSTER ? 0 : (int)(threadIdx.x >> 5) / warps, warp = (int)(threadIdx.x >> 5) - slot * warps;
    unsigned char *memory = CLUSTER ? row_memory() : rows_memory() + slot * ROW_BYTES;
    block_board &board = *(block_board *)(void *)memory;
    parking<N> &parked = *(parking<N> *)(void *)(memory + sizeof board);
    int rank;
    int64_t row;
    place_of<CLUSTER>(rank, row);
    if (!CLUSTER) {
        row = row * ((int)(blockDim.x >> 5) / warps) + slot;
        if (row >= job.rows) return;
    }
    const int first = (rank * warps + warp) * (32 * N), left = (int)job.columns - first, count = left < 32 * N ? left : 32 * N;
    if (ahead && job.dimensions == 1 && warp == 0 && (threadIdx.x & 31) == 0) prefetch_row<T>(job, row + ahead, first, warps * 32 * N);
    const row_scale scale = SCALED ? scale_of(job) : row_scale();
    float v[N]; /* values, or where logarithms are wanted the elements */
    {
        const block_sums sums = take_seen<T, VEC, N, LOG, SCALED, CLUSTER>(job, scale, row, first, count, &board.barrier, cluster, v);
        if ((threadIdx.x & 31) == 0) board.sums[warp] = sums;
    }
    if (warp == 0) {
        parked.leave(v);
        wait_for_row(warps);
        if (CLUSTER) wait_for_cluster();
        read_out<kind, LOG, SCALED, CLUSTER>(board, warps, rank, cluster, job.op == OPERATION_LOGSUMEXP);
        wait_for_row(warps);
        parked.take(v);
    } else {
        wait_for_row(warps);
        if (CLUSTER) wait_for_cluster();
        wait_for_row(warps);
    }
    const bool leads = rank == 0 && warp == 0;
    if (board.answer.slow) {
        if (leads) softmax_cuda_slow_scores(job, row);
        return;
    }
    char *out = row_of(job, job.out, row);
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (leads && (threadIdx.x & 31) == 0) store_result(out, job.out.type, board.answer.logsumexp);
        return;
    }
    out += (int64_t)first * (int)sizeof(T);
    if (is_constant(board.answer)) {
        LANES::fill(out, count, constant_of<T>(board.answer, LOG, job.empty_zero));
        return;
    }
    finish_values<T, N, LOG, SCALED>(board, warp, scale, v);
    LANES::store(out, count, v);
}

#endif
