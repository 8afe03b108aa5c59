/* The judge's arithmetic: 113 bits (binary128) where the compiler has them, and its own exp, log1p and tanh in them. An
 * error of a few units of the 100th bit is nothing beside half a unit of the 53rd. */
#ifndef SOFTMAX_CLI_REAL_H
#define SOFTMAX_CLI_REAL_H

#include <float.h>
#include <math.h>

#ifdef __SIZEOF_FLOAT128__
typedef __float128 real;
#define REAL_BITS 113
#else
typedef long double real;
#define REAL_BITS LDBL_MANT_DIG
#endif

/* Infinities pass through; below -11300 the result is 0. */
real real_exp(real x);
/* x >= 0 */
real real_log1p(real x);
real real_tanh(real x);

static inline real real_abs(real x)
{
    return x < 0 ? -x : x;
}
static inline int real_is_nan(real x)
{
    return x != x;
}
static inline int real_is_infinite(real x)
{
    return x == (real)INFINITY || x == -(real)INFINITY;
}

#endif
