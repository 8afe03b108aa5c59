/* The online state on a GPU: tiles of any type, stride and option into states in device memory, and results by them. A thread block takes a row,
 * as in generic.cu; states alone, a thread each. A state that softmax_state_init never saw, or of another type than it must be, is left as it is,
 * its results are NaN, and its row is reported. */
#include "../api_state.h"
#include "bad_row.cuh"
#include "generic_row.cuh"
#include "launch.cuh"

/* A tile beside states of a type: the same, or 16 bits beside float32. */
static __device__ __forceinline__ bool fits_states(element tile, softmax_type type) {
    return (int)tile == (int)type || (type == SOFTMAX_FLOAT32 && (tile == ELEMENT_FLOAT16 || tile == ELEMENT_BFLOAT16));
}

template <typename REAL> static __global__ void __launch_bounds__(32 * GENERIC_WARPS) update_states(const __grid_constant__ softmax_job job) {
    __shared__ row_state parts[GENERIC_WARPS];
    const int warp = threadIdx.x >> 5;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const softmax_type type = softmax_state_type(&job.states[row]);
        if (!fits_states(job.x.type, type)) { /* by every thread */
            if (threadIdx.x == 0) report_bad_row(job, row);
            continue;
        }
        const arithmetic kind = softmax_arithmetic_of(type);
        row_source<REAL> source = source_of<REAL>(job, row);
        row_state state = reduce_columns<REAL, false>(job, source, kind, warp, GENERIC_WARPS);
        if ((threadIdx.x & 31) == 0) parts[warp] = state;
        __syncthreads();
        if (threadIdx.x == 0) {
            state = softmax_state_to_row(&job.states[row]);
            for (int i = 0; i < GENERIC_WARPS; i++) row_state_merge(&state, &parts[i], kind);
            softmax_state_from_row(&job.states[row], &state);
        }
        __syncthreads(); /* parts are free for the next row */
    }
}

/* job.op: what is written, OPERATION_SOFTMAX or OPERATION_LOG_SOFTMAX. */
template <typename REAL> static __global__ void __launch_bounds__(32 * GENERIC_WARPS) normalise_tile(const __grid_constant__ softmax_job job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        row_source<REAL> source = source_of<REAL>(job, row);
        row_state state = softmax_state_to_row(&job.states[row]);
        if ((int)softmax_state_type(&job.states[row]) != (int)job.out.type) {
            if (threadIdx.x == 0) report_bad_row(job, row);
            state = row_state_empty();
            state.flags = STATE_NAN;
        }
        write_row<REAL, false>(job, source, row, state, threadIdx.x >> 5, GENERIC_WARPS);
    }
}

cudaError_t softmax_cuda_state_tile(const softmax_job *job, const cuda_shape *shape) {
    const int64_t most = (int64_t)shape->multiprocessors * 16;
    const launch_shape l = launch_of(job->rows < most ? job->rows : most, 32 * GENERIC_WARPS, 1, 0, (cudaStream_t)job->stream);
    const bool is_double = job->x.type == ELEMENT_FLOAT64;
    softmax_job own = *job;
    if (job->op == OPERATION_STATE_UPDATE) return is_double ? launch(l, update_states<double>, own) : launch(l, update_states<float>, own);
    own.op = job->op == OPERATION_STATE_NORMALISE ? OPERATION_SOFTMAX : OPERATION_LOG_SOFTMAX;
    return is_double ? launch(l, normalise_tile<double>, own) : launch(l, normalise_tile<float>, own);
}

/* ---- States alone ---------------------------------------------------------------------------------------------------------------------------- */

#define STATES_THREADS 128

static __device__ void begin_state(softmax_state *state, softmax_type type) {
    const row_state empty = row_state_empty();
    state->type = SOFTMAX_STATE_TAG ^ (uint32_t)type;
    softmax_state_from_row(state, &empty);
}

static __device__ void merge_state(softmax_state *into, const softmax_state *from, softmax_type type) {
    row_state a = softmax_state_to_row(into), b = softmax_state_to_row(from);
    if (softmax_state_type(into) != type || softmax_state_type(from) != type) { /* the row has no answer any more */
        begin_state(into, type);
        into->flags = STATE_NAN;
        return;
    }
    row_state_merge(&a, &b, softmax_arithmetic_of(type));
    softmax_state_from_row(into, &a);
}

static __device__ void read_state(const softmax_state *state, void *l, int64_t at, softmax_type type) {
    row_state row = softmax_state_to_row(state);
    if (softmax_state_type(state) != type) row.flags = STATE_NAN;
    const double value = row_state_logsumexp(&row, softmax_arithmetic_of(type));
    if (type == SOFTMAX_FLOAT64)
        ((double *)l)[at] = value;
    else
        ((float *)l)[at] = round_to_float32(value);
}

static __global__ void __launch_bounds__(STATES_THREADS) work_on_states(const __grid_constant__ softmax_state_job job) {
    for (int64_t i = blockIdx.x * (int64_t)STATES_THREADS + threadIdx.x; i < job.count; i += (int64_t)gridDim.x * STATES_THREADS) {
        if (job.work == STATES_INIT)
            begin_state(&job.states[i], job.type);
        else if (job.work == STATES_MERGE)
            merge_state(&job.states[i], &job.from[i], job.type);
        else
            read_state(&job.states[i], job.logsumexp, i, job.type);
    }
}

cudaError_t softmax_cuda_states_alone(const softmax_state_job *job) {
    return launch(launch_of(launch_blocks((job->count + STATES_THREADS - 1) / STATES_THREADS), STATES_THREADS, 1, 0, (cudaStream_t)job->stream), work_on_states, *job);
}
