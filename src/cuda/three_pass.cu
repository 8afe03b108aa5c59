/* The textbook's kernel: a thread block a row, three passes over it, each with a tree of sums in shared memory. It is here to be measured: the first
 * rung of the ladder, with CUDA's expf and logf, and the bits and errors of such (docs/cuda.md); no call takes it that does not ask for it. */
#include "launch.cuh"
#include "operands.cuh"

#define TREE_THREADS 256

template <typename OP> static __device__ float tree(float mine, OP op) {
    __shared__ float values[TREE_THREADS];
    __syncthreads(); /* the last tree has been read */
    values[threadIdx.x] = mine;
    for (int half = TREE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) values[threadIdx.x] = op(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
    return values[0];
}

static __device__ __forceinline__ float larger_of(float a, float b) { return a != a || a > b ? a : b; }

static __global__ void __launch_bounds__(TREE_THREADS) three_pass(const __grid_constant__ softmax_job job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const char *x = row_of(job, job.x, row);
        char *out = row_of(job, job.out, row);
        float maximum = -INFINITY, sum = 0.0f;
        for (int64_t j = threadIdx.x; j < job.columns; j += TREE_THREADS) maximum = larger_of(maximum, load_element<float>(x + j * job.x.column_stride, job.x.type));
        maximum = tree(maximum, [](float a, float b) { return larger_of(a, b); });
        for (int64_t j = threadIdx.x; j < job.columns; j += TREE_THREADS) sum += expf(load_element<float>(x + j * job.x.column_stride, job.x.type) - maximum);
        sum = tree(sum, [](float a, float b) { return a + b; });
        const float inverse = 1.0f / sum, logarithm = logf(sum);
        const bool empty = maximum == -INFINITY;
        if (job.op == OPERATION_LOGSUMEXP) {
            if (threadIdx.x == 0) store_result(out, job.out.type, empty || maximum == INFINITY ? maximum : maximum + logarithm);
            continue;
        }
        for (int64_t j = threadIdx.x; j < job.columns; j += TREE_THREADS) {
            const float z = load_element<float>(x + j * job.x.column_stride, job.x.type) - maximum;
            float y = job.op == OPERATION_SOFTMAX ? expf(z) * inverse : z - logarithm;
            if (empty && job.empty_zero) y = job.op == OPERATION_SOFTMAX ? 0.0f : -INFINITY;
            store_result(out + j * job.out.column_stride, job.out.type, y);
        }
    }
}

cudaError_t softmax_cuda_three_pass(const softmax_job *job, const cuda_shape *shape) {
    (void)shape;
    return launch(launch_of(launch_blocks(job->rows), TREE_THREADS, 1, 0, (cudaStream_t)job->stream), three_pass, *job);
}
