/* Up to LANES blocks at a time, of one row or of several: what is done once for a block, a chain of some 300 cycles, is done in lanes for all of
 * them. A template like block.h; the bits are block.h's and row_sum.h's. */

typedef struct NAME(batch) {
    int blocks;
    int usual; /* all of them have terms of the fast kind, and then: */
    NAME(top) top[LANES];
    NAME(term_row) row[LANES]; /* z, mask, count and v are the caller's */
    NAME(lanes) lanes;
    NAME(lane_terms) terms;
} NAME(batch);

/* The largest scores of all blocks, and what the terms need. */
static void NAME(batch_begin)(NAME(batch) *b, arithmetic kind) {
    REAL first[LANES], second[LANES], used[LANES];
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
    NAME(lane_terms_begin)(s, kind, &b->terms);
    for (int i = 0; i < b->blocks; i++) {
        b->row[i].magic = b->terms.magic[i];
        b->row[i].floor_score = b->terms.floor_score[i];
    }
}

/* After the terms: their digits without the maxima's. */
static void NAME(batch_digits)(NAME(batch) *b) {
    BITS high[LANES] = {0}, low[LANES] = {0};
    for (int i = 0; i < b->blocks; i++) {
        high[i] = b->row[i].high;
        low[i] = b->row[i].low;
    }
    NAME(lane_terms_end)(&b->lanes, &b->terms, high, low);
}
