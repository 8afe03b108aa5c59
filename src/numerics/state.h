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
    double maximum; /* -inf: no score yet but -inf */
    double maximum_low;
    accumulator rest;
    uint32_t flags;
} row_state;

SOFTMAX_FN row_state row_state_empty(void) {
    row_state s;
    s.maximum = -(double)INFINITY;
    s.maximum_low = 0.0;
    s.rest = accumulator_empty();
    s.flags = 0;
    return s;
}

/* Beyond 2^62 scores are at least 1024 apart or equal: e^z counts as 1 and only equals of the maximum remain. */
SOFTMAX_FN int score_is_huge(double z) { return z > SOFTMAX_HUGE || z < -SOFTMAX_HUGE; }

/* Whether two scores can both count in one row: not if either is huge and they differ. Scores with a low part (scale, bias) that agree in a
 * huge high part, as where a finite mask value is added to a whole row, are compared by their low parts, by the same rule. */
SOFTMAX_FN int scores_meet(double a, double a_low, double b, double b_low) {
    if (!score_is_huge(a) && !score_is_huge(b)) return 1;
    if (a != b) return 0;
    return a_low == b_low || (!score_is_huge(a_low) && !score_is_huge(b_low));
}

/* e^(m + m_lo) in the arithmetic of the terms that it is compared with; e^m_lo if m is huge, 1 if m_lo is so too. */
SOFTMAX_FN power exp_of_maximum(double m, double m_lo, arithmetic kind) {
    power result;
    if (score_is_huge(m)) {
        m = m_lo;
        m_lo = 0.0;
    }
    if (score_is_huge(m)) {
        result.k = 0;
        result.f.hi = 1.0;
        result.f.lo = 0.0;
    } else if (arithmetic_is_short(kind)) {
        float z = (float)m, lo = (float)m_lo;
        term32 t;
        if (fabs(m) < (double)TERM32_WIDE_LIMIT) {
            float k = term32_exponent(z);
            result.k = (int64_t)k;
            t = term32_near(z, lo, TERM32_MAGIC + SOFTMAX_BIAS - k, kind, z);
        } else {
            result.k = reduce_pair((double)z, (double)lo).k;
            t = term32_far(z, lo, result.k, kind);
        }
        result.f.hi = (double)t.v * 0x1p-4;
        result.f.lo = 0.0;
    } else if (kind == ARITHMETIC_32) {
        result = exp_pair(m, m_lo);
        result.f.lo = 0.0;
    } else {
        result = exp_pair(m, m_lo);
    }
    return result;
}

SOFTMAX_FN int score_is_above(double a, double a_lo, double b, double b_lo) { return a > b || (a == b && a_lo > b_lo); }

/* into becomes the state of both. Merging an empty state changes nothing. */
SOFTMAX_FN void row_state_merge(row_state *into, const row_state *from, arithmetic kind) {
    row_state low, high;
    uint32_t flags = into->flags | from->flags;
    if (score_is_above(from->maximum, from->maximum_low, into->maximum, into->maximum_low)) {
        low = *into;
        high = *from;
    } else {
        low = *from;
        high = *into;
    }
    if (low.maximum != -(double)INFINITY && low.maximum != (double)INFINITY) {
        if (scores_meet(low.maximum, low.maximum_low, high.maximum, high.maximum_low)) {
            power e = exp_of_maximum(low.maximum, low.maximum_low, kind);
            accumulator_merge(&high.rest, &low.rest);
            accumulator_add(&high.rest, (int64_t)(e.f.hi * 0x1p52), e.k - 52);
            if (kind == ARITHMETIC_64) accumulator_add(&high.rest, (int64_t)(e.f.lo * 0x1p110), e.k - 110);
        }
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
    power e = exp_of_maximum(s->maximum, s->maximum_low, kind);
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
