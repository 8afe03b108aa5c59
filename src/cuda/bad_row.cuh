/* Rows in which only the device sees that something is wrong: options->device_status. */
#ifndef SOFTMAX_CUDA_BAD_ROW_CUH
#define SOFTMAX_CUDA_BAD_ROW_CUH

#include "../kernels.h"

/* The smallest bad row + 1; 0 and less is what nobody reported yet. */
static __device__ void report_bad_row(const softmax_job &job, int64_t row) {
    typedef unsigned long long word;
    if (!job.device_status) return;
    word *status = (word *)job.device_status, seen = *(volatile word *)status;
    while ((int64_t)seen <= 0 || (int64_t)seen > row + 1) {
        word before = atomicCAS(status, seen, (word)(row + 1));
        if (before == seen) break;
        seen = before;
    }
}

#endif
