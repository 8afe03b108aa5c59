/* The kernels of one type of short rows, by the columns in a row, and their launch. */
#ifndef SOFTMAX_CUDA_SHORT_LAUNCH_CUH
#define SOFTMAX_CUDA_SHORT_LAUNCH_CUH

#include "launch.cuh"
#include "short_rows.cuh"

#define SHORT_WARPS 4

/* Thread blocks of a multiprocessor: registers for what a lane holds. */
template <typename T, typename LAYOUT, bool LOG>
static __global__ void __launch_bounds__(32 * SHORT_WARPS, LAYOUT::words::elements < 17 ? 10 : sizeof(T) == 4 || LAYOUT::words::edge ? 8 : 9)
    warp_rows(const __grid_constant__ softmax_job job, int ahead) {
    short_rows<T, LAYOUT, LOG>(job, ahead);
}

typedef void (*short_kernel)(softmax_job job, int ahead);

typedef struct short_choice {
    short_kernel kernel;
    int rows; /* of a warp */
} short_choice;

template <typename T, typename LAYOUT> static short_choice short_choice_of(bool log) {
    const short_choice choice = {log ? warp_rows<T, LAYOUT, true> : warp_rows<T, LAYOUT, false>, LAYOUT::rows};
    return choice;
}

template <typename T, int VEC, int LANES> static short_choice short_choice_by_32(bool log) { return short_choice_of<T, short_layout<T, VEC, 32, LANES>>(log); }

/* By choice.c's table of short rows. */
template <typename T> static short_choice choose_short_kernel(const cuda_shape *shape, bool log) {
    const int full = 16 / (int)sizeof(T), half = full / 2;
    const bool narrow = shape->lane_columns == 16;
    if (shape->edges) return narrow ? short_choice_of<T, edged_layout<T, 16>>(log) : short_choice_of<T, edged_layout<T, 32>>(log);
    if (narrow) return short_choice_of<T, short_layout<T, full, 16, 4>>(log);
    if (shape->lane_columns == 28) return short_choice_of<T, short_layout<T, 4, 28, 4>>(log);
    if (shape->access < 8) return shape->row_lanes <= 8 ? short_choice_by_32<T, 1, 8>(log) : short_choice_by_32<T, 1, 32>(log);
    if (shape->access == 8) return shape->row_lanes <= 8 ? short_choice_by_32<T, half, 8>(log) : short_choice_by_32<T, half, 32>(log);
    switch (shape->row_lanes) {
    case 2: return short_choice_by_32<T, full, 2>(log);
    case 4: return short_choice_by_32<T, full, 4>(log);
    case 8: return short_choice_by_32<T, full, 8>(log);
    case 16: return short_choice_by_32<T, full, 16>(log);
    default: return short_choice_by_32<T, full, 32>(log);
    }
}

template <typename T> static cudaError_t launch_short(const softmax_job *job, const cuda_shape *shape) {
    const short_choice choice = choose_short_kernel<T>(shape, job->op != OPERATION_SOFTMAX);
    const int64_t rows_of_block = SHORT_WARPS * choice.rows, blocks = (job->rows + rows_of_block - 1) / rows_of_block;
    return launch(launch_of(blocks, 32 * SHORT_WARPS, 1, 0, (cudaStream_t)job->stream), choice.kernel, *job, shape->ahead);
}

#endif
