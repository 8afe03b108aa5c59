#include "ulp.h"

#include "exact.h"

#include <math.h>
#include <mpfr.h>

long double ulp_unit(long double magnitude, const float_format *format)
{
    int exponent;
    frexpl(magnitude, &exponent);
    exponent -= 1;
    if (magnitude == 0 || exponent < format->smallest_exponent)
        exponent = format->smallest_exponent;
    if (isinf(magnitude) || exponent > format->largest_exponent)
        exponent = format->largest_exponent;
    return ldexpl(1, exponent - format->precision + 1);
}

/* Answers what needs no difference: true, and *error is set. */
static bool decided(double result, long double exact, const float_format *format, double *error)
{
    long double smallest = ldexpl(1, format->smallest_exponent);
    long double edge = (format->precision < 20 ? 0.51L : 3.0L) * ulp_unit(smallest, format);
    long double overflow = ldexpl(2, format->largest_exponent) - ulp_unit(INFINITY, format) / 2;
    *error = INFINITY;
    if (isnan(result) || isnan(exact) || (result == 0 && signbit(result)))
        return true;
    if (isinf(exact) || (isinf(result) && fabsl(exact) >= overflow)) {
        if (isinf(result) && !signbit(result) == !signbit(exact))
            *error = 0;
        return true;
    }
    if (format->keeps_subnormals)
        return false;
    if (result != 0 && fabs(result) < smallest)
        return true;
    if (result == 0 && fabsl(exact) < smallest + edge) {
        *error = 0;
        return true;
    }
    return false;
}

/* An infinite result beside a finite exact value is as far off as the first value that the format cannot hold. */
static double without_infinity(double result, const float_format *format)
{
    if (!isinf(result))
        return result;
    return format->largest_exponent == 1023 ? copysign(0x1.fffffffffffffp1023, result)
                                            : copysign(ldexp(2, format->largest_exponent), result);
}

double ulp_error_screened(double result, long double exact, long double magnitude, const float_format *format)
{
    double error;
    if (decided(result, exact, format, &error))
        return error;
    return (double)(fabsl(without_infinity(result, format) - exact) / ulp_unit(fabsl(magnitude), format));
}

double ulp_error(double result, const mpfr_t exact, const mpfr_t magnitude, const float_format *format)
{
    double error;
    if (decided(result, mpfr_get_ld(exact, MPFR_RNDN), format, &error))
        return error;
    mpfr_t difference;
    mpfr_init2(difference, EXACT_BITS);
    mpfr_sub_d(difference, exact, without_infinity(result, format), MPFR_RNDN);
    /* Towards zero: rounding up to a power of two would double the unit. */
    long double unit = ulp_unit(fabsl(mpfr_get_ld(magnitude, MPFR_RNDZ)), format);
    error = (double)(fabsl(mpfr_get_ld(difference, MPFR_RNDN)) / unit);
    mpfr_clear(difference);
    return error;
}
