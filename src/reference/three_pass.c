/* Softmax as most libraries have it: softmax(x) = softmax(x - max), so nothing overflows. The price: x - max is rounded
 * to float32, and exp turns that rounding into |x - max| / 2 ULP of the result; the serial sum adds its own error with
 * every column. */
#include <math.h>
#include <softmax_reference.h>

void softmax_reference_three_pass(const float *x, float *y, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, x += columns, y += columns) {
        float max = -INFINITY;
        for (int64_t i = 0; i < columns; i++)
            max = fmaxf(max, x[i]); /* fmaxf passes a NaN over; exp brings it back */

        float sum = 0.0f;
        for (int64_t i = 0; i < columns; i++) {
            y[i] = expf(x[i] - max);
            sum += y[i];
        }

        for (int64_t i = 0; i < columns; i++)
            y[i] /= sum;
    }
}
