/* The scores of a block and the largest of them in one pass. A template like block.h. */

/* Room for what is not contiguous in memory. */
typedef struct NAME(parts_room) {
    REAL bias[SOFTMAX_BLOCK_COLUMNS];
    uint8_t mask[SOFTMAX_BLOCK_COLUMNS];
} NAME(parts_room);

static inline int NAME(has_low_parts)(const softmax_job *job) { return job->scale != 1.0 || job->bias.data != NULL; }

/* Of columns [first, first + count), all below the row's limit; elements that are not contiguous, or not as they are to be scaled, go to `buffer`. */
static void NAME(parts_of_block)(const NAME(source) *s, int64_t first, int count, REAL *buffer, NAME(parts_room) *room, NAME(score_parts) *parts) {
    const softmax_job *job = s->job;
    const char *x = s->x + first * job->x.column_stride;
    int scaled = NAME(has_low_parts)(job);
    parts->form = (s->mask ? SCORES_MASKED : 0) | (scaled ? SCORES_SCALED : 0) | (s->bias ? SCORES_BIASED : 0);
    parts->type = job->x.type;
    parts->x = x;
    parts->scale_hi = s->scale_hi;
    parts->scale_lo = s->scale_lo;
    if (!is_contiguous(&job->x) || job->softcap != 0.0 || (scaled && job->x.type != REAL_ELEMENT)) {
        NAME(gather)(x, job->x.type, job->x.column_stride, count, buffer);
        if (job->softcap != 0.0) NAME(softcap_scores)(buffer, count, job->softcap);
        parts->x = buffer;
        parts->type = REAL_ELEMENT;
    }
    if (s->bias) {
        const char *bias = s->bias + first * job->bias.column_stride;
        parts->bias = (const REAL *)(const void *)bias;
        if (job->bias.type != REAL_ELEMENT || !is_contiguous(&job->bias)) {
            NAME(gather)(bias, job->bias.type, job->bias.column_stride, count, room->bias);
            parts->bias = room->bias;
        }
    }
    if (s->mask) {
        const int64_t stride = job->mask.column_stride;
        parts->mask = (const uint8_t *)s->mask + first * stride;
        if (stride != 1) {
            for (int i = 0; i < count; i++) room->mask[i] = parts->mask[i * stride];
            parts->mask = room->mask;
        }
    }
}

/* Scores from column i on: -inf where the mask (NULL: none) is zero. */
static ALWAYS_INLINE VECTOR NAME(seen_scores)(const REAL *z, const uint8_t *mask, int i) {
    return mask ? V(masked)(V(load)(z + i), mask + i) : V(load)(z + i);
}

/* The last n of them, fewer than a vector. */
static ALWAYS_INLINE VECTOR NAME(last_scores)(const REAL *z, const uint8_t *mask, int i, int n) {
    VECTOR a = V(load_part)(z + i, n, -(REAL)INFINITY);
    uint8_t last[LANES] = {0};
    if (!mask) return a;
    memcpy(last, mask + i, (size_t)n);
    return V(masked)(a, last);
}

/* A block's scores: z, where a mask (NULL: none) is not zero, and their low parts (NULL: all are 0). */
typedef struct NAME(block_view) {
    const REAL *z;
    const uint8_t *mask;
    const REAL *low;
} NAME(block_view);

/* The terms are fast ones; or there are none, for all scores are -inf. */
static inline int NAME(top_is_usual)(const NAME(top) *top) {
    return !top->has_nan && top->first < WIDE_FROM && (top->first > -WIDE_FROM || top->first == -(REAL)INFINITY);
}

/* As `scores`, with the largest of them; a mask is left to whoever reads them where the terms are fast ones. */
static NAME(top) NAME(scores_and_top)(NAME(source) *s, int64_t first, int count, REAL *buffer, REAL *low_buffer, NAME(block_view) *view) {
    NAME(parts_room) room;
    NAME(score_parts) parts;
    NAME(top) top;
    REAL product = 0;
    view->low = NULL;
    if (s->through) {
        view->z = (const REAL *)(const void *)s->x + first;
        view->mask = (const uint8_t *)s->mask + first;
        s->at = first;
        s->doubtful = 0;
        top = NAME(seen_top)(view->z, view->mask, count);
        if (NAME(top_is_usual)(&top)) return top;
    }
    view->z = buffer;
    view->mask = NULL;
    if (!(s->direct && !s->mask) && !s->is_wild && s->scale_hi != 0) {
        NAME(parts_of_block)(s, first, count, buffer, &room, &parts);
        s->at = first;
        s->doubtful = 0;
        if (!parts.form && parts.type == REAL_ELEMENT) return NAME(block_top)(buffer, count); /* they are there already */
        top = NAME(made_top)(&parts, count, buffer, low_buffer, &product);
        if (parts.form & SCORES_SCALED) view->low = low_buffer;
        if (!view->low || (NAME(top_is_usual)(&top) && product < WIDE_FROM)) return top;
    }
    view->z = NAME(scores)(s, first, count, buffer, low_buffer, &view->low);
    return NAME(block_top)(view->z, count);
}

/* The scores alone. */
static void NAME(made_view)(NAME(source) *s, int64_t first, int count, REAL *buffer, REAL *low_buffer, NAME(block_view) *view) {
    view->z = (const REAL *)(const void *)s->x + first;
    view->mask = NULL;
    view->low = NULL;
    s->doubtful = 0;
    if (s->through) view->mask = (const uint8_t *)s->mask + first;
    if (!s->through && !s->direct) NAME(scores_and_top)(s, first, count, buffer, low_buffer, view);
}

/* log_softmax of scores seen through a mask: log_values of them. */
static void NAME(seen_logs)(const REAL *z, const uint8_t *mask, int count, REAL m, REAL minus_log, REAL *y, int streams) {
    const VECTOR top = V(set)(m), minus = V(set)(minus_log), limit = V(set)(SMALLEST_NORMAL);
    const int beyond = streams ? (int)((uintptr_t)y % sizeof(VECTOR) / sizeof(REAL)) : 0, head = beyond ? LANES - beyond : 0;
    int i = head < count ? head : count;
#define LOG_VALUE(a) V(unbias)(V(add)(V(sub)(a, top), minus), limit, 0)
    if (i) V(store_part)(y, i, LOG_VALUE(NAME(last_scores)(z, mask, 0, i)));
    if (streams)
        for (; i + LANES <= count; i += LANES) V(stream)(y + i, LOG_VALUE(NAME(seen_scores)(z, mask, i)));
    for (; i + LANES <= count; i += LANES) V(store)(y + i, LOG_VALUE(NAME(seen_scores)(z, mask, i)));
    if (i < count) V(store_part)(y + i, count - i, LOG_VALUE(NAME(last_scores)(z, mask, i, count - i)));
#undef LOG_VALUE
}
