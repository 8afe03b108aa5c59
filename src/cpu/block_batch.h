/* Up to LANES blocks at a time, of one row or of several: what is done once for a block, a chain of some 300 cycles, is done in lanes for all of
 * them. A template like block.h; the bits are block.h's and row_sum.h's. */

typedef struct NAME(batch) {
    int blocks;
    int usual; /* all of them have terms of the fast kind, and then: */
    NAME(top) top[LANES];
    NAME(term_row) row[LANES]; /* z, count and v are the caller's */
    NAME(lanes) lanes;
    INTEGERS top_high; /* the maxima's digits */
    INTEGERS top_low;
} NAME(batch);

/* The largest scores of all blocks, and what the terms need. */
static void NAME(batch_begin)(NAME(batch) *b, arithmetic kind) {
    REAL first[LANES], second[LANES], used[LANES], magic[LANES], floor_score[LANES];
    VECTOR magics;
    NAME(lanes) *s = &b->lanes;
    b->usual = 1;
    for (int i = 0; i < b->blocks; i++) {
        b->top[i] = NAME(block_top)(b->row[i].z, b->row[i].count);
        first[i] = b->top[i].first;
        second[i] = b->top[i].second;
        used[i] = 1;
        b->usual &= !b->top[i].has_nan && first[i] < WIDE_FROM && first[i] > -WIDE_FROM;
    }
    for (int i = b->blocks; i < LANES; i++) first[i] = second[i] = used[i] = 0;
    if (!b->usual) return;
    NAME(lanes_begin)(s);
    s->first = V(load)(first);
    s->second = V(load)(second);
    s->usual = V(load)(used);
    s->kb = NAME(exponent_vector)(V(max)(s->second, V(sub)(s->first, V(set)(SPREAD))));
    magics = V(sub)(V(set)(MAGIC + SOFTMAX_BIAS), s->kb);
    V(store)(magic, magics);
    V(store)(floor_score, NAME(zero_floors)(s->kb, kind));
    b->top_high = b->top_low = I(zero)();
    s->top = NAME(term_vector)(s->first, V(set)(0), magics, kind, &b->top_high, &b->top_low);
    for (int i = 0; i < b->blocks; i++) {
        b->row[i].magic = magic[i];
        b->row[i].floor_score = floor_score[i];
    }
}

/* After the terms: their digits without the maxima's. */
static void NAME(batch_digits)(NAME(batch) *b) {
    BITS high[LANES] = {0}, low[LANES] = {0};
    for (int i = 0; i < b->blocks; i++) {
        high[i] = b->row[i].high;
        low[i] = b->row[i].low;
    }
    b->lanes.high = I(sub)(I(load)(high), I(sub)(b->top_high, I(set)(NAME(bits_of)(HIGH_MAGIC))));
    b->lanes.low = I(sub)(I(load)(low), I(sub)(b->top_low, I(set)(NAME(bits_of)(LOW_MAGIC))));
}
