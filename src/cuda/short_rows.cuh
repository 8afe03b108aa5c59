/* Contiguous rows of at most SOFTMAX_BLOCK_COLUMNS columns in registers: LANES lanes hold a row, so many columns each, and a warp several rows, one
 * group of lanes beside another (and PASSES times one after another). What is done once a row, in double, is done for all of them at once. */
#ifndef SOFTMAX_CUDA_SHORT_ROWS_CUH
#define SOFTMAX_CUDA_SHORT_ROWS_CUH

#include "operands.cuh"
#include "row_merge.cuh"
#include "slow_row.cuh"

/* How rows lie in a warp. */
template <typename T, int VEC, int N, int LANES_, int PASSES_ = 1> struct short_layout {
    typedef lane_words<T, VEC, N, LANES_> words;
    static const int columns = N, lanes = LANES_, passes = PASSES_, at_once = 32 / LANES_, rows = at_once * PASSES_;
    static const int parts = 1; /* that sum_block may leave out */
};
template <typename T, int N> struct edged_layout { /* rows that begin anywhere */
    typedef edged_words<T, N> words;
    static const int columns = N, lanes = 32, passes = 32 / N, at_once = 1, rows = passes;
    static const int accesses = N / words::per, parts = accesses < 4 ? accesses : 4;
};

/* A row's sums where less than a warp has it: sum_block by shuffles. */
template <arithmetic KIND, int N, int LANES, bool KEEP_SCORES>
static __device__ __forceinline__ block_sums sum_group(float first, float second, float *z) {
    block_sums s;
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        const float other = __shfl_xor_sync(EVERY_LANE, first, step), other_second = __shfl_xor_sync(EVERY_LANE, second, step);
        second = fmaxf(fmaxf(second, other_second), fminf(first, other));
        first = max_or_nan(first, other);
    }
    s.maximum = first + 0.0f; /* -0 is taken as +0 */
    s.maximum_low = 0.0f;
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    const float magic = TERM32_MAGIC + SOFTMAX_BIAS - s.kb, floor_score = term32_floor(s.kb);
    uint32_t high = 0, low = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float v = add_term<KIND>(fmaxf(z[i], floor_score), magic, high, low);
        if (!KEEP_SCORES) z[i] = v;
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        high += __shfl_xor_sync(EVERY_LANE, high, step);
        low += __shfl_xor_sync(EVERY_LANE, low, step);
    }
    s.high = high - N * LANES * float_bits(TERM32_HIGH);
    s.low = low - N * LANES * float_bits(TERM32_LOW);
    return s;
}

/* A row's answer as its writers need it: passed round by shuffles, from the lane that read the row out. */
struct short_answer {
    row_answer row;
    register_factor factor;
};

/* ORDINARY: no row of the warp is constant or slow, and all factors are plain where the arithmetic is short. */
template <typename T, typename LAYOUT, bool LOG, bool ORDINARY>
static __device__ __forceinline__ void write_short_row(const softmax_job &job, int64_t row, const short_answer &all, int pass, float *v) {
    typedef typename LAYOUT::words words;
    const arithmetic kind = cell<T>::kind;
    const int count = row < job.rows ? (int)job.columns : 0;
    auto from_reader = [&](auto x) { return LAYOUT::passes == 1 ? x : __shfl_sync(EVERY_LANE, x, pass, LAYOUT::lanes); };
    char *out = flat_row(job.out, row);
    short_answer mine;
    const bool slow = !ORDINARY && from_reader(all.row.slow);
    if (!ORDINARY || LOG) mine.row.maximum = from_reader(all.row.maximum);
    if (LOG) {
        mine.row.minus_log = from_reader(all.row.minus_log);
    } else {
        mine.factor.hi = from_reader(all.factor.hi);
        mine.factor.is_far = false; /* a block is never far from its own maximum */
        mine.factor.is_plain = kind != ARITHMETIC_32 && (ORDINARY || from_reader((int)all.factor.is_plain));
        if (kind == ARITHMETIC_32 || !ORDINARY) {
            mine.factor.lo = from_reader(all.factor.lo);
            mine.factor.cut = from_reader(all.factor.cut);
            mine.factor.most = from_reader(all.factor.most);
        }
    }
    if (!ORDINARY) {
        if (slow) return;
        if (is_constant(mine.row)) {
            words::fill(out, count, constant_of<T>(mine.row, LOG, job.empty_zero));
            return;
        }
    }
    if (LOG)
        log_block<words::elements>(mine.row, v);
    else
        scale_block<kind, words::elements>(mine.factor, v);
    words::store(out, count, v);
}

/* The scores of the thread block that is `ahead` further on their way to the L2 cache, where rows lie one after another. */
template <typename T> static __device__ __forceinline__ void prefetch_short_rows(const softmax_job &job, int64_t block, int rows) {
    const int64_t first = block * rows;
    const int64_t pitch = job.columns * (int)sizeof(T);
    if (first + rows > job.rows || job.x.row_stride[0] != pitch) return;
    const char *from = flat_row(job.x, first);
    const int head = (int)((0u - (unsigned)(uintptr_t)from) & 15u);
    prefetch_bytes_to_l2(from + head, ((int)pitch * rows - head) & ~15);
}

template <typename T, typename LAYOUT, bool LOG> static __device__ __forceinline__ void short_rows(const softmax_job &job, int ahead) {
    typedef typename LAYOUT::words words;
    const arithmetic kind = cell<T>::kind;
    const int lane = threadIdx.x & 31, group = lane / LAYOUT::lanes, place = lane % LAYOUT::lanes, N = LAYOUT::columns;
    const int64_t first = ((int64_t)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * LAYOUT::rows;
    const int columns = (int)job.columns;
    uint32_t w[LAYOUT::passes][words::words];
    float v[LAYOUT::passes][words::elements];
    block_sums own = {0.0f, 0.0f, 0.0f, 0, 0}; /* of the row that this lane reads out: its group's of pass `place`, or the only one */
    short_answer answer;
    if (first >= job.rows) return;
    if (ahead && threadIdx.x == 0) prefetch_short_rows<T>(job, (int64_t)blockIdx.x + ahead, (int)(blockDim.x >> 5) * LAYOUT::rows);
#pragma unroll
    for (int p = 0; p < LAYOUT::passes; p++) {
        const int64_t row = first + p * LAYOUT::at_once + group;
        words::load(flat_row(job.x, row), row < job.rows ? columns : 0, w[p]);
    }
#pragma unroll
    for (int p = 0; p < LAYOUT::passes; p++) {
        float m1, m2;
        block_sums sums;
        cell<T>::template largest_two<words::words>(w[p], m1, m2);
        words::open(w[p], v[p]);
        if (LAYOUT::lanes < 32)
            sums = sum_group<kind, N, LAYOUT::lanes, LOG>(m1, m2, v[p]);
        else
            sums = sum_block<kind, N, words::edge, LOG, LAYOUT::parts>(m1, m2, v[p], words::in_accesses(flat_row(job.x, first + p), columns));
        if (LAYOUT::passes == 1 || place == p) own = sums;
    }
    const int pass = LAYOUT::passes == 1 ? 0 : place;
    const int64_t row = first + pass * LAYOUT::at_once + group;
    const bool its_row = pass < LAYOUT::passes && row < job.rows, reader = pass == place;
    const block_note mine = note_of<kind>(own);
    answer.row = answer_of_block<kind, LOG>(mine, job.op == OPERATION_LOGSUMEXP);
    if (LOG && job.op == OPERATION_LOGSUMEXP) {
        if (its_row && reader && !answer.row.slow) store_result(flat_row(job.out, row), job.out.type, answer.row.logsumexp);
    } else {
        if (!LOG) answer.factor = factor_of<kind>(answer.row, mine);
        const bool ordinary = !answer.row.slow && !is_constant(answer.row) && (LOG || kind == ARITHMETIC_32 || answer.factor.is_plain);
        const bool all = __all_sync(EVERY_LANE, ordinary || !its_row);
#pragma unroll
        for (int p = 0; p < LAYOUT::passes; p++) {
            if (all)
                write_short_row<T, LAYOUT, LOG, true>(job, first + p * LAYOUT::at_once + group, answer, p, v[p]);
            else
                write_short_row<T, LAYOUT, LOG, false>(job, first + p * LAYOUT::at_once + group, answer, p, v[p]);
        }
    }
    const uint32_t slow = __ballot_sync(EVERY_LANE, its_row && reader && answer.row.slow);
    for (uint32_t rest = slow; rest; rest &= rest - 1) softmax_cuda_slow_row(job, __shfl_sync(EVERY_LANE, row, __ffs((int)rest) - 1));
}

#endif
