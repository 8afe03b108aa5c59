/* What is done to one block of a row's scores, at most SOFTMAX_BLOCK_COLUMNS of them, contiguous. A template: included once for float
 * (results float32 and 16-bit) and once for double, with REAL and the names below defined by block_types.h. */

/* The two largest scores (the second may equal the first), and whether there is a NaN. */
static void NAME(top_two)(const REAL *z, int count, REAL *first, REAL *second, int *has_nan) {
    const REAL none = -(REAL)INFINITY;
    VECTOR m1 = V(set)(none), m2 = V(set)(none), m1b = m1, m2b = m2;
    vm nan = vm_none();
    REAL lane1[2 * LANES], lane2[2 * LANES], a = none, b = none;
    int i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES) {
        VECTOR x = V(load)(z + i), y = V(load)(z + i + LANES);
        m2 = V(max)(m2, V(min)(m1, x));
        m1 = V(max)(m1, x);
        m2b = V(max)(m2b, V(min)(m1b, y));
        m1b = V(max)(m1b, y);
        nan = V(or_nan)(V(or_nan)(nan, x), y);
    }
    for (; i < count; i += LANES) {
        VECTOR x = i + LANES <= count ? V(load)(z + i) : V(load_part)(z + i, count - i, none);
        m2 = V(max)(m2, V(min)(m1, x));
        m1 = V(max)(m1, x);
        nan = V(or_nan)(nan, x);
    }
    m2 = V(max)(V(max)(m2, m2b), V(min)(m1, m1b));
    m1 = V(max)(m1, m1b);
    V(store)(lane1, m1);
    V(store)(lane2, m2);
    for (i = 0; i < LANES; i++) {
        REAL low = lane1[i] < a ? lane1[i] : a;
        a = lane1[i] > a ? lane1[i] : a;
        b = b > low ? b : low;
        b = b > lane2[i] ? b : lane2[i];
    }
    *first = a;
    *second = b;
    *has_nan = vm_any(nan);
}

/* Among the scores equal to `first`, the largest low part; `second` becomes `first` if there are several. */
static REAL NAME(top_low)(const REAL *z, const REAL *low, int count, REAL first) {
    REAL top = -(REAL)INFINITY;
    for (int i = 0; i < count; i++)
        if (z[i] == first && low[i] > top) top = low[i];
    return top;
}

/* Fast terms of the block, magic and floor from kb: digits' sums modulo 2^32 (2^64), values into v unless it is NULL. */
static inline void NAME(terms_loop)(const REAL *z, const REAL *low, int count, REAL magic, REAL floor_score, REAL *v, arithmetic kind,
                                    BITS *high, BITS *low_sum) {
    VECTOR magics = V(set)(magic), floors = V(set)(floor_score), zero = V(set)(0);
    INTEGERS h = I(zero)(), l = I(zero)();
    int i = 0, padded = (count + LANES - 1) / LANES * LANES;
    for (; i < count; i += LANES) {
        int whole = i + LANES <= count;
        VECTOR raw = whole ? V(load)(z + i) : V(load_part)(z + i, count - i, -(REAL)INFINITY);
        VECTOR x = V(max)(raw, floors), x_low = zero, value;
        if (low) x_low = V(keep_from)(raw, floors, whole ? V(load)(low + i) : V(load_part)(low + i, count - i, 0));
        value = NAME(term_vector)(x, x_low, magics, kind, &h, &l);
        if (v) {
            if (whole)
                V(store)(v + i, value);
            else
                V(store_part)(v + i, count - i, value);
        }
    }
    *high = I(sum)(h) - (BITS)padded * NAME(bits_of)(HIGH_MAGIC);
    *low_sum = I(sum)(l) - (BITS)padded * NAME(bits_of)(LOW_MAGIC);
}

static void NAME(terms)(const REAL *z, const REAL *low, int count, REAL magic, REAL floor_score, REAL *v, arithmetic kind, BITS *high,
                        BITS *low_sum) {
    /* constants to the loop, so that each kind gets its own */
#define TERMS(its_low, its_v, its_kind) NAME(terms_loop)(z, its_low, count, magic, floor_score, its_v, its_kind, high, low_sum)
#define TERMS_OF_KIND(its_low, its_v)                      \
    if (sizeof(REAL) == 8)                                 \
        TERMS(its_low, its_v, ARITHMETIC_64);              \
    else if (kind == ARITHMETIC_FLOAT16)                   \
        TERMS(its_low, its_v, ARITHMETIC_FLOAT16);         \
    else if (kind == ARITHMETIC_BFLOAT16)                  \
        TERMS(its_low, its_v, ARITHMETIC_BFLOAT16);        \
    else                                                   \
        TERMS(its_low, its_v, ARITHMETIC_32)
    if (low) {
        TERMS_OF_KIND(low, v);
    } else if (v) {
        TERMS_OF_KIND(NULL, v);
    } else {
        TERMS_OF_KIND(NULL, NULL);
    }
#undef TERMS
#undef TERMS_OF_KIND
}

/* Blocks whose maximum is far out (|m| >= SCORE_LIMIT): element by element. */
static void NAME(far_terms)(const REAL *z, const REAL *low, int count, int64_t kb, REAL *v, arithmetic kind, BITS *high, BITS *low_sum) {
    BITS h = 0, l = 0;
    for (int i = 0; i < count; i++) {
        TERM t = {TERM_NOTHING, 0, 0};
        if (z[i] >= (REAL)-SOFTMAX_HUGE) t = NAME(term_far)(z[i], low ? low[i] : 0, kb, kind);
        h += t.high;
        l += t.low;
        if (v) v[i] = t.v;
    }
    *high = h;
    *low_sum = l;
}

/* What a block adds to its row, and what its values v are relative to: v = e^z 2^(SOFTMAX_BIAS - kb). */
typedef struct NAME(block) {
    REAL maximum; /* -inf: nothing in it */
    REAL maximum_low;
    int64_t kb;
    REAL top;         /* the maximum's v */
    accumulator rest; /* the terms without the maximum */
    uint32_t flags;
} NAME(block);

/* Beyond SOFTMAX_HUGE only equals of the maximum count, as 1. */
static void NAME(huge_block)(const REAL *z, const REAL *low, int count, NAME(block) *block, REAL *v) {
    int64_t equals = 0;
    for (int i = 0; i < count; i++) {
        int equal = z[i] == block->maximum && (!low || low[i] == block->maximum_low);
        equals += equal;
        if (v) v[i] = equal ? (REAL)(1 << SOFTMAX_BIAS) : TERM_NOTHING;
    }
    block->kb = 0;
    block->top = (REAL)(1 << SOFTMAX_BIAS);
    accumulator_add(&block->rest, equals - 1, 0);
}

/* The largest score but one occurrence of the first, low parts counted. */
static void NAME(second_pair)(const REAL *z, const REAL *low, int count, REAL first, REAL first_low, REAL *second, REAL *second_low) {
    int first_seen = 0;
    *second = -(REAL)INFINITY;
    *second_low = 0;
    for (int i = 0; i < count; i++) {
        if (!first_seen && z[i] == first && low[i] == first_low)
            first_seen = 1;
        else if (z[i] > *second || (z[i] == *second && low[i] > *second_low)) {
            *second = z[i];
            *second_low = low[i];
        }
    }
}

static void NAME(block_sum)(const REAL *z, const REAL *low, int count, arithmetic kind, REAL *v, NAME(block) *block) {
    REAL second;
    TERM top;
    BITS high, low_sum;
    int has_nan;
    NAME(top_two)(z, count, &block->maximum, &second, &has_nan);
    block->maximum_low = 0;
    block->kb = 0;
    block->top = 0;
    block->rest = accumulator_empty();
    block->flags = (has_nan ? STATE_NAN : 0) | (block->maximum == (REAL)INFINITY ? STATE_INFINITE : 0);
    if (block->flags || block->maximum == -(REAL)INFINITY) {
        if (v) /* a NaN row is written as such; an empty block as zeros */
            for (int i = 0; i < count; i++) v[i] = TERM_NOTHING;
        return;
    }
    if (low) block->maximum_low = NAME(top_low)(z, low, count, block->maximum);
    if (score_is_huge((double)block->maximum)) {
        NAME(huge_block)(z, low, count, block, v);
        return;
    }
    if (block->maximum < SCORE_LIMIT && block->maximum > -SCORE_LIMIT) {
        REAL near = block->maximum - SPREAD, kb, magic;
        kb = NAME(term_exponent)(second > near ? second : near);
        block->kb = (int64_t)kb;
        magic = MAGIC + SOFTMAX_BIAS - kb;
        NAME(terms)(z, low, count, magic, NAME(term_floor)(kb), v, kind, &high, &low_sum);
        top = NAME(term_fast)(block->maximum, block->maximum_low, magic, kind);
    } else {
        int64_t k1 = reduce_pair((double)block->maximum, (double)block->maximum_low).k, k2 = k1 - FAR_SPREAD;
        REAL second_low = 0;
        if (low) NAME(second_pair)(z, low, count, block->maximum, block->maximum_low, &second, &second_low);
        if (second >= (REAL)-SOFTMAX_HUGE) {
            int64_t k = reduce_pair((double)second, (double)second_low).k;
            if (k > k2) k2 = k;
        }
        block->kb = k2;
        NAME(far_terms)(z, low, count, k2, v, kind, &high, &low_sum);
        top = NAME(term_far)(block->maximum, block->maximum_low, k2, kind);
    }
    block->top = top.v;
    NAME(add_digits)(&block->rest, high - top.high, low_sum - top.low, block->kb);
}

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

static void NAME(scale)(const REAL *v, int count, const NAME(factor) *f, REAL *y) {
    VECTOR h = V(set)(f->hi), l = V(set)(f->lo), limit = V(set)(f->threshold), cut = V(set)(f->cut), most = V(set)(f->most);
    if (f->hi < 0) {
        for (int i = 0; i < count; i++) {
            REAL b = FMA(v[i], f->hi, v[i] * f->lo);
            b = b <= f->cut ? f->most : b;
            y[i] = -b >= f->threshold ? NAME(unbiased)(b) : 0;
        }
        return;
    }
    for (int i = 0; i < count; i += LANES) {
        int whole = i + LANES <= count;
        VECTOR a = whole ? V(load)(v + i) : V(load_part)(v + i, count - i, 0);
        a = V(unbias)(V(raise)(V(fma)(a, h, V(mul)(a, l)), cut, most), limit, OUT_BIAS);
        if (whole)
            V(store)(y + i, a);
        else
            V(store_part)(y + i, count - i, a);
    }
}

/* The same for a block that lies far below its row's maximum, where only its own maximum, far above kb, may be more than 0:
 * v is brought down by 2^FAR_SHIFT first, which hi and lo make up for. */
static void NAME(scale_far)(const REAL *v, int count, const NAME(factor) *f, REAL *y) {
    const REAL down = NAME(two_to)(-FAR_SHIFT), least = NAME(two_to)(8);
    for (int i = 0; i < count; i++) {
        REAL a = (v[i] > least ? v[i] : least) * down, b = FMA(a, f->hi, a * f->lo);
        y[i] = b >= f->threshold || -b >= f->threshold ? NAME(unbiased)(b) : 0;
    }
}

/* y = (z - m) + minus_log, log_softmax without options. In place or not. */
static void NAME(log_values)(const REAL *z, int count, REAL m, REAL minus_log, REAL *y) {
    VECTOR top = V(set)(m), minus = V(set)(minus_log), limit = V(set)(SMALLEST_NORMAL);
    for (int i = 0; i < count; i += LANES) {
        if (i + LANES <= count)
            V(store)(y + i, V(unbias)(V(add)(V(sub)(V(load)(z + i), top), minus), limit, 0));
        else
            V(store_part)(y + i, count - i, V(unbias)(V(add)(V(sub)(V(load_part)(z + i, count - i, 0), top), minus), limit, 0));
    }
}

/* The same for scores with low parts: ((z - m) - log) + the errors of both. */
static void NAME(log_values_low)(const REAL *z, const REAL *low, int count, REAL m, REAL m_low, REAL minus_log, REAL minus_log_low, REAL *y) {
    for (int i = 0; i < count; i++) {
        REAL d = z[i] - m, t = d - z[i], e = (z[i] - (d - t)) + (-m - t), b;
        if (d == -(REAL)INFINITY) {
            y[i] = d;
            continue;
        }
        b = (d + minus_log) + (((e + low[i]) - m_low) + minus_log_low);
        y[i] = b >= SMALLEST_NORMAL || -b >= SMALLEST_NORMAL ? b : 0;
    }
}
