/* Scale, bias and limits of rows in lanes (lanes.h): scores.h's operations on a tile. The scale is positive, so that elements of -inf stay what they
 * are, and within 2^-100 to 2^100. A template like block.h. */

/* Elements of the tile become scores scale x + bias, low parts go into `lows`. Where a sum of finite parts is not finite the score is NaN, and
 * lanes whose products are so large that a bias may cancel most of them are marked far: those rows are computed on their own. */
static ALWAYS_INLINE void NAME(lanes_scale_loop)(NAME(lanes) *s, REAL *tile, REAL *lows, const REAL *bias, int count, VECTOR scale_hi,
                                                 VECTOR scale_lo, int has_bias) {
    const VECTOR zero = V(set)(0), least = V(set)(-LARGEST);
    VECTOR size = zero;
    for (int j = 0; j < count; j++) {
        VECTOR x = V(load)(tile + j * LANES), b = has_bias ? V(load)(bias + j * LANES) : zero, hi, lo;
        VECTOR z = NAME(scaled_vector)(x, b, scale_hi, scale_lo, has_bias, &lo, &hi);
        if (has_bias) size = V(max)(V(keep_from)(z, least, V(abs)(hi)), size);
        V(store)(tile + j * LANES, z);
        V(store)(lows + j * LANES, lo);
    }
    if (has_bias && vm_any(V(or_at_least)(vm_none(), size, V(set)(WIDE_FROM)))) {
        REAL sizes[LANES];
        V(store)(sizes, size);
        for (int i = 0; i < LANES; i++)
            if (sizes[i] >= WIDE_FROM) s->far |= 1u << i;
    }
}

APART void NAME(lanes_scale)(NAME(lanes) *s, const softmax_job *job, REAL *tile, REAL *lows, const REAL *bias, int count) {
    const REAL hi = (REAL)job->scale;
    const VECTOR scale_hi = V(set)(hi), scale_lo = V(set)((REAL)(job->scale - (double)hi));
    if (bias)
        NAME(lanes_scale_loop)(s, tile, lows, bias, count, scale_hi, scale_lo, 1);
    else
        NAME(lanes_scale_loop)(s, tile, lows, NULL, count, scale_hi, scale_lo, 0);
}

/* Columns at or beyond a lane's limit are masked out. first: the tile's first column in its rows. */
APART void NAME(lanes_limit)(const int64_t *limit, int64_t first, REAL *tile, REAL *lows, int count) {
    REAL limits[LANES];
    int64_t least = count;
    VECTOR seen, nothing = V(set)(-(REAL)INFINITY), zero = V(set)(0);
    for (int i = 0; i < LANES; i++) {
        int64_t n = limit[i] - first;
        n = n < 0 ? 0 : n > count ? count : n;
        limits[i] = (REAL)n;
        if (n < least) least = n;
    }
    seen = V(load)(limits);
    for (int64_t j = least; j < count; j++) {
        VECTOR next = V(set)((REAL)(j + 1));
        V(store)(tile + j * LANES, V(select)(seen, next, V(load)(tile + j * LANES), nothing));
        if (lows) V(store)(lows + j * LANES, V(select)(seen, next, V(load)(lows + j * LANES), zero));
    }
}
