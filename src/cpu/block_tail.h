/* Rows of one block and a few columns more: those, a block of their own, lie a row a lane (lanes.h), and both blocks of a row are read out
 * together. Their terms are moved to the first block's exponent, which is exact, so that the row has one factor. Only what is usual goes this way:
 * finite scores, blocks whose exponents are near each other and whose maxima are not. A template like block.h, for float32. */

#if !defined(TAIL_COLUMNS)
#define TAIL_COLUMNS 64
#endif

typedef struct NAME(tails) {
    int columns;
    NAME(lanes) lanes;
    VECTOR move; /* times more_move: 2^(the tail's kb - the first block's) */
    VECTOR more_move;
    REAL row[LANES * TAIL_COLUMNS]; /* scores row by row, then terms */
    REAL tile[TAIL_COLUMNS * LANES];
} NAME(tails);

/* The tails of `rows` rows, a pitch apart from z on; blocks: their first ones. 0 if some row is not a usual one. least: at most all scores. */
static int NAME(find_tails)(NAME(tails) *t, const REAL *z, int64_t pitch, int rows, const NAME(lanes) *blocks, VECTOR *least) {
    const int width = (t->columns + LANES - 1) / LANES * LANES;
    const VECTOR zero = V(set)(0), inverse = V(set)((REAL)SOFTMAX_LOG2E);
    VECTOR column[4], kb, apart, size, low = zero;
    vm strange;
    for (int i = 0; i < LANES; i++, z += pitch) /* unused lanes have a tail below their block */
        for (int j = 0; j < t->columns; j += LANES) {
            int n = t->columns - j < LANES ? t->columns - j : LANES;
            V(store)(t->row + i * width + j, i < rows ? V(load_part)(z + j, n, -(REAL)INFINITY) : V(set)(-1));
        }
    for (int j = 0; j < t->columns; j += 4) {
        V(load_columns)(t->row + j, width, column);
        for (int k = 0; k < 4; k++) V(store)(t->tile + (j + k) * LANES, column[k]);
    }
    NAME(lanes_begin)(&t->lanes);
    NAME(lanes_scan)(&t->lanes, t->tile, t->columns);
    for (int j = 0; j < t->columns; j++) low = V(min)(low, V(load)(t->tile + j * LANES));
    kb = NAME(lanes_exponent)(blocks);
    apart = V(sub)(NAME(lanes_exponent)(&t->lanes), kb);
    size = V(sub)(V(mul)(V(max)(t->lanes.first, blocks->first), inverse), kb);
    strange = V(or_nan)(V(or_at_least)(vm_none(), V(abs)(t->lanes.first), V(set)(WIDE_FROM)), t->lanes.sum);
    strange = V(or_at_least)(V(or_at_least)(strange, apart, V(set)(32)), V(sub)(zero, apart), V(set)(220)); /* a single column's is far below */
    strange = V(or_at_least)(strange, size, V(set)(90));
    strange = V(or_at_least)(strange, V(set)(TERMS_APART), V(abs)(V(sub)(t->lanes.first, blocks->first)));
    t->move = V(power)(V(add)(V(max)(apart, V(set)(-120)), V(set)(MAGIC)));
    t->more_move = V(power)(V(add)(V(min)(V(add)(apart, V(set)(120)), zero), V(set)(MAGIC)));
    *least = low;
    return !vm_any(strange);
}

/* Their sums; terms row by row if `keep`. */
static void NAME(sum_tails)(NAME(tails) *t, const softmax_job *job, int keep) {
    const int width = (t->columns + LANES - 1) / LANES * LANES;
    NAME(lanes_sum)(&t->lanes, job, t->tile, NULL, t->columns, keep, (const char *)t->tile, 0);
    t->lanes.top = V(mul)(V(mul)(t->lanes.top, t->move), t->more_move);
    if (!keep) return;
    for (int j = 0; j < t->columns; j += 4) {
        VECTOR column[4];
        for (int k = 0; k < 4; k++) column[k] = V(mul)(V(mul)(V(load)(t->tile + (j + k) * LANES), t->move), t->more_move);
        V(store_columns)(t->row + j, width, column);
    }
}

/* The terms of row i, behind its block's. */
static inline void NAME(place_tail)(const NAME(tails) *t, int i, REAL *v) {
    const int width = (t->columns + LANES - 1) / LANES * LANES;
    for (int j = 0; j < t->columns; j += LANES) {
        int n = t->columns - j < LANES ? t->columns - j : LANES;
        V(store_part)(v + j, n, V(load)(t->row + i * width + j));
    }
}
