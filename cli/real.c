#include "real.h"

/* ln 2 in two parts, the first of 64 bits, so that its product with an exponent is exact (MPFR, 200 bits:
 * mpfr_const_log2). */
#define LN2_HIGH ((real)0xb17217f7d1cf79abULL * (real)0x1p-64)
#define LN2_LOW ((real)0xc9e3b39803f2f6afULL * (real)0x1p-128)

#define HALVINGS 8

/* 2^k for |k| up to 16000, in steps that double can hold. */
static real power_of_two(int k)
{
    real power = 1;
    for (; k > 1000; k -= 1000)
        power *= (real)0x1p1000;
    for (; k < -1000; k += 1000)
        power *= (real)0x1p-1000;
    return power * (real)ldexp(1.0, k);
}

/* exp by k = round(x / ln 2), Taylor's series on r / 256, then eight squarings of 1 + q held as q. */
real real_exp(real x)
{
    if (real_is_nan(x) || x == (real)INFINITY)
        return x;
    if (x < -11300)
        return 0;
    if (x > 11300)
        return (real)INFINITY;
    int k = (int)nearbyint((double)x * 1.4426950408889634);
    real r = ((x - k * LN2_HIGH) - k * LN2_LOW) * ldexp(1.0, -HALVINGS);
    real q = 0;
    for (int i = 13; i > 0; i--)
        q = (q + 1) * r / i;
    for (int i = 0; i < HALVINGS; i++)
        q = q * (q + 2);
    return (1 + q) * power_of_two(k);
}

real real_log1p(real x)
{
    if (real_is_nan(x) || x == (real)INFINITY)
        return x;
    if (x < (real)0x1p-10) {
        real sum = 0;
        for (int i = 12; i > 0; i--)
            sum = (real)1 / i - sum * x;
        return sum * x;
    }
    /* Halley's step from double triples the digits. */
    real guess = log1p((double)x), e = real_exp(guess);
    return guess + 2 * ((1 + x) - e) / ((1 + x) + e);
}

real real_tanh(real x)
{
    real size = real_abs(x);
    if (size < (real)0x1p-20)
        return x - x * x * x / 3 + 2 * x * x * x * x * x / 15;
    if (size > 100)
        return x < 0 ? -1 : 1;
    real e = real_exp(-2 * size), t = (1 - e) / (1 + e);
    return x < 0 ? -t : t;
}
