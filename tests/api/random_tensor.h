/* Random small tensors within one buffer, for the tests of layout and overlap: negative, interleaved, broadcast and
 * padded strides. */
#ifndef TESTS_API_RANDOM_TENSOR_H
#define TESTS_API_RANDOM_TENSOR_H

#include "oracle/tensor.h"

/* The next number of a fixed sequence, in [0, below). */
static inline int random_below(uint64_t *seed, int below)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((*seed >> 33) % (uint64_t)below);
}

/* Element strides for a shape: dimensions in a random order of memory, with gaps, signs and (for inputs) zeros. */
static inline void random_strides(uint64_t *seed, int ndim, const int64_t *shape, int64_t *strides, int may_repeat)
{
    int order[SOFTMAX_MAX_DIMENSIONS];
    int64_t span = 1 + random_below(seed, 4) / 3;
    for (int i = 0; i < ndim; i++)
        order[i] = i;
    if (random_below(seed, 2))
        for (int i = ndim - 1; i > 0; i--) {
            int j = random_below(seed, i + 1), swapped = order[i];
            order[i] = order[j];
            order[j] = swapped;
        }
    for (int i = ndim - 1; i >= 0; i--) {
        int d = order[i];
        strides[d] = random_below(seed, 5) ? span : -span;
        span *= shape[d] > 0 ? shape[d] : 1;
        span += random_below(seed, 4) ? 0 : random_below(seed, 3);
        if (may_repeat && !random_below(seed, 5))
            strides[d] = 0;
    }
}

#endif
