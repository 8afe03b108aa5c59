/* What is read out of a row's state: its logsumexp, rounded once. */
#ifndef SOFTMAX_NUMERICS_READOUT_H
#define SOFTMAX_NUMERICS_READOUT_H

#include "state.h"

/* log(e^m + R) = m + log1p(R / e^m) as a double: within 1 ULP of the largest of |m|, |it|, |it - m| once the caller has
 * rounded it to the type of the result. NaN is the positive quiet one; no score but -inf gives -inf; below 2^-1022 it
 * is +0. */
SOFTMAX_FN double row_state_logsumexp(const row_state *s, arithmetic kind)
{
    row_total total;
    pair logarithm, sum;
    double value;
    if (s->flags & STATE_NAN)
        return bits_double(0x7ff8000000000000ULL);
    if (s->flags & STATE_INFINITE)
        return (double)INFINITY;
    if (s->maximum.high == -(double)INFINITY)
        return s->maximum.high;
    if (s->maximum.level != SCORE_PLAIN) /* no logarithm reaches its last digit; it may be beyond the range of doubles */
        return value_of_score(s->maximum);
    total = row_state_total(s, kind);
    logarithm = row_total_log(&total, kind);
    sum = two_sum(s->maximum.high, logarithm.hi);
    value = sum.hi + (sum.lo + (logarithm.lo + (s->maximum.middle + s->maximum.low)));
    return fabs(value) < 0x1p-1022 ? 0.0 : value;
}

/* (s - m) - log, of a score that may be -inf; +0 below `smallest`. For a float the double is within 2^-52 of exact. */
SOFTMAX_FN double log_of_exact_score(exact_score s, exact_score m, pair log, double smallest)
{
    pair d;
    double value;
    if (s.high == -(double)INFINITY)
        return s.high;
    d = score_difference(s, m);
    if (d.hi - d.hi != 0.0)
        return d.hi;
    log.hi = 0.0 - log.hi;
    log.lo = 0.0 - log.lo;
    value = pair_add(d, log).hi;
    return fabs(value) < smallest ? 0.0 : value;
}

/* A double rounded to float as results are: NaN positive and quiet, values below 2^-126 and zero +0. */
SOFTMAX_FN float round_to_float32(double value)
{
    if (value != value)
        return bits_float(0x7fc00000u);
    return fabs(value) < 0x1p-126 ? 0.0f : (float)value;
}

#endif
