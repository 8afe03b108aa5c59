/* What is done to one block of a row's scores, at most SOFTMAX_BLOCK_COLUMNS of them, contiguous. A template: included once for float
 * (results float32 and 16-bit) and once for double, with REAL and the names below defined by block_types.h. */

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

/* Fast terms of the block, magic and floor from kb: digits' sums modulo 2^32 (2^64), values into v unless it is NULL. A mask or low parts, not both. */
static ALWAYS_INLINE void NAME(terms_loop)(const REAL *z, const REAL *low, const uint8_t *mask, int count, REAL magic, REAL floor_score,
                                           ahead_lines ahead, REAL *v, arithmetic kind, BITS *high, BITS *low_sum) {
    VECTOR magics = V(set)(magic), floors = V(set)(floor_score), zero = V(set)(0);
    INTEGERS h = I(zero)(), l = I(zero)(), h2 = h, l2 = l;
    int i = 0, padded = (count + LANES - 1) / LANES * LANES;
    i = NAME(piped_vectors)(z, low, mask, count, magics, floors, ahead, v, kind, &h, &l);
    for (; !low && i + 2 * LANES <= count; i += 2 * LANES) { /* two at a time: the chain of operations is longer than the processor's window */
        VECTOR x = V(max)(NAME(seen_scores)(z, mask, i), floors), y = V(max)(NAME(seen_scores)(z, mask, i + LANES), floors);
        prefetch_next(&ahead);
        prefetch_next(&ahead);
        NAME(two_terms)(&x, &y, magics, kind, &h, &l, &h2, &l2);
        if (v) {
            V(store)(v + i, x);
            V(store)(v + i + LANES, y);
        }
    }
    for (; low && i + 2 * LANES <= count; i += 2 * LANES) {
        VECTOR x = V(load)(z + i), y = V(load)(z + i + LANES);
        VECTOR x_low = V(keep_from)(x, floors, V(load)(low + i)), y_low = V(keep_from)(y, floors, V(load)(low + i + LANES));
        x = NAME(term_vector)(V(max)(x, floors), x_low, magics, kind, &h, &l);
        y = NAME(term_vector)(V(max)(y, floors), y_low, magics, kind, &h2, &l2);
        if (v) {
            V(store)(v + i, x);
            V(store)(v + i + LANES, y);
        }
    }
    for (; i + LANES <= count; i += LANES) {
        VECTOR raw = NAME(seen_scores)(z, mask, i), x = V(max)(raw, floors), x_low = zero, value;
        if (low) x_low = V(keep_from)(raw, floors, V(load)(low + i));
        value = NAME(term_vector)(x, x_low, magics, kind, &h, &l);
        if (v) V(store)(v + i, value);
    }
    if (i < count) {
        VECTOR raw = NAME(last_scores)(z, mask, i, count - i), x_low = zero, value;
        if (low) x_low = V(keep_from)(raw, floors, V(load_part)(low + i, count - i, 0));
        value = NAME(term_vector)(V(max)(raw, floors), x_low, magics, kind, &h, &l);
        if (v) V(store_part)(v + i, count - i, value);
    }
    *high = I(sum)(h) + I(sum)(h2) - (BITS)padded * NAME(bits_of)(HIGH_MAGIC);
    *low_sum = I(sum)(l) + I(sum)(l2) - (BITS)padded * NAME(bits_of)(LOW_MAGIC);
}

/* constants to the loop, so that each kind gets its own */
#define TERMS(its_low, its_mask, its_v, its_kind) \
    NAME(terms_loop)(z, its_low, its_mask, count, magic, floor_score, ahead, its_v, its_kind, high, low_sum)
#define TERMS_OF_KIND(its_low, its_mask, its_v)              \
    if (sizeof(REAL) == 8)                                   \
        TERMS(its_low, its_mask, its_v, ARITHMETIC_64);      \
    else if (kind == ARITHMETIC_FLOAT16)                     \
        TERMS(its_low, its_mask, its_v, ARITHMETIC_FLOAT16); \
    else if (kind == ARITHMETIC_BFLOAT16)                    \
        TERMS(its_low, its_mask, its_v, ARITHMETIC_BFLOAT16); \
    else                                                     \
        TERMS(its_low, its_mask, its_v, ARITHMETIC_32)

/* Not a part of its caller: the pipeline needs all registers. */
static NOINLINE void NAME(terms)(const REAL *z, const REAL *low, int count, REAL magic, REAL floor_score, ahead_lines ahead, REAL *v,
                                 arithmetic kind, BITS *high, BITS *low_sum) {
    if (low && v) {
        TERMS_OF_KIND(low, NULL, v);
    } else if (low) {
        TERMS_OF_KIND(low, NULL, NULL);
    } else if (v) {
        TERMS_OF_KIND(NULL, NULL, v);
    } else {
        TERMS_OF_KIND(NULL, NULL, NULL);
    }
}

/* The same of scores that a mask leaves. */
static NOINLINE void NAME(seen_terms)(const REAL *z, const uint8_t *mask, int count, REAL magic, REAL floor_score, ahead_lines ahead, REAL *v,
                                      arithmetic kind, BITS *high, BITS *low_sum) {
    if (v) {
        TERMS_OF_KIND(NULL, mask, v);
    } else {
        TERMS_OF_KIND(NULL, mask, NULL);
    }
}
#undef TERMS
#undef TERMS_OF_KIND

/* The padding's part of their digits. */
static inline void NAME(end_padding)(NAME(term_row) *row, int rows) {
    for (int i = 0; i < rows; i++) {
        BITS padded = (BITS)((row[i].count + LANES - 1) / LANES * LANES);
        row[i].high -= padded * NAME(bits_of)(HIGH_MAGIC);
        row[i].low -= padded * NAME(bits_of)(LOW_MAGIC);
    }
}

/* Whether rows of so many columns may wait for their logarithms until other rows' terms are summed, which end at y: whole lines where they stream. */
static inline int NAME(logs_may_wait)(int64_t count, const void *y, int streams, arithmetic kind) {
#if defined(VECTOR_PIPELINE)
    return sizeof(REAL) == 4 && kind == ARITHMETIC_32 && count % LANES == 0 && count >= PIPED_ROW_LEAST && !(streams && (uintptr_t)y % 64);
#else
    (void)count, (void)y, (void)streams, (void)kind;
    return 0;
#endif
}

/* The terms of several rows or blocks, and the logarithms of as many that wait. */
static void NAME(terms_and_logs)(NAME(term_row) *row, int rows, const NAME(late_log) *logs, int streams) {
    NAME(piped_rows_and_logs)(row, rows, logs, streams);
    NAME(end_padding)(row, rows);
}

/* ... and the results of as many that wait. */
static void NAME(terms_and_results)(NAME(term_row) *row, int rows, const NAME(late_result) *late) {
    NAME(piped_rows_and_results)(row, rows, late);
    NAME(end_padding)(row, rows);
    for (int i = 0; i < rows; i++)
        if (late[i].at >= 0) late[i].y[late[i].at] = late[i].most;
}

/* The terms of several rows or blocks, all of them seen through masks or none; values into their v where `stores`. */
static void NAME(terms_of_rows)(NAME(term_row) *row, int rows, int stores, arithmetic kind) {
#if defined(VECTOR_PIPELINE)
    int piped = rows > 0 && sizeof(REAL) == 4 && kind == ARITHMETIC_32 && (rows > 1 || row[0].mask);
    for (int i = 0; i < rows; i++) piped &= row[i].count >= PIPED_ROW_LEAST;
    if (piped) {
        (row[0].mask ? piped_seen_rows : piped_rows)((term_row_float *)(void *)row, rows, stores);
        NAME(end_padding)(row, rows);
        return;
    }
#endif
    for (int i = 0; i < rows; i++) {
        NAME(term_row) *r = &row[i];
        REAL *v = stores ? r->v : NULL;
        if (r->mask)
            NAME(seen_terms)(r->z, r->mask, r->count, r->magic, r->floor_score, r->ahead, v, kind, &r->high, &r->low);
        else
            NAME(terms)(r->z, NULL, r->count, r->magic, r->floor_score, r->ahead, v, kind, &r->high, &r->low);
    }
}

/* What a block adds to its row, and what its values v are relative to: v = e^z 2^(SOFTMAX_BIAS - kb). */
typedef struct NAME(block) {
    exact_score maximum; /* -inf: nothing in it */
    int64_t kb;
    REAL top;     /* the maximum's v */
    REAL least;   /* not above any score, if that is known */
    int at;       /* the maximum's column, where all other terms are safely below it; else -1 */
    int holes;    /* ... but for -inf */
    REAL margin;  /* how far apart scores are whose terms are safely apart */
    int has_rest; /* the terms without the maximum: rest 2^rest_exponent; float64's second digits are in rest_low */
    int64_t rest;
    int64_t rest_low;
    int64_t rest_exponent;
    uint32_t flags;
} NAME(block);

static inline void NAME(set_rest)(NAME(block) *block, BITS high, BITS low) {
    if (sizeof(REAL) == 4) {
        block->rest = (int64_t)(int32_t)high * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low;
        block->rest_low = 0;
        block->rest_exponent = wrapped_difference(block->kb, TERM32_LOW_UNIT);
    } else {
        block->rest = (int64_t)high;
        block->rest_low = (int64_t)low;
        block->rest_exponent = wrapped_difference(block->kb, TERM64_HIGH_UNIT);
    }
    block->has_rest = block->rest != 0 || block->rest_low != 0;
}

#include "exact_block.h"

/* What a block adds, from its largest scores; values into v unless it is NULL. `ahead` is read soon. source: where scores with low parts have
 * come from. */
static void NAME(block_terms)(const NAME(source) *source, const NAME(block_view) *view, int count, arithmetic kind, const NAME(top) *largest,
                              ahead_lines ahead, REAL *v, NAME(block) *block) {
    const REAL *z = view->z, *low = view->low;
    const REAL maximum = largest->first, near = maximum - SPREAD;
    REAL second = largest->second, maximum_low = 0, kb, magic;
    TERM top;
    BITS high, low_sum;
    block->maximum = score_of_value((double)maximum);
    block->least = -(REAL)INFINITY;
    block->at = -1;
    block->holes = largest->holes && arithmetic_is_short(kind); /* else their terms are 0 */
    block->margin = low ? 1 : TERMS_APART;
    block->kb = 0;
    block->top = 0;
    block->has_rest = 0;
    block->flags = (largest->has_nan ? STATE_NAN : 0) | (maximum == (REAL)INFINITY ? STATE_INFINITE : 0);
    if (block->flags || maximum == -(REAL)INFINITY) {
        if (v) /* a NaN row is written as such; an empty block as zeros */
            for (int i = 0; i < count; i++) v[i] = TERM_NOTHING;
        return;
    }
    if (!(maximum < SCORE_LIMIT && maximum > -SCORE_LIMIT) || (low && source->doubtful)) {
        NAME(exact_block)(low ? source : NULL, z, count, kind, v, block);
        return;
    }
    if (low) maximum_low = largest->at >= 0 ? low[largest->at] : NAME(top_low)(z, low, count, maximum);
    block->maximum = score_of_pair((double)maximum, (double)maximum_low);
    kb = NAME(term_exponent)(second > near ? second : near);
    block->kb = (int64_t)kb;
    block->least = largest->least;
    if (maximum - second >= block->margin) block->at = largest->at;
    magic = MAGIC + SOFTMAX_BIAS - kb;
    top = NAME(term_fast)(maximum, maximum_low, magic, kind);
    if (view->mask)
        NAME(seen_terms)(z, view->mask, count, magic, NAME(zero_floor)(kb, kind), ahead, v, kind, &high, &low_sum);
    else if (maximum < WIDE_FROM && maximum > -WIDE_FROM)
        NAME(terms)(z, low, count, magic, NAME(zero_floor)(kb, kind), ahead, v, kind, &high, &low_sum);
    else
        NAME(wide_terms)(z, low, count, magic, NAME(zero_floor)(kb, kind), v, kind, &high, &low_sum);
    block->top = top.v;
    NAME(set_rest)(block, high - top.high, low_sum - top.low);
}

/* Of scores without low parts. */
static void NAME(block_sum)(const REAL *z, int count, arithmetic kind, REAL *v, NAME(block) *block) {
    const NAME(top) largest = NAME(block_top)(z, count);
    const ahead_lines nothing = {(uintptr_t)z, 0};
    const NAME(block_view) view = {z, NULL, NULL};
    NAME(block_terms)(NULL, &view, count, kind, &largest, nothing, v, block);
}
