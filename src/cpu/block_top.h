/* The largest scores of a block. A template like block.h. */

typedef struct NAME(top) {
    REAL first;
    REAL second; /* may equal the first */
    REAL least;  /* not above any score, nor above 0 */
    int holes;   /* some scores may be -inf, of which `least` does not know */
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
static inline void NAME(search_class)(const REAL *z, const uint8_t *mask, int at, int count, NAME(top) *top) {
    const REAL first = top->first;
    REAL second = top->second;
    int found = 0;
    for (int j = at; j < count; j += CLASSES) { /* no branches, for they would be guesses */
        REAL z_j = mask && !mask[j] ? -(REAL)INFINITY : z[j], other = z_j < first ? z_j : -(REAL)INFINITY;
        top->at = z_j < first ? top->at : j;
        found += !(z_j < first);
        second = other > second ? other : second;
    }
    top->second = found > 1 ? first : second;
}

/* The first of `count` columns that is in all lanes of `it`, which one of them is. */
static inline int NAME(column_of)(const REAL *z, int count, VECTOR it) {
    int i = 0, lane = LANES;
    for (; i + LANES <= count && lane == LANES; i += LANES) lane = V(find)(V(load)(z + i), it);
    return lane < LANES ? i - LANES + lane : i + V(find)(V(load_part)(z + i, count - i, -(REAL)INFINITY), it);
}

static inline REAL NAME(largest_lane)(VECTOR sizes) {
    REAL lane[LANES], largest = 0;
    V(store)(lane, sizes);
    for (int j = 0; j < LANES; j++) largest = lane[j] > largest ? lane[j] : largest;
    return largest;
}

/* first, second and least of the classes' maxima m (NULL: there are none) and the other columns'; the first in all lanes. */
static ALWAYS_INLINE VECTOR NAME(lanes_to_top)(const VECTOR *m, NAME(largest) all, VECTOR low, NAME(top) *top) {
    const REAL nothing_at_all = -(REAL)INFINITY;
    for (int j = 0; m && j < 8; j += 4) {
        NAME(largest) ab = {V(max)(m[j], m[j + 1]), V(min)(m[j], m[j + 1])}, cd = {V(max)(m[j + 2], m[j + 3]), V(min)(m[j + 2], m[j + 3])};
        NAME(merge_largest)(&ab, cd.first, cd.second);
        NAME(merge_largest)(&all, ab.first, ab.second);
    }
    for (int step = LANES / 2; step > 0; step /= 2) {
        NAME(merge_largest)(&all, V(swap)(all.first, step), V(swap)(all.second, step));
        low = V(lower)(low, V(swap)(low, step));
    }
    top->first = V(first)(all.first) + 0; /* -0 is taken as +0: which of equal zeros came first depends on the lanes */
    top->second = V(first)(all.second);
    top->least = V(first)(low);
    top->least = top->least < 0 ? top->least : top->least >= 0 ? 0 : nothing_at_all;
    top->at = -1;
    return all.first;
}

/* A vector of made_scores into the maxima m and what is not above any score; as scores without a number are to be seen. */
static ALWAYS_INLINE VECTOR NAME(take_scores)(const NAME(score_parts) *parts, element type, int form, int i, REAL *to, REAL *low_to, VECTOR *m,
                                              VECTOR *size, VECTOR *low) {
    VECTOR z;
    if (form & SCORES_ASIDE) { /* what is not seen is 0 */
        *m = V(max_seen)(*m, (const REAL *)parts->x + i, parts->mask + i, &z);
        z = V(held)(z);
    } else {
        z = NAME(made_scores)(parts, type, form, i, to, low_to, size, low);
        *m = V(max)(*m, z);
    }
    if (form & SCORES_ASIDE || !(form & (SCORES_MASKED | SCORES_BIASED))) *low = V(lower)(*low, z);
    return z;
}

/* Only maxima are kept of the columns with the same place modulo CLASSES; the second is either the largest of the other places or found at the
 * first's own. Scores that are not the elements themselves are left at `to`, low parts at `low_to`; product: as made_scores has it. */
static ALWAYS_INLINE NAME(top) NAME(top_loop)(const NAME(score_parts) *parts, element type, int form, int count, REAL *to, REAL *low_to,
                                              REAL *product) {
    const VECTOR nothing = V(set)(-(REAL)INFINITY);
    const NAME(score_parts) held = *parts; /* stores may alias the other */
    VECTOR m[8], low = V(set)(0), low2 = low, firsts;
    NAME(largest) all = {nothing, nothing};
    NAME(top) top;
    vm ordered = V(ordered)(), ordered2 = ordered;
    VECTOR size = V(set)(0), size2 = size;
    const REAL *z = !(form & SCORES_ASIDE) && (form || type != REAL_ELEMENT) ? to : (const REAL *)parts->x, *last = z;
    const uint8_t *mask = form & SCORES_ASIDE ? parts->mask : NULL;
    REAL aside[CLASSES];
    const int holes = form & (SCORES_MASKED | SCORES_BIASED);
    int i = 0, whole = count / CLASSES * CLASSES;
    for (int j = 0; j < 8; j++) m[j] = nothing;
    for (; i < whole; i += CLASSES) {
        for (int j = 0; j < 8; j += 4) {
            VECTOR x = NAME(take_scores)(&held, type, form, i + j * LANES, to, low_to, &m[j], &size, &low);
            VECTOR y = NAME(take_scores)(&held, type, form, i + (j + 1) * LANES, to, low_to, &m[j + 1], &size2, &low2);
            VECTOR u = NAME(take_scores)(&held, type, form, i + (j + 2) * LANES, to, low_to, &m[j + 2], &size, &low);
            VECTOR w = NAME(take_scores)(&held, type, form, i + (j + 3) * LANES, to, low_to, &m[j + 3], &size2, &low2);
            ordered = V(still_ordered)(ordered, x, y);
            ordered2 = V(still_ordered)(ordered2, u, w);
        }
    }
    last = z + whole;
    if (mask) {
        NAME(score_parts) rest = *parts;
        rest.x = z + whole;
        rest.mask = mask + whole;
        NAME(make_rest)(&rest, 0, count - whole, aside, NULL, NULL, &low);
        last = aside;
    } else if (z == to) {
        NAME(make_rest)(parts, whole, count, to, low_to, &size, &low);
    }
    for (i = 0; i < count - whole; i += LANES) {
        const int n = count - whole - i;
        VECTOR x = n >= LANES ? V(load)(last + i) : V(load_part)(last + i, n, -(REAL)INFINITY);
        NAME(merge_largest)(&all, x, nothing);
        if (n < LANES) x = V(load_part)(last + i, n, 0);
        if (!holes) low = V(lower)(low, x);
        ordered = V(still_ordered)(ordered, x, x);
    }
    if (form & SCORES_BIASED) *product = NAME(largest_lane)(V(max)(size, size2));
    top.holes = holes;
    top.has_nan = !V(all_ordered)(ordered) || !V(all_ordered)(ordered2);
    firsts = NAME(lanes_to_top)(whole ? m : NULL, all, V(lower)(low, low2), &top);
    if (!top.has_nan && top.second < top.first) {
        int at = V(find_in_eight)(m, firsts);
        if (whole && at < CLASSES)
            NAME(search_class)(z, mask, at, whole, &top);
        else
            top.at = whole + NAME(column_of)(last, count - whole, firsts);
    }
    return top;
}

/* Of scores that are there. */
static NAME(top) NAME(block_top)(const REAL *z, int count) {
    NAME(score_parts) parts;
    parts.x = z;
    return NAME(top_loop)(&parts, REAL_ELEMENT, 0, count, NULL, NULL, NULL);
}

/* Of scores that are made on the way; what the mask leaves out is -inf. A function for each form: one with all of them would be too large for the
 * compiler to keep in registers. */
#define MADE_TOP (const NAME(score_parts) *parts, int count, REAL *to, REAL *low_to, REAL *product)
APART NAME(top) NAME(masked_top) MADE_TOP { return NAME(top_loop)(parts, REAL_ELEMENT, SCORES_MASKED, count, to, low_to, product); }
APART NAME(top) NAME(float16_top) MADE_TOP { return NAME(top_loop)(parts, ELEMENT_FLOAT16, 0, count, to, low_to, product); }
APART NAME(top) NAME(float16_masked_top) MADE_TOP { return NAME(top_loop)(parts, ELEMENT_FLOAT16, SCORES_MASKED, count, to, low_to, product); }
APART NAME(top) NAME(bfloat16_top) MADE_TOP { return NAME(top_loop)(parts, ELEMENT_BFLOAT16, 0, count, to, low_to, product); }
APART NAME(top) NAME(bfloat16_masked_top) MADE_TOP { return NAME(top_loop)(parts, ELEMENT_BFLOAT16, SCORES_MASKED, count, to, low_to, product); }
APART NAME(top) NAME(scaled_top) MADE_TOP { return NAME(top_loop)(parts, REAL_ELEMENT, SCORES_SCALED, count, to, low_to, product); }
APART NAME(top) NAME(scaled_masked_top) MADE_TOP { return NAME(top_loop)(parts, REAL_ELEMENT, SCORES_SCALED | SCORES_MASKED, count, to, low_to, product); }
APART NAME(top) NAME(biased_top) MADE_TOP { return NAME(top_loop)(parts, REAL_ELEMENT, SCORES_SCALED | SCORES_BIASED, count, to, low_to, product); }
APART NAME(top) NAME(biased_masked_top) MADE_TOP { return NAME(top_loop)(parts, REAL_ELEMENT, SCORES_SCALED | SCORES_BIASED | SCORES_MASKED, count, to, low_to, product); }

static NAME(top) NAME(made_top) MADE_TOP {
    const int masked = parts->form & SCORES_MASKED;
    if (parts->form & SCORES_BIASED) return (masked ? NAME(biased_masked_top) : NAME(biased_top))(parts, count, to, low_to, product);
    if (parts->form & SCORES_SCALED) return (masked ? NAME(scaled_masked_top) : NAME(scaled_top))(parts, count, to, low_to, product);
    if (parts->type == REAL_ELEMENT) return NAME(masked_top)(parts, count, to, low_to, product);
    if (parts->type == ELEMENT_FLOAT16) return (masked ? NAME(float16_masked_top) : NAME(float16_top))(parts, count, to, low_to, product);
    return (masked ? NAME(bfloat16_masked_top) : NAME(bfloat16_top))(parts, count, to, low_to, product);
}
#undef MADE_TOP

/* Of scores that are there, seen through the mask. */
APART NAME(top) NAME(seen_top)(const REAL *z, const uint8_t *mask, int count) {
    NAME(score_parts) parts;
    parts.x = z;
    parts.mask = mask;
    parts.type = REAL_ELEMENT;
    parts.form = SCORES_MASKED;
    return NAME(top_loop)(&parts, REAL_ELEMENT, SCORES_MASKED | SCORES_ASIDE, count, NULL, NULL, NULL);
}
