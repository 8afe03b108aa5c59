/* numerics/terms.h's fast terms in vectors: the same operations in the same order. */
#ifndef SOFTMAX_TERM_VECTORS_H
#define SOFTMAX_TERM_VECTORS_H

/* A loop and what it calls are one piece of code for each set of constant arguments. */
#if defined(VECTOR_CALLS)
#define ALWAYS_INLINE inline
#else
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* Included after a vector_*.h. `low` is the scores' low part (zero vector where there is none). */
static ALWAYS_INLINE vf term_vector_float(vf z, vf low, vf magic, arithmetic kind, vi *high_digits, vi *low_digits) {
    vf t = vf_fma(z, vf_set(TERM32_LOG2E), magic), k = vf_sub(t, magic);
    vf r = vf_fma(k, vf_set(-TERM32_LN2_HI), z), p, v, a, b;
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
        low = vf_fma(k, vf_set(TERM32_LN2_MINUS), low);
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

static ALWAYS_INLINE vd term_vector_double(vd z, vd low, vd magic, arithmetic kind, vl *high_digits, vl *low_digits) {
    vd t = vd_fma(z, vd_set(SOFTMAX_LOG2E), magic), k = vd_sub(t, magic);
    vd r = vd_fma(k, vd_set(-SOFTMAX_LN2_HI), z), s = vd_power(t), p, q, v, a, rr, w;
    (void)kind;
    low = vd_fma(k, vd_set(-SOFTMAX_LN2_LO), low);
    rr = vd_add(r, low);
    p = vd_fma(vd_set(EXP_C12), rr, vd_set(EXP_C11));
    p = vd_fma(p, rr, vd_set(EXP_C10));
    p = vd_fma(p, rr, vd_set(EXP_C9));
    p = vd_fma(p, rr, vd_set(EXP_C8));
    p = vd_fma(p, rr, vd_set(EXP_C7));
    p = vd_fma(p, rr, vd_set(EXP_C6));
    p = vd_fma(p, rr, vd_set(EXP_C5));
    p = vd_fma(p, rr, vd_set(EXP_C4));
    p = vd_fma(p, rr, vd_set(EXP_C3));
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

#endif
