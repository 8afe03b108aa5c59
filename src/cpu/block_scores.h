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

/* As `scores`, with the largest of them. */
static NAME(top) NAME(scores_and_top)(NAME(source) *s, int64_t first, int count, REAL *buffer, REAL *low_buffer, const REAL **z, const REAL **low) {
    NAME(parts_room) room;
    NAME(score_parts) parts;
    NAME(top) top;
    REAL product = 0;
    if (!(s->direct && !s->mask) && !s->is_wild && s->scale_hi != 0) {
        NAME(parts_of_block)(s, first, count, buffer, &room, &parts);
        if (!parts.form && parts.type == REAL_ELEMENT) { /* in the buffer already */
            top = NAME(block_top)(buffer, count);
            *low = NULL;
            *z = buffer;
            return top;
        }
        top = NAME(made_top)(&parts, count, buffer, low_buffer, &product);
        if (!(parts.form & SCORES_SCALED) ||
            (!top.has_nan && top.first < WIDE_FROM && (top.first > -WIDE_FROM || top.first == -(REAL)INFINITY) && product < WIDE_FROM)) {
            s->at = first;
            s->doubtful = 0;
            *low = parts.form & SCORES_SCALED ? low_buffer : NULL;
            *z = buffer;
            return top;
        }
    }
    *z = NAME(scores)(s, first, count, buffer, low_buffer, low);
    return NAME(block_top)(*z, count);
}
