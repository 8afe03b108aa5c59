/* The two largest scores and a lower bound of up to LANES rows together: each row's, lane by lane, lie in a tile whose columns then meet, so that no
 * row waits for its own lanes to meet, a chain of some 100 cycles. For four lanes and more. A template like block.h. */

#if !defined(TOPS_TOGETHER)
#define TOPS_TOGETHER 512 /* columns: beyond them block_top's fewer operations a score count more */
#endif

typedef struct NAME(row_tops) {
    REAL first[LANES * LANES] __attribute__((aligned(64))); /* row by row */
    REAL second[LANES * LANES] __attribute__((aligned(64)));
    REAL low[LANES * LANES] __attribute__((aligned(64))); /* V(lower)'s */
    int has_nan;
} NAME(row_tops);

static inline void NAME(row_tops_begin)(NAME(row_tops) *t) { memset(t, 0, sizeof *t); }

/* Row i. */
static void NAME(row_tops_add)(NAME(row_tops) *t, int i, const REAL *z, int count) {
    const VECTOR nothing = V(set)(-(REAL)INFINITY);
    VECTOR first = nothing, second = nothing, low = V(set)(0), low2 = low;
    vm ordered = V(ordered)();
    int j = 0;
    for (; j + 2 * LANES <= count; j += 2 * LANES) {
        VECTOR x = V(load)(z + j), y = V(load)(z + j + LANES), high = V(max)(x, y);
        second = V(max)(second, V(max)(V(min)(x, y), V(min)(first, high)));
        first = V(max)(first, high);
        low = V(lower)(low, x);
        low2 = V(lower)(low2, y);
        ordered = V(still_ordered)(ordered, x, y);
    }
    for (; j < count; j += LANES) {
        const int n = count - j;
        VECTOR x = n >= LANES ? V(load)(z + j) : V(load_part)(z + j, n, -(REAL)INFINITY), known = n >= LANES ? x : V(load_part)(z + j, n, 0);
        second = V(max)(second, V(min)(first, x));
        first = V(max)(first, x);
        low = V(lower)(low, known);
        ordered = V(still_ordered)(ordered, known, known);
    }
    V(store)(t->first + i * LANES, first);
    V(store)(t->second + i * LANES, second);
    V(store)(t->low + i * LANES, V(lower)(low, low2));
    t->has_nan |= !V(all_ordered)(ordered);
}

/* A lane for each row; *low as top.least, but for its sign. */
static void NAME(row_tops_meet)(const NAME(row_tops) *t, VECTOR *first, VECTOR *second, VECTOR *low) {
    VECTOR f[4], s[4], l[4];
    *first = *second = V(set)(-(REAL)INFINITY);
    *low = V(set)(0);
    for (int j = 0; j < LANES; j += 4) {
        V(load_columns)(t->first + j, LANES, f);
        V(load_columns)(t->second + j, LANES, s);
        V(load_columns)(t->low + j, LANES, l);
        for (int k = 0; k < 4; k++) {
            *second = V(max)(V(max)(*second, s[k]), V(min)(*first, f[k]));
            *first = V(max)(*first, f[k]);
            *low = V(lower)(*low, l[k]);
        }
    }
    *first = V(add)(*first, V(set)(0)); /* -0 is taken as +0 */
}
