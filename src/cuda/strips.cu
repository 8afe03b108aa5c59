#include "launch.cuh"
#include "strip_rows.cuh"

template <typename TILE, bool LOG> static __global__ void __launch_bounds__(TILE::THREADS, 1024 / TILE::THREADS) strips(const __grid_constant__ softmax_job job, int cluster) {
    strip_rows<TILE, LOG>(job, cluster);
}

template <typename TILE> static cudaError_t start(const softmax_job *job, const cuda_shape *shape) {
    const int64_t inner = job->shape[job->dimensions - 1], tiles = job->rows / inner * ((inner + TILE::ROWS - 1) / TILE::ROWS);
    const launch_shape l = launch_of(tiles * shape->cluster, TILE::THREADS, shape->cluster, sizeof(strip_board<TILE>), (cudaStream_t)job->stream);
    return job->op == OPERATION_SOFTMAX ? launch(l, strips<TILE, false>, *job, shape->cluster) : launch(l, strips<TILE, true>, *job, shape->cluster);
}

/* Tiles of 64, 256 or 1024 columns. */
template <typename T> static cudaError_t start_single(const softmax_job *job, const cuda_shape *shape) {
    if (shape->tile_columns == 64) return start<strip_tile<T, 1, 128, 16>>(job, shape);
    if (shape->tile_columns == 256) return start<strip_tile<T, 1, 32, 16>>(job, shape);
    return start<strip_tile<T, 1, STRIP_ROWS, 32, 32 * STRIP_ROWS>>(job, shape);
}

template <typename T> static cudaError_t start_pairs(const softmax_job *job, const cuda_shape *shape) {
    if (shape->tile_columns == 64) return start<strip_tile<T, 2, 64, 8>>(job, shape);
    if (shape->tile_columns == 256) return start<strip_tile<T, 2, 32, 16>>(job, shape);
    return start<strip_tile<T, 2, 8, 16>>(job, shape);
}

cudaError_t softmax_cuda_strips(const softmax_job *job, const cuda_shape *shape) {
    if (job->x.type == ELEMENT_FLOAT32) return start_single<float>(job, shape);
    if (job->x.type == ELEMENT_FLOAT16) return shape->vectors ? start_pairs<float16>(job, shape) : start_single<float16>(job, shape);
    return shape->vectors ? start_pairs<bfloat16>(job, shape) : start_single<bfloat16>(job, shape);
}
