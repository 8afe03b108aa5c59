/* The library's calls over tensors in host memory, run on the GPU: linked with --wrap for each of them, so that every test of the library is one
 * of the GPU too. Arrays travel in one image, at their own alignment, between guard zones; what a call must not write comes back as it was. */
#ifndef TESTS_THROUGH_DEVICE_H
#define TESTS_THROUGH_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether calls go to the GPU (from the start) or to the CPU. */
extern bool through_device;

/* Force a kernel by name (NULL: none). Calls that it cannot run go to the best one, and are not counted. */
extern const char *through_device_kernel;

/* Calls that ran on the GPU; of them, by the forced kernel. */
extern long through_device_calls, through_device_forced;

/* The last call's device status word: the smallest bad row + 1, or 0. */
extern int64_t through_device_status;

/* Whether a bad target is an error, as on the CPU (from the start), or its row's NaN, as the GPU has it. */
extern bool through_device_bad_targets_refused;

#endif
