/* Rows give the same bits wherever they begin: on multiples of 16 bytes and one element on, where other accesses are theirs. Without words wide ones, which
 * a warp of its own reads out; with "narrow" rows whose last block has a column or a few. */
#include "oracle/check.h"
#include "oracle/float_formats.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdbool.h>
#include <softmax.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, NAN_ROW = 4 };

/* A NaN whose sign is set. */
static void store_minus_nan(const float_format *format, char *at)
{
    const uint32_t single = 0xffc00001u;
    const uint16_t half = 0xfff1u; /* of both 16-bit types */
    if (format->bytes == 4)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &half, sizeof half);
}

static void fill(const float_format *format, char *x, int64_t columns, random_source *source)
{
    for (int64_t i = 0; i < ROWS * columns; i++) {
        int64_t row = i / columns, column = i % columns, block = column / 1024;
        double z = 3 * random_normal(source);
        if (row == 1)
            z += 30.0 * (double)block; /* far blocks */
        if (row == 2 && block != 5)
            z = -INFINITY;
        if (row == 3)
            z = -INFINITY;
        if (row == 5 && column == columns / 2)
            z = format->bytes == 2 ? 6e4 : 3e5; /* out of the fast terms' range but for float16 */
        format_store(format, x, i, z);
    }
    store_minus_nan(format, x + ((NAN_ROW + 1) * columns - 1) * format->bytes); /* in the last column alone */
}

static bool is_nan_row(const float_format *format, const char *y, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++)
        if (!isnan(format_load(format, y, NAN_ROW * columns + j)))
            return false;
    return true;
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
    CHECK(is_nan_row(format, y, columns), "%s of %ld columns of %s overlooks a NaN", name, (long)columns, format->name);
    CHECK(run(type, ROWS, columns, apart + format->bytes, results + format->bytes, NULL) == SOFTMAX_OK, "%s, one element on", name);
    CHECK(memcmp(y, results + format->bytes, bytes) == 0, "%s of %ld columns of %s depends on where rows begin", name, (long)columns, format->name);
    CHECK(run(type, ROWS, columns, x, x, NULL) == SOFTMAX_OK && memcmp(x, y, bytes) == 0, "%s of %ld columns of %s in place", name, (long)columns, format->name);
    free(x);
}

typedef struct shape {
    int format;
    softmax_type type;
    int64_t columns;
} shape;

int main(int argc, char **argv)
{
    static const shape wide[] = {{0, SOFTMAX_FLOAT32, 18433}, {2, SOFTMAX_FLOAT16, 20480}, {3, SOFTMAX_BFLOAT16, 36000}};
    static const shape narrow[] = {{0, SOFTMAX_FLOAT32, 2049}, {2, SOFTMAX_FLOAT16, 1056}, {3, SOFTMAX_BFLOAT16, 3073}};
    const shape *rows = argc > 1 && strcmp(argv[1], "narrow") == 0 ? narrow : wide;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        compare(&float_formats[rows[i].format], rows[i].type, rows[i].columns, softmax_softmax_rows, "softmax");
        compare(&float_formats[rows[i].format], rows[i].type, rows[i].columns, softmax_log_softmax_rows, "log_softmax");
    }
    return check_finish("alignment");
}
