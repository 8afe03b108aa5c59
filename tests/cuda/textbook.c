/* The kernel three_pass, which has bits of its own: near what the library gives, and right on special rows. */
#include "oracle/check.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <softmax.h>
#include <stdlib.h>

enum { ROWS = 4, COLUMNS = 777 };

int main(void)
{
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    random_source source = random_seed(3);
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    float l[ROWS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = i / COLUMNS == 2 ? -INFINITY : (float)(5 * random_normal(&source));
    x[3 * COLUMNS + 7] = NAN;
    CHECK(softmax_softmax_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, x, y, NULL) == SOFTMAX_OK, "softmax");
    CHECK(softmax_logsumexp_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, x, l, NULL) == SOFTMAX_OK, "logsumexp");
    for (int r = 0; r < 2; r++) {
        double sum = 0;
        for (int j = 0; j < COLUMNS; j++)
            sum += exp((double)x[r * COLUMNS + j]);
        CHECK(fabs(l[r] - log(sum)) < 1e-5, "row %d: logsumexp %g", r, l[r]);
        for (int j = 0; j < COLUMNS; j++)
            CHECK(fabs(y[r * COLUMNS + j] * sum / exp((double)x[r * COLUMNS + j]) - 1) < 1e-5, "row %d, column %d: %g", r, j, y[r * COLUMNS + j]);
    }
    CHECK(isnan(y[2 * COLUMNS]) && l[2] == -INFINITY && isnan(y[3 * COLUMNS]) && isnan(l[3]), "special rows");
    options.empty_rows = SOFTMAX_EMPTY_ZERO;
    CHECK(softmax_softmax_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, x, y, &options) == SOFTMAX_OK && y[2 * COLUMNS + 5] == 0, "zeros for an empty row");
    return check_finish("textbook");
}
