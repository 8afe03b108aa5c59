/* Cross-entropy of rows that pass through shared memory, where a row's gradients have one factor. Most warps of a thread block are workers, each with a
 * block of columns and some slots for it: a bulk copy brings the logits, their terms take their place, and once the row's answer is known these become
 * the gradient. The last warps, the clerks, make the answers of rows in turn; meanwhile the workers make the next row's terms. No barrier stands between
 * rows: workers wait at gates for their own logits and for answers, clerks for sums. */
#ifndef SOFTMAX_CUDA_LOSS_STREAM_CUH
#define SOFTMAX_CUDA_LOSS_STREAM_CUH

#include "launch.cuh"
#include "loss_answer.cuh"

#define STREAM_SETS 4 /* rows between their sums and their gradients, at most */
#define SLOT_BYTES (4 * SOFTMAX_BLOCK_COLUMNS)
#define STREAM_REGISTERS 80
#define MOST_CLERKS 4

/* A clerk's own. */
typedef struct clerk_desk {
    loss_case row_case;
    loss_part any_part;
} clerk_desk;

/* What a thread block keeps in shared memory before its slots. Behind these, in a cluster, each clerk has a place for parts of its rows. */
typedef struct stream_room {
    loss_board rows[STREAM_SETS];
    uint64_t counted[STREAM_SETS], answered[STREAM_SETS];
    uint64_t full[LOSS_BLOCKS][MOST_STAGES];
    clerk_desk desks[MOST_CLERKS];
} stream_room;

/* ---- A block of columns in its slot --------------------------------------------------------------------------------------------------------- */

/* Logits of 16 bits lie in a slot's second half: terms are written from its beginning on, and overwrite what has been read. */
template <int TYPE> static __device__ __forceinline__ unsigned char *logits_in(unsigned char *slot) {
    return slot + (SLOT_BYTES - SOFTMAX_BLOCK_COLUMNS * packed<TYPE>::bytes);
}

/* The largest of a lane's scores, NaN where there is one; of 16-bit ones the least too. */
template <int TYPE, int VECTORS> static __device__ __forceinline__ void extremes_of(const piece<TYPE, VECTORS> &p, float &most, float &least) {
    least = -INFINITY;
    if (TYPE == ELEMENT_FLOAT32) {
        float other = p.get(1);
        most = p.get(0);
#pragma unroll
        for (int i = 2; i < p.elements; i += 2) {
            most = max_or_nan(most, p.get(i));
            other = max_or_nan(other, p.get(i + 1));
        }
        most = max_or_nan(most, other);
        return;
    }
    uint32_t a = p.word[0], b = p.word[0];
    float a2[2], b2[2];
#pragma unroll
    for (int i = 1; i < VECTORS * 4; i++) {
        a = larger_pair_or_nan<TYPE>(a, p.word[i]);
        b = smaller_pair<TYPE>(b, p.word[i]);
    }
    packed<TYPE>::unpack(a, a2);
    packed<TYPE>::unpack(b, b2);
    most = max_or_nan(a2[0], a2[1]);
    least = fminf(b2[0], b2[1]);
}

/* The second largest of a block's scores; owner: the lane that has the largest, whose scores are looked at once more, one a lane. */
template <int TYPE>
static __device__ __forceinline__ float second_largest(const unsigned char *logits, int count, uint32_t key, uint32_t top, int owner) {
    const int per = packed<TYPE>::per, lane = (int)(threadIdx.x & 31), column = (lane / per * 32 + owner) * per + lane % per;
    const float z = column < count ? load_element<float>((const char *)logits + column * packed<TYPE>::bytes, (element)TYPE) : -INFINITY;
    const uint32_t again = order_of(z), equal = __ballot_sync(EVERY_LANE, again == top);
    const uint32_t others = lane == owner ? 0u : key, rest = lane == __ffs((int)equal) - 1 ? 0u : again;
    return of_order(__reduce_max_sync(EVERY_LANE, max(others, rest)));
}

/* What terms are made with; the same in every lane. */
typedef struct term_frame {
    float magic, floor_score;
    uint32_t high, low; /* digits, their constants left in */
} term_frame;

/* Terms in place of the logits. NEAR: a whole block whose least score is so near that none is below the floor. */
template <int TYPE, bool NEAR>
static __device__ __forceinline__ void make_terms(unsigned char *slot, int count, term_frame &f) {
    const int per = packed<TYPE>::per, vectors = LANE_SCORES / per, lane = (int)(threadIdx.x & 31);
    const uint32_t fill = nothing_of<TYPE>();
    const uint4 *from = (const uint4 *)(const void *)logits_in<TYPE>(slot) + lane;
    float4 *to = (float4 *)(void *)slot + lane;
#pragma unroll (TYPE == ELEMENT_FLOAT32 ? 2 : 1) /* 8 columns of a lane at a time */
    for (int i = 0; i < vectors; i++) {
        uint4 a = make_uint4(fill, fill, fill, fill);
        float v[per];
        if (NEAR || (i * 32 + lane) * per < count) a = from[i * 32];
        const uint32_t word[4] = {a.x, a.y, a.z, a.w};
        if (per == 8) __syncwarp(); /* what is overwritten has been read by all */
#pragma unroll
        for (int j = 0; j < per; j++) {
            float two[2];
            packed<TYPE>::unpack(word[j * 4 / per], two);
            const float z = two[j % (per / 4)];
            v[j] = add_term<ARITHMETIC_32>(NEAR ? z : fmaxf(z, f.floor_score), f.magic, f.high, f.low);
        }
#pragma unroll
        for (int j = 0; j < per; j += 4) to[(i * per + j) * 8] = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
    }
}

/* A block's sums; its terms take the logits' place. near: none is more than 2^60 below kb. count: columns that it has. */
template <int TYPE> static __device__ __forceinline__ block_sums sum_slot(unsigned char *slot, int count, bool &near) {
    const int VECTORS = LANE_SCORES / packed<TYPE>::per;
    block_sums s;
    float most, least;
    {
        piece<TYPE, VECTORS> p;
        take(p, logits_in<TYPE>(slot), count, nothing_of<TYPE>());
        extremes_of(p, most, least);
    }
    const uint32_t key = order_of(most), top = __reduce_max_sync(EVERY_LANE, key);
    const int owner = __ffs((int)__ballot_sync(EVERY_LANE, key == top)) - 1;
    const float second = second_largest<TYPE>(logits_in<TYPE>(slot), count, key, top, owner);
    s.maximum = of_order(top) + 0.0f; /* -0 is taken as +0 */
    s.maximum_low = 0.0f;
    s.kb = term32_exponent(fmaxf(second, (s.maximum == -INFINITY ? 0.0f : s.maximum) - TERM32_SPREAD));
    term_frame f = {TERM32_MAGIC + SOFTMAX_BIAS - s.kb, term32_floor(s.kb), 0, 0};
    near = __all_sync(EVERY_LANE, TYPE != ELEMENT_FLOAT32 && least >= (s.kb - 60.0f) * TERM32_LN2_HI);
    if (near)
        make_terms<TYPE, true>(slot, count, f);
    else
        make_terms<TYPE, false>(slot, count, f);
    s.high = __reduce_add_sync(EVERY_LANE, f.high) - SOFTMAX_BLOCK_COLUMNS * float_bits(TERM32_HIGH);
    s.low = __reduce_add_sync(EVERY_LANE, f.low) - SOFTMAX_BLOCK_COLUMNS * float_bits(TERM32_LOW);
    return s;
}

/* How a block's terms become results: any that are ordinary; those of a block that does not come near the row's largest; and bfloat16 that is far
 * from subnormal, which is scaled by an integer once it is rounded. */
enum slot_results { RESULTS_ANY, RESULTS_BELOW_MOST, RESULTS_NORMAL };

template <int TYPE, slot_results HOW>
static __device__ __forceinline__ void store_results(float *v, char *out, int count, const float4 &f) {
    const int per = packed<TYPE>::per, vectors = LANE_SCORES / per, lane = (int)(threadIdx.x & 31);
    uint4 *to = (uint4 *)(void *)out + lane;
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        uint32_t w[4];
#pragma unroll
        for (int j = i * per; j < (i + 1) * per; j++) {
            const float b = fmaf(v[j], f.x, v[j] * f.y);
            v[j] = HOW == RESULTS_NORMAL ? b : shrink_and_flush(HOW == RESULTS_ANY && b >= f.z ? f.w : b);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) w[j] = packed<TYPE>::pack(v + i * per + j * (per / 4)) - (HOW == RESULTS_NORMAL ? 64u << 7 | 64u << 23 : 0u);
        if ((i * 32 + lane) * per < count) __stcs(to + i * 32, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

/* A row without gradient. */
template <int TYPE> static __device__ __forceinline__ void fill_results(char *out, int count, bool nan) {
    const int per = packed<TYPE>::per, lane = (int)(threadIdx.x & 31);
    const uint32_t both = TYPE == ELEMENT_FLOAT32 ? 0x7fc00000u : TYPE == ELEMENT_BFLOAT16 ? 0x7fc07fc0u : 0x7e007e00u, word = nan ? both : 0u;
#pragma unroll 1
    for (int i = lane; i * per < count; i += 32) __stcs((uint4 *)(void *)out + i, make_uint4(word, word, word, word));
}

/* A lane's terms out of a slot. */
static __device__ __forceinline__ void take_terms(const unsigned char *slot, float *v) {
    const float4 *from = (const float4 *)(const void *)slot + (threadIdx.x & 31);
#pragma unroll
    for (int i = 0; i < LANE_SCORES / 4; i++) {
        const float4 a = from[i * 32];
        v[4 * i] = a.x;
        v[4 * i + 1] = a.y;
        v[4 * i + 2] = a.z;
        v[4 * i + 3] = a.w;
    }
}

/* ---- Warps with a block of columns ---------------------------------------------------------------------------------------------------------- */

/* A warp's own: its slots, and what it knows of the rows in them. */
template <int TYPE> struct stream_worker {
    stream_room &room;
    const softmax_job &job;
    const row_place place;
    unsigned char *slots;
    int stages, count, end, step;
    uint32_t near; /* a bit for each slot */
    int slot, phase; /* of the next row */

    __device__ __forceinline__ unsigned char *slot_number(int s) const { return slots + s * SLOT_BYTES; }
    /* By one lane: a row's logits into slot s, which nobody reads any more. */
    __device__ __forceinline__ void ask(int s, int row) const {
        const int bytes = packed<TYPE>::bytes;
        if (row >= end || count <= 0) return;
        gate_expect(&room.full[place.warp][s], (uint32_t)(count * bytes));
        copy_in_background(logits_in<TYPE>(slot_number(s)), flat_row(job.x, row) + (int64_t)place.first * bytes, (uint32_t)(count * bytes),
                           &room.full[place.warp][s]);
    }
    __device__ __forceinline__ void sum(uint32_t turn) {
        const int set = (int)(turn % STREAM_SETS);
        bool is_near;
        if (count > 0) gate_wait(&room.full[place.warp][slot], (uint32_t)phase);
        const block_sums sums = sum_slot<TYPE>(slot_number(slot), count, is_near);
        near = (near & ~(1u << slot)) | (uint32_t)is_near << slot;
        if ((threadIdx.x & 31) == 0) {
            room.rows[set].sums[place.warp] = sums;
            gate_arrive(&room.counted[set]);
        }
        if (++slot == stages) {
            slot = 0;
            phase ^= 1;
        }
    }
    /* The gradient of row number `turn`, whose terms are in slot s; a later row's logits are asked for before it is stored, for the fence waits for
     * stores. */
    __device__ __forceinline__ void write(uint32_t turn, int row, int s) const {
        const loss_board &board = room.rows[turn % STREAM_SETS];
        const float4 f = answer(turn);
        float v[LANE_SCORES];
        take_terms(slot_number(s), v);
        __syncwarp();
        if ((threadIdx.x & 31) == 0) {
            before_copies();
            ask(s, row + stages * step);
        }
        if (!job.out.data || board.way == ROW_BY_ANY) return;
        char *out = flat_row(job.out, row);
        if (board.way != ROW_RESULTS) {
            fill_results<TYPE>(out + (int64_t)place.first * packed<TYPE>::bytes, count, board.way == ROW_NANS);
            return;
        }
        if (!board.ordinary) {
            other_gradient<TYPE>(board, flat_row(job.x, row), out, (int)job.columns, place.first);
            return;
        }
        out += (int64_t)place.first * packed<TYPE>::bytes;
        if (f.z != INFINITY)
            store_results<TYPE, RESULTS_ANY>(v, out, count, f);
        else if (TYPE != ELEMENT_BFLOAT16 || !(near >> s & 1) || !(f.x >= 1.0f))
            store_results<TYPE, RESULTS_BELOW_MOST>(v, out, count, f);
        else
            store_results<TYPE, RESULTS_NORMAL>(v, out, count, f);
    }
    /* Waits for row number `turn`'s. */
    __device__ __forceinline__ float4 answer(uint32_t turn) const {
        gate_wait(&room.answered[turn % STREAM_SETS], turn / STREAM_SETS & 1);
        return room.rows[turn % STREAM_SETS].factors[place.warp];
    }
};

/* Whose rows: all clerks' are first, first + step, ... below end. */
typedef struct clerk_rows {
    int clerk, clerks, first, end, step;
} clerk_rows;

/* ---- The kernel ----------------------------------------------------------------------------------------------------------------------------- */

template <int TYPE> static __device__ __forceinline__ void work_on_rows(stream_worker<TYPE> &w, int row) {
    const int delay = w.stages - 2; /* rows whose terms wait for an answer while the next one's are made */
    uint32_t turn = 0;
    int written = 0; /* its slot */
    if ((threadIdx.x & 31) == 0)
        for (int s = 0; s < w.stages; s++) w.ask(s, row + s * w.step);
    for (; row < w.end + delay * w.step; row += w.step, turn++) {
        if (row < w.end) w.sum(turn);
        if (turn < (uint32_t)delay) continue;
        const int past = row - delay * w.step;
        if (past < w.end) w.write(turn - (uint32_t)delay, past, written);
        if (++written == w.stages) written = 0;
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
        if (lane == 0) gate_arrive(&room.answered[set]);
        if (p.rank == 0) {
            if (lane == 0) store_record(job, desk.row_case, row);
            if (board.way == ROW_BY_ANY) softmax_loss_slow_row(job, row, &desk.any_part);
        }
        __syncwarp();
    }
}

/* By one thread. */
static __device__ __forceinline__ void begin_stream(stream_room &room, part_exchange<row_part> *exchanges, const row_place &p, int stages, int clerks) {
    for (int w = 0; w < p.warps; w++)
        for (int s = 0; s < stages; s++) gate_begin(&room.full[w][s]);
    for (int s = 0; s < STREAM_SETS; s++) {
        gate_begin_for(&room.counted[s], (uint32_t)p.warps);
        gate_begin(&room.answered[s]);
    }
    for (int c = 0; p.cluster > 1 && c < clerks; c++) begin_parts(exchanges[c], p.cluster);
    gates_begun();
}

template <int TYPE>
static __global__ void __maxnreg__(STREAM_REGISTERS) loss_stream_kernel(const __grid_constant__ softmax_job job, stream_shape shape, int clerks) {
    stream_room &room = the_board<stream_room>();
    const row_place p = place_of_warp((int)job.columns, (int)(blockDim.x >> 5) - clerks);
    unsigned char *slots = shared_bytes() + board_bytes<stream_room>();
    part_exchange<row_part> *exchanges = (part_exchange<row_part> *)(void *)(slots + p.warps * shape.stages * SLOT_BYTES);
    int row, end, step;
    rows_of_block<true>(shape, (int)job.rows, p.cluster, row, end, step);
    if (threadIdx.x == 0) begin_stream(room, exchanges, p, shape.stages, clerks);
    wait_for_gates(p.cluster);
    let_next_kernel_start();
    if (p.warp >= p.warps) {
        const int clerk = p.warp - p.warps;
        const clerk_rows rows = {clerk, clerks, row, end, step};
        answer_rows<TYPE>(room, exchanges[clerk], job, p, rows);
        return;
    }
    const int left = (int)job.columns - p.first;
    stream_worker<TYPE> worker = {room, job, p, slots + p.warp * shape.stages * SLOT_BYTES, shape.stages, min(left, SOFTMAX_BLOCK_COLUMNS), end, step, 0, 0, 0};
    work_on_rows(worker, row);
}

template <int TYPE> static cudaError_t launch_loss_stream(const softmax_job *job, const cuda_shape *shape) {
    const stream_shape stream = {{job->columns, true}, shape->stages, SLOT_BYTES, 1};
    const int clerks = min(MOST_CLERKS, max(1, shape->warps / 2));
    launch_shape l = launch_of(job->rows * shape->cluster, 32 * (shape->warps + clerks), shape->cluster, (size_t)board_bytes<stream_room>(),
                               (cudaStream_t)job->stream);
    l.shared += (size_t)(shape->warps * shape->stages * SLOT_BYTES) + (shape->cluster > 1 ? (size_t)clerks * sizeof(part_exchange<row_part>) : 0);
    l.early = true;
    return launch_resident(l, shape->multiprocessors, loss_stream_kernel<TYPE>, *job, stream, clerks);
}

#endif
