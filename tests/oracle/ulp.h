/* Errors in ULP: |result - exact| in units of the last place that a format has at the magnitude (mostly the exact value
 * itself). What no bound allows is infinite: NaN, -0, a subnormal where the format's are flushed, a wrong infinity.
 * Below the smallest normal of a format whose subnormals are flushed, +0 is right; within a few units of that edge
 * (half of one for bfloat16) both neighbours are. float16 keeps its subnormals, whose unit is 2^-24. */
#ifndef TESTS_ULP_H
#define TESTS_ULP_H

#include "float_formats.h"

#include <mpfr.h>

double ulp_error(double result, const mpfr_t exact, const mpfr_t magnitude, const float_format *format);

/* The same where the exact value is known to long double only. */
double ulp_error_screened(double result, long double exact, long double magnitude, const float_format *format);

/* The unit of the last place at a magnitude. */
long double ulp_unit(long double magnitude, const float_format *format);

#endif
