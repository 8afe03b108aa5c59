#include "launch.cuh"
#include "strip_rows.cuh"
#include "strip_tiles.cuh"

template <typename TILE, bool LOG> static __global__ void __launch_bounds__(TILE::THREADS, 1024 / TILE::THREADS) strips(const __grid_constant__ softmax_job job, int cluster) {
    strip_rows<TILE, LOG>(job, cluster);
}

template <typename TILE> static cudaError_t start(const softmax_job *job, const cuda_shape *shape) {
    const int64_t inner = job->shape[job->dimensions - 1], tiles = job->rows / inner * ((inner + TILE::ROWS - 1) / TILE::ROWS);
    const launch_shape l = launch_of(tiles * shape->cluster, TILE::THREADS, shape->cluster, sizeof(strip_board<TILE>), (cudaStream_t)job->stream);
    return job->op == OPERATION_SOFTMAX ? launch(l, strips<TILE, false>, *job, shape->cluster) : launch(l, strips<TILE, true>, *job, shape->cluster);
}

/* Tiles of 256 or 1024 columns. */
template <typename T> static cudaError_t start_single(const softmax_job *job, const cuda_shape *shape) {
    if (shape->tile_columns == 256) return start<strip_tile<T, 1, 32, 16>>(job, shape);
    return start<strip_tile<T, 1, STRIP_ROWS, 32, 32 * STRIP_ROWS>>(job, shape);
}

template <typename T> static cudaError_t start_pairs(const softmax_job *job, const cuda_shape *shape) {
    if (shape->tile_columns == 256) return start<strip_tile<T, 2, 32, 16>>(job, shape);
    return start<strip_tile<T, 2, 8, 16>>(job, shape);
}

/* ---- Rows at multiples of 16 bytes, and rows of few columns --------------------------------------------------------------------------------------- */

template <typename TILE, bool LOG, bool CLUSTER>
static __global__ void __launch_bounds__(TILE::THREADS, 1024 / TILE::THREADS) turned(const __grid_constant__ softmax_job job, int cluster) {
    if constexpr (HAS_CLUSTERS || (!CLUSTER && TILE::COLUMNS <= 256)) turned_rows<TILE, LOG, CLUSTER>(job, cluster);
}

template <typename TILE, bool CLUSTER> static cudaError_t start_turned_tile(const softmax_job *job, int cluster) {
    const int64_t inner = job->shape[job->dimensions - 1], tiles = job->rows / inner * ((inner + TILE::ROWS - 1) / TILE::ROWS);
    const launch_shape l = launch_of(tiles * cluster, TILE::THREADS, cluster, TILE::bytes + sizeof(tile_board<TILE::ROWS>), (cudaStream_t)job->stream);
    return job->op == OPERATION_SOFTMAX ? launch(l, turned<TILE, false, CLUSTER>, *job, cluster) : launch(l, turned<TILE, true, CLUSTER>, *job, cluster);
}

/* Of 16 bits and 1024 columns 64 bytes of rows would take all threads of a multiprocessor. */
template <typename T> static cudaError_t start_turned(const softmax_job *job, const cuda_shape *shape) {
    typedef turned_tile<T, 32, sizeof(T) == 2 ? 32 : 64> largest;
    if (shape->cluster > 1) return start_turned_tile<largest, true>(job, shape->cluster);
    switch (shape->tile_columns) {
    case 128: return start_turned_tile<turned_tile<T, 4, 64>, false>(job, 1);
    case 256: return start_turned_tile<turned_tile<T, 8, 64>, false>(job, 1);
    case 512: return start_turned_tile<turned_tile<T, 16, 64>, false>(job, 1);
    default: return start_turned_tile<largest, false>(job, 1);
    }
}

template <typename T, int N, bool LOG> static __global__ void __launch_bounds__(THREAD_ROWS, (N > 32 ? 512 : 768) / THREAD_ROWS) thread_rows(const __grid_constant__ softmax_job job) {
    if (job.columns == N)
        row_of_thread<T, N, LOG, true>(job);
    else
        row_of_thread<T, N, LOG, false>(job);
}

template <typename T, int N> static cudaError_t start_thread_rows_of(const softmax_job *job) {
    const int64_t inner = job->shape[job->dimensions - 1], blocks = job->rows / inner * ((inner + THREAD_ROWS - 1) / THREAD_ROWS);
    const launch_shape l = launch_of(blocks, THREAD_ROWS, 1, 0, (cudaStream_t)job->stream);
    return job->op == OPERATION_SOFTMAX ? launch(l, thread_rows<T, N, false>, *job) : launch(l, thread_rows<T, N, true>, *job);
}

template <typename T> static cudaError_t start_thread_rows(const softmax_job *job) {
    return job->columns <= 32 ? start_thread_rows_of<T, 32>(job) : start_thread_rows_of<T, 64>(job);
}

template <typename T> static cudaError_t start_other_ways(const softmax_job *job, const cuda_shape *shape) {
    return shape->tile_columns == 0 ? start_thread_rows<T>(job) : start_turned<T>(job, shape);
}

cudaError_t softmax_cuda_strips(const softmax_job *job, const cuda_shape *shape) {
    if (shape->turned || shape->tile_columns == 0)
        return job->x.type == ELEMENT_FLOAT32   ? start_other_ways<float>(job, shape)
               : job->x.type == ELEMENT_FLOAT16 ? start_other_ways<float16>(job, shape)
                                                : start_other_ways<bfloat16>(job, shape);
    if (job->x.type == ELEMENT_FLOAT32) return start_single<float>(job, shape);
    if (job->x.type == ELEMENT_FLOAT16) return shape->vectors ? start_pairs<float16>(job, shape) : start_single<float16>(job, shape);
    return shape->vectors ? start_pairs<bfloat16>(job, shape) : start_single<bfloat16>(job, shape);
}
