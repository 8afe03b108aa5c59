/* Scores made of elements in vectors, and the forms in which a block's come. A template like block.h; scores.h has the same operations one by one. */

#if !defined(SCORES_MASKED) /* what belongs to a block's elements, flags */
#define SCORES_MASKED 1
#define SCORES_SCALED 2
#define SCORES_BIASED 4 /* with SCORES_SCALED */
#define SCORES_ASIDE 8  /* with SCORES_MASKED alone: they are not kept */
#endif

/* What the scores of at most SOFTMAX_BLOCK_COLUMNS columns are made of; all of it contiguous. */
typedef struct NAME(score_parts) {
    const void *x;
    element type; /* of x; REAL_ELEMENT where there is a scale */
    int form;
    const REAL *bias;
    const uint8_t *mask;
    REAL scale_hi;
    REAL scale_lo;
} NAME(score_parts);

/* scale x + b = z + *low as scores.h's `scaled` has it for a product that is not large. Infinities and NaN stand alone, low is then anything; NaN is
 * also where a sum of finite parts is not finite. *hi: the product. */
static ALWAYS_INLINE VECTOR NAME(scaled_vector)(VECTOR x, VECTOR b, VECTOR scale_hi, VECTOR scale_lo, int biased, VECTOR *low, VECTOR *hi) {
    VECTOR sum = V(mul)(x, scale_hi), lo = V(fms)(x, scale_hi, sum), z;
    *hi = sum;
    lo = V(fma)(x, scale_lo, lo);
    if (biased) {
        VECTOR t;
        sum = V(add)(*hi, b);
        t = V(sub)(sum, *hi);
        lo = V(add)(lo, V(add)(V(sub)(*hi, V(sub)(sum, t)), V(sub)(b, t)));
    }
    z = V(add_if_finite)(x, sum, lo);
    *low = V(sub)(lo, V(sub)(z, sum));
    return biased ? V(select)(b, V(set)(-LARGEST), z, b) : z;
}

/* The vector of scores from column i on, of which mask and bias are at hand; kept at `to` unless the elements are the scores. *size: the largest
 * product under a bias that takes part. *lowest: with a mask or bias, takes in all scores but those of -inf, and perhaps more. */
static SMALL_INLINE VECTOR NAME(made_scores)(const NAME(score_parts) *s, element type, int form, int i, REAL *to, REAL *low, VECTOR *size,
                                              VECTOR *lowest) {
    const VECTOR least = V(set)(-LARGEST);
    VECTOR z = NAME(load_elements)(s->x, type, i), lows, product;
    if (form & SCORES_SCALED)
        z = NAME(scaled_vector)(z, form & SCORES_BIASED ? V(load)(s->bias + i) : V(set)(0), V(set)(s->scale_hi), V(set)(s->scale_lo),
                                form & SCORES_BIASED, &lows, &product);
    if (!(form & SCORES_SCALED) && form & SCORES_MASKED) *lowest = V(lower)(*lowest, z);
    if (form & SCORES_MASKED) z = V(masked)(z, s->mask + i);
    if (form & SCORES_SCALED) V(store)(low + i, lows);
    if (form & SCORES_SCALED && form & (SCORES_MASKED | SCORES_BIASED)) *lowest = V(lower)(*lowest, V(keep_from)(z, least, z));
    if (form & SCORES_BIASED) *size = V(max)(V(keep_from)(z, least, V(abs)(product)), *size);
    if (!(form & SCORES_ASIDE) && (form || type != REAL_ELEMENT)) V(store)(to + i, z);
    return V(held)(z);
}

/* The same of columns [first, count), of which the last may be fewer than a vector. */
static NOINLINE void NAME(make_rest)(const NAME(score_parts) *s, int first, int count, REAL *to, REAL *low, VECTOR *size,
                                     VECTOR *lowest) {
    REAL z[LANES], lows[LANES] = {0}, bias[LANES];
    uint8_t mask[LANES];
    NAME(score_parts) part = *s;
    part.x = z;
    part.bias = bias;
    part.mask = mask;
    for (int i = first; i < count; i += LANES) {
        const int n = count - i < LANES ? count - i : LANES;
        V(store)(z, n < LANES ? NAME(load_rest)(s->x, s->type, i, count) : NAME(load_elements)(s->x, s->type, i));
        memset(mask, 1, sizeof mask);
        memset(bias, 0, sizeof bias);
        if (s->form & SCORES_MASKED) memcpy(mask, s->mask + i, (size_t)n);
        if (s->form & SCORES_BIASED) memcpy(bias, s->bias + i, (size_t)n * sizeof(REAL));
        if (s->form & SCORES_SCALED)
            NAME(made_scores)(&part, REAL_ELEMENT, SCORES_MASKED | SCORES_SCALED | SCORES_BIASED, 0, z, lows, size, lowest);
        else
            NAME(made_scores)(&part, REAL_ELEMENT, SCORES_MASKED, 0, z, lows, size, lowest);
        V(store_part)(to + i, n, V(load)(z));
        if (s->form & SCORES_SCALED) V(store_part)(low + i, n, V(load)(lows));
    }
}
