/* The largest scores of a block. A template like block.h. */

typedef struct NAME(top) {
    REAL first;
    REAL second; /* may equal the first */
    REAL least;  /* not above any score, nor above 0 */
    int at;      /* the first's column, where the second is smaller */
    int has_nan; /* then nothing else counts */
} NAME(top);

typedef struct NAME(largest) {
    VECTOR first;
    VECTOR second;
} NAME(largest);

static inline void NAME(merge_largest)(NAME(largest) *m, VECTOR first, VECTOR second) {
    m->second = V(max)(V(max)(m->second, second), V(min)(m->first, first));
    m->first = V(max)(m->first, first);
}

#define CLASSES (8 * LANES)

/* Of the columns `at`, at + CLASSES, ... the first's own and the second score. */
static inline void NAME(search_class)(const REAL *z, int at, int count, NAME(top) *top) {
    const REAL first = top->first;
    REAL second = top->second;
    int found = 0;
    for (int j = at; j < count; j += CLASSES) { /* no branches, for they would be guesses */
        REAL z_j = z[j], other = z_j < first ? z_j : -(REAL)INFINITY;
        top->at = z_j < first ? top->at : j;
        found += !(z_j < first);
        second = other > second ? other : second;
    }
    top->second = found > 1 ? first : second;
}

/* Only maxima are kept of the columns with the same place modulo CLASSES; the second is either the largest of the other places or found at the
 * first's own. */
static ALWAYS_INLINE VECTOR NAME(top_load)(const REAL *z, int i, const uint8_t *mask, REAL *to) {
    VECTOR a = V(load)(z + i);
    if (mask) {
        a = V(masked)(a, mask + i);
        V(store)(to + i, a);
    }
    return V(held)(a);
}

/* Columns from i on, of which the last may be fewer than a vector. */
static void NAME(mask_rest)(const REAL *z, int i, int count, const uint8_t *mask, REAL *to) {
    for (; i < count; i += LANES) {
        uint8_t last[LANES] = {0};
        int n = count - i < LANES ? count - i : LANES;
        memcpy(last, mask + i, (size_t)n);
        V(store_part)(to + i, n, V(masked)(n < LANES ? V(load_part)(z + i, n, 0) : V(load)(z + i), last));
    }
}

static ALWAYS_INLINE NAME(top) NAME(top_loop)(const REAL *z, int count, const uint8_t *mask, REAL *to) {
    const VECTOR nothing = V(set)(-(REAL)INFINITY);
    VECTOR m[8], low = V(set)(0), low2 = low, firsts;
    NAME(largest) all = {nothing, nothing};
    NAME(top) top;
    vm ordered = V(ordered)(), ordered2 = ordered;
    int i = 0, whole = count / CLASSES * CLASSES;
    for (int j = 0; j < 8; j++) m[j] = nothing;
    for (; i < whole; i += CLASSES) {
        for (int j = 0; j < 8; j += 4) {
            VECTOR x = NAME(top_load)(z, i + j * LANES, mask, to), y = NAME(top_load)(z, i + (j + 1) * LANES, mask, to);
            VECTOR u = NAME(top_load)(z, i + (j + 2) * LANES, mask, to), w = NAME(top_load)(z, i + (j + 3) * LANES, mask, to);
            m[j] = V(max)(m[j], x);
            m[j + 1] = V(max)(m[j + 1], y);
            m[j + 2] = V(max)(m[j + 2], u);
            m[j + 3] = V(max)(m[j + 3], w);
            low = V(lower)(low, x);
            low2 = V(lower)(low2, y);
            low = V(lower)(low, u);
            low2 = V(lower)(low2, w);
            ordered = V(still_ordered)(ordered, x, y);
            ordered2 = V(still_ordered)(ordered2, u, w);
        }
    }
    if (mask) {
        NAME(mask_rest)(z, i, count, mask, to);
        z = to;
    }
    for (; i < count; i += LANES) {
        VECTOR x = i + LANES <= count ? V(load)(z + i) : V(load_part)(z + i, count - i, -(REAL)INFINITY);
        NAME(merge_largest)(&all, x, nothing);
        if (i + LANES > count) x = V(load_part)(z + i, count - i, 0);
        low = V(lower)(low, x);
        ordered = V(still_ordered)(ordered, x, x);
    }
    if (whole)
        for (int j = 0; j < 8; j += 4) {
            NAME(largest) ab = {V(max)(m[j], m[j + 1]), V(min)(m[j], m[j + 1])}, cd = {V(max)(m[j + 2], m[j + 3]), V(min)(m[j + 2], m[j + 3])};
            NAME(merge_largest)(&ab, cd.first, cd.second);
            NAME(merge_largest)(&all, ab.first, ab.second);
        }
    low = V(lower)(low, low2);
    for (int step = LANES / 2; step > 0; step /= 2) {
        NAME(merge_largest)(&all, V(swap)(all.first, step), V(swap)(all.second, step));
        low = V(lower)(low, V(swap)(low, step));
    }
    firsts = all.first;
    top.first = V(first)(firsts) + 0; /* -0 is taken as +0: which of equal zeros came first depends on the lanes */
    top.second = V(first)(all.second);
    top.least = V(first)(low);
    if (!(top.least < 0)) top.least = 0;
    top.has_nan = !V(all_ordered)(ordered) || !V(all_ordered)(ordered2);
    top.at = -1;
    if (!top.has_nan && top.second < top.first) {
        int at = V(find_in_eight)(m, firsts);
        if (whole && at < CLASSES)
            NAME(search_class)(z, at, whole, &top);
        else
            for (top.at = whole; z[top.at] != top.first;) top.at++;
    }
    return top;
}

static NAME(top) NAME(block_top)(const REAL *z, int count) { return NAME(top_loop)(z, count, NULL, NULL); }

/* The same of scores that the mask leaves; what it masks out is -inf among the scores at `to`. */
static NAME(top) NAME(masked_top)(const REAL *z, int count, const uint8_t *mask, REAL *to) { return NAME(top_loop)(z, count, mask, to); }
