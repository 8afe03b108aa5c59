/* What is done to one block of a row's scores, at most SOFTMAX_BLOCK_COLUMNS of them, contiguous. A template: included once for float
 * (results float32 and 16-bit) and once for double, with REAL and the names below defined by block_types.h. */

typedef struct NAME(largest) {
    VECTOR first;
    VECTOR second;
} NAME(largest);

static inline void NAME(merge_largest)(NAME(largest) *m, VECTOR first, VECTOR second) {
    m->second = V(max)(V(max)(m->second, second), V(min)(m->first, first));
    m->first = V(max)(m->first, first);
}

/* The second of the columns j, j + 4 LANES, ...: there are few of them. */
static REAL NAME(second_of_class)(const REAL *z, int j, int count) {
    REAL first = z[j], second = -(REAL)INFINITY;
    for (j += 4 * LANES; j < count; j += 4 * LANES) {
        REAL low = z[j] < first ? z[j] : first;
        first = z[j] > first ? z[j] : first;
        second = low > second ? low : second;
    }
    return second;
}

static int NAME(any_nan)(const REAL *z, int count) {
    int nan = 0;
    for (int i = 0; i < count; i++) nan |= z[i] != z[i];
    return nan;
}

/* The two largest scores (the second may equal the first), and whether there is a NaN. Only maxima are kept of the columns with the same
 * place modulo 4 LANES; the second is either the largest of the other places or found at the first's own. */
static void NAME(top_two)(const REAL *z, int count, REAL *first, REAL *second, int *has_nan) {
    const VECTOR nothing = V(set)(-(REAL)INFINITY);
    VECTOR a = nothing, b = nothing, c = nothing, d = nothing;
    NAME(largest) all = {nothing, nothing};
    VECTOR sum = V(set)(0), sum2 = sum; /* NaN if there is a NaN, or both infinities */
    int i = 0, whole = count / (4 * LANES) * (4 * LANES);
    for (; i < whole; i += 4 * LANES) {
        VECTOR x = V(load)(z + i), y = V(load)(z + i + LANES), u = V(load)(z + i + 2 * LANES), w = V(load)(z + i + 3 * LANES);
        a = V(max)(a, x);
        b = V(max)(b, y);
        c = V(max)(c, u);
        d = V(max)(d, w);
        sum = V(add)(sum, V(add)(x, y));
        sum2 = V(add)(sum2, V(add)(u, w));
    }
    for (; i < count; i += LANES) {
        VECTOR x = i + LANES <= count ? V(load)(z + i) : V(load_part)(z + i, count - i, -(REAL)INFINITY);
        NAME(merge_largest)(&all, x, nothing);
        sum = V(add)(sum, x);
    }
    if (whole) {
        NAME(largest) ab = {V(max)(a, b), V(min)(a, b)}, cd = {V(max)(c, d), V(min)(c, d)};
        NAME(merge_largest)(&ab, cd.first, cd.second);
        NAME(merge_largest)(&all, ab.first, ab.second);
    }
    for (int step = LANES / 2; step > 0; step /= 2) NAME(merge_largest)(&all, V(swap)(all.first, step), V(swap)(all.second, step));
    *first = V(first)(all.first) + 0; /* -0 is taken as +0: which of equal zeros came first depends on the lanes */
    *second = V(first)(all.second);
    *has_nan = vm_any(V(or_nan)(vm_none(), V(add)(sum, sum2))) && NAME(any_nan)(z, count);
    if (whole > 4 * LANES && *second < *first && !*has_nan) {
        int at = V(find)(a, all.first);
        if (at == LANES) at += V(find)(b, all.first);
        if (at == 2 * LANES) at += V(find)(c, all.first);
        if (at == 3 * LANES) at += V(find)(d, all.first);
        if (at < 4 * LANES) {
            REAL other = NAME(second_of_class)(z, at, whole);
            if (other > *second) *second = other;
        }
    }
}

/* Among the scores equal to `first`, the largest low part; `second` becomes `first` if there are several. */
static REAL NAME(top_low)(const REAL *z, const REAL *low, int count, REAL first) {
    const VECTOR firsts = V(set)(first);
    REAL top = -(REAL)INFINITY;
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        if (V(find)(V(load)(z + i), firsts) < LANES)
            for (int j = i; j < i + LANES; j++)
                if (z[j] == first && low[j] > top) top = low[j];
    for (; i < count; i++)
        if (z[i] == first && low[i] > top) top = low[i];
    return top;
}

/* Fast terms of the block, magic and floor from kb: digits' sums modulo 2^32 (2^64), values into v unless it is NULL. */
static ALWAYS_INLINE void NAME(terms_loop)(const REAL *z, const REAL *low, int count, REAL magic, REAL floor_score, int floor_is_negative, REAL *v,
                                    arithmetic kind, BITS *high, BITS *low_sum) {
    VECTOR magics = V(set)(magic), floors = V(set)(floor_score), zero = V(set)(0);
    INTEGERS h = I(zero)(), l = I(zero)(), h2 = h, l2 = l;
    int i = 0, padded = (count + LANES - 1) / LANES * LANES;
    for (; !low && i + 2 * LANES <= count; i += 2 * LANES) { /* two at a time: the chain of operations is longer than the processor's window */
        VECTOR x = V(load)(z + i), y = V(load)(z + i + LANES);
        x = floor_is_negative ? V(at_least_negative)(x, floors) : V(max)(x, floors);
        y = floor_is_negative ? V(at_least_negative)(y, floors) : V(max)(y, floors);
        NAME(two_terms)(&x, &y, magics, kind, &h, &l, &h2, &l2);
        if (v) {
            V(store)(v + i, x);
            V(store)(v + i + LANES, y);
        }
    }
    for (; i + LANES <= count; i += LANES) {
        VECTOR raw = V(load)(z + i), x = floor_is_negative ? V(at_least_negative)(raw, floors) : V(max)(raw, floors), x_low = zero, value;
        if (low) x_low = V(keep_from)(raw, floors, V(load)(low + i));
        value = NAME(term_vector)(x, x_low, magics, kind, &h, &l);
        if (v) V(store)(v + i, value);
    }
    if (i < count) {
        VECTOR raw = V(load_part)(z + i, count - i, -(REAL)INFINITY), x_low = zero, value;
        if (low) x_low = V(keep_from)(raw, floors, V(load_part)(low + i, count - i, 0));
        value = NAME(term_vector)(V(max)(raw, floors), x_low, magics, kind, &h, &l);
        if (v) V(store_part)(v + i, count - i, value);
    }
    *high = I(sum)(h) + I(sum)(h2) - (BITS)padded * NAME(bits_of)(HIGH_MAGIC);
    *low_sum = I(sum)(l) + I(sum)(l2) - (BITS)padded * NAME(bits_of)(LOW_MAGIC);
}

static void NAME(terms)(const REAL *z, const REAL *low, int count, REAL magic, REAL floor_score, REAL *v, arithmetic kind, BITS *high,
                        BITS *low_sum) {
    /* constants to the loop, so that each kind gets its own */
#define TERMS(its_low, its_negative, its_v, its_kind) \
    NAME(terms_loop)(z, its_low, count, magic, floor_score, its_negative, its_v, its_kind, high, low_sum)
#define TERMS_OF_KIND(its_low, its_negative, its_v)              \
    if (sizeof(REAL) == 8)                                       \
        TERMS(its_low, its_negative, its_v, ARITHMETIC_64);      \
    else if (kind == ARITHMETIC_FLOAT16)                         \
        TERMS(its_low, its_negative, its_v, ARITHMETIC_FLOAT16); \
    else if (kind == ARITHMETIC_BFLOAT16)                        \
        TERMS(its_low, its_negative, its_v, ARITHMETIC_BFLOAT16); \
    else                                                         \
        TERMS(its_low, its_negative, its_v, ARITHMETIC_32)
    if (low) {
        TERMS_OF_KIND(low, 0, v);
    } else if (v && floor_score < 0) {
        TERMS_OF_KIND(NULL, 1, v);
    } else if (v) {
        TERMS_OF_KIND(NULL, 0, v);
    } else if (floor_score < 0) {
        TERMS_OF_KIND(NULL, 1, NULL);
    } else {
        TERMS_OF_KIND(NULL, 0, NULL);
    }
#undef TERMS
#undef TERMS_OF_KIND
}

/* Blocks whose maximum is far out (|m| >= SCORE_LIMIT): element by element. */
static void NAME(far_terms)(const REAL *z, const REAL *low, int count, double maximum, int64_t kb, REAL *v, arithmetic kind, BITS *high, BITS *low_sum) {
    BITS h = 0, l = 0;
    for (int i = 0; i < count; i++) {
        TERM t = {TERM_NOTHING, 0, 0};
        /* so far below, the difference of exponents might not even fit */
        if (z[i] >= (REAL)-SOFTMAX_HUGE && maximum - (double)z[i] < 0x1p30) t = NAME(term_far)(z[i], low ? low[i] : 0, kb, kind);
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
    int has_rest; /* the terms without the maximum: rest 2^rest_exponent; float64's second digits are in rest_low */
    int64_t rest;
    int64_t rest_low;
    int64_t rest_exponent;
    uint32_t flags;
} NAME(block);


static void NAME(block_sum)(const REAL *z, const REAL *low, int count, arithmetic kind, REAL *v, NAME(block) *block);

/* Beyond SOFTMAX_HUGE only what shares the maximum's high part counts, by its low part; as 1 where there is none. */
static void NAME(huge_block)(const REAL *z, const REAL *low, int count, arithmetic kind, NAME(block) *block, REAL *v) {
    int64_t equals = 0;
    if (low && !score_is_huge((double)block->maximum_low)) {
        REAL maximum = block->maximum, maximum_low = block->maximum_low, lows[SOFTMAX_BLOCK_COLUMNS];
        for (int i = 0; i < count; i++) lows[i] = z[i] == maximum ? low[i] : -(REAL)INFINITY;
        NAME(block_sum)(lows, NULL, count, kind, v, block);
        block->maximum = maximum;
        block->maximum_low = maximum_low;
        return;
    }
    for (int i = 0; i < count; i++) {
        int equal = z[i] == block->maximum && (!low || low[i] == block->maximum_low);
        equals += equal;
        if (v) v[i] = equal ? (REAL)(1 << SOFTMAX_BIAS) : TERM_NOTHING;
    }
    block->kb = 0;
    block->top = (REAL)(1 << SOFTMAX_BIAS);
    block->has_rest = 1;
    block->rest = equals - 1;
    block->rest_low = block->rest_exponent = 0;
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

static inline void NAME(set_rest)(NAME(block) *block, BITS high, BITS low) {
    if (sizeof(REAL) == 4) {
        block->rest = (int64_t)(int32_t)high * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low;
        block->rest_low = 0;
        block->rest_exponent = block->kb - TERM32_LOW_UNIT;
    } else {
        block->rest = (int64_t)high;
        block->rest_low = (int64_t)low;
        block->rest_exponent = block->kb - TERM64_HIGH_UNIT;
    }
    block->has_rest = block->rest != 0 || block->rest_low != 0;
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
    block->has_rest = 0;
    block->flags = (has_nan ? STATE_NAN : 0) | (block->maximum == (REAL)INFINITY ? STATE_INFINITE : 0);
    if (block->flags || block->maximum == -(REAL)INFINITY) {
        if (v) /* a NaN row is written as such; an empty block as zeros */
            for (int i = 0; i < count; i++) v[i] = TERM_NOTHING;
        return;
    }
    if (low) block->maximum_low = NAME(top_low)(z, low, count, block->maximum);
    if (score_is_huge((double)block->maximum)) {
        NAME(huge_block)(z, low, count, kind, block, v);
        return;
    }
    if (block->maximum < SCORE_LIMIT && block->maximum > -SCORE_LIMIT) {
        REAL near = block->maximum - SPREAD, kb, magic;
        kb = NAME(term_exponent)(second > near ? second : near);
        block->kb = (int64_t)kb;
        magic = MAGIC + SOFTMAX_BIAS - kb;
        if (block->maximum < WIDE_FROM && block->maximum > -WIDE_FROM)
            NAME(terms)(z, low, count, magic, NAME(term_floor)(kb), v, kind, &high, &low_sum);
        else
            NAME(wide_terms)(z, low, count, magic, NAME(term_floor)(kb), v, kind, &high, &low_sum);
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
        NAME(far_terms)(z, low, count, (double)block->maximum, k2, v, kind, &high, &low_sum);
        top = NAME(term_far)(block->maximum, block->maximum_low, k2, kind);
    }
    block->top = top.v;
    NAME(set_rest)(block, high - top.high, low_sum - top.low);
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
    int i = 0;
    if (f->hi < 0) {
        for (; i < count; i++) {
            REAL b = FMA(v[i], f->hi, v[i] * f->lo);
            b = b <= f->cut ? f->most : b;
            y[i] = -b >= f->threshold ? NAME(unbiased)(b) : 0;
        }
        return;
    }
    if (f->hi >= SMALLEST_NORMAL) /* no y is negative */
        for (; i + LANES <= count; i += LANES) {
            VECTOR a = V(load)(v + i);
            V(store)(y + i, V(unbias_positive)(V(raise)(V(fma)(a, h, V(mul)(a, l)), cut, most), limit, OUT_BIAS));
        }
    for (; i < count; i += LANES) {
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
