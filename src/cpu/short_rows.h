/* Rows of few columns, as many at a time as a vector has lanes: transposed into a tile, computed one row per lane (lanes.h), transposed back.
 * A template like block.h. */

#if !defined(SHORT_COLUMNS)
#define SHORT_COLUMNS 64
#define SHORT_GROUPS 2 /* of rows that are read out together: one alone is a long chain of operations */
#endif

/* As many rows as there are lanes, at equal distances: in place, or in `buffer`. */
typedef struct NAME(short_group) {
    place first;
    int count; /* of its rows; the other lanes hold something */
    const REAL *in;
    int64_t in_pitch; /* elements */
    REAL *out;
    int64_t out_pitch;
    REAL buffer[LANES * SHORT_COLUMNS];
    REAL tile[SHORT_COLUMNS * LANES];
} NAME(short_group);

static int NAME(scores_are_elements)(const softmax_job *job) {
    return job->softcap == 0.0 && !job->mask.data && !job->lengths.data && !job->causal;
}

/* Vectors take four columns. */
static inline int NAME(short_pitch)(int columns) { return columns < 4 ? 4 : columns; }

/* Whole rows of these elements, without gaps between their columns, lie where vectors can take them. */
static int NAME(rows_in_place)(const NAME(short_group) *g, const softmax_job *job, const operand *a) {
    int d = job->dimensions - 1;
    return g->count == LANES && job->columns >= 4 && a->type == REAL_ELEMENT && is_contiguous(a) &&
           job->shape[d] - g->first.coordinate[d] >= LANES;
}

APART void NAME(short_scores)(NAME(short_group) *g, const softmax_job *job, int plain) {
    int columns = (int)job->columns, pitch = NAME(short_pitch)(columns);
    place p = g->first;
    if (plain && NAME(rows_in_place)(g, job, &job->x)) {
        g->in = (const REAL *)(const void *)row_address(job, &job->x, &p);
        g->in_pitch = job->x.row_stride[job->dimensions - 1] / (int64_t)sizeof(REAL);
        return;
    }
    if (g->count < LANES || columns < 4) memset(g->buffer, 0, (size_t)(pitch * LANES) * sizeof(REAL));
    for (int i = 0; i < g->count; i++, next_place(job, &p)) {
        REAL *to = g->buffer + i * pitch;
        if (plain) {
            NAME(gather)(row_address(job, &job->x, &p), job->x.type, job->x.column_stride, columns, to);
        } else {
            NAME(source) source = NAME(source_of_row)(job, &p);
            const REAL *low, *z = NAME(scores)(&source, 0, columns, to, NULL, &low);
            if (z != to) memcpy(to, z, (size_t)columns * sizeof(REAL));
        }
    }
    g->in = g->buffer;
    g->in_pitch = pitch;
}

/* The first of the next four columns; the last four may have been taken already. */
static inline int NAME(next_four)(int columns, int j) { return j + 4 < columns && j + 8 > columns ? columns - 4 : j + 4; }

APART void NAME(short_tile)(NAME(short_group) *g, int columns) {
    VECTOR column[4];
    for (int j = 0; j < columns; j = NAME(next_four)(columns, j)) {
        V(load_columns)(g->in + j, g->in_pitch, column);
        for (int k = 0; k < 4; k++) V(store)(g->tile + (j + k) * LANES, column[k]);
    }
}

static ALWAYS_INLINE void NAME(short_results)(const NAME(short_group) *g, const NAME(lanes) *s, int columns, int want_log, int patch) {
    const NAME(lanes) lanes = *s;
    VECTOR column[4];
    for (int j = 0; j < columns; j = NAME(next_four)(columns, j)) {
        for (int k = 0; k < 4; k++) column[k] = NAME(lanes_result)(&lanes, V(load)(g->tile + (j + k) * LANES), want_log, patch);
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
        NAME(short_results)(g, s, columns, 0, 0);
    else if (job->op == OPERATION_SOFTMAX)
        NAME(short_results)(g, s, columns, 0, LANES_CONSTANT);
    else if (!s->patch)
        NAME(short_results)(g, s, columns, 1, 0);
    else
        NAME(short_results)(g, s, columns, 1, LANES_CONSTANT);
    for (int j = 0; streams && j < columns; j++) V(stream)(out + j * LANES, V(load)(g->buffer + j * LANES));
    if (direct) return;
    for (int i = 0; i < g->count; i++, next_place(job, &p))
        if (!(s->far >> i & 1))
            NAME(scatter)(row_address(job, &job->out, &p), job->out.type, job->out.column_stride, columns, g->buffer + i * pitch);
}

static void NAME(short_rows)(const softmax_job *job, int64_t first, int64_t last) {
    NAME(short_group) group[SHORT_GROUPS];
    NAME(lanes) s[SHORT_GROUPS];
    place p = place_of_row(job, first);
    int columns = (int)job->columns, plain = NAME(scores_are_elements)(job), streams = job->op != OPERATION_LOGSUMEXP && softmax_cpu_streams(job);
    for (int64_t row = first; row < last; row += LANES * SHORT_GROUPS) {
        int groups = 0;
        for (int64_t r = row; r < last && groups < SHORT_GROUPS; r += LANES, groups++) {
            NAME(short_group) *g = &group[groups];
            const char *ahead = (const char *)g->tile; /* nothing new */
            g->first = p;
            g->count = last - r < LANES ? (int)(last - r) : LANES;
            NAME(short_scores)(g, job, plain);
            NAME(short_tile)(g, columns);
            /* the group after next: a line a column, if its rows follow each other */
            if (g->in != g->buffer && g->in_pitch == columns && last - r > SHORT_GROUPS * LANES)
                ahead = (const char *)(g->in + SHORT_GROUPS * LANES * columns);
            NAME(lanes_begin)(&s[groups]);
            NAME(lanes_scan)(&s[groups], g->tile, columns);
            NAME(lanes_sum)(&s[groups], job, g->tile, columns, job->op == OPERATION_SOFTMAX, ahead, ahead == (const char *)g->tile ? 0 : 64);
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
