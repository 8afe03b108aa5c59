/* A score scale x + bias without any rounding, for blocks whose scores are large or come of large parts that cancel: three doubles, normalised, so
 * that equal scores are equal in all parts and unequal ones are in order.
 * Powers of two beyond the range of doubles are taken out by a level, the same for all scores of a size. */
#ifndef SOFTMAX_NUMERICS_EXACT_SCORE_H
#define SOFTMAX_NUMERICS_EXACT_SCORE_H

#include "exponential.h"

#define SCORE_PLAIN 0  /* the score is high + middle + low, |score| < 2^1000 */
#define SCORE_LARGE 1  /* ... times 2^140 */
#define SCORE_BEYOND 2 /* (high + middle) 2^1100 + low 2^140: scale x is 2^1140 or more, and low is the bias alone */
#define SCORE_LARGE_SHIFT 140
#define SCORE_BEYOND_SHIFT 1100

typedef struct exact_score {
    double high;   /* the score, rounded */
    double middle; /* what that lacks, rounded */
    double low;    /* the rest */
    int level;
} exact_score;

/* high is the nearest to the sum: where it is a tie between two doubles, low decides. */
SOFTMAX_FN exact_score break_tie(exact_score s) {
    double next = s.high + 2.0 * s.middle;
    if (((s.middle > 0.0 && s.low > 0.0) || (s.middle < 0.0 && s.low < 0.0)) && next - s.high == 2.0 * s.middle) {
        s.high = next;
        s.middle = -s.middle;
    }
    return s;
}

/* a + b + c, normalised. */
SOFTMAX_FN exact_score sum_of_three(double a, double b, double c) {
    exact_score s = {0.0, 0.0, 0.0, SCORE_PLAIN};
    pair top = two_sum(a, b), rest = two_sum(top.lo, c), part;
    s.high = top.hi;
    s.middle = rest.hi;
    s.low = rest.lo;
    for (int i = 0; i < 3; i++) { /* what cancels may leave an empty part in front */
        part = two_sum(s.high, s.middle);
        s.high = part.hi;
        rest = two_sum(part.lo, s.low);
        s.middle = rest.hi;
        s.low = rest.lo;
    }
    return break_tie(s);
}

/* x as a score; its infinities too. */
SOFTMAX_FN exact_score score_of_value(double x) {
    exact_score s = {x + 0.0, 0.0, 0.0, SCORE_PLAIN};
    if (fabs(x) >= 0x1p1000 && x - x == 0.0) {
        s.high *= 0x1p-140;
        s.level = SCORE_LARGE;
    }
    return s;
}

/* Rounded to a double; infinite beyond. */
SOFTMAX_FN double value_of_score(exact_score s) {
    return s.level == SCORE_PLAIN ? s.high : scale_by_power(s.high, s.level == SCORE_LARGE ? SCORE_LARGE_SHIFT : SCORE_BEYOND_SHIFT);
}

/* A score that is known as high + low. */
SOFTMAX_FN exact_score score_of_pair(double high, double low) {
    exact_score s = score_of_value(high);
    s.middle = s.level == SCORE_PLAIN ? low : low * 0x1p-140;
    return s;
}

/* scale x + bias, all finite. */
SOFTMAX_FN exact_score exact_score_of(double x, double scale, double bias) {
    double a = x, b = scale, product, error;
    exact_score s;
    if (fabs(scale) >= 1.0)
        b *= 0x1p-140;
    else
        a *= 0x1p-140;
    product = a * b;
    if (fabs(product) >= 0x1p1000) {
        s.high = (x * 0x1p-600) * (scale * 0x1p-500);
        s.middle = fma(x * 0x1p-600, scale * 0x1p-500, -s.high);
        s.low = bias * 0x1p-140;
        s.level = SCORE_BEYOND;
        return s;
    }
    error = fma(a, b, -product);
    s = sum_of_three(product, bias * 0x1p-140, error);
    if (fabs(s.high) < 0x1p860) {
        s.high *= 0x1p140;
        s.middle *= 0x1p140;
        s.low *= 0x1p140;
        s.level = SCORE_PLAIN;
    } else {
        s.level = SCORE_LARGE;
    }
    s.high += 0.0; /* -0 is taken as +0 */
    return s;
}

SOFTMAX_FN int score_is_single(exact_score a) { return a.middle == 0.0 && a.low == 0.0 && a.level == SCORE_PLAIN; }

/* a - b as a pair, right to 2^-100 of itself; infinite where it is beyond doubles. Finite scores. */
SOFTMAX_FN_APART pair score_difference(exact_score a, exact_score b) {
    double part[6] = {a.high, -b.high, a.middle, -b.middle, a.low, -b.low}, unit = 1.0;
    pair d;
    if (score_is_single(a) && score_is_single(b)) return two_sum(a.high, -b.high);
    if (a.level == SCORE_BEYOND || b.level == SCORE_BEYOND) {
        if (a.level != b.level || a.high != b.high || a.middle != b.middle) {
            int above = a.level < b.level ? b.high < 0.0 : a.level > b.level ? a.high > 0.0 : a.high > b.high || (a.high == b.high && a.middle > b.middle);
            d.hi = above ? (double)INFINITY : -(double)INFINITY;
            d.lo = 0.0;
            return d;
        }
        part[0] = part[1] = part[2] = part[3] = 0.0;
        unit = 0x1p140;
    } else if (a.level == SCORE_LARGE || b.level == SCORE_LARGE) {
        for (int i = 0; i < 6; i++)
            if ((i % 2 ? b.level : a.level) == SCORE_PLAIN) part[i] *= 0x1p-140;
        unit = 0x1p140;
    }
    for (int sweep = 0; sweep < 5; sweep++) /* until every part holds what those before it have lost */
        for (int i = 4; i >= 0; i--) {
            pair s = two_sum(part[i], part[i + 1]);
            part[i] = s.hi;
            part[i + 1] = s.lo;
        }
    d = two_sum(part[0], part[1] + part[2]);
    d.hi *= unit;
    d.lo = d.hi - d.hi == 0.0 ? d.lo * unit : 0.0;
    return d;
}

/* a > b: 1, a = b: 0, a < b: -1. No NaN. */
SOFTMAX_FN int compare_scores(exact_score a, exact_score b) {
    double d = a.high - b.high, middle = a.middle - b.middle;
    if (a.level == b.level || a.high - a.high != 0.0 || b.high - b.high != 0.0) { /* most are decided by their first parts */
        if (a.high == b.high && (a.level == SCORE_BEYOND || fabs(middle) > 3.0 * (fabs(a.low) + fabs(b.low)) || (a.low == b.low)))
            return middle == 0.0 ? (a.low > b.low) - (a.low < b.low) : middle > 0.0 ? 1 : -1;
        if (a.high != b.high && !(fabs(d) <= 3.0 * (fabs(a.middle) + fabs(b.middle)))) return a.high > b.high ? 1 : -1;
    }
    d = score_difference(a, b).hi;
    return (d > 0.0) - (d < 0.0);
}

/* Whether a > b. Of equal scores in different parts (a block's pair of floats beside an exact score) one counts as above, always the same. */
SOFTMAX_FN int score_is_above(exact_score a, exact_score b) {
    int order = compare_scores(a, b);
    return order != 0 ? order > 0 : a.high > b.high || (a.high == b.high && a.middle > b.middle);
}

SOFTMAX_FN int scores_are_equal(exact_score a, exact_score b) { return compare_scores(a, b) == 0; }

/* Scores near 0 are reduced in double. */
SOFTMAX_FN int score_is_near(exact_score a) { return fabs(a.high) < SOFTMAX_DOUBLE_LIMIT && a.level == SCORE_PLAIN; }

/* Whether two scores can both count in one row. Terms further below the maximum are left out of its sum, or are in it: no result can tell. */
#define SCORE_DISTANCE 0x1p30
SOFTMAX_FN int scores_meet(exact_score a, exact_score b) {
    double d = fabs(a.high - b.high);
    if (score_is_near(a) && score_is_near(b)) return 1;
    if (a.level == SCORE_PLAIN && b.level == SCORE_PLAIN) { /* decided by their first parts? */
        if (d <= 0.25 * SCORE_DISTANCE && fabs(a.middle) <= 0.25 * SCORE_DISTANCE && fabs(b.middle) <= 0.25 * SCORE_DISTANCE) return 1;
        if (d > 2.0 * SCORE_DISTANCE && d > 4.0 * (fabs(a.middle) + fabs(b.middle))) return 0;
    }
    return fabs(score_difference(a, b).hi) <= SCORE_DISTANCE;
}

/* Whether pairs of floats cannot hold such a scale, or its products. */
SOFTMAX_FN int score_scale_is_wild(double scale) { return scale != 0.0 && (fabs(scale) > 0x1p100 || fabs(scale) < 0x1p-100); }

SOFTMAX_FN_APART reduced reduce_far_score(exact_score s) {
    binary_turns t = {0, {0, 0}};
    int low = s.level == SCORE_PLAIN ? 0 : SCORE_LARGE_SHIFT, high = s.level == SCORE_BEYOND ? SCORE_BEYOND_SHIFT : low;
    add_turns(&t, s.high, high);
    add_turns(&t, s.middle, high);
    add_turns(&t, s.low, low);
    return reduced_of_turns(&t);
}

SOFTMAX_FN reduced reduce_score(exact_score s) {
    return score_is_near(s) && s.low == 0.0 ? reduce_pair(s.high, s.middle) : reduce_far_score(s);
}

/* e^s, relative error about 2^-60. */
SOFTMAX_FN power exp_of_score(exact_score s) { return power_of_reduced(reduce_score(s)); }

#endif
