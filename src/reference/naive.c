/* Softmax by its definition. exp(x) is infinite in float32 from x = 88.73 on, so a row with such a score becomes
 * inf / inf = NaN; a row with all scores below -103.98 becomes 0 / 0 = NaN. Between -103.98 and -87.34 digits are lost.
 */
#include <math.h>
#include <softmax_reference.h>

void softmax_reference_naive(const float *x, float *y, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, x += columns, y += columns) {
        float sum = 0.0f;
        for (int64_t i = 0; i < columns; i++) {
            y[i] = expf(x[i]);
            sum += y[i];
        }
        for (int64_t i = 0; i < columns; i++)
            y[i] /= sum;
    }
}
