/* Three readable forms of softmax, for study and comparison; not for use: they do what every project's own kernel does.
 * Row-major (rows, columns) float32 arrays; y must not overlap x. Each is one file in src/reference/.
 * They keep no contract: their results overflow, lose digits and depend on the order, as docs/numerics.md measures. */
#ifndef SOFTMAX_REFERENCE_H
#define SOFTMAX_REFERENCE_H

#include <softmax.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y_i = exp(x_i) / sum_j exp(x_j), literally: inf / inf from x = 89 on. */
SOFTMAX_API void softmax_reference_naive(const float *x, float *y, int64_t rows, int64_t columns);

/* Maximum, then exp(x_i - max) and its sum, then the division: three passes over the row. */
SOFTMAX_API void softmax_reference_three_pass(const float *x, float *y, int64_t rows, int64_t columns);

/* One pass with a running pair (m, s), rescaled by exp(m_old - m_new) when the maximum moves; then the division. */
SOFTMAX_API void softmax_reference_online(const float *x, float *y, int64_t rows, int64_t columns);

/* The pair and its merge, as tiles use it: m = max(m_a, m_b), s = s_a exp(m_a - m) + s_b exp(m_b - m).
 * An empty pair is m = -inf, s = 0. */
typedef struct softmax_reference_pair {
    float m;
    float s;
} softmax_reference_pair;
SOFTMAX_API softmax_reference_pair softmax_reference_pair_update(softmax_reference_pair pair, const float *x, int64_t columns);
SOFTMAX_API softmax_reference_pair softmax_reference_pair_merge(softmax_reference_pair a, softmax_reference_pair b);

#ifdef __cplusplus
}
#endif
#endif
