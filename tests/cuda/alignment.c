/* Wide rows give the same bits wherever they begin: on multiples of 16 bytes, where a warp of its own reads them out, and one element on, where none does. */
#include "oracle/check.h"
#include "oracle/float_formats.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdbool.h>
#include <softmax.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6 };

static void fill(const float_format *format, char *x, int64_t columns, random_source *source)
{
    for (int64_t i = 0; i < ROWS * columns; i++) {
        int64_t row = i / columns, column = i % columns, block = column / 1024;
        double z = 3 * random_normal(source);
        if (row == 1)
            z += 30.0 * (double)block; /* far blocks */
        if (row == 2 && block != 5)
            z = -INFINITY;
        if (row == 3 || (row == 4 && column == columns - 1))
            z = row == 3 ? -INFINITY : NAN;
        if (row == 5 && column == columns / 2)
            z = format->bytes == 2 ? 6e4 : 3e5; /* out of the fast terms' range but for float16 */
        format_store(format, x, i, z);
    }
}

/* Whether the first row is of probabilities, or their logarithms, in the order of its scores: zeros, equal and untouched results are none. */
static bool is_distribution(const float_format *format, const char *x, const char *y, int64_t columns, bool logarithms)
{
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int64_t j = 0; j < columns; j++) {
        const double value = format_load(format, y, j), step = j == 0 ? 0 : format_load(format, x, j) - format_load(format, x, j - 1);
        if (fabs(step) > 1 && (value - format_load(format, y, j - 1)) * step < 0)
            return false;
        sum += logarithms ? exp(value) : value;
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    return fabs(sum - 1) < 0.05 && least < most;
}

typedef softmax_status (*call)(softmax_type, int64_t, int64_t, const void *, void *, const softmax_options *);

static void compare(const float_format *format, softmax_type type, int64_t columns, call run, const char *name)
{
    const size_t bytes = (size_t)(ROWS * columns * format->bytes);
    const size_t room = (bytes + 511) / 256 * 256;
    char *x = aligned_alloc(256, 4 * room), *y = x + room, *apart = y + room, *results = apart + room;
    random_source source = random_seed((uint64_t)columns);
    if (!x)
        abort();
    fill(format, x, columns, &source);
    memcpy(apart + format->bytes, x, bytes);
    CHECK(run(type, ROWS, columns, x, y, NULL) == SOFTMAX_OK, "%s", name);
    CHECK(is_distribution(format, x, y, columns, run == softmax_log_softmax_rows), "%s of %ld columns of %s is none", name, (long)columns, format->name);
    CHECK(run(type, ROWS, columns, apart + format->bytes, results + format->bytes, NULL) == SOFTMAX_OK, "%s, one element on", name);
    CHECK(memcmp(y, results + format->bytes, bytes) == 0, "%s of %ld columns of %s depends on where rows begin", name, (long)columns, format->name);
    CHECK(run(type, ROWS, columns, x, x, NULL) == SOFTMAX_OK && memcmp(x, y, bytes) == 0, "%s of %ld columns of %s in place", name, (long)columns, format->name);
    free(x);
}

int main(void)
{
    static const struct {
        int format;
        softmax_type type;
        int64_t columns;
    } rows[] = {{0, SOFTMAX_FLOAT32, 18432}, {2, SOFTMAX_FLOAT16, 20480}, {3, SOFTMAX_BFLOAT16, 36000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        compare(&float_formats[rows[i].format], rows[i].type, rows[i].columns, softmax_softmax_rows, "softmax");
        compare(&float_formats[rows[i].format], rows[i].type, rows[i].columns, softmax_log_softmax_rows, "log_softmax");
    }
    return check_finish("alignment");
}
