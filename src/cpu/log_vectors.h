/* numerics/logarithm.h's log1p in vectors of doubles: the same operations in the same order. Included after a vector_*.h. */
#ifndef SOFTMAX_LOG_VECTORS_H
#define SOFTMAX_LOG_VECTORS_H

#include "term_vectors.h"

typedef struct vd_pair {
    vd hi;
    vd lo;
} vd_pair;

static ALWAYS_INLINE vd_pair two_sum_vectors(vd a, vd b) {
    vd_pair s;
    vd t;
    s.hi = vd_add(a, b);
    t = vd_sub(s.hi, a);
    s.lo = vd_add(vd_sub(a, vd_sub(s.hi, t)), vd_sub(b, t));
    return s;
}

static ALWAYS_INLINE vd_pair fast_two_sum_vectors(vd a, vd b) {
    vd_pair s;
    s.hi = vd_add(a, b);
    s.lo = vd_sub(b, vd_sub(s.hi, a));
    return s;
}

static ALWAYS_INLINE vd_pair pair_add_vectors(vd_pair a, vd_pair b) {
    vd_pair s = two_sum_vectors(a.hi, b.hi);
    return fast_two_sum_vectors(s.hi, vd_add(s.lo, vd_add(a.lo, b.lo)));
}

static ALWAYS_INLINE vd_pair pair_divide_vectors(vd_pair a, vd_pair b) {
    vd hi = vd_div(a.hi, b.hi);
    vd rest = vd_add(vd_fma(vd_sub(vd_set(0.0), hi), b.hi, a.hi), vd_sub(a.lo, vd_mul(hi, b.lo)));
    return fast_two_sum_vectors(hi, vd_div(rest, b.hi));
}

/* log(1 + x) for x >= 0, a double. */
static ALWAYS_INLINE vd_pair log1p_vectors(vd x) {
    static const double coefficient[] = {0x1.642c8590b2164p-4, 0x1.8618618618618p-4, 0x1.af286bca1af28p-4, 0x1.e1e1e1e1e1e1ep-4,
                                         0x1.1111111111111p-3, 0x1.3b13b13b13b14p-3, 0x1.745d1745d1746p-3, 0x1.c71c71c71c71cp-3,
                                         0x1.2492492492492p-2, 0x1.999999999999ap-2, 0x1.5555555555555p-1};
    const vd zero = vd_set(0.0), one = vd_set(1.0), from = vd_set(0.41), sqrt2 = vd_set(0x1.6a09e667f3bcep0); /* just above it */
    vd_pair given = {x, zero}, ones = {one, zero}, minus_ones = {vd_set(-1.0), zero}, twos = {vd_set(2.0), zero}, u, f, s, whole, log;
    vd e, down, square, p;
    u = pair_add_vectors(ones, given);
    e = vd_log2_floor(u.hi);
    down = vd_power(vd_sub(vd_set(SOFTMAX_MAGIC64), e)); /* the mantissa decides whether it is one more */
    e = vd_select(vd_mul(u.hi, down), sqrt2, vd_add(e, one), e);
    down = vd_power(vd_sub(vd_set(SOFTMAX_MAGIC64), e));
    u.hi = vd_mul(u.hi, down);
    u.lo = vd_mul(u.lo, down);
    f = pair_add_vectors(minus_ones, u);
    f.hi = vd_select(x, from, f.hi, x);
    f.lo = vd_select(x, from, f.lo, zero);
    e = vd_select(x, from, e, zero);
    s = pair_divide_vectors(f, pair_add_vectors(twos, f));
    square = vd_mul(s.hi, s.hi);
    p = vd_set(coefficient[0]);
    for (int i = 1; i < 11; i++) p = vd_fma(p, square, vd_set(coefficient[i]));
    log = fast_two_sum_vectors(vd_mul(vd_set(2.0), s.hi), vd_fma(vd_mul(s.hi, square), p, vd_mul(vd_set(2.0), s.lo)));
    whole.hi = vd_mul(e, vd_set(0x1.62e42fefa3800p-1));
    whole.lo = vd_mul(e, vd_set(0x1.ef35793c76730p-45));
    whole = pair_add_vectors(whole, log);
    /* where e is 0 nothing is added: the sum of a pair and 0 might be another pair */
    u.hi = vd_mul(e, e);
    log.hi = vd_select(u.hi, one, whole.hi, log.hi);
    log.lo = vd_select(u.hi, one, whole.lo, log.lo);
    return log;
}

#endif
