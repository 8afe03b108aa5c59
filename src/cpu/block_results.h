/* The results of a block, from its terms and its row's state. A template like block.h. */

/* y = v factor 2^-OUT_BIAS, factor = hi + lo; `most` where that reaches `cut`; +0 where |y| < threshold 2^-OUT_BIAS. In place or not.
 * most is the row's largest result from double arithmetic, and cut what the maximum's v gives (most itself in blocks without the
 * maximum): what v was rounded by does not keep a row of one column from being 1, and does not lift a result beyond 1, or beyond a power
 * of two that the exact one stays below. */
typedef struct NAME(factor) {
    REAL hi;
    REAL lo;
    REAL threshold;
    REAL cut;
    REAL most;
} NAME(factor);

/* Where y is written: past the cache, from the first address that a vector may have. */
static inline int NAME(columns_to_alignment)(const REAL *y) {
    uintptr_t beyond = (uintptr_t)y % (LANES * sizeof(REAL));
    return beyond ? (int)((LANES * sizeof(REAL) - beyond) / sizeof(REAL)) : 0;
}

/* How much care results take. CALM: none reaches cut or falls below the threshold; LEVEL: none falls below it. In both the factor is without
 * the bias. HOLES, with either: but for terms of -inf. EDGE: none reaches cut. */
#if !defined(CALM)
#define LEVEL 1
#define CALM 2
#define HOLES 4
#define EDGE 8
#endif

/* Before results go past the caches to y, some time before: the line that they share with what is before them is written by ordinary stores, which
 * all stores after them would wait for. */
static ALWAYS_INLINE void NAME(fetch_shared_line)(const void *y) {
    if ((uintptr_t)y % 64) prefetch_line(y);
}

/* A line that is written past the caches whole, though two blocks or rows share it: what the first has of it waits for the second. All zeros:
 * nothing waits. */
typedef struct NAME(line) {
    REAL part[LANES] __attribute__((aligned(64)));
    REAL *at; /* where the line is; NULL: nothing waits */
    int from; /* its columns [from, to) wait */
    int to;
} NAME(line);

/* What waits, by ordinary stores. */
static void NAME(line_end)(NAME(line) *line) {
    if (line->at) memcpy(line->at + line->from, line->part + line->from, (size_t)(line->to - line->from) * sizeof(REAL));
    line->at = NULL;
}

/* Where `count` results for y, all of one line, are put: next to what waits of that line. line_written follows. */
static inline REAL *NAME(line_place)(NAME(line) *line, REAL *y, int count) {
    const int column = (int)((uintptr_t)y % (LANES * sizeof(REAL)) / sizeof(REAL));
    if (line->at != y - column || line->to != column) {
        NAME(line_end)(line);
        line->at = y - column;
        line->from = column;
    }
    line->to = column + count;
    return line->part + column;
}

static inline void NAME(line_written)(NAME(line) *line) {
    if (line->to < LANES) return;
    if (line->from == 0) {
        V(stream)(line->at, V(load)(line->part));
        line->at = NULL;
    } else {
        NAME(line_end)(line);
    }
}

static SMALL_INLINE VECTOR NAME(times_factor)(VECTOR v, VECTOR hi, VECTOR lo, int is_short) {
    return is_short ? V(mul)(v, hi) : V(fma)(v, hi, V(mul)(v, lo));
}

/* The result of v, from what it is when scaled and raised. */
static SMALL_INLINE VECTOR NAME(ended)(VECTOR v, VECTOR w, const NAME(factor) *f, int calm) {
    if (calm & HOLES) w = V(keep_from)(v, V(set)(NAME(two_to)(-100)), w); /* calm terms are above 2^-43, those of -inf near TERM_NOTHING */
    return calm & (LEVEL | CALM) ? w : V(unbias_positive)(w, V(set)(f->threshold), OUT_BIAS);
}

/* One vector. */
static SMALL_INLINE VECTOR NAME(result)(VECTOR v, VECTOR hi, VECTOR lo, const NAME(factor) *f, int calm, int is_short) {
    VECTOR w = NAME(times_factor)(v, hi, lo, is_short);
    if (!(calm & (CALM | EDGE))) w = V(raise)(w, V(set)(f->cut), V(set)(f->most));
    return NAME(ended)(v, w, f, calm);
}

/* Four vectors from v on: few reach `cut`, so that one comparison of the largest tells for all; not where `often` one does, for a processor guesses
 * wrong there. */
static SMALL_INLINE void NAME(four_results)(const REAL *v, VECTOR hi, VECTOR lo, const NAME(factor) *f, int calm, int is_short, int often, VECTOR y[4]) {
    const VECTOR a = V(held)(V(load)(v)), b = V(held)(V(load)(v + LANES)), c = V(held)(V(load)(v + 2 * LANES)), d = V(held)(V(load)(v + 3 * LANES));
    const VECTOR cut = V(set)(f->cut), most = V(set)(f->most);
    VECTOR p = NAME(times_factor)(a, hi, lo, is_short), q = NAME(times_factor)(b, hi, lo, is_short);
    VECTOR r = NAME(times_factor)(c, hi, lo, is_short), s = NAME(times_factor)(d, hi, lo, is_short);
    if (!(calm & (CALM | EDGE)) && (often || vm_any(V(or_at_least)(vm_none(), V(max)(V(max)(p, q), V(max)(r, s)), cut)))) {
        p = V(raise)(p, cut, most);
        q = V(raise)(q, cut, most);
        r = V(raise)(r, cut, most);
        s = V(raise)(s, cut, most);
    }
    y[0] = NAME(ended)(a, p, f, calm);
    y[1] = NAME(ended)(b, q, f, calm);
    y[2] = NAME(ended)(c, r, f, calm);
    y[3] = NAME(ended)(d, s, f, calm);
}

static SMALL_INLINE void NAME(put)(REAL *y, VECTOR a, int streams) { streams ? V(stream)(y, a) : V(store)(y, a); }

static ALWAYS_INLINE void NAME(results_loop)(const REAL *v, int count, const NAME(factor) *factor, REAL *y, int calm, int is_short, int streams) {
    const NAME(factor) own = *factor, *f = &own; /* which no store may change: it stays in registers */
    const VECTOR hi = V(set)(f->hi), lo = V(set)(f->lo);
    const int often = count <= SOFTMAX_BLOCK_COLUMNS / 2; /* a short row's maximum is always near */
    int i = 0;
    if (streams) {
        i = NAME(columns_to_alignment)(y);
        if (i > count) i = count;
        if (i) V(store_part)(y, i, NAME(result)(V(load_part)(v, i, 0), hi, lo, f, calm, is_short));
    }
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        VECTOR a[4];
        NAME(four_results)(v + i, hi, lo, f, calm, is_short, often, a);
        NAME(put)(y + i, a[0], streams);
        NAME(put)(y + i + LANES, a[1], streams);
        NAME(put)(y + i + 2 * LANES, a[2], streams);
        NAME(put)(y + i + 3 * LANES, a[3], streams);
    }
    for (; i < count; i += LANES) {
        int rest = count - i;
        if (rest < LANES)
            V(store_part)(y + i, rest, NAME(result)(V(load_part)(v + i, rest, 0), hi, lo, f, calm, is_short));
        else
            NAME(put)(y + i, NAME(result)(V(load)(v + i), hi, lo, f, calm, is_short), streams);
    }
}

static void NAME(results)(const REAL *v, int count, const NAME(factor) *f, REAL *y, int calm, int is_short, int streams) {
    /* constants to the loop, so that each way gets its own */
#define RESULTS(its_calm, its_short)                                                      \
    streams ? NAME(results_loop)(v, count, f, y, (its_calm), its_short, 1) : NAME(results_loop)(v, count, f, y, (its_calm), its_short, 0)
    switch (calm * 2 + is_short) {
    case LEVEL * 2: RESULTS(LEVEL, 0); break;
    case (LEVEL | HOLES) * 2: RESULTS(LEVEL | HOLES, 0); break;
    case CALM * 2: RESULTS(CALM, 0); break;
    case CALM * 2 + 1: RESULTS(CALM, 1); break;
    case (CALM | HOLES) * 2 + 1: RESULTS(CALM | HOLES, 1); break;
    case EDGE * 2: RESULTS(EDGE, 0); break;
    case 1: RESULTS(0, 1); break;
    default: RESULTS(0, 0); break;
    }
#undef RESULTS
}

/* Past the caches; what is not a whole line joins `line`. */
static NOINLINE void NAME(joined_results)(const REAL *v, int count, const NAME(factor) *f, REAL *y, int calm, int is_short, NAME(line) *line) {
    int head = NAME(columns_to_alignment)(y), body;
    if (head > count) head = count;
    body = (count - head) / LANES * LANES;
    if (head) {
        NAME(results)(v, head, f, NAME(line_place)(line, y, head), calm, is_short, 0);
        NAME(line_written)(line);
    }
    if (body) NAME(results)(v + head, body, f, y + head, calm, is_short, 1);
    v += head + body, y += head + body, count -= head + body;
    if (count) NAME(results)(v, count, f, NAME(line_place)(line, y, count), calm, is_short, 0);
}

/* Results that are all the same. */
static void NAME(fill_results)(REAL *y, int count, REAL value, int streams) {
    const VECTOR values = V(set)(value);
    int i = streams ? NAME(columns_to_alignment)(y) : 0;
    if (i > count) i = count;
    if (i) V(store_part)(y, i, values);
    for (; streams && i + LANES <= count; i += LANES) V(stream)(y + i, values);
    for (; i + LANES <= count; i += LANES) V(store)(y + i, values);
    if (i < count) V(store_part)(y + i, count - i, values);
}

/* Any factor: negative, or below the smallest normal. is_far: of a block that lies far below its row's maximum, where only its own maximum, far above
 * kb, may be more than 0: v is brought down by 2^FAR_SHIFT first, which hi and lo make up for. */
static void NAME(scale)(const REAL *v, int count, const NAME(factor) *f, int is_far, REAL *y, int streams) {
    const REAL sign = f->hi < 0 ? -1 : 1;
    const VECTOR h = V(set)(sign * f->hi), l = V(set)(sign * f->lo), limit = V(set)(f->threshold), zero = V(set)(0);
    const VECTOR cut = V(set)(is_far ? (REAL)INFINITY : sign * f->cut), most = V(set)(sign * f->most);
    const VECTOR least = V(set)(is_far ? NAME(two_to)(8) : 0), down = V(set)(NAME(two_to)(is_far ? -FAR_SHIFT : 0));
    const int beyond = streams ? NAME(columns_to_alignment)(y) : 0;
    for (int i = 0, n; i < count; i += n) {
        n = i == 0 && beyond ? beyond : LANES;
        if (n > count - i) n = count - i;
        VECTOR a = n == LANES ? V(load)(v + i) : V(load_part)(v + i, n, 0);
        a = V(mul)(V(max)(a, least), down);
        a = V(unbias)(V(raise)(V(fma)(a, h, V(mul)(a, l)), cut, most), limit, OUT_BIAS);
        if (sign < 0) a = V(sub)(zero, a);
        if (n == LANES)
            NAME(put)(y + i, a, streams);
        else
            V(store_part)(y + i, n, a);
    }
}

/* y = (z - m) + minus_log, log_softmax without options. In place or not. */
static void NAME(log_values)(const REAL *z, int count, REAL m, REAL minus_log, REAL *y, int streams, NAME(line) *line) {
    VECTOR top = V(set)(m), minus = V(set)(minus_log), limit = V(set)(SMALLEST_NORMAL);
    int i = 0;
#define LOG_VALUE(a) V(unbias)(V(add)(V(sub)(a, top), minus), limit, 0)
    if (streams) {
        i = NAME(columns_to_alignment)(y);
        if (i > count) i = count;
        if (i) V(store_part)(line ? NAME(line_place)(line, y, i) : y, i, LOG_VALUE(V(load_part)(z, i, 0)));
        if (i && line) NAME(line_written)(line);
        for (; i + LANES <= count; i += LANES) V(stream)(y + i, LOG_VALUE(V(load)(z + i)));
    }
    for (; i + LANES <= count; i += LANES) V(store)(y + i, LOG_VALUE(V(load)(z + i)));
    if (i < count) V(store_part)(streams && line ? NAME(line_place)(line, y + i, count - i) : y + i, count - i, LOG_VALUE(V(load_part)(z + i, count - i, 0)));
#undef LOG_VALUE
}

/* The same for scores with low parts: ((z - m) - log) + the errors of both. */
static ALWAYS_INLINE VECTOR NAME(log_value_low)(VECTOR z, VECTOR low, VECTOR m, VECTOR m_low, VECTOR minus_log, VECTOR minus_log_low) {
    VECTOR d = V(sub)(z, m), t = V(sub)(d, z), e = V(add)(V(sub)(z, V(sub)(d, t)), V(sub)(V(sub)(V(set)(0), m), t));
    VECTOR y = V(add)(V(add)(d, minus_log), V(add)(V(sub)(V(add)(e, low), m_low), minus_log_low));
    return V(select)(d, V(set)(-LARGEST), V(unbias)(y, V(set)(SMALLEST_NORMAL), 0), d);
}

static void NAME(log_values_low)(const REAL *z, const REAL *low, int count, REAL m, REAL m_low, REAL minus_log, REAL minus_log_low, REAL *y) {
    const VECTOR top = V(set)(m), top_low = V(set)(m_low), minus = V(set)(minus_log), minus_low = V(set)(minus_log_low);
    int i = 0;
    for (; i + LANES <= count; i += LANES) V(store)(y + i, NAME(log_value_low)(V(load)(z + i), V(load)(low + i), top, top_low, minus, minus_low));
    if (i < count)
        V(store_part)(y + i, count - i,
                      NAME(log_value_low)(V(load_part)(z + i, count - i, 0), V(load_part)(low + i, count - i, 0), top, top_low, minus, minus_low));
}

/* How a row's terms become results. */
typedef struct NAME(row_result) {
    int constant; /* every result is `value` */
    REAL value;
    exact_score maximum;
    int64_t k;
    pair factor; /* 2^k / sum, times the gradient's factor */
    pair most;   /* factor times the maximum's term: the largest result */
    REAL threshold;
    pair log; /* log(sum) - maximum */
} NAME(row_result);

static NAME(row_result) NAME(result_of_state)(const row_state *s, arithmetic kind, int want_log, int empty_zero) {
    NAME(row_result) r;
    row_total total;
    memset(&r, 0, sizeof r);
    r.constant = 1;
    r.value = (REAL)NAN;
    if (s->flags) return r;
    if (s->maximum.high == -(double)INFINITY) {
        if (empty_zero) r.value = want_log ? -(REAL)INFINITY : 0;
        return r;
    }
    r.constant = 0;
    r.maximum = s->maximum;
    r.threshold = SMALLEST_NORMAL;
    total = row_state_total(s, kind);
    r.k = total.k;
    if (want_log)
        r.log = row_total_log(&total, kind);
    else
        r.factor = row_total_inverse(&total, kind);
    r.most = pair_multiply(total.e_max, r.factor);
    return r;
}

/* What a block's terms are relative to. */
typedef struct NAME(place_of_block) {
    exact_score maximum;
    REAL top;
    REAL least;
    REAL margin;
    int at;
    int holes;
    int64_t kb;
} NAME(place_of_block);

static NAME(place_of_block) NAME(place_in_row)(const NAME(block) *block) {
    NAME(place_of_block) p = {block->maximum, block->top, block->least, block->margin, block->at, block->holes, block->kb};
    return p;
}

/* Whether results are far from all that the general form must look after but `most`: the smallest normal number above all. Then the bias may be
 * left out: y is at least 2^-75 and hi at least 2^-70, so that v lo, which is 2^-24 of it or less, is normal wherever more than its sign can
 * matter (v hi has 48 bits). spread: how far the least score is below the row's maximum. */
static inline int NAME(results_are_calm)(const NAME(factor) *f, double spread) {
    return f->hi >= NAME(two_to)(OUT_BIAS - 70) && spread <= 32.0 && f->most >= NAME(two_to)(OUT_BIAS - 28);
}

/* What care the block's results take. */
static int NAME(care_of_block)(const NAME(row_result) *r, const NAME(factor) *f, const NAME(place_of_block) *block, int holds_maximum) {
    const int level = r->threshold == SMALLEST_NORMAL && NAME(results_are_calm)(f, r->maximum.high - (double)block->least);
    if (!score_is_near(r->maximum)) return 0;
    if (holds_maximum ? block->at >= 0 : r->maximum.high - block->maximum.high >= (double)block->margin) return level ? CALM : EDGE;
    return level ? LEVEL : 0;
}

static ALWAYS_INLINE void NAME(results_to)(const REAL *v, int count, const NAME(factor) *f, REAL *y, int calm, int is_short, int streams,
                                           NAME(line) *line) {
    if (streams && line)
        NAME(joined_results)(v, count, f, y, calm, is_short, line);
    else
        NAME(results)(v, count, f, y, calm, is_short, streams);
}

static inline void NAME(leave_bias_out)(NAME(factor) *f) {
    const REAL off = NAME(two_to)(-OUT_BIAS);
    f->hi *= off;
    f->lo *= off;
    f->cut *= off;
    f->most *= off;
}

/* The result at column `at`, the row's largest. */
static inline REAL NAME(largest_result)(const NAME(factor) *f) { return f->most >= f->threshold ? NAME(unbiased)(f->most) : 0; }

/* y = v factor; calm: as care_of_block, perhaps with HOLES; the maximum's column at (-1: not in this block). */
static ALWAYS_INLINE void NAME(scale_block)(const REAL *v, int count, const NAME(factor) *f, int calm, int at, int is_short, int streams, REAL *y,
                              NAME(line) *line) {
    NAME(factor) plain = *f;
    const int late = at >= 0 && streams; /* a line that has gone past the cache is better not touched again */
    if (late && calm & CALM) calm ^= CALM | LEVEL;
    if (is_short ? !(calm & CALM) : late && calm & EDGE) calm = 0;
    if (calm & (CALM | LEVEL)) NAME(leave_bias_out)(&plain);
    NAME(results_to)(v, count, &plain, y, calm, is_short, streams, line);
    if (at >= 0 && calm & (CALM | EDGE)) y[at] = NAME(largest_result)(f);
}

/* results_loop into a 16-bit type. */
static ALWAYS_INLINE void NAME(half_results)(const REAL *v, int count, const NAME(factor) *factor, void *y, element type, int calm, int streams) {
    const NAME(factor) own = *factor, *f = &own; /* as in results_loop */
    const VECTOR hi = V(set)(f->hi), lo = V(set)(f->lo);
    int i = 0;
    streams &= (uintptr_t)y % (2 * LANES) == 0;
    for (; i + LANES <= count; i += LANES) NAME(store_positive)(y, type, i, NAME(result)(V(load)(v + i), hi, lo, f, calm, 1), streams);
    if (i < count) NAME(store_rest)(y, type, i, count, NAME(result)(V(load_part)(v + i, count - i, 0), hi, lo, f, calm, 1));
}

static ALWAYS_INLINE void NAME(halves)(const REAL *v, int count, const NAME(factor) *f, void *y, element type, int calm, int streams) {
    type == ELEMENT_BFLOAT16 ? NAME(half_results)(v, count, f, y, ELEMENT_BFLOAT16, calm, streams)
                             : NAME(half_results)(v, count, f, y, ELEMENT_FLOAT16, calm, streams);
}

/* y, of that type, = v factor for a row of one block that holds its maximum, at column `at` where no other result reaches it (else -1); spread as in
 * results_are_calm. holes: some scores may be -inf, of which spread does not know. In its caller: a factor that was stored field by field is waited for
 * where it is copied. */
static ALWAYS_INLINE void NAME(scale_row)(const REAL *v, int count, const NAME(factor) *f, double spread, int holes, int at, void *y, element type,
                                          int streams, NAME(line) *line) {
    NAME(factor) plain = *f;
    int calm = !NAME(results_are_calm)(f, spread) ? 0 : holes ? LEVEL | HOLES : LEVEL;
    if (calm) NAME(leave_bias_out)(&plain);
    if (type == REAL_ELEMENT && at >= 0 && !streams && !holes) {
        NAME(results)(v, count, &plain, (REAL *)y, calm ? CALM : EDGE, 0, 0);
        ((REAL *)y)[at] = NAME(largest_result)(f);
    } else if (type == REAL_ELEMENT)
        NAME(results_to)(v, count, &plain, (REAL *)y, calm, 0, streams, line);
    else if (calm == LEVEL) /* without holes, constants to the loop */
        streams ? NAME(halves)(v, count, &plain, y, type, LEVEL, 1) : NAME(halves)(v, count, &plain, y, type, LEVEL, 0);
    else if (calm)
        NAME(halves)(v, count, &plain, y, type, LEVEL | HOLES, streams);
    else
        NAME(halves)(v, count, &plain, y, type, 0, streams);
}

/* log_values into any type. */
static void NAME(log_row)(const REAL *z, int count, REAL m, REAL minus_log, void *y, element type, int streams, NAME(line) *line) {
    const VECTOR top = V(set)(m), minus = V(set)(minus_log), limit = V(set)(SMALLEST_NORMAL);
    int i = 0;
    if (type == REAL_ELEMENT) {
        NAME(log_values)(z, count, m, minus_log, (REAL *)y, streams, line);
        return;
    }
    streams &= (uintptr_t)y % (2 * LANES) == 0;
    for (; i + LANES <= count; i += LANES)
        NAME(store_elements)(y, type, i, V(unbias)(V(add)(V(sub)(V(load)(z + i), top), minus), limit, 0), streams);
    if (i < count) NAME(store_rest)(y, type, i, count, V(unbias)(V(add)(V(sub)(V(load_part)(z + i, count - i, 0), top), minus), limit, 0));
}

#if !defined(FACTOR_USUAL)
#define FACTOR_NOTHING 0 /* all results are 0 */
#define FACTOR_FAR 1     /* scale, far */
#define FACTOR_ANY 2     /* scale */
#define FACTOR_USUAL 3   /* scale_block */
#endif

/* Whether the result of a far block's maximum is 0 too. */
static inline int NAME(far_is_nothing)(const NAME(factor) *f, REAL top) {
    const REAL least = NAME(two_to)(8), a = (top > least ? top : least) * NAME(two_to)(-FAR_SHIFT), b = FMA(a, f->hi, a * f->lo);
    return b < f->threshold && -b < f->threshold;
}

/* How a block's terms become results, and by which factor. equal: the row's maximum is in it. */
static int NAME(factor_of_block)(const NAME(row_result) *r, arithmetic kind, const NAME(place_of_block) *block, int *equal, NAME(factor) *f) {
    int64_t distance = wrapped_difference(block->kb, r->k), exponent = distance - SOFTMAX_BIAS + OUT_BIAS;
    int is_far = distance < FAR_BLOCK;
    pair g;
    *equal = scores_are_equal(block->maximum, r->maximum);
    if (block->maximum.high == -(double)INFINITY || !scores_meet(block->maximum, r->maximum) || exponent < LEAST_EXPONENT) return FACTOR_NOTHING;
    if (is_far) exponent += FAR_SHIFT;
    g.hi = scale_by_power(r->factor.hi, exponent);
    g.lo = scale_by_power(r->factor.lo, exponent);
    f->hi = (REAL)g.hi;
    f->lo = arithmetic_is_short(kind) ? 0 : (REAL)((g.hi - (double)f->hi) + g.lo);
    f->threshold = r->threshold * NAME(two_to)(OUT_BIAS);
    f->most = (REAL)(r->most.hi * (double)NAME(two_to)(OUT_BIAS));
    f->cut = *equal ? FMA(block->top, f->hi, block->top * f->lo) : f->most;
    if (is_far && NAME(far_is_nothing)(f, block->top)) return FACTOR_NOTHING;
    return is_far ? FACTOR_FAR : f->hi < SMALLEST_NORMAL ? FACTOR_ANY : FACTOR_USUAL;
}

/* Results that are all 0. */
static void NAME(zero_halves)(void *y, element type, int count, int streams) {
    int i = 0;
    streams &= (uintptr_t)y % (2 * LANES) == 0;
    for (; i + LANES <= count; i += LANES) NAME(store_positive)(y, type, i, V(set)(0), streams);
    memset((uint16_t *)y + i, 0, 2 * (size_t)(count - i));
}

/* block_results, but rounded to a 16-bit type as they are written; 0, and nothing is written, where that is not possible. */
static int NAME(block_halves)(const NAME(row_result) *r, arithmetic kind, const REAL *v, int count, const NAME(place_of_block) *block, void *y,
                              element type, int streams) {
    NAME(factor) f;
    int equal, way = NAME(factor_of_block)(r, kind, block, &equal, &f);
    if (way == FACTOR_NOTHING) NAME(zero_halves)(y, type, count, streams);
    if (block->holes || way != FACTOR_USUAL) return way == FACTOR_NOTHING;
    if (NAME(care_of_block)(r, &f, block, equal) & (CALM | LEVEL)) {
        NAME(leave_bias_out)(&f);
        streams ? NAME(halves)(v, count, &f, y, type, LEVEL, 1) : NAME(halves)(v, count, &f, y, type, LEVEL, 0);
    } else {
        NAME(halves)(v, count, &f, y, type, 0, streams);
    }
    return 1;
}

/* y = v factor for one block of terms, in place or not; streams: past the cache. */
static void NAME(block_results)(const NAME(row_result) *r, arithmetic kind, const REAL *v, int count, const NAME(place_of_block) *block, REAL *y,
                                int streams, NAME(line) *line) {
    NAME(factor) f;
    int equal, way = NAME(factor_of_block)(r, kind, block, &equal, &f);
    if (way == FACTOR_NOTHING) {
        NAME(fill_results)(y, count, 0, streams);
    } else if (way != FACTOR_USUAL) {
        NAME(scale)(v, count, &f, way == FACTOR_FAR, y, streams);
    } else {
        int calm = NAME(care_of_block)(r, &f, block, equal);
        if (calm & (CALM | LEVEL) && block->holes) calm |= HOLES;
        NAME(scale_block)(v, count, &f, calm, equal ? block->at : -1, arithmetic_is_short(kind), streams, y, line);
    }
}
