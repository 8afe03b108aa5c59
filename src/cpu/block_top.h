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

/* The second of the columns j, j + 4 LANES, ...: there are few of them. And the first's column. */
static REAL NAME(second_of_class)(const REAL *z, int j, int count, int *at) {
    REAL first = z[j], second = -(REAL)INFINITY;
    *at = j;
    for (j += 4 * LANES; j < count; j += 4 * LANES) {
        REAL low = z[j] < first ? z[j] : first;
        *at = z[j] > first ? j : *at;
        first = z[j] > first ? z[j] : first;
        second = low > second ? low : second;
    }
    return second;
}

/* Only maxima are kept of the columns with the same place modulo 4 LANES; the second is either the largest of the other places or found at the
 * first's own. */
static NAME(top) NAME(block_top)(const REAL *z, int count) {
    const VECTOR nothing = V(set)(-(REAL)INFINITY);
    VECTOR a = nothing, b = nothing, c = nothing, d = nothing, low = V(set)(0), low2 = low, firsts;
    NAME(largest) all = {nothing, nothing};
    NAME(top) top;
    vm ordered = V(ordered)(), ordered2 = ordered;
    int i = 0, whole = count / (4 * LANES) * (4 * LANES);
    for (; i < whole; i += 4 * LANES) {
        VECTOR x = V(held)(V(load)(z + i)), y = V(held)(V(load)(z + i + LANES));
        VECTOR u = V(held)(V(load)(z + i + 2 * LANES)), w = V(held)(V(load)(z + i + 3 * LANES));
        a = V(max)(a, x);
        b = V(max)(b, y);
        c = V(max)(c, u);
        d = V(max)(d, w);
        low = V(lower)(low, x);
        low2 = V(lower)(low2, y);
        low = V(lower)(low, u);
        low2 = V(lower)(low2, w);
        ordered = V(still_ordered)(ordered, x, y);
        ordered2 = V(still_ordered)(ordered2, u, w);
    }
    for (; i < count; i += LANES) {
        VECTOR x = i + LANES <= count ? V(load)(z + i) : V(load_part)(z + i, count - i, -(REAL)INFINITY);
        NAME(merge_largest)(&all, x, nothing);
        if (i + LANES > count) x = V(load_part)(z + i, count - i, 0);
        low = V(lower)(low, x);
        ordered = V(still_ordered)(ordered, x, x);
    }
    if (whole) {
        NAME(largest) ab = {V(max)(a, b), V(min)(a, b)}, cd = {V(max)(c, d), V(min)(c, d)};
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
        int at = V(find)(a, firsts);
        if (at == LANES) at += V(find)(b, firsts);
        if (at == 2 * LANES) at += V(find)(c, firsts);
        if (at == 3 * LANES) at += V(find)(d, firsts);
        if (whole && at < 4 * LANES) {
            REAL other = NAME(second_of_class)(z, at, whole, &top.at);
            if (other > top.second) top.second = other;
        } else {
            for (top.at = whole; z[top.at] != top.first;) top.at++;
        }
    }
    return top;
}
