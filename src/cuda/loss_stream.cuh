/* Cross-entropy of rows that come one after another to the same warps, where a row's gradients have one factor. Most warps of a thread block are
 * workers, each with a block of columns and some shared memory for it: a bulk copy brings the next row's logits, and terms of two rows wait there for
 * their answers, to become gradients. The last warps, the clerks, make the answers of rows in turn; meanwhile the workers make the next rows' terms. No
 * barrier stands between rows: workers wait at gates for their own logits and for answers, clerks for sums. */
#ifndef SOFTMAX_CUDA_LOSS_STREAM_CUH
#define SOFTMAX_CUDA_LOSS_STREAM_CUH

#include "launch.cuh"
#include "loss_answer.cuh"

#define WAITING_ROWS 2 /* their terms wait for their answers while the next row's are made */
#define STREAM_SETS 4  /* of what warps tell each other of a row: at least one more than that */
#define SLOT_BYTES (4 * SOFTMAX_BLOCK_COLUMNS)
#define STREAM_REGISTERS 96 /* of 20 warps: the next row's terms are held in them */
#define MOST_CLERKS 4

/* A row's answer takes longer than its terms. A processor's four parts share a thread block's warps: 20 have registers, however few are clerks. */
template <int TYPE> static inline int clerks_for(int warps) { return warps >= 12 ? MOST_CLERKS : warps >= 8 || TYPE == ELEMENT_FLOAT32 ? 2 : 1; }

/* A clerk's own. */
typedef struct clerk_desk {
    loss_case row_case;
    loss_part any_part;
} clerk_desk;

/* What a thread block keeps in shared memory before its workers' memory. Behind that, in a cluster, each clerk has a place for parts of its rows. */
typedef struct stream_room {
    loss_board rows[STREAM_SETS];
    uint64_t counted[STREAM_SETS], answered[STREAM_SETS];
    uint64_t full[LOSS_BLOCKS];
    clerk_desk desks[MOST_CLERKS];
} stream_room;

/* ---- A block of columns ----------------------------------------------------------------------------------------------------------------------- */

/* The largest of a lane's scores, NaN where there is one. */
template <int VECTORS> static __device__ __forceinline__ void extremes_of(const piece<ELEMENT_FLOAT32, VECTORS> &p, float &most, float &least) {
    float m[4];
    least = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; i++) m[i] = p.get(i);
#pragma unroll
    for (int i = 4; i < 4 * VECTORS; i++) m[i % 4] = max_or_nan(m[i % 4], p.get(i));
    most = max_or_nan(max_or_nan(m[0], m[1]), max_or_nan(m[2], m[3]));
}

/* The same of 16-bit scores, and the least. */
template <int TYPE, int VECTORS> static __device__ __forceinline__ void extremes_of(const piece<TYPE, VECTORS> &p, float &most, float &least) {
    const int half = VECTORS * 2;
    uint32_t a[half], b[half];
    float a2[2], b2[2];
#pragma unroll
    for (int i = 0; i < half; i++) {
        a[i] = larger_pair_or_nan<TYPE>(p.word[i], p.word[i + half]);
        b[i] = smaller_pair<TYPE>(p.word[i], p.word[i + half]);
    }
#pragma unroll
    for (int left = half / 2; left > 0; left /= 2) {
#pragma unroll
        for (int i = 0; i < left; i++) {
            a[i] = larger_pair_or_nan<TYPE>(a[i], a[i + left]);
            b[i] = smaller_pair<TYPE>(b[i], b[i + left]);
        }
    }
    packed<TYPE>::unpack(a[0], a2);
    packed<TYPE>::unpack(b[0], b2);
    most = max_or_nan(a2[0], a2[1]);
    least = fminf(b2[0], b2[1]);
}

/* The second largest of a block's scores; owner: the lane that has the largest, whose scores are looked at once more, one a lane. */
template <int TYPE>
static __device__ __forceinline__ float second_largest(const unsigned char *logits, int count, uint32_t key, uint32_t top, int owner) {
    const int per = packed<TYPE>::per, lane = (int)(threadIdx.x & 31), column = (lane / per * 32 + owner) * per + lane % per;
    float z[2] = {-INFINITY, -INFINITY};
    if (column < count) packed<TYPE>::unpack(packed<TYPE>::bytes == 4 ? ((const uint32_t *)(const void *)logits)[column] : ((const uint16_t *)(const void *)logits)[column], z);
    const uint32_t again = order_of(z[0]), equal = __ballot_sync(EVERY_LANE, again == top);
    const uint32_t others = lane == owner ? 0u : key, rest = lane == __ffs((int)equal) - 1 ? 0u : again;
    return of_order(__reduce_max_sync(EVERY_LANE, max(others, rest)));
}

/* What terms are made with; the same in every lane. */
typedef struct term_frame {
    float magic, floor_score;
    uint32_t high, low; /* digits, their constants left in */
} term_frame;

/* What a block of so many columns has terms for: whole vectors of all lanes. The other warps wait for the one whose block is not full; but float32's
 * compiles to slower code with a condition for each vector. */
template <int TYPE> static __device__ __forceinline__ uint32_t terms_made(int count) {
    const uint32_t of_vector = 32 * packed<TYPE>::per;
    if (TYPE == ELEMENT_FLOAT32) return SOFTMAX_BLOCK_COLUMNS;
    return count > 0 ? ((uint32_t)count + of_vector - 1) / of_vector * of_vector : 0;
}

/* Terms of a lane's logits. NEAR: a full block of which none is below the floor. */
template <int TYPE, bool NEAR>
static __device__ __forceinline__ void make_terms(const unsigned char *logits, float *v, int count, term_frame &f) {
    const int per = packed<TYPE>::per, vectors = LANE_SCORES / per, lane = (int)(threadIdx.x & 31);
    const uint32_t fill = nothing_of<TYPE>();
    const uint4 *from = (const uint4 *)(const void *)logits + lane;
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        uint4 a = make_uint4(fill, fill, fill, fill);
        if (TYPE != ELEMENT_FLOAT32 && !NEAR && i * 32 * per >= count) continue;
        if (NEAR || (i * 32 + lane) * per < count) a = from[i * 32];
        const uint32_t word[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
        for (int j = 0; j < per; j++) {
            float two[2];
            packed<TYPE>::unpack(word[j * 4 / per], two);
            const float z = two[j % (per / 4)];
            v[i * per + j] = add_term<ARITHMETIC_32>(NEAR ? z : fmaxf(z, f.floor_score), f.magic, f.high, f.low);
        }
    }
}

/* A block's terms and their sums. near: none is more than 2^60 below kb, and the block is full. */
template <int TYPE> static __device__ __forceinline__ block_sums sum_logits(const unsigned char *logits, float *v, int count, bool &near) {
    block_sums s;
    float most, least;
    {
        piece<TYPE, LANE_SCORES / packed<TYPE>::per> p;
        take(p, logits, count, nothing_of<TYPE>());
        extremes_of(p, most, least);
    }
    const uint32_t key = order_of(most), top = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top)) - 1;
    const float second = second_largest<TYPE>(logits, count, key, top, owner);
    s.maximum = of_order(top) + 0.0f; /* -0 is taken as +0 */
    s.maximum_low = 0.0f;
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    term_frame f = {TERM32_MAGIC + SOFTMAX_BIAS - s.kb, term32_floor(s.kb), 0, 0};
    near = __all_sync(EVERY_LANE, TYPE != ELEMENT_FLOAT32 && least >= (s.kb - 60.0f) * TERM32_LN2_HI);
    if (near)
        make_terms<TYPE, true>(logits, v, count, f);
    else
        make_terms<TYPE, false>(logits, v, count, f);
    const uint32_t made = terms_made<TYPE>(count);
    s.high = __reduce_add_sync(EVERY_LANE, f.high) - made * float_bits(TERM32_HIGH);
    s.low = __reduce_add_sync(EVERY_LANE, f.low) - made * float_bits(TERM32_LOW);
    return s;
}

/* How a block's terms become results: any that are ordinary; those of a block that does not come near the row's largest; and bfloat16 that is far
 * from subnormal, which is scaled by an integer once it is rounded. */
enum slot_results { RESULTS_ANY, RESULTS_BELOW_MOST, RESULTS_NORMAL };

/* Some of a lane's terms out of a slot. */
template <int VECTORS> static __device__ __forceinline__ void take_terms(const unsigned char *slot, float *v) {
    const float4 *from = (const float4 *)(const void *)slot + (threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < VECTORS; i++) {
        const float4 a = from[i * 32];
        v[4 * i] = a.x;
        v[4 * i + 1] = a.y;
        v[4 * i + 2] = a.z;
        v[4 * i + 3] = a.w;
    }
}

template <int TYPE, slot_results HOW, bool FULL>
static __device__ __forceinline__ void store_results(const unsigned char *slot, char *out, int count, const float4 &f) {
    const int per = packed<TYPE>::per, vectors = LANE_SCORES / per, lane = (int)(threadIdx.x & 31);
    uint4 *to = (uint4 *)(void *)out + lane;
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        uint32_t w[4];
        float v[per];
        if (TYPE != ELEMENT_FLOAT32 && !FULL && i * 32 * per >= count) continue;
        take_terms<per / 4>(slot + i * per * 128, v);
#pragma unroll
        for (int j = 0; j < per; j++) {
            const float b = fmaf(v[j], f.x, v[j] * f.y);
            v[j] = HOW == RESULTS_NORMAL ? b : shrink_and_flush(HOW == RESULTS_ANY && b >= f.z ? f.w : b);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) w[j] = packed<TYPE>::pack(v + j * (per / 4)) - (HOW == RESULTS_NORMAL ? 64u << 7 | 64u << 23 : 0u);
        if (FULL || (i * 32 + lane) * per < count) __stcs(to + i * 32, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

/* A row without gradient. */
template <int TYPE> static __device__ __forceinline__ void fill_results(char *out, int count, bool nan) {
    const int per = packed<TYPE>::per, lane = (int)(threadIdx.x & 31);
    const uint32_t both = TYPE == ELEMENT_FLOAT32 ? 0x7fc00000u : TYPE == ELEMENT_BFLOAT16 ? 0x7fc07fc0u : 0x7e007e00u, word = nan ? both : 0u;
#pragma unroll 1
    for (int i = lane; i * per < count; i += 32) __stcs((uint4 *)(void *)out + i, make_uint4(word, word, word, word));
}

/* ---- Warps with a block of columns ---------------------------------------------------------------------------------------------------------- */

/* A worker's own. Its memory: a slot for each waiting row's terms, and the next row's logits. */
template <int TYPE> struct stream_worker {
    static const int bytes = WAITING_ROWS * SLOT_BYTES + SOFTMAX_BLOCK_COLUMNS * packed<TYPE>::bytes;
    stream_room &room;
    const softmax_job &job;
    const row_place place;
    unsigned char *memory;
    int count, end, step;
    uint32_t near; /* a bit for each slot */

    __device__ __forceinline__ unsigned char *slot(uint32_t turn) const { return memory + turn % WAITING_ROWS * SLOT_BYTES; }
    __device__ __forceinline__ unsigned char *logits() const { return memory + WAITING_ROWS * SLOT_BYTES; }
    /* By one lane: a row's logits, to where nobody reads any more. */
    __device__ __forceinline__ void ask(int row) const {
        const uint32_t asked = (uint32_t)(count * packed<TYPE>::bytes);
        uint64_t *full = &room.full[place.warp];
        if (row >= end || count <= 0) return;
        gate_expect(full, asked);
        const char *from = flat_row(job.x, row) + (int64_t)place.first * packed<TYPE>::bytes;
        copy_in_background(logits(), from, asked, full);
        /* the row after it, to nearer memory: docs/results, losses 4, has what this gains wide rows and costs others */
        if (TYPE == ELEMENT_FLOAT32 && place.cluster > 1 && row + step < end) prefetch_bytes_to_l2(from + step * job.x.row_stride[0], (int)asked);
    }
    /* The terms of row number `turn`, and its sums onto the board; whether they are near. */
    __device__ __forceinline__ bool sum(uint32_t turn, int row, float *v) const {
        const uint32_t set = turn % STREAM_SETS;
        bool is_near;
        if (count > 0) gate_wait(&room.full[place.warp], turn & 1);
        const block_sums sums = sum_logits<TYPE>(logits(), v, count, is_near);
        if ((threadIdx.x & 31) == 0) { /* every lane has read its logits: the sums have gone through all */
            room.rows[set].sums[place.warp] = sums;
            gate_arrive(&room.counted[set]);
            ask(row + step);
        }
        return is_near;
    }
    /* The gradient of row number `turn`. */
    __device__ __forceinline__ void write(uint32_t turn, int row) const {
        const loss_board &board = room.rows[turn % STREAM_SETS];
        gate_wait(&room.answered[turn % STREAM_SETS], turn / STREAM_SETS & 1);
        if (job.out.data) store(board, row, slot(turn), near >> turn % WAITING_ROWS & 1, board.factors[place.warp]);
    }
    /* The terms of row number `turn`, to where the oldest were. */
    __device__ __forceinline__ void keep(uint32_t turn, const float *v, bool is_near) {
        const uint32_t s = turn % WAITING_ROWS;
        float4 *to = (float4 *)(void *)slot(turn) + (threadIdx.x & 31);
        near = (near & ~(1u << s)) | (uint32_t)is_near << s;
#pragma unroll
        for (int i = 0; i < LANE_SCORES / 4; i++) to[i * 32] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
    }
    __device__ __forceinline__ void store(const loss_board &board, int row, const unsigned char *terms, bool is_near, const float4 &f) const {
        char *out = flat_row(job.out, row) + (int64_t)place.first * packed<TYPE>::bytes;
        const bool full = count == SOFTMAX_BLOCK_COLUMNS, below = f.z == INFINITY;
        if (board.ordinary && below && full) {
            if (TYPE == ELEMENT_BFLOAT16 && is_near && f.x >= 1.0f)
                store_results<TYPE, TYPE == ELEMENT_BFLOAT16 ? RESULTS_NORMAL : RESULTS_BELOW_MOST, true>(terms, out, count, f);
            else
                store_results<TYPE, RESULTS_BELOW_MOST, true>(terms, out, count, f);
        } else if (board.ordinary) {
            store_results<TYPE, RESULTS_ANY, false>(terms, out, count, f);
        } else if (board.way == ROW_RESULTS) {
            other_gradient<TYPE>(board, flat_row(job.x, row), flat_row(job.out, row), (int)job.columns, place.first);
        } else if (board.way != ROW_BY_ANY) {
            fill_results<TYPE>(out, count, board.way == ROW_NANS);
        }
    }
};

/* Whose rows: all clerks' are first, first + step, ... below end. */
typedef struct clerk_rows {
    int clerk, clerks, first, end, step;
} clerk_rows;

/* ---- The kernel ----------------------------------------------------------------------------------------------------------------------------- */

template <int TYPE> static __device__ __forceinline__ void work_on_rows(stream_worker<TYPE> &w, int row) {
    float v[LANE_SCORES];
    if ((threadIdx.x & 31) == 0) w.ask(row);
    for (uint32_t turn = 0; row < w.end + WAITING_ROWS * w.step; row += w.step, turn++) {
        const bool more = row < w.end;
        bool is_near = false;
        if (more) is_near = w.sum(turn, row, v);
        if (turn >= WAITING_ROWS) w.write(turn - WAITING_ROWS, row - WAITING_ROWS * w.step);
        if (more) w.keep(turn, v, is_near);
    }
}

/* What targets of a clerk's next 32 rows are, a lane each. */
template <int TYPE> static __device__ __forceinline__ recorded_target next_targets(const softmax_job &job, int row, int end, int step) {
    const int its = min(row + (int)(threadIdx.x & 31) * step, end - 1);
    return score_of_target<TYPE>(job, its, target_of(job, its));
}

/* By one warp: the answers of every `clerks`th row, number first_turn first. */
template <int TYPE>
static __device__ __forceinline__ void answer_rows(stream_room &room, part_exchange<row_part> &exchange, const softmax_job &job, const row_place &p,
                                                   const clerk_rows &rows) {
    const int lane = (int)(threadIdx.x & 31);
    clerk_desk &desk = room.desks[rows.clerk];
    int row = rows.first + rows.clerk * rows.step;
    const int step = rows.clerks * rows.step;
    if (row >= rows.end) return;
    wait_for_previous_kernel(); /* it counts the targets; the other warps need not wait for that */
    const pair factor = uniform_factor(job);
    recorded_target ahead;
    for (uint32_t turn = (uint32_t)rows.clerk, number = 0; row < rows.end; row += step, turn += (uint32_t)rows.clerks, number++) {
        const uint32_t set = turn % STREAM_SETS;
        const int from = (int)(number % 32);
        loss_board &board = room.rows[set];
        if (from == 0) ahead = next_targets<TYPE>(job, row, rows.end, step);
        const recorded_target its = {0, __shfl_sync(EVERY_LANE, ahead.z, from), (__ballot_sync(EVERY_LANE, ahead.ignored) >> from & 1) != 0,
                                     (__ballot_sync(EVERY_LANE, ahead.bad) >> from & 1) != 0};
        plan_recorded(desk.row_case, its, factor);
        gate_wait(&room.counted[set], turn / STREAM_SETS & 1);
        __syncwarp();
        read_out<false>(board, exchange, desk.row_case, job, row, p.warps, p.rank, p.cluster, number);
        __syncwarp();
        const bool slow = board.way == ROW_BY_ANY;
        __syncwarp();
        if (lane == 0) gate_arrive(&room.answered[set]);
        if (p.rank == 0) {
            if (lane == 0) store_record(job, desk.row_case, row);
            if (slow) softmax_loss_slow_row(job, row, &desk.any_part);
        }
        __syncwarp();
    }
}

/* By one thread. */
static __device__ __forceinline__ void begin_stream(stream_room &room, part_exchange<row_part> *exchanges, const row_place &p, int clerks) {
    for (int w = 0; w < p.warps; w++) gate_begin(&room.full[w]);
    for (int s = 0; s < STREAM_SETS; s++) {
        gate_begin_for(&room.counted[s], (uint32_t)p.warps);
        gate_begin(&room.answered[s]);
    }
    for (int c = 0; p.cluster > 1 && c < clerks; c++) begin_parts(exchanges[c], p.cluster);
    gates_begun();
}

template <int TYPE>
static __global__ void __maxnreg__(STREAM_REGISTERS) loss_stream_kernel(const __grid_constant__ softmax_job job, stream_shape shape, int clerks) {
    if (!HAS_CLUSTERS) return;
    stream_room &room = the_board<stream_room>();
    const row_place p = place_of_warp((int)job.columns, (int)(blockDim.x >> 5) - clerks);
    unsigned char *memory = shared_bytes() + board_bytes<stream_room>();
    part_exchange<row_part> *exchanges = (part_exchange<row_part> *)(void *)(memory + p.warps * stream_worker<TYPE>::bytes);
    int row, end, step;
    rows_of_block<true>(shape, (int)job.rows, p.cluster, row, end, step);
    if (threadIdx.x == 0) begin_stream(room, exchanges, p, clerks);
    wait_for_gates(p.cluster);
    let_next_kernel_start();
    if (p.warp >= p.warps) {
        const int clerk = p.warp - p.warps;
        const clerk_rows rows = {clerk, clerks, row, end, step};
        answer_rows<TYPE>(room, exchanges[clerk], job, p, rows);
        return;
    }
    const int left = (int)job.columns - p.first;
    stream_worker<TYPE> worker = {room, job, p, memory + p.warp * stream_worker<TYPE>::bytes, min(left, SOFTMAX_BLOCK_COLUMNS), end, step, 0};
    work_on_rows(worker, row);
}

template <int TYPE> static cudaError_t launch_loss_stream(const softmax_job *job, const cuda_shape *shape) {
    const stream_shape stream = {{job->columns, true}, 0, 0, 1};
    const int clerks = clerks_for<TYPE>(shape->warps);
    launch_shape l = launch_of(job->rows * shape->cluster, 32 * (shape->warps + clerks), shape->cluster, (size_t)board_bytes<stream_room>(),
                               (cudaStream_t)job->stream);
    l.shared += (size_t)(shape->warps * stream_worker<TYPE>::bytes) + (shape->cluster > 1 ? (size_t)clerks * sizeof(part_exchange<row_part>) : 0);
    l.early = true;
    return launch_resident(l, shape->multiprocessors, loss_stream_kernel<TYPE>, *job, stream, clerks);
}

#endif
