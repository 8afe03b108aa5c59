/* The library's four types as the tests see them: their range, and the way between them and double, written apart from
 * the library's own conversions. */
#ifndef TESTS_FLOAT_FORMATS_H
#define TESTS_FLOAT_FORMATS_H

#include <softmax.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct float_format {
    softmax_type type;
    const char *name;
    DLDataType dlpack;
    int bytes;
    int precision;         /* bits of the significand, the implicit one included */
    int smallest_exponent; /* of the smallest normal */
    int largest_exponent;
    bool keeps_subnormals; /* results below the smallest normal are kept, not +0 */
} float_format;

extern const float_format float_formats[4]; /* float32, float64, float16, bfloat16 */

const float_format *float_format_of(softmax_type type);
const float_format *float_format_named(const char *name); /* NULL: no such type */

/* The format of losses and logsumexp beside inputs of this one: float64 for float64, else float32. */
const float_format *float_format_of_losses(const float_format *format);

double format_load(const float_format *format, const void *array, int64_t index);

/* Rounds to nearest, ties to even, once. */
void format_store(const float_format *format, void *array, int64_t index, double value);

/* The value that format_store would store. */
double format_round(const float_format *format, double value);

#endif
