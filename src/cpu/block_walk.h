/* The blocks of a row, or of a part of one, one after another. A template like block.h. What lies AHEAD_BYTES further on is fetched while a block's
 * terms are computed, a line or less a vector. */

#if !defined(AHEAD_BYTES)
#define AHEAD_BYTES ((int)(SOFTMAX_BLOCK_COLUMNS * sizeof(REAL)))
#endif

typedef struct NAME(block_walk) {
    NAME(source) source;
    int64_t column; /* the current block's first */
    int64_t last;
    int count; /* of its columns; 0: there are no more */
    REAL buffer[SOFTMAX_BLOCK_COLUMNS];
    REAL low_buffer[SOFTMAX_BLOCK_COLUMNS];
} NAME(block_walk);

static int NAME(block_columns)(int64_t first, int64_t last) {
    return (int)(last - first < SOFTMAX_BLOCK_COLUMNS ? last - first : SOFTMAX_BLOCK_COLUMNS);
}

static void NAME(walk_begin)(NAME(block_walk) *walk, const softmax_job *job, const place *p, int64_t first, int64_t last) {
    walk->source = NAME(source_of_row)(job, p);
    walk->column = first;
    walk->last = last;
    walk->count = NAME(block_columns)(first, last);
}

static void NAME(walk_on)(NAME(block_walk) *walk) {
    walk->column += walk->count;
    walk->count = NAME(block_columns)(walk->column, walk->last);
}

/* Of the current block's columns those that the row's limit leaves. */
static inline int NAME(walk_seen)(const NAME(block_walk) *walk) {
    int64_t seen = walk->source.limit - walk->column;
    return seen < 0 ? 0 : (int)(seen < walk->count ? seen : walk->count);
}

/* What the current block adds to its row; values into v unless it is NULL. */
static void NAME(walk_terms)(NAME(block_walk) *walk, REAL *v, NAME(block) *block) {
    const operand *x = &walk->source.job->x;
    const int seen = NAME(walk_seen)(walk);
    NAME(block_view) view;
    const NAME(top) top = NAME(scores_and_top)(&walk->source, walk->column, seen, walk->buffer, walk->low_buffer, &view);
    ahead_lines ahead = {(uintptr_t)view.z, 0};
    if (is_contiguous(x)) {
        ahead.line = (uintptr_t)(walk->source.x + walk->column * x->column_stride) + AHEAD_BYTES;
        ahead.step = LANES * x->column_stride;
    }
    NAME(block_terms)(&walk->source, &view, seen, walk->source.job->kind, &top, ahead, v, block);
    for (int i = seen; v && i < walk->count; i++) v[i] = 0;
}
