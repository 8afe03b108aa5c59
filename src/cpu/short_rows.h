/* Rows of few columns, as many at a time as a vector has lanes: transposed into a tile, computed one row per lane (lanes.h), transposed back.
 * A template like block.h. */

#if !defined(SHORT_COLUMNS)
#define SHORT_COLUMNS 64
#define SHORT_GROUPS 2 /* of rows that are read out together: one alone is a long chain of operations */
#endif

/* Rows of an operand: in place, or in a buffer. */
typedef struct NAME(short_elements) {
    const REAL *from;
    int64_t pitch; /* elements */
} NAME(short_elements);

/* As many rows as there are lanes, at equal distances. */
typedef struct NAME(short_group) {
    place first;
    int count; /* of its rows; the other lanes hold something */
    int limited;
    NAME(short_elements) in;
    NAME(short_elements) bias;
    REAL *out;
    int64_t out_pitch;
    const REAL *lows; /* NULL, or low_tile */
    int64_t limit[LANES];
    REAL buffer[LANES * SHORT_COLUMNS];
    REAL tile[SHORT_COLUMNS * LANES];
    REAL bias_buffer[LANES * SHORT_COLUMNS];
    REAL low_tile[SHORT_COLUMNS * LANES];
} NAME(short_group);

/* Vectors take four columns. */
static inline int NAME(short_pitch)(int columns) { return columns < 4 ? 4 : columns; }

/* Whole rows of these elements, without gaps between their columns, lie where vectors can take them. */
static int NAME(rows_in_place)(const NAME(short_group) *g, const softmax_job *job, const operand *a) {
    int d = job->dimensions - 1;
    return g->count == LANES && job->columns >= 4 && a->type == REAL_ELEMENT && is_contiguous(a) &&
           job->shape[d] - g->first.coordinate[d] >= LANES;
}

/* The group's rows of an operand: where they are, or gathered into `buffer`. */
static NAME(short_elements) NAME(gather_rows)(const NAME(short_group) *g, const softmax_job *job, const operand *a, int may_stay, REAL *buffer) {
    int columns = (int)job->columns, pitch = NAME(short_pitch)(columns);
    NAME(short_elements) e = {buffer, pitch};
    place p = g->first;
    if (may_stay && NAME(rows_in_place)(g, job, a)) {
        e.from = (const REAL *)(const void *)row_address(job, a, &p);
        e.pitch = a->row_stride[job->dimensions - 1] / (int64_t)sizeof(REAL);
        return e;
    }
    if (g->count < LANES || columns < 4) memset(buffer, 0, (size_t)(pitch * LANES) * sizeof(REAL));
    for (int i = 0; i < g->count; i++, next_place(job, &p))
        NAME(gather)(row_address(job, a, &p), a->type, a->column_stride, columns, buffer + i * pitch);
    return e;
}

/* What the mask leaves out becomes -inf, on the way to `to`. */
static void NAME(mask_rows)(const NAME(short_group) *g, const softmax_job *job, NAME(short_elements) *e, REAL *to) {
    int columns = (int)job->columns, pitch = NAME(short_pitch)(columns), whole = columns / LANES * LANES;
    int64_t stride = job->mask.column_stride;
    place p = g->first;
    for (int i = 0; i < g->count; i++, next_place(job, &p)) {
        const uint8_t *mask = (const uint8_t *)row_address(job, &job->mask, &p);
        const REAL *from = e->from + i * e->pitch;
        REAL *row = to + i * pitch;
        uint8_t rest[LANES] = {0};
        int j = 0;
        if (stride == 1)
            for (; j < whole; j += LANES) V(store)(row + j, V(masked)(V(load)(from + j), mask + j));
        for (; j < columns; j += LANES) {
            int n = columns - j < LANES ? columns - j : LANES;
            for (int k = 0; k < n; k++) rest[k] = mask[(j + k) * stride];
            V(store_part)(row + j, n, V(masked)(V(load_part)(from + j, n, 0), rest));
        }
    }
    e->from = to;
    e->pitch = pitch;
}

APART void NAME(short_scores)(NAME(short_group) *g, const softmax_job *job) {
    int softcap = job->softcap != 0.0, bias = job->bias.data != NULL, mask = job->mask.data != NULL;
    g->limited = job->causal || job->lengths.data;
    g->lows = NAME(has_low_parts)(job) ? g->low_tile : NULL;
    g->in = NAME(gather_rows)(g, job, &job->x, !softcap, g->buffer);
    if (softcap) NAME(softcap_scores)(g->buffer, NAME(short_pitch)((int)job->columns) * g->count, job->softcap);
    if (bias) g->bias = NAME(gather_rows)(g, job, &job->bias, 1, g->bias_buffer);
    if (mask && bias) /* a bias of -inf masks out whatever the score is */
        NAME(mask_rows)(g, job, &g->bias, g->bias_buffer);
    else if (mask)
        NAME(mask_rows)(g, job, &g->in, g->buffer);
    if (g->limited) {
        place p = g->first;
        for (int i = 0; i < LANES; i++) {
            g->limit[i] = i < g->count ? NAME(limit_of_row)(job, &p) : job->columns;
            if (i < g->count) next_place(job, &p);
        }
    }
}

/* The first of the next four columns; the last four may have been taken already. */
static inline int NAME(next_four)(int columns, int j) { return j + 4 < columns && j + 8 > columns ? columns - 4 : j + 4; }

APART void NAME(short_tile)(NAME(short_elements) in, int columns, REAL *tile) {
    VECTOR column[4];
    for (int j = 0; j < columns; j = NAME(next_four)(columns, j)) {
        V(load_columns)(in.from + j, in.pitch, column);
        for (int k = 0; k < 4; k++) V(store)(tile + (j + k) * LANES, column[k]);
    }
}

/* The group's scores, and of them the two largest. */
static void NAME(short_scan)(NAME(short_group) *g, const softmax_job *job, NAME(lanes) *s) {
    int columns = (int)job->columns;
    NAME(short_scores)(g, job);
    NAME(short_tile)(g->in, columns, g->tile);
    NAME(lanes_begin)(s);
    if (g->lows) {
        REAL tile[SHORT_COLUMNS * LANES];
        if (job->bias.data) NAME(short_tile)(g->bias, columns, tile);
        NAME(lanes_scale)(s, job, g->tile, g->low_tile, job->bias.data ? tile : NULL, columns);
    }
    if (g->limited) NAME(lanes_limit)(g->limit, 0, g->tile, g->lows ? g->low_tile : NULL, columns);
    NAME(lanes_scan)(s, g->tile, columns);
}

/* low: log_softmax of scores with low parts */
static ALWAYS_INLINE void NAME(short_results)(const NAME(short_group) *g, const NAME(lanes) *s, int columns, int want_log, int patch, int low) {
    const NAME(lanes) lanes = *s;
    VECTOR column[4];
    for (int j = 0; j < columns; j = NAME(next_four)(columns, j)) {
        for (int k = 0; k < 4; k++) {
            VECTOR a = V(load)(g->tile + (j + k) * LANES);
            column[k] = low ? NAME(lanes_log_low)(&lanes, a, V(load)(g->low_tile + (j + k) * LANES)) : NAME(lanes_result)(&lanes, a, want_log, patch);
        }
        V(store_columns)(g->out + j, g->out_pitch, column);
    }
}

static void NAME(short_logsumexp)(const NAME(short_group) *g, const NAME(lanes) *s, const softmax_job *job) {
    REAL value[LANES];
    place p = g->first;
    V(store)(value, s->value);
    for (int i = 0; i < g->count; i++, next_place(job, &p))
        if (!(s->far >> i & 1)) store_real(row_address(job, &job->out, &p), job->out.type, (double)value[i]);
}

APART void NAME(short_store)(NAME(short_group) *g, const NAME(lanes) *s, const softmax_job *job, int streams) {
    int columns = (int)job->columns, pitch = NAME(short_pitch)(columns), direct = !s->far && NAME(rows_in_place)(g, job, &job->out);
    int64_t out_pitch = job->out.row_stride[job->dimensions - 1] / (int64_t)sizeof(REAL);
    place p = g->first;
    REAL *out = direct ? (REAL *)(void *)row_address(job, &job->out, &p) : NULL;
    streams &= direct && out_pitch == columns && (uintptr_t)out % sizeof(VECTOR) == 0;
    g->out = direct && !streams ? out : g->buffer;
    g->out_pitch = direct ? out_pitch : pitch;
    if (job->op == OPERATION_SOFTMAX && !s->patch)
        NAME(short_results)(g, s, columns, 0, 0, 0);
    else if (job->op == OPERATION_SOFTMAX)
        NAME(short_results)(g, s, columns, 0, LANES_CONSTANT, 0);
    else if (g->lows)
        NAME(short_results)(g, s, columns, 1, 0, 1);
    else if (!s->patch)
        NAME(short_results)(g, s, columns, 1, 0, 0);
    else
        NAME(short_results)(g, s, columns, 1, LANES_CONSTANT, 0);
    for (int j = 0; streams && j < columns; j++) V(stream)(out + j * LANES, V(load)(g->buffer + j * LANES));
    if (direct) return;
    for (int i = 0; i < g->count; i++, next_place(job, &p))
        if (!(s->far >> i & 1))
            NAME(scatter)(row_address(job, &job->out, &p), job->out.type, job->out.column_stride, columns, g->buffer + i * pitch);
}

static void NAME(any_short_rows)(const softmax_job *job, int64_t first, int64_t last) {
    NAME(short_group) group[SHORT_GROUPS];
    NAME(lanes) s[SHORT_GROUPS];
    place p = place_of_row(job, first);
    int columns = (int)job->columns, streams = job->op != OPERATION_LOGSUMEXP && softmax_cpu_streams(job);
    for (int64_t row = first; row < last; row += LANES * SHORT_GROUPS) {
        int groups = 0;
        for (int64_t r = row; r < last && groups < SHORT_GROUPS; r += LANES, groups++) {
            NAME(short_group) *g = &group[groups];
            const char *ahead = (const char *)g->tile; /* nothing new */
            g->first = p;
            g->count = last - r < LANES ? (int)(last - r) : LANES;
            NAME(short_scan)(g, job, &s[groups]);
            /* the group after next: a line a column, if its rows follow each other */
            if (g->in.from != g->buffer && g->in.pitch == columns && last - r > SHORT_GROUPS * LANES)
                ahead = (const char *)(g->in.from + SHORT_GROUPS * LANES * columns);
            NAME(lanes_sum)(&s[groups], job, g->tile, g->lows, columns, job->op == OPERATION_SOFTMAX, ahead, ahead == (const char *)g->tile ? 0 : 64);
            skip_places(job, &p, LANES);
        }
        NAME(read_lanes)(s, groups, job->kind, NAME(lane_want_of)(job->op));
        for (int i = 0; i < groups; i++) {
            if (job->op == OPERATION_LOGSUMEXP)
                NAME(short_logsumexp)(&group[i], &s[i], job);
            else
                NAME(short_store)(&group[i], &s[i], job, streams);
            for (int lane = 0; s[i].far && lane < group[i].count; lane++)
                if (s[i].far >> lane & 1) NAME(forward_rows)(job, row + i * LANES + lane, row + i * LANES + lane + 1);
        }
    }
    if (streams) stream_end();
}

/* plain_rows.h: returns the first row that is left. */
static int64_t NAME(plain_rows)(const softmax_job *job, int64_t first, int64_t last);

static void NAME(short_rows)(const softmax_job *job, int64_t first, int64_t last) {
    first = NAME(plain_rows)(job, first, last);
    if (first < last) NAME(any_short_rows)(job, first, last);
}
