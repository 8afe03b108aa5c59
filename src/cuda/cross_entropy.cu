/* Cross-entropy with its gradient on a GPU. Three kernels where the loss is a mean (the targets, whose number every gradient is divided by; the
 * rows; the sum of their losses), two where it is a sum, else one. loss_rows_*.cu have the rows that registers hold. */
#include "cross_entropy_any.cuh"
#include "exact_sum.cuh"
#include "gradient.h"
#include "launch.cuh"
#include "loss_records.cuh"

/* ---- Sums over rows ----------------------------------------------------------------------------------------------------------------------- */

#define SUM_THREADS 128
#define SUM_ROWS 128 /* of a thread block, up to MOST_SUM_BLOCKS of them */
#define MOST_SUM_BLOCKS 1056
#define ALONE_THREADS 1024
#define ALONE_ROWS 65536 /* at most, for one thread block to count their targets */

/* The accumulators of a thread block into the whole, by all of its threads: limbs that lie on one another are added over a warp, then over the block. */
static __device__ void add_to_wide(wide_sum *whole, const accumulator &sum) {
    __shared__ wide_sum block;
    const int lane = (int)(threadIdx.x & 31);
    int64_t mine = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < (int)(sizeof block / 4); i += (int)blockDim.x) ((uint32_t *)(void *)&block)[i] = 0;
    __syncthreads();
    const int its_top = sum.top == ACCUMULATOR_EMPTY ? 0 : (int)(sum.top - SUM_LOWEST), top = (int)lanes_max((uint32_t)its_top);
#pragma unroll
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) {
        int64_t limb = 0;
#pragma unroll
        for (int j = 0; j <= i; j++) limb = its_top && top - its_top == i - j ? sum.limb[j] : limb;
        limb = lanes_sum_wide(limb);
        mine = lane == i ? limb : mine;
    }
    if (lane < ACCUMULATOR_LIMBS && mine) atomicAdd(&block.limb[top - lane], (unsigned long long)mine);
    if (lane == 0) atomicMax(&block.top, top);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < SUM_LIMBS; i += (int)blockDim.x)
        if (block.limb[i]) atomicAdd(&whole->limb[i], block.limb[i]);
    if (threadIdx.x == 0 && block.top) atomicMax(&whole->top, block.top);
}

static __device__ void add_count(unsigned long long *whole, uint32_t mine) {
    uint32_t sum = lanes_sum(mine);
    if ((threadIdx.x & 31) == 0 && sum) atomicAdd(whole, (unsigned long long)sum);
}

/* The window that an accumulator of the same terms has. Nobody adds any more. */
static __device__ accumulator narrowed(const wide_sum *whole) {
    accumulator sum = accumulator_empty();
    int top = *(volatile const int *)&whole->top;
    if (top == 0) return sum;
    sum.top = top + SUM_LOWEST;
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) sum.limb[i] = (int64_t)*(volatile const unsigned long long *)&whole->limb[top - i];
    return sum;
}

/* Whether this is the last thread block that comes here: then all that the others added is there to be read. For all of its threads. */
static __device__ bool is_last_block(unsigned int *done) {
    __shared__ unsigned int before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before = atomicAdd(done, 1u);
    __syncthreads();
    __threadfence();
    return before == gridDim.x - 1;
}

static __device__ unsigned long long count_of(const loss_scratch *sums, int which) { return *(volatile const unsigned long long *)&sums->count[which]; }

/* Whether a row's target counts: a bad one is as an ignored one. */
static __device__ __forceinline__ bool is_kept(const softmax_job &job, int64_t target) {
    return target != job.ignore_index && target >= 0 && target < job.columns;
}

/* How many targets of rows first, first + step, ... are kept; T: their type, each on an address that it may have. Loads are in flight together. */
template <typename T> static __device__ __forceinline__ uint32_t count_kept(const softmax_job &job, int64_t first, int64_t step) {
    uint32_t kept = 0;
#pragma unroll 16
    for (int64_t row = first; row < job.rows; row += step) kept += is_kept(job, (int64_t) * (const T *)(const void *)flat_row(job.targets, row));
    return kept;
}

/* Whether the divisor is a number of targets that lie side by side, or a pitch apart, on addresses that they may have. */
static __device__ __forceinline__ bool is_plain_count(const softmax_job &job) {
    const int bytes = job.targets.type == ELEMENT_INT32 ? 4 : 8;
    return holds_classes(job) && !job.weights.data && job.dimensions == 1 && (uintptr_t)job.targets.data % bytes == 0 && job.targets.row_stride[0] % bytes == 0;
}

static __device__ __forceinline__ uint32_t count_plainly(const softmax_job &job, int64_t first, int64_t step) {
    return job.targets.type == ELEMENT_INT32 ? count_kept<int32_t>(job, first, step) : count_kept<int64_t>(job, first, step);
}

/* By one thread: z_loss is divided by the rows that are kept, the terms by `terms`. */
static __device__ void store_divisors(const softmax_job &job, loss_scratch *sums, double rows, double terms) {
    sums->divisors.z_loss = rows;
    sums->divisors.terms = terms;
    sums->factor = quotient(job.grad_output.data ? load_element<double>(job.grad_output.data, job.grad_output.type) : 1.0, terms);
}

/* By one thread block: the number of targets is the divisor. */
static __device__ void count_alone(const softmax_job &job, loss_scratch *sums) {
    __shared__ uint32_t counts[ALONE_THREADS / 32];
    const uint32_t kept = lanes_sum(count_plainly(job, threadIdx.x, ALONE_THREADS));
    if ((threadIdx.x & 31) == 0) counts[threadIdx.x >> 5] = kept;
    __syncthreads(); /* the scratch has been made ready, too */
    if (threadIdx.x >= 32) return;
    const uint32_t rows = lanes_sum(counts[threadIdx.x]);
    if (threadIdx.x == 0) store_divisors(job, sums, rows, rows);
}

/* The weights of rows first, first + step, ..., or their number. */
static __device__ __forceinline__ void sum_weights(const softmax_job &job, loss_scratch *sums, int64_t first, int64_t step) {
    accumulator weights = accumulator_empty();
    uint32_t kept = 0, nans = 0, infinities = 0, minus_infinities = 0;
    if (is_plain_count(job))
        kept = count_plainly(job, first, step);
    else if (holds_classes(job))
        for (int64_t row = first; row < job.rows; row += step) {
            int64_t target = load_index(row_of(job, job.targets, row), job.targets.type);
            if (!is_kept(job, target)) continue;
            kept++;
            if (job.weights.data) {
                double weight = load_element<double>(row_of(job, job.weights, row) + target * job.weights.column_stride, job.weights.type);
                if (weight - weight == 0.0)
                    accumulator_add_double(&weights, weight);
                else
                    nans += weight != weight, infinities += weight > 0.0, minus_infinities += weight < 0.0;
            }
        }
    if (job.weights.data) add_to_wide(&sums->weights, weights);
    add_count(&sums->count[ROWS_KEPT], kept);
    add_count(&sums->count[WEIGHT_NANS], nans);
    add_count(&sums->count[WEIGHT_INFINITIES], infinities);
    add_count(&sums->count[WEIGHT_MINUS_INFINITIES], minus_infinities);
}

/* What the mean divides by. ALONE: one thread block, which makes the scratch ready too. */
template <bool ALONE> static __global__ void __launch_bounds__(ALONE ? ALONE_THREADS : SUM_THREADS) sum_targets(const __grid_constant__ softmax_job job) {
    loss_scratch *sums = (loss_scratch *)job.scratch;
    let_next_kernel_start(); /* it waits for this one's sums where it needs them */
    if (ALONE) {
        for (int i = (int)threadIdx.x; i < (int)(sizeof *sums / 4); i += ALONE_THREADS) ((uint32_t *)(void *)sums)[i] = 0;
        if (job.reduction != SOFTMAX_MEAN) return;
        if (is_plain_count(job)) {
            count_alone(job, sums);
            return;
        }
        __syncthreads();
    }
    sum_weights(job, sums, (int64_t)blockIdx.x * blockDim.x + threadIdx.x, (int64_t)gridDim.x * blockDim.x);
    if (is_last_block(&sums->targets_done) && threadIdx.x == 0) {
        double rows = holds_classes(job) ? (double)count_of(sums, ROWS_KEPT) : (double)job.rows, not_finite = 0.0, terms = rows;
        if (count_of(sums, WEIGHT_NANS)) not_finite = (double)NAN;
        if (count_of(sums, WEIGHT_INFINITIES)) not_finite += (double)INFINITY;
        if (count_of(sums, WEIGHT_MINUS_INFINITIES)) not_finite -= (double)INFINITY;
        if (holds_classes(job) && job.weights.data) {
            accumulator whole = narrowed(&sums->weights);
            terms = accumulator_read(&whole, 0).hi + not_finite;
        }
        store_divisors(job, sums, rows, terms);
    }
}

/* sum / divisor, where the sum alone may be beyond the range of doubles. */
static __device__ double read_divided(const wide_sum *whole, double divisor) {
    accumulator sum = narrowed(whole);
    int64_t down = sum.top > 28 ? 64 : 0;
    return scale_by_power(accumulator_read(&sum, down).hi / divisor, down);
}

/* The losses of all rows into one, and what rows left to do here. */
template <bool RECORDS> static __global__ void __launch_bounds__(SUM_THREADS) sum_losses(const __grid_constant__ softmax_job job) {
    loss_scratch *sums = (loss_scratch *)job.scratch;
    accumulator terms = accumulator_empty(), z_loss = accumulator_empty();
    uint32_t nans = 0, infinities = 0;
    wait_for_previous_kernel();
    for (int64_t row = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x; row < job.rows; row += (int64_t)gridDim.x * SUM_THREADS) {
        const loss_record *record = record_of(job, row);
        loss_value loss = {record->f, record->rest};
        if (RECORDS) loss = loss_of_record(job, row, uniform_factor(job));
        double sum = loss.terms + loss.z_loss;
        if (sum - sum == 0.0) {
            accumulator_add_double(&terms, loss.terms);
            accumulator_add_double(&z_loss, loss.z_loss);
        } else {
            nans += sum != sum, infinities += sum == sum;
        }
    }
    add_to_wide(&sums->terms, terms);
    if (job.z_loss != 0.0) add_to_wide(&sums->z_loss, z_loss);
    add_count(&sums->count[LOSS_NANS], nans);
    add_count(&sums->count[LOSS_INFINITIES], infinities);
    if (job.loss.data && is_last_block(&sums->losses_done) && threadIdx.x == 0) {
        loss_divisors divisors = divisors_of(job);
        double loss = read_divided(&sums->terms, divisors.terms);
        if (job.reduction == SOFTMAX_MEAN && divisors.z_loss == 0.0) /* no row was kept */
            loss = job.empty_zero ? 0.0 : (double)NAN;
        else if (job.z_loss != 0.0)
            loss += read_divided(&sums->z_loss, divisors.z_loss);
        if (count_of(sums, LOSS_INFINITIES)) loss = (double)INFINITY;
        if (count_of(sums, LOSS_NANS)) loss = (double)NAN;
        store_real(job.loss.data, job.loss.type, loss);
    }
}

/* ---- Rows of any kind --------------------------------------------------------------------------------------------------------------------- */

template <typename REAL> static __global__ void __launch_bounds__(32 * LOSS_WARPS) loss_rows_any(const __grid_constant__ softmax_job job) {
    __shared__ loss_part parts[LOSS_WARPS];
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        loss_of_any_row<REAL>(job, row, (int)(threadIdx.x >> 5), LOSS_WARPS, parts);
        __syncthreads();
    }
}

/* ---- Launches ----------------------------------------------------------------------------------------------------------------------------- */

size_t softmax_cuda_gradient_scratch(const softmax_job *job) {
    if (job->op != OPERATION_CROSS_ENTROPY || job->reduction == SOFTMAX_NONE) return 0;
    return loss_scratch_bytes() + (size_t)job->rows * sizeof(loss_record);
}

static cudaError_t launch_rows(const softmax_job *job, const cuda_shape *shape) {
    launch_shape l = launch_of(launch_blocks(job->rows), 32 * LOSS_WARPS, 1, 0, (cudaStream_t)job->stream);
    if (shape->kernel != CUDA_GENERIC) {
        if (job->x.type == ELEMENT_FLOAT32) return softmax_cuda_loss_float32(job, shape);
        if (job->x.type == ELEMENT_FLOAT16) return softmax_cuda_loss_float16(job, shape);
        return softmax_cuda_loss_bfloat16(job, shape);
    }
    if (job->rows == 0) return cudaSuccess;
    if (job->kind == ARITHMETIC_64) return launch(l, loss_rows_any<double>, *job);
    return launch(l, loss_rows_any<float>, *job);
}

/* Scratch and the mean's divisors. */
static cudaError_t launch_targets(const softmax_job *job, const launch_shape &sums) {
    launch_shape l = sums;
    if (job->rows <= ALONE_ROWS) {
        l.blocks = 1;
        l.threads = ALONE_THREADS;
        return launch(l, sum_targets<true>, *job);
    }
    cudaError_t error = cudaMemsetAsync(job->scratch, 0, loss_scratch_bytes(), l.stream);
    return error == cudaSuccess && job->reduction == SOFTMAX_MEAN ? launch(l, sum_targets<false>, *job) : error;
}

cudaError_t softmax_cuda_cross_entropy(const softmax_job *job, const cuda_shape *shape) {
    int64_t blocks = (job->rows + SUM_ROWS - 1) / SUM_ROWS;
    launch_shape l = launch_of(blocks < 1 ? 1 : blocks < MOST_SUM_BLOCKS ? blocks : MOST_SUM_BLOCKS, SUM_THREADS, 1, 0, (cudaStream_t)job->stream);
    cudaError_t error = cudaSuccess;
    if (job->reduction != SOFTMAX_NONE) error = launch_targets(job, l);
    if (error == cudaSuccess) error = launch_rows(job, shape);
    l.early = shape->records && shape->stages > 0; /* such rows let it */
    if (error == cudaSuccess && job->reduction != SOFTMAX_NONE && (job->loss.data || shape->records))
        error = shape->records ? launch(l, sum_losses<true>, *job) : launch(l, sum_losses<false>, *job);
    return error;
}
