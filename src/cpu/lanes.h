/* One row per lane: the arithmetic of one block of LANES rows, at most SOFTMAX_BLOCK_COLUMNS columns, where no lane meets another. The
 * scores are a tile: column j of the rows is the vector at tile + j LANES; scores with low parts have another tile of them (else NULL). A template
 * like block.h; the bits are block.h's and forward.h's. */

#if !defined(LANES_CONSTANT)
#define LANES_CONSTANT 1 /* some results are `value` */
#define LANES_DISTANT 2  /* some lanes' blocks lie far below their rows' maxima: as scale has it */
#endif

/* All but the masks: per lane. */
typedef struct NAME(lanes) {
    VECTOR first; /* as top_two */
    VECTOR second;
    VECTOR first_low; /* the largest low part of scores that equal first */
    VECTOR sum; /* of scores: NaN if there is a NaN, or both infinities */
    VECTOR kb;
    VECTOR top; /* the maximum's v */
    INTEGERS high;
    INTEGERS low;
    VECTOR factor_hi; /* softmax: as NAME(factor) */
    VECTOR factor_lo;
    VECTOR cut;
    VECTOR most;
    VECTOR minus_log; /* log_softmax */
    VECTOR minus_log_low;
    VECTOR value;     /* logsumexp; of constant lanes the result, else 0 */
    VECTOR usual;     /* 0 in constant lanes, else 1 */
    unsigned wide;    /* bit i, lane i: its terms are wide_terms */
    unsigned far;     /* its row must be left to forward_row */
    unsigned constant;
    unsigned empty; /* constant, for all of its scores are -inf */
    int patch;    /* 0, or what results need beyond the usual */
    VECTOR least; /* LANES_DISTANT: v is at least this, and brought down by that; 0 and 1 in other lanes */
    VECTOR down;
} NAME(lanes);

static inline void NAME(lanes_begin)(NAME(lanes) *s) {
    s->first = s->second = V(set)(-(REAL)INFINITY);
    s->sum = s->value = s->minus_log = s->minus_log_low = s->first_low = V(set)(0);
    s->factor_hi = s->factor_lo = s->cut = s->most = s->sum;
    s->usual = V(set)(1);
    s->wide = s->far = s->constant = s->empty = 0;
    s->patch = 0;
    s->least = s->down = s->sum;
}

/* kb of blocks with such largest scores. */
static inline VECTOR NAME(lanes_exponent)(const NAME(lanes) *s) {
    return NAME(exponent_vector)(V(max)(s->second, V(sub)(s->first, V(set)(SPREAD))));
}

/* What fast terms need that are not in lanes themselves: a lane for each block. */
typedef struct NAME(lane_terms) {
    REAL magic[LANES];
    REAL floor_score[LANES];
    INTEGERS top_high; /* the maxima's digits */
    INTEGERS top_low;
} NAME(lane_terms);

/* From the two largest: kb, and the maxima's terms. */
static ALWAYS_INLINE void NAME(lane_terms_begin)(NAME(lanes) *s, arithmetic kind, NAME(lane_terms) *t) {
    VECTOR magics;
    s->kb = NAME(lanes_exponent)(s);
    magics = V(sub)(V(set)(MAGIC + SOFTMAX_BIAS), s->kb);
    V(store)(t->magic, magics);
    V(store)(t->floor_score, NAME(zero_floors)(s->kb, kind));
    t->top_high = t->top_low = I(zero)();
    s->top = NAME(term_vector)(s->first, s->first_low, magics, kind, &t->top_high, &t->top_low);
}

/* The sums of all digits become those without the maxima's. */
static ALWAYS_INLINE void NAME(lane_terms_end)(NAME(lanes) *s, const NAME(lane_terms) *t, const BITS *high, const BITS *low) {
    s->high = I(sub)(I(load)(high), I(sub)(t->top_high, I(set)(NAME(bits_of)(HIGH_MAGIC))));
    s->low = I(sub)(I(load)(low), I(sub)(t->top_low, I(set)(NAME(bits_of)(LOW_MAGIC))));
}

/* Takes one, or two, columns into the two largest and the sum. */
static ALWAYS_INLINE void NAME(scan_one)(VECTOR x, VECTOR *first, VECTOR *second, VECTOR *sum) {
    *second = V(max)(*second, V(min)(*first, x));
    *first = V(max)(*first, x);
    *sum = V(add)(*sum, x);
}

static ALWAYS_INLINE void NAME(scan_two)(VECTOR x, VECTOR y, VECTOR *first, VECTOR *second, VECTOR *sum) {
    const VECTOR high = V(max)(x, y), low = V(min)(x, y);
    *second = V(max)(*second, V(max)(low, V(min)(*first, high)));
    *first = V(max)(*first, high);
    *sum = V(add)(*sum, V(add)(x, y));
}

/* Takes in `count` more columns. */
APART void NAME(lanes_scan)(NAME(lanes) *s, const REAL *tile, int count) {
    VECTOR first = s->first, second = s->second, sum = s->sum;
    int j = 0;
    for (; j + 2 <= count; j += 2) NAME(scan_two)(V(load)(tile + j * LANES), V(load)(tile + (j + 1) * LANES), &first, &second, &sum);
    if (j < count) NAME(scan_one)(V(load)(tile + j * LANES), &first, &second, &sum);
    s->first = first;
    s->second = second;
    s->sum = sum;
}

/* first_low, once first is known. */
APART void NAME(lanes_first_low)(NAME(lanes) *s, const REAL *tile, const REAL *low, int count) {
    const VECTOR first = s->first, nothing = V(set)(-(REAL)INFINITY);
    VECTOR top = nothing;
    for (int j = 0; j < count; j++) top = V(max)(top, V(select)(V(load)(tile + j * LANES), first, V(load)(low + j * LANES), nothing));
    s->first_low = V(select)(top, V(set)(-LARGEST), top, V(set)(0));
}

static int NAME(lane_has_nan)(const REAL *tile, int count, int lane) {
    for (int j = 0; j < count; j++)
        if (tile[j * LANES + lane] != tile[j * LANES + lane]) return 1;
    return 0;
}

/* Some lane has a maximum that is not finite or large, or a NaN: which, and what becomes of it. Scores with low parts are not looked into: a NaN
 * may stand for what is too large for a pair, and large ones are rare. */
static void NAME(lanes_classify)(NAME(lanes) *s, const softmax_job *job, const REAL *tile, int has_low, int count) {
    REAL first[LANES], second[LANES], sum[LANES], value[LANES], usual[LANES];
    V(store)(first, s->first);
    V(store)(second, s->second);
    V(store)(sum, s->sum);
    for (int i = 0; i < LANES; i++) {
        REAL f = first[i], size = f < 0 ? -f : f;
        int logsumexp = job->op == OPERATION_LOGSUMEXP;
        value[i] = 0;
        usual[i] = 1;
        if (size < WIDE_FROM && sum[i] == sum[i]) continue;
        if ((size >= SCORE_LIMIT && size <= LARGEST) || (has_low && !(f < 0 && sum[i] == sum[i] && size > LARGEST))) {
            s->far |= 1u << i;
        } else if (sum[i] == sum[i] && size < SCORE_LIMIT) {
            s->wide |= 1u << i;
            continue;
        } else {
            s->constant |= 1u << i;
            value[i] = (REAL)NAN;
            if (sum[i] == sum[i] && f < 0) s->empty |= 1u << i;
            if (sum[i] == sum[i] && f < 0 && (logsumexp || job->empty_zero))
                value[i] = logsumexp || job->op == OPERATION_LOG_SOFTMAX ? f : 0;
            else if (logsumexp && f == (REAL)INFINITY && !NAME(lane_has_nan)(tile, count, i))
                value[i] = f;
        }
        first[i] = second[i] = usual[i] = 0; /* anything that computes */
    }
    s->patch = s->constant ? LANES_CONSTANT : 0;
    s->first = V(load)(first);
    s->second = V(load)(second);
    s->value = V(load)(value);
    s->usual = V(load)(usual);
}

/* Two vectors of scores with low parts become values. */
static ALWAYS_INLINE void NAME(two_low_terms)(REAL *tile, const REAL *lows, VECTOR magics, VECTOR floors, int keep, arithmetic kind, INTEGERS *h,
                                              INTEGERS *l, INTEGERS *h2, INTEGERS *l2) {
    VECTOR x = V(load)(tile), y = V(load)(tile + LANES);
    VECTOR x_low = V(keep_from)(x, floors, V(load)(lows)), y_low = V(keep_from)(y, floors, V(load)(lows + LANES));
    x = NAME(term_vector)(V(max)(x, floors), x_low, magics, kind, h, l);
    y = NAME(term_vector)(V(max)(y, floors), y_low, magics, kind, h2, l2);
    if (keep) {
        V(store)(tile, x);
        V(store)(tile + LANES, y);
    }
}

/* Scores of the tile become values v (kept only where `keep`); their digits are added up. */
static ALWAYS_INLINE void NAME(lanes_terms_loop)(REAL *tile, const REAL *lows, int count, VECTOR magics, VECTOR floors, int keep, arithmetic kind,
                                                 INTEGERS *high, INTEGERS *low, const char *ahead, int64_t stride) {
    INTEGERS h = I(zero)(), l = I(zero)(), h2 = h, l2 = l;
    const ahead_lines lines = {(uintptr_t)ahead, stride};
    int j = 0;
    if (lows) {
        for (; j + 2 <= count; j += 2) {
            prefetch_line(ahead + j * stride);
            prefetch_line(ahead + (j + 1) * stride);
            NAME(two_low_terms)(tile + j * LANES, lows + j * LANES, magics, floors, keep, kind, &h, &l, &h2, &l2);
        }
        if (j < count) {
            VECTOR x = V(load)(tile + j * LANES), x_low = V(keep_from)(x, floors, V(load)(lows + j * LANES));
            x = NAME(term_vector)(V(max)(x, floors), x_low, magics, kind, &h, &l);
            if (keep) V(store)(tile + j * LANES, x);
        }
        *high = I(add)(h, h2);
        *low = I(add)(l, l2);
        return;
    }
    j = NAME(piped_vectors)(tile, NULL, NULL, count * LANES, magics, floors, lines, keep ? tile : NULL, kind, &h, &l) / LANES;
    for (; j + 2 <= count; j += 2) {
        prefetch_line(ahead + j * stride);
        prefetch_line(ahead + (j + 1) * stride);
        VECTOR x = V(max)(V(load)(tile + j * LANES), floors), y = V(max)(V(load)(tile + (j + 1) * LANES), floors);
        NAME(two_terms)(&x, &y, magics, kind, &h, &l, &h2, &l2);
        if (keep) {
            V(store)(tile + j * LANES, x);
            V(store)(tile + (j + 1) * LANES, y);
        }
    }
    if (j < count) {
        VECTOR x = NAME(term_vector)(V(max)(V(load)(tile + j * LANES), floors), V(set)(0), magics, kind, &h, &l);
        if (keep) V(store)(tile + j * LANES, x);
    }
    *high = I(add)(h, h2);
    *low = I(add)(l, l2);
}

/* Lanes with large maxima: row by row, by block.h's own functions. The digits' sums are then those of the terms without the maximum. */
static void NAME(lanes_terms_apart)(NAME(lanes) *s, REAL *tile, int count, VECTOR magics, VECTOR floors, int keep, arithmetic kind) {
    REAL first[LANES], kb[LANES], top[LANES], magic[LANES], floor_score[LANES], z[SOFTMAX_BLOCK_COLUMNS], v[SOFTMAX_BLOCK_COLUMNS];
    BITS high[LANES], low[LANES];
    V(store)(first, s->first);
    V(store)(kb, s->kb);
    V(store)(magic, magics);
    V(store)(floor_score, floors);
    for (int i = 0; i < LANES; i++) {
        TERM t = NAME(term_fast)(first[i], 0, magic[i], kind);
        const ahead_lines nothing = {(uintptr_t)z, 0};
        int wide = s->wide >> i & 1;
        for (int j = 0; j < count; j++) z[j] = tile[j * LANES + i];
        if (wide)
            NAME(wide_terms)(z, NULL, count, magic[i], floor_score[i], v, kind, &high[i], &low[i]);
        else
            NAME(terms)(z, NULL, count, magic[i], floor_score[i], nothing, v, kind, &high[i], &low[i]);
        high[i] -= t.high;
        low[i] -= t.low;
        top[i] = t.v;
        if (keep)
            for (int j = 0; j < count; j++) tile[j * LANES + i] = v[j];
    }
    s->top = V(load)(top);
    s->high = I(load)(high);
    s->low = I(load)(low);
}

/* Some lane is not a usual one: large, infinite, or NaN. */
static inline int NAME(lanes_are_unusual)(const NAME(lanes) *s) {
    return vm_any(V(or_nan)(V(or_at_least)(vm_none(), V(abs)(s->first), V(set)(WIDE_FROM)), s->sum));
}

/* What terms of lanes are relative to, and their digits' sums so far, the maxima's with them. */
typedef struct NAME(lane_sums) {
    VECTOR magics;
    VECTOR floors;
    INTEGERS high;
    INTEGERS low;
    INTEGERS top_high; /* the maxima's digits */
    INTEGERS top_low;
} NAME(lane_sums);

/* From the two largest to what terms are relative to. */
static ALWAYS_INLINE void NAME(lane_sums_begin)(NAME(lanes) *s, NAME(lane_sums) *t) {
    s->kb = NAME(lanes_exponent)(s);
    t->magics = V(sub)(V(set)(MAGIC + SOFTMAX_BIAS), s->kb);
    t->floors = NAME(floor_vector)(s->kb);
    t->high = t->low = t->top_high = t->top_low = I(zero)();
}

static ALWAYS_INLINE void NAME(lane_sums_end)(NAME(lanes) *s, const NAME(lane_sums) *t, int count) {
    const INTEGERS high = I(set)((BITS)(count - 1) * NAME(bits_of)(HIGH_MAGIC)), low = I(set)((BITS)(count - 1) * NAME(bits_of)(LOW_MAGIC));
    s->high = I(sub)(I(sub)(t->high, t->top_high), high); /* the maximum's digits are taken out again */
    s->low = I(sub)(I(sub)(t->low, t->top_low), low);
}

/* The terms of `count` columns, kept where `keep`. What the caller wants next is prefetched meanwhile, a line a column. */
APART void NAME(lanes_terms)(NAME(lane_sums) *t, REAL *tile, const REAL *lows, int count, int keep, arithmetic kind, const char *ahead, int64_t stride) {
    INTEGERS high, low;
#define TERMS(its_kind)                                                                                             \
    if (lows)                                                                                                       \
        NAME(lanes_terms_loop)(tile, lows, count, t->magics, t->floors, keep, its_kind, &high, &low, ahead, stride); \
    else if (keep)                                                                                                  \
        NAME(lanes_terms_loop)(tile, NULL, count, t->magics, t->floors, 1, its_kind, &high, &low, ahead, stride);   \
    else                                                                                                            \
        NAME(lanes_terms_loop)(tile, NULL, count, t->magics, t->floors, 0, its_kind, &high, &low, ahead, stride)
    if (sizeof(REAL) == 8) {
        TERMS(ARITHMETIC_64);
    } else if (kind == ARITHMETIC_FLOAT16) {
        TERMS(ARITHMETIC_FLOAT16);
    } else if (kind == ARITHMETIC_BFLOAT16) {
        TERMS(ARITHMETIC_BFLOAT16);
    } else {
        TERMS(ARITHMETIC_32);
    }
#undef TERMS
    t->high = I(add)(t->high, high);
    t->low = I(add)(t->low, low);
}

/* From the two largest to the terms. */
static void NAME(lanes_sum)(NAME(lanes) *s, const softmax_job *job, REAL *tile, const REAL *lows, int count, int keep, const char *ahead, int64_t stride) {
    NAME(lane_sums) t;
    s->first = V(add)(s->first, V(set)(0));
    if (NAME(lanes_are_unusual)(s)) NAME(lanes_classify)(s, job, tile, lows != NULL, count);
    if (lows) NAME(lanes_first_low)(s, tile, lows, count);
    NAME(lane_sums_begin)(s, &t);
    if (s->wide) {
        NAME(lanes_terms_apart)(s, tile, count, t.magics, t.floors, keep, job->kind);
        return;
    }
    s->top = NAME(term_vector)(s->first, s->first_low, t.magics, job->kind, &t.top_high, &t.top_low);
    NAME(lanes_terms)(&t, tile, lows, count, keep, job->kind, ahead, stride);
    NAME(lane_sums_end)(s, &t, count);
}

/* log_values_low of one column. */
static ALWAYS_INLINE VECTOR NAME(lanes_log_low)(const NAME(lanes) *s, VECTOR z, VECTOR low) {
    const VECTOR zero = V(set)(0);
    VECTOR d = V(sub)(z, s->first), t = V(sub)(d, z), e = V(add)(V(sub)(z, V(sub)(d, t)), V(sub)(V(sub)(zero, s->first), t)), y;
    y = V(add)(V(add)(d, s->minus_log), V(add)(V(sub)(V(add)(e, low), s->first_low), s->minus_log_low));
    y = V(unbias)(y, V(set)(SMALLEST_NORMAL), 0);
    y = V(select)(d, V(set)(-LARGEST), y, d);
    return V(add)(V(keep_from)(s->usual, V(set)(1), y), s->value);
}

/* Results of one column; patch as in s, a constant. */
static ALWAYS_INLINE VECTOR NAME(lanes_result)(const NAME(lanes) *s, VECTOR a, int want_log, int patch) {
    VECTOR limit = V(set)(want_log ? SMALLEST_NORMAL : SMALLEST_NORMAL * NAME(two_to)(OUT_BIAS)), y;
    if (patch == LANES_DISTANT) a = V(mul)(V(max)(a, s->least), s->down);
    if (want_log)
        y = V(unbias)(V(add)(V(sub)(a, s->first), s->minus_log), limit, 0);
    else
        y = V(unbias_positive)(V(raise)(V(fma)(a, s->factor_hi, V(mul)(a, s->factor_lo)), s->cut, s->most), limit, OUT_BIAS);
    if (patch == LANES_CONSTANT) y = V(add)(V(keep_from)(s->usual, V(set)(1), y), s->value);
    return y;
}

/* The digits become factor, logarithm or logsumexp: lane_readout.h. */
static void NAME(read_lanes)(NAME(lanes) *s, int groups, arithmetic kind, lane_want want);

/* The same of rows of two blocks, s and t, into s; t's top has s's kb. For ARITHMETIC_32. */
static void NAME(read_two_blocks)(NAME(lanes) *s, const NAME(lanes) *t, lane_want want);

static inline lane_want NAME(lane_want_of)(operation op) {
    return op == OPERATION_SOFTMAX ? LANE_FACTOR : op == OPERATION_LOG_SOFTMAX ? LANE_LOG : LANE_LOGSUMEXP;
}
