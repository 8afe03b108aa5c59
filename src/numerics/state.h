/* What is known of a row: its largest score m, and the exact sum R of the terms of all scores but one occurrence of m.
 * The whole sum is e^m + R. Keeping them apart is what makes log1p(R / e^m) right to the last bits when the probability is next to 1.
 *
 * The terms of R are: of every block of columns the sum of its digits without its maximum, and the maximum of every block but the row's.
 * That set does not depend on the order of blocks, so neither does R: updates and merges in any order give the same bits. */
#ifndef SOFTMAX_NUMERICS_STATE_H
#define SOFTMAX_NUMERICS_STATE_H

#include "accumulator.h"
#include "logarithm.h"
#include "terms.h"

#define STATE_NAN 1u
#define STATE_INFINITE 2u /* +inf */

typedef struct row_state {
    exact_score maximum; /* -inf: no score yet but -inf */
    accumulator rest;
    uint32_t flags;
} row_state;

SOFTMAX_FN row_state row_state_empty(void) {
    row_state s;
    s.maximum = score_of_value(-(double)INFINITY);
    s.rest = accumulator_empty();
    s.flags = 0;
    return s;
}

/* e^m in the arithmetic of the terms that it is compared with. */
SOFTMAX_FN power exp_of_maximum(exact_score m, arithmetic kind) {
    power result;
    if (arithmetic_is_short(kind)) {
        float z = (float)m.high;
        term32 t;
        if (score_is_near(m)) {
            float k = term32_exponent(z);
            result.k = (int64_t)k;
            t = term32_near(z, (float)((m.high - (double)z) + m.middle), TERM32_MAGIC + SOFTMAX_BIAS - k, kind, z);
        } else {
            reduced a = reduce_for_terms(m, kind);
            result.k = a.k;
            t = term32_far(a, a.k, kind);
        }
        result.f.hi = (double)t.v * 0x1p-4;
        result.f.lo = 0.0;
    } else {
        result = exp_of_score(m);
        if (kind == ARITHMETIC_32) result.f.lo = 0.0;
    }
    return result;
}

/* into becomes the state of both. Merging an empty state changes nothing. */
SOFTMAX_FN void row_state_merge(row_state *into, const row_state *from, arithmetic kind) {
    row_state low, high;
    uint32_t flags = into->flags | from->flags;
    if (score_is_above(from->maximum, into->maximum)) {
        low = *into;
        high = *from;
    } else {
        low = *from;
        high = *into;
    }
    if (low.maximum.high - low.maximum.high == 0.0 && scores_meet(low.maximum, high.maximum)) {
        power e = exp_of_maximum(low.maximum, kind);
        accumulator_merge(&high.rest, &low.rest);
        accumulator_add(&high.rest, (int64_t)(e.f.hi * 0x1p52), wrapped_difference(e.k, 52));
        if (kind == ARITHMETIC_64) accumulator_add(&high.rest, (int64_t)(e.f.lo * 0x1p110), wrapped_difference(e.k, 110));
    }
    if (flags) high = row_state_empty(); /* nothing else of the row matters any more */
    high.flags = flags;
    *into = high;
}

/* A row's whole sum is 2^k (e_max + rest). */
typedef struct row_total {
    int64_t k;
    pair e_max;
    pair rest;
} row_total;

SOFTMAX_FN row_total row_state_total(const row_state *s, arithmetic kind) {
    row_total t;
    power e = exp_of_maximum(s->maximum, kind);
    t.k = e.k;
    t.e_max = e.f;
    if (kind == ARITHMETIC_64) {
        t.rest = accumulator_read(&s->rest, e.k);
    } else {
        t.rest.hi = accumulator_read_first(&s->rest, e.k);
        t.rest.lo = 0.0;
    }
    return t;
}

/* 2^k / sum */
SOFTMAX_FN pair row_total_inverse(const row_total *t, arithmetic kind) {
    pair one = {1.0, 0.0}, inverse;
    if (kind == ARITHMETIC_64) return pair_divide(one, pair_add(t->e_max, t->rest));
    if (arithmetic_is_short(kind))
        inverse.hi = (double)(1.0f / (float)(t->e_max.hi + t->rest.hi));
    else
        inverse.hi = 1.0 / (t->e_max.hi + t->rest.hi);
    inverse.lo = 0.0;
    return inverse;
}

/* log(sum) - m = log1p(rest / e_max) */
SOFTMAX_FN pair row_total_log(const row_total *t, arithmetic kind) {
    pair ratio;
    if (kind == ARITHMETIC_64) return log1p_pair(pair_divide(t->rest, t->e_max));
    ratio.hi = t->rest.hi / t->e_max.hi;
    ratio.lo = 0.0;
    return log1p_pair(ratio);
}

#endif
