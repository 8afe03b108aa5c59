/* numerics/terms.h's fast terms in vectors: the same operations in the same order. */
#ifndef SOFTMAX_TERM_VECTORS_H
#define SOFTMAX_TERM_VECTORS_H

/* A loop and what it calls are one piece of code for each set of constant arguments. */
#if defined(VECTOR_CALLS)
#define ALWAYS_INLINE inline
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif
#define SMALL_INLINE inline __attribute__((always_inline)) /* for every set: called, it passes structs of lanes through memory */
#define NOINLINE __attribute__((noinline))

/* A function of its own, with the registers to itself: merged into others, the compiler keeps their constants in them. */
#define APART static __attribute__((noinline))

/* What is read soon: a line, and how far it is from one vector's to the next's. */
typedef struct ahead_lines {
    uintptr_t line;
    int64_t step;
} ahead_lines;

static ALWAYS_INLINE void prefetch_next(ahead_lines *ahead) {
    prefetch_line((const void *)ahead->line);
    ahead->line += (uintptr_t)ahead->step;
}

/* The last of `bytes` that lie ahead: where they do not begin with a line, whole vectors from their first on do not reach the last two. */
static ALWAYS_INLINE void prefetch_ends(ahead_lines ahead, int64_t bytes) {
    prefetch_line((const void *)ahead.line);
    prefetch_line((const void *)(ahead.line + (uintptr_t)bytes - 65));
    prefetch_line((const void *)(ahead.line + (uintptr_t)bytes - 1));
}

/* Included after a vector_*.h. From z = k ln2_hi + r + low and t = magic + k. */
static ALWAYS_INLINE vf term_vector_from_reduced(vf r, vf low, vf t, vf magic, arithmetic kind, vi *high_digits, vi *low_digits) {
    vf p, v, a, b;
    if (arithmetic_is_short(kind)) {
        r = vf_add(r, low);
        if (kind == ARITHMETIC_FLOAT16) {
            p = vf_fma(vf_set(TERM16_C5), r, vf_set(TERM16_C4));
            p = vf_fma(p, r, vf_set(TERM16_C3));
            p = vf_fma(p, r, vf_set(TERM16_C2));
            p = vf_fma(p, r, vf_set(TERM16_C1));
        } else {
            p = vf_fma(vf_set(TERMB16_C4), r, vf_set(TERMB16_C3));
            p = vf_fma(p, r, vf_set(TERMB16_C2));
            p = vf_fma(p, r, vf_set(TERMB16_C1));
        }
        p = vf_fma(p, r, vf_set(1.0f));
        v = vf_move_exponent(p, t);
        a = vf_add(v, vf_set(TERM32_HIGH));
        b = vf_sub(v, vf_sub(a, vf_set(TERM32_BOTH)));
    } else {
        vf s = vf_power(t), q, rr, w;
        low = vf_fma(vf_sub(t, magic), vf_set(TERM32_LN2_MINUS), low);
        rr = vf_add(r, low);
        p = vf_fma(vf_set(TERM32_C5), rr, vf_set(TERM32_C4));
        p = vf_fma(p, rr, vf_set(TERM32_C3));
        p = vf_fma(p, rr, vf_set(TERM32_C2));
        p = vf_fma(p, rr, vf_set(0.5f));
        w = vf_fma(p, vf_mul(rr, rr), low);
        q = vf_add(w, r);
        v = vf_fma(q, s, s);
        a = vf_add(v, vf_set(TERM32_HIGH));
        b = vf_fma(w, s, vf_fma(r, s, vf_sub(s, vf_sub(a, vf_set(TERM32_BOTH)))));
    }
    *high_digits = vi_add_bits(*high_digits, a);
    *low_digits = vi_add_bits(*low_digits, b);
    return v;
}

/* `low` is the scores' low part (zero vector where there is none). */
static SMALL_INLINE vf term_vector_float(vf z, vf low, vf magic, arithmetic kind, vi *high_digits, vi *low_digits) {
    vf t = vf_fma(z, vf_set(TERM32_LOG2E), magic);
    return term_vector_from_reduced(vf_fma(vf_sub(t, magic), vf_set(-TERM32_LN2_HI), z), low, t, magic, kind, high_digits, low_digits);
}

/* term32_wide. */
static ALWAYS_INLINE vf wide_term_vector(vf z, vf low, vf magic, arithmetic kind, vi *high_digits, vi *low_digits) {
    const vf log2e = vf_set(TERM32_LOG2E), minus_ln2 = vf_set(-TERM32_LN2_HI), integer = vf_set(TERM32_MAGIC);
    vf t = vf_fma(z, log2e, magic), first = vf_fma(vf_sub(t, magic), minus_ln2, z);
    vf more = vf_sub(vf_fma(vf_add(first, low), log2e, integer), integer), r = vf_fma(more, minus_ln2, first);
    vf sum = vf_add(r, low), part = vf_sub(sum, r);
    low = vf_add(vf_sub(r, vf_sub(sum, part)), vf_sub(low, part));
    return term_vector_from_reduced(sum, low, vf_add(t, more), magic, kind, high_digits, low_digits);
}

/* The terms of a float block with a maximum from TERM32_LIMIT to TERM32_WIDE_LIMIT: as terms_float. */
static void wide_terms_float(const float *z, const float *low, int count, float magic, float floor_score, float *v, arithmetic kind,
                             uint32_t *high, uint32_t *low_sum) {
    const vf magics = vf_set(magic), floors = vf_set(floor_score), zero = vf_set(0.0f);
    vi h = vi_zero(), l = vi_zero();
    int padded = (count + VF_LANES - 1) / VF_LANES * VF_LANES;
    for (int i = 0; i < count; i += VF_LANES) {
        int whole = i + VF_LANES <= count;
        vf raw = whole ? vf_load(z + i) : vf_load_part(z + i, count - i, -INFINITY), x = vf_max(raw, floors), x_low = zero, value;
        if (low) x_low = vf_keep_from(raw, floors, whole ? vf_load(low + i) : vf_load_part(low + i, count - i, 0.0f));
        value = wide_term_vector(x, x_low, magics, kind, &h, &l);
        if (v && whole)
            vf_store(v + i, value);
        else if (v)
            vf_store_part(v + i, count - i, value);
    }
    *high = vi_sum(h) - (uint32_t)padded * float_bits(TERM32_HIGH);
    *low_sum = vi_sum(l) - (uint32_t)padded * float_bits(TERM32_LOW);
}

/* float64's fast reduction reaches as far as its limit. */
static void wide_terms_double(const double *z, const double *low, int count, double magic, double floor_score, double *v, arithmetic kind,
                              uint64_t *high, uint64_t *low_sum) {
    (void)z, (void)low, (void)count, (void)magic, (void)floor_score, (void)v, (void)kind, (void)high, (void)low_sum;
}

#define MOST_MAXIMA 8

static ALWAYS_INLINE vd exp_head_vector(vd r) {
    vd p = vd_fma(vd_set(EXP_C12), r, vd_set(EXP_C11));
    p = vd_fma(p, r, vd_set(EXP_C10));
    p = vd_fma(p, r, vd_set(EXP_C9));
    p = vd_fma(p, r, vd_set(EXP_C8));
    p = vd_fma(p, r, vd_set(EXP_C7));
    p = vd_fma(p, r, vd_set(EXP_C6));
    p = vd_fma(p, r, vd_set(EXP_C5));
    p = vd_fma(p, r, vd_set(EXP_C4));
    return vd_fma(p, r, vd_set(EXP_C3));
}

static ALWAYS_INLINE vd term_vector_double(vd z, vd low, vd magic, arithmetic kind, vl *high_digits, vl *low_digits) {
    vd t = vd_fma(z, vd_set(SOFTMAX_LOG2E), magic), k = vd_sub(t, magic);
    vd r = vd_fma(k, vd_set(-SOFTMAX_LN2_HI), z), s = vd_power(t), p, q, v, a, rr, w;
    (void)kind;
    low = vd_fma(k, vd_set(-SOFTMAX_LN2_LO), low);
    rr = vd_add(r, low);
    p = exp_head_vector(rr);
    p = vd_fma(p, rr, vd_set(0.5));
    w = vd_fma(p, vd_mul(rr, rr), low);
    q = vd_add(w, r);
    v = vd_fma(q, s, s);
    a = vd_add(v, vd_set(TERM64_HIGH));
    *high_digits = vl_add_bits(*high_digits, a);
    *low_digits = vl_add_bits(*low_digits, vd_fma(w, s, vd_fma(r, s, vd_sub(s, vd_sub(a, vd_set(TERM64_BOTH))))));
    return v;
}

/* Two vectors without low parts. */
static ALWAYS_INLINE void two_terms_float(vf *x, vf *y, vf magic, arithmetic kind, vi *high, vi *low, vi *high2, vi *low2) {
    *x = term_vector_float(*x, vf_set(0.0f), magic, kind, high, low);
    *y = term_vector_float(*y, vf_set(0.0f), magic, kind, high2, low2);
}
static ALWAYS_INLINE void two_terms_double(vd *x, vd *y, vd magic, arithmetic kind, vl *high, vl *low, vl *high2, vl *low2) {
    *x = term_vector_double(*x, vd_set(0.0), magic, kind, high, low);
    *y = term_vector_double(*y, vd_set(0.0), magic, kind, high2, low2);
}

/* reduce of |x| < SOFTMAX_DOUBLE_LIMIT */
static ALWAYS_INLINE vd reduce_vector(vd x, vd *k, vd *lo) {
    *k = vd_sub(vd_fma(x, vd_set(SOFTMAX_LOG2E), vd_set(SOFTMAX_MAGIC64)), vd_set(SOFTMAX_MAGIC64));
    *lo = vd_mul(*k, vd_set(-SOFTMAX_LN2_LO));
    return vd_fma(*k, vd_set(-SOFTMAX_LN2_HI), x);
}

/* a + b = *sum + what is returned */
static ALWAYS_INLINE vd sum_error(vd a, vd b, vd *sum) {
    vd s = vd_add(a, b), t = vd_sub(s, a);
    *sum = s;
    return vd_add(vd_sub(a, vd_sub(s, t)), vd_sub(b, t));
}

/* reduce_pair of |x| < SOFTMAX_DOUBLE_LIMIT */
static ALWAYS_INLINE vd reduce_pair_vector(vd x, vd x_lo, vd *k, vd *lo) {
    vd a_lo, a = reduce_vector(x, k, &a_lo), b_k, b_lo, b = reduce_vector(x_lo, &b_k, &b_lo), c_k, c_lo, c, r, r_lo, near, near_lo, large;
    near_lo = sum_error(a, vd_add(a_lo, x_lo), &near);
    r_lo = sum_error(a, b, &r);
    r_lo = sum_error(r, vd_add(r_lo, vd_add(a_lo, b_lo)), &r);
    c = reduce_vector(r, &c_k, &c_lo);
    r_lo = sum_error(c, vd_add(c_lo, r_lo), &r);
    large = vd_abs(x_lo);
    *k = vd_select(large, vd_set(0x1p-28), vd_add(vd_add(*k, b_k), c_k), *k);
    *lo = vd_select(large, vd_set(0x1p-28), r_lo, near_lo);
    return vd_select(large, vd_set(0x1p-28), r, near);
}

/* exp_of_maximum of ARITHMETIC_32 for `count` vectors of scores below SOFTMAX_DOUBLE_LIMIT, x_lo their low parts or NULL: e^x = e 2^k. Step by
 * step for all of them: one alone is a long chain. */
static ALWAYS_INLINE void exp_of_maximum_loop(int count, const vd *x, const vd *x_lo, vd *e, vd *k) {
    static const double coefficient[] = {EXP_C12, EXP_C11, EXP_C10, EXP_C9, EXP_C8, EXP_C7, EXP_C6, EXP_C5, EXP_C4, EXP_C3};
    const vd one = vd_set(1.0), zero = vd_set(0.0), half = vd_set(0.5);
    vd sum[MOST_MAXIMA], lo[MOST_MAXIMA], p[MOST_MAXIMA];
    for (int i = 0; i < count; i++) {
        vd a, b, r, r_lo;
        if (x_lo) {
            r = reduce_pair_vector(x[i], x_lo[i], &k[i], &r_lo);
        } else {
            a = reduce_vector(x[i], &k[i], &b);
            r_lo = sum_error(a, b, &r);
        }
        sum[i] = vd_add(r, r_lo); /* expm1_reduced */
        lo[i] = vd_sub(r_lo, vd_sub(sum[i], r));
        p[i] = vd_set(coefficient[0]);
    }
    for (int j = 1; j < 10; j++)
        for (int i = 0; i < count; i++) p[i] = vd_fma(p[i], sum[i], vd_set(coefficient[j]));
    for (int i = 0; i < count; i++) {
        vd square = vd_mul(sum[i], sum[i]), square_lo = vd_fma(sum[i], sum[i], vd_sub(zero, square));
        vd half_square = vd_mul(half, square), s = vd_add(sum[i], half_square), s_lo = vd_sub(half_square, vd_sub(s, sum[i]));
        vd a, b, t = vd_fma(square, vd_mul(p[i], sum[i]), vd_fma(half, square_lo, lo[i]));
        s_lo = vd_add(s_lo, vd_add(t, vd_mul(lo[i], sum[i])));
        a = vd_add(s, s_lo);
        s_lo = vd_sub(s_lo, vd_sub(a, s));
        s = vd_add(one, a); /* pair_add */
        t = vd_sub(s, one);
        b = vd_add(vd_sub(one, vd_sub(s, t)), vd_sub(a, t));
        e[i] = vd_add(s, vd_add(b, s_lo));
    }
}

static ALWAYS_INLINE void exp_of_maximum_vectors(int count, const vd *x, vd *e, vd *k) { exp_of_maximum_loop(count, x, NULL, e, k); }

static ALWAYS_INLINE void exp_of_maximum_pairs(int count, const vd *x, const vd *x_lo, vd *e, vd *k) { exp_of_maximum_loop(count, x, x_lo, e, k); }

/* The same of VD_LANES scores in memory. */
static void exp_of_maxima(const double *z, double *f, double *k) {
    vd x = vd_load(z), n, e;
    exp_of_maximum_vectors(1, &x, &e, &n);
    vd_store(f, e);
    vd_store(k, n);
}

#endif
