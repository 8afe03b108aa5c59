/* The online form (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018): maximum and sum in one
 * pass, as a pair (m, s) that stands for the sum s * exp(m). When the maximum moves, s is rescaled; two pairs merge the
 * same way. Each rescale rounds, so tiles and merge orders give different bits. */
#include <math.h>
#include <softmax_reference.h>

/* s exp(m - to): an empty pair stays 0 where -inf - -inf would be NaN. */
static float rescaled(softmax_reference_pair pair, float to)
{
    return pair.s == 0.0f ? 0.0f : pair.s * expf(pair.m - to);
}

softmax_reference_pair softmax_reference_pair_update(softmax_reference_pair pair, const float *x, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++)
        pair = softmax_reference_pair_merge(pair, (softmax_reference_pair){x[i], x[i] == -INFINITY ? 0.0f : 1.0f});
    return pair;
}

softmax_reference_pair softmax_reference_pair_merge(softmax_reference_pair a, softmax_reference_pair b)
{
    float m = fmaxf(a.m, b.m);
    return (softmax_reference_pair){m, rescaled(a, m) + rescaled(b, m)};
}

void softmax_reference_online(const float *x, float *y, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, x += columns, y += columns) {
        softmax_reference_pair pair =
            softmax_reference_pair_update((softmax_reference_pair){-INFINITY, 0.0f}, x, columns);
        for (int64_t i = 0; i < columns; i++)
            y[i] = expf(x[i] - pair.m) / pair.s;
    }
}
