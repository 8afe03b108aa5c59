/* The kernels of one type of short rows, by the columns in a row, and their launch. */
#ifndef SOFTMAX_CUDA_SHORT_LAUNCH_CUH
#define SOFTMAX_CUDA_SHORT_LAUNCH_CUH

#include "launch.cuh"
#include "short_rows.cuh"

#define SHORT_WARPS 4

/* Thread blocks of a multiprocessor: registers for what a lane holds. */
template <typename T, typename LAYOUT, bool LOG>
static __global__ void __launch_bounds__(32 * SHORT_WARPS, LAYOUT::words::elements < 17 ? 10 : sizeof(T) == 4 || LAYOUT::words::edge ? 8 : 9)
    warp_rows(const __grid_constant__ softmax_job job) {
    short_rows<T, LAYOUT, LOG>(job);
}

typedef void (*short_kernel)(softmax_job);

typedef struct short_choice {
    short_kernel kernel;
    int rows; /* of a warp */
} short_choice;

template <typename T, typename LAYOUT> static short_choice short_choice_of(bool log) {
    const short_choice choice = {log ? warp_rows<T, LAYOUT, true> : warp_rows<T, LAYOUT, false>, LAYOUT::rows};
    return choice;
}

template <typename T, int VEC> static short_choice choose_grouped(const cuda_shape *shape, bool log) {
    switch (shape->row_lanes) {
    case 2: return short_choice_of<T, short_layout<T, VEC, 32, 2>>(log);
    case 4: return short_choice_of<T, short_layout<T, VEC, 32, 4>>(log);
    case 8: return short_choice_of<T, short_layout<T, VEC, 32, 8>>(log);
    case 16: return short_choice_of<T, short_layout<T, VEC, 32, 16>>(log);
    default: return short_choice_of<T, short_layout<T, VEC, 32, 32>>(log);
    }
}

/* By choice.c's table of short rows. */
template <typename T> static short_choice choose_short_kernel(const cuda_shape *shape, bool log) {
    const int size = (int)sizeof(T), full = 16 / size;
    if (shape->edges) return shape->lane_columns == 16 ? short_choice_of<T, edged_layout<T, 16>>(log) : short_choice_of<T, edged_layout<T, 32>>(log);
    if (shape->lane_columns == 16) return shape->row_lanes == 2 ? short_choice_of<T, short_layout<T, full, 16, 2>>(log) : short_choice_of<T, short_layout<T, full, 16, 4>>(log);
    if (shape->lane_columns == 28) return short_choice_of<T, short_layout<T, 4, 28, 4>>(log);
    if (shape->access == 16) return choose_grouped<T, full>(shape, log);
    return shape->access == 8 && size == 2 ? choose_grouped<T, 8 / size>(shape, log) : choose_grouped<T, 1>(shape, log);
}

template <typename T> static cudaError_t launch_short(const softmax_job *job, const cuda_shape *shape) {
    const short_choice choice = choose_short_kernel<T>(shape, job->op != OPERATION_SOFTMAX);
    const int64_t rows_of_block = SHORT_WARPS * choice.rows, blocks = (job->rows + rows_of_block - 1) / rows_of_block;
    return launch(launch_of(blocks, 32 * SHORT_WARPS, 1, 0, (cudaStream_t)job->stream), choice.kernel, *job);
}

#endif
