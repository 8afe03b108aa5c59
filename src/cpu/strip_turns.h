/* Strips of rows of one block, three on their way at a time: a chunk of columns of the first is written, the same chunk of the third read into its
 * place, and that of the second becomes terms, so that memory is read and written all the while. Lines that are read ahead are so for one chunk
 * only: of a plane whose rows are a power of two apart, a cache has few places for a whole strip's. A template like block.h, included by strips.h. */

typedef struct NAME(turn) {
    NAME(strip) strip;
    NAME(lanes) lanes[STRIP_GROUPS];
    NAME(lane_sums) sums[STRIP_GROUPS];
} NAME(turn);

/* A group's columns into the tile, and of them the two largest. */
static ALWAYS_INLINE void NAME(take_columns_typed)(const char *x, int64_t stride, int count, int n, element type, NAME(lanes) *s, REAL *tile) {
    VECTOR first = s->first, second = s->second, sum = s->sum;
    int j = 0;
    for (; j + 2 <= count; j += 2, x += 2 * stride) {
        VECTOR a = NAME(load_lanes)(x, type, n), b = NAME(load_lanes)(x + stride, type, n);
        V(store)(tile + j * LANES, a);
        V(store)(tile + (j + 1) * LANES, b);
        NAME(scan_two)(a, b, &first, &second, &sum);
    }
    if (j < count) {
        VECTOR a = NAME(load_lanes)(x, type, n);
        V(store)(tile + j * LANES, a);
        NAME(scan_one)(a, &first, &second, &sum);
    }
    s->first = first;
    s->second = second;
    s->sum = sum;
}

APART void NAME(take_columns)(const char *x, int64_t stride, int count, int n, element type, NAME(lanes) *s, REAL *tile) {
    if (type == REAL_ELEMENT && n == LANES)
        NAME(take_columns_typed)(x, stride, count, LANES, REAL_ELEMENT, s, tile);
    else if (type == REAL_ELEMENT)
        NAME(take_columns_typed)(x, stride, count, n, REAL_ELEMENT, s, tile);
    else if (type == ELEMENT_FLOAT16)
        NAME(take_columns_typed)(x, stride, count, n, ELEMENT_FLOAT16, s, tile);
    else
        NAME(take_columns_typed)(x, stride, count, n, ELEMENT_BFLOAT16, s, tile);
}

static void NAME(turn_take)(NAME(turn) *t, int64_t first, int count) {
    const NAME(strip) *s = &t->strip;
    const operand *x = &s->job->x;
    if (!s->plain) NAME(strip_load)(s, first, count, first);
    for (int u = 0; u < s->groups; u++) {
        const int64_t at = u * s->pitch + first * LANES;
        if (s->plain) {
            const char *from = s->x + first * x->column_stride + u * LANES * element_bytes(x->type);
            NAME(take_columns)(from, x->column_stride, count, NAME(strip_lanes)(s, u), x->type, &t->lanes[u], s->tile + at);
            continue;
        }
        NAME(strip_scores)(s, &t->lanes[u], u, first, count, s->tile + at, s->lows ? s->lows + at : NULL);
        NAME(lanes_scan)(&t->lanes[u], s->tile + at, count);
    }
}

/* The chunk's terms, while the lines of `ahead` are fetched. */
static void NAME(turn_terms)(NAME(turn) *t, int64_t first, int count, const char *ahead, int64_t span) {
    const NAME(strip) *s = &t->strip;
    const softmax_job *job = s->job;
    const int keep = job->op == OPERATION_SOFTMAX;
    NAME(term_piece) piece[STRIP_GROUPS];
    for (int u = 0; u < s->groups; u++) {
        REAL *tile = s->tile + u * s->pitch + first * LANES;
        const int fetches = ahead && u * 64 < span;
        const ahead_lines lines = {fetches ? (uintptr_t)ahead + (uintptr_t)u * 64 : (uintptr_t)tile, fetches ? job->x.column_stride : 0};
        NAME(term_piece) its = {tile, tile, count, t->sums[u].magics, t->sums[u].floors, &t->sums[u].high, &t->sums[u].low, lines};
        piece[u] = its;
    }
    if (!s->lows && NAME(piped_pieces)(piece, s->groups, keep, job->kind)) return;
    for (int u = 0; u < s->groups; u++) {
        const int64_t at = u * s->pitch + first * LANES;
        NAME(lanes_terms)(&t->sums[u], s->tile + at, s->lows ? s->lows + at : NULL, count, keep, job->kind, (const char *)piece[u].ahead.line,
                          piece[u].ahead.step);
    }
}

/* All columns are there; 0 if some row is not a usual one. */
static int NAME(turn_begin_terms)(NAME(turn) *t) {
    const NAME(strip) *s = &t->strip;
    for (int u = 0; u < s->groups; u++) {
        NAME(lanes) *a = &t->lanes[u];
        if (NAME(lanes_are_unusual)(a)) return 0;
        a->first = V(add)(a->first, V(set)(0));
        if (s->lows) NAME(lanes_first_low)(a, s->tile + u * s->pitch, s->lows + u * s->pitch, (int)s->job->columns);
        NAME(lane_sums_begin)(a, &t->sums[u]);
        a->top = NAME(term_vector)(a->first, a->first_low, t->sums[u].magics, s->job->kind, &t->sums[u].top_high, &t->sums[u].top_low);
    }
    return 1;
}

static void NAME(turn_end_terms)(NAME(turn) *t) {
    const NAME(strip) *s = &t->strip;
    const softmax_job *job = s->job;
    for (int u = 0; u < s->groups; u++) NAME(lane_sums_end)(&t->lanes[u], &t->sums[u], (int)job->columns);
    NAME(read_lanes)(t->lanes, s->groups, job->kind, NAME(lane_want_of)(job->op));
    for (int u = 0; job->op == OPERATION_LOGSUMEXP && u < s->groups; u++) {
        char *to = s->out + u * LANES * element_bytes(job->out.type);
        NAME(store_lanes)(to, job->out.type, NAME(strip_lanes)(s, u), 0, t->lanes[u].value);
    }
}

/* One turn: of three strips, each of which may be missing. `next`: where the strip after `in` begins, or NULL. */
static void NAME(turn_over)(NAME(turn) *in, NAME(turn) *now, NAME(turn) *out, const char *next) {
    const NAME(strip) *any = in ? &in->strip : now ? &now->strip : &out->strip;
    const int columns = (int)any->job->columns;
    const int64_t stride = any->job->x.column_stride, span = (int64_t)LANES * STRIP_GROUPS * element_bytes(any->job->x.type);
    for (int j = 0; j < columns; j += STRIP_CHUNK) {
        const int n = columns - j < STRIP_CHUNK ? columns - j : STRIP_CHUNK;
        const char *ahead = in && j + n < columns ? in->strip.x + (j + n) * stride : next;
        if (out) NAME(strip_results)(&out->strip, out->lanes, j, n, j);
        if (in) NAME(turn_take)(in, j, n);
        if (now) NAME(turn_terms)(now, j, n, ahead, in ? in->strip.lanes * element_bytes(any->job->x.type) : span);
    }
    if (now) NAME(turn_end_terms)(now);
}

static void NAME(strip_at)(NAME(strip) *s, const place *p, int lanes);
static void NAME(strip_short)(NAME(strip) *s);
static void NAME(strip_far_rows)(const NAME(strip) *s, int64_t row);

/* Rows [first, last) in strips of up to `groups` groups; `model` has what all strips share, and its tile room for two strips. */
static void NAME(strips_in_turns)(const NAME(strip) *model, int64_t first, int64_t last, int groups) {
    const softmax_job *job = model->job;
    const int d = job->dimensions - 1, wants_results = job->op != OPERATION_LOGSUMEXP;
    const int64_t half = groups * model->pitch;
    NAME(turn) turn[3], *now = NULL, *out = NULL;
    place p = place_of_row(job, first);
    int count = 0;
    for (int64_t row = first; row < last || now || out; count++) {
        NAME(turn) *in = row < last ? &turn[count % 3] : NULL;
        const char *next = NULL;
        int64_t its_row = row;
        if (in) {
            int64_t run = job->shape[d] - p.coordinate[d] < last - row ? job->shape[d] - p.coordinate[d] : last - row;
            int lanes = (int)(run < groups * LANES ? run : groups * LANES);
            in->strip = *model;
            in->strip.tile = model->tile + (count & 1) * half;
            if (model->lows) in->strip.lows = model->lows + (count & 1) * half;
            NAME(strip_at)(&in->strip, &p, lanes);
            for (int u = 0; u < in->strip.groups; u++) NAME(lanes_begin)(&in->lanes[u]);
            row += lanes;
            pass_places(job, &p, lanes);
            if (row < last) next = row_address(job, &job->x, &p);
        }
        NAME(turn_over)(in, now, out, next);
        if (in && !NAME(turn_begin_terms)(in)) {
            if (now && wants_results) NAME(strip_results)(&now->strip, now->lanes, 0, (int)job->columns, 0);
            now = NULL;
            NAME(strip_short)(&in->strip);
            NAME(strip_far_rows)(&in->strip, its_row);
            in = NULL;
        }
        out = wants_results ? now : NULL;
        now = in;
    }
}
