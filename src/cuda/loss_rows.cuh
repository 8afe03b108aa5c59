/* Cross-entropy of contiguous rows in registers, logits read once and the gradient written once: a warp a block of columns, a thread block up to 16
 * of them, a cluster a row; a thread block takes one row after another, the next ones' logits already on their way to shared memory.
 * It is softmax whose results are multiplied by the gradient's factor; what the target takes is computed for up to 32 rows at once (loss_cases.cuh).
 * Rows whose scores or factors are out of the fast arithmetic's range are left to cross_entropy_any.cuh. */
#ifndef SOFTMAX_CUDA_LOSS_ROWS_CUH
#define SOFTMAX_CUDA_LOSS_ROWS_CUH

#include "gradient.h"
#include "launch.cuh"
#include "loss_answer.cuh"
#include "loss_stream.cuh"

#define PLANNED_ROWS 32

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

/* What a thread block keeps in shared memory before its stages. */
typedef struct loss_room {
    loss_board board; /* of the row in turn */
    part_exchange<row_part> exchange;
    uint64_t full[MOST_STAGES];
    loss_case cases[PLANNED_ROWS];
    loss_part any_part;
} loss_room;

/* A warp's block of columns of a row, as its terms and their sums. */
template <int TYPE, typename MODE>
static __device__ __forceinline__ block_sums sum_scores(loss_room &room, const row_ring<1, loss_room> &ring, const softmax_job &job, int row,
                                                        const row_shape &its, const row_place &p, bool plans, float *v) {
    const int VECTORS = LANE_SCORES / packed<TYPE>::per, bytes = packed<TYPE>::bytes;
    const uint32_t nothing = nothing_of<TYPE>();
    float m1, m2;
    {
        piece<TYPE, VECTORS> scores;
        if (MODE::stream) {
            ring.wait();
            take(scores, ring.current(0) + p.warp * SOFTMAX_BLOCK_COLUMNS * bytes, p.part_last - p.first, nothing);
        } else {
            fetch(scores, MODE::any ? row_of(job, job.x, row) : flat_row(job.x, row), its, p.first, (int)(threadIdx.x & 31), 32, nothing);
        }
        if (plans) plan_recorded(room.cases[0], score_of_target<TYPE>(job, row, target_of(job, row)), uniform_factor(job));
        two_largest(scores, m1, m2);
#pragma unroll
        for (int j = 0; j < LANE_SCORES; j++) v[j] = scores.get(j);
    }
    return sum_block<ARITHMETIC_32, LANE_SCORES, 0, false, 1>(m1, m2, v, SOFTMAX_BLOCK_COLUMNS);
}

/* The rows before are written; by all warps. */
static __device__ __forceinline__ void plan_next_rows(loss_room &room, const softmax_job &job, int row, int end, int step, uint32_t turn, const row_place &p) {
    __syncthreads();
    if (p.warp != 0) return;
    if (turn != 0) finish_rows(room.cases, job, row - PLANNED_ROWS * step, end, step, p.part_first, p.part_last);
    plan_rows(room.cases, job, row, end, step); /* read from the next barrier on */
}

template <int TYPE, typename MODE> static __device__ __forceinline__ void loss_rows(const softmax_job &job, const stream_shape &shape) {
    const int VECTORS = LANE_SCORES / packed<TYPE>::per, bytes = packed<TYPE>::bytes;
    const bool STREAM = MODE::stream, ANY = MODE::any, RECORDS = MODE::records;
    loss_room &room = the_board<loss_room>();
    const row_place p = place_of_warp((int)job.columns, (int)(blockDim.x >> 5));
    const row_shape its = {job.columns, !ANY || shape.row.vectors};
    row_ring<1, loss_room> ring(room.full, shape, p.part_last - p.part_first, bytes);
    int row, end, step;
    uint32_t turn = 0;
    rows_of_block<STREAM>(shape, (int)job.rows, p.cluster, row, end, step);
    if (threadIdx.x == 0) {
        for (int s = 0; STREAM && s < shape.stages; s++) gate_begin(&room.full[s]);
        if (p.cluster > 1) begin_parts(room.exchange, p.cluster);
        gates_begun();
    }
    if (STREAM || p.cluster > 1) wait_for_gates(p.cluster);
    auto ask = [&](int stage, int its_row) {
        if (its_row >= end) return;
        ring.expect(stage);
        ring.fill(stage, 0, flat_row(job.x, its_row) + p.part_first * bytes);
    };
    if (STREAM && threadIdx.x == 0)
        for (int s = 0; s < shape.stages; s++) ask(s, row + s * step);
    for (; row < end; row += step, turn++) {
        const unsigned planned = RECORDS ? 0 : turn % PLANNED_ROWS;
        /* each warp in turn, for a processor's four parts to share */
        const int reader = (int)((turn + blockIdx.x) % (unsigned)p.warps), planner = reader + 1 == p.warps ? 0 : reader + 1;
        float v[LANE_SCORES];
        if (!RECORDS && planned == 0) plan_next_rows(room, job, row, end, step, turn, p);
        const block_sums sums = sum_scores<TYPE, MODE>(room, ring, job, row, its, p, RECORDS && p.warp == planner, v);
        if ((threadIdx.x & 31) == 0) room.board.sums[p.warp] = sums;
        __syncthreads();
        if (STREAM && threadIdx.x == 0) ask(ring.stage, row + shape.stages * step);
        if (STREAM) ring.next();
        if (p.warp == reader) {
            read_out<ANY>(room.board, room.exchange, room.cases[planned], job, row, p.warps, p.rank, p.cluster, turn);
            if (RECORDS && p.rank == 0 && (threadIdx.x & 31) == 0) store_record(job, room.cases[0], row);
        }
        __syncthreads();
        if (job.out.data)
            write_gradient<TYPE, VECTORS>(room.board, ANY ? row_of(job, job.x, row) : flat_row(job.x, row),
                                          ANY ? row_of(job, job.out, row) : flat_row(job.out, row), its, p.first, v);
        if (room.board.way == ROW_BY_ANY && p.rank == 0 && p.warp == 0) softmax_loss_slow_row(job, row, &room.any_part);
    }
    if (RECORDS || turn == 0) return;
    __syncthreads();
    if (p.warp == 0) finish_rows(room.cases, job, row - (int)((turn - 1) % PLANNED_ROWS + 1) * step, end, step, p.part_first, p.part_last);
}

#ifndef LOSS_REGISTERS
#define LOSS_REGISTERS 64
#endif
template <int TYPE, typename MODE>
static __global__ void __maxnreg__(LOSS_REGISTERS) loss_row_kernel(const __grid_constant__ softmax_job job, stream_shape shape) {
    if constexpr (HAS_CLUSTERS || MODE::any) loss_rows<TYPE, MODE>(job, shape);
}

template <int TYPE> static cudaError_t launch_loss_rows(const softmax_job *job, const cuda_shape *shape) {
    const int slice = shape->warps * SOFTMAX_BLOCK_COLUMNS * packed<TYPE>::bytes, turns = shape->turns > 0 ? shape->turns : 1;
    const stream_shape stream = {{job->columns, shape->vectors != 0}, shape->stages, slice, turns};
    launch_shape l = launch_of((job->rows + turns - 1) / turns * shape->cluster, 32 * shape->warps, shape->cluster, (size_t)board_bytes<loss_room>(),
                               (cudaStream_t)job->stream);
    if (job->rows == 0) return cudaSuccess;
    if (shape->records && shape->stages > 0) return launch_loss_stream<TYPE>(job, shape);
    if (shape->stages == 0 && shape->records) return launch(l, loss_row_kernel<TYPE, loss_direct>, *job, stream);
    if (shape->stages == 0) return launch(l, loss_row_kernel<TYPE, loss_any>, *job, stream);
    l.shared += (size_t)(shape->stages * slice);
    return launch_resident(l, shape->multiprocessors, loss_row_kernel<TYPE, loss_planned>, *job, stream);
}

#endif
