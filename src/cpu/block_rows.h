/* Contiguous rows of one block each: a vector's lanes of them are read out together (lanes.h), for what is computed once for a row is a chain of
 * some 500 cycles, as long as 30 vectors of terms. A template like block.h; the bits are forward.h's. */

/* LANES rows between the sums of their terms and their results. */
typedef struct NAME(row_group) {
    int64_t row;     /* the first */
    const REAL *x;
    REAL *terms;     /* NULL: in the results' place */
    NAME(top) top[LANES];
    REAL hi[LANES]; /* as NAME(factor) */
    REAL lo[LANES];
    REAL cut[LANES];
    REAL most[LANES];
    REAL minus_log[LANES];
} NAME(row_group);

static REAL *NAME(row_of_results)(const softmax_job *job, int64_t row) {
    return (REAL *)(void *)(job->out.data + row * job->out.row_stride[0]);
}

static inline int NAME(terms_pitch)(int columns) { return (columns + LANES - 1) / LANES * LANES; }

static inline REAL *NAME(group_terms)(const NAME(row_group) *g, const softmax_job *job, int i) {
    return g->terms ? g->terms + i * NAME(terms_pitch)((int)job->columns) : NAME(row_of_results)(job, g->row + i);
}

/* The results of row i of the group. */
static void NAME(finish_group_row)(const NAME(row_group) *g, const softmax_job *job, int i, int streams) {
    REAL *y = NAME(row_of_results)(job, g->row + i);
    const NAME(top) *top = &g->top[i];
    int count = (int)job->columns;
    if (job->op == OPERATION_LOG_SOFTMAX) {
        NAME(log_values)(g->x + (int64_t)i * count, count, top->first, g->minus_log[i], y, streams);
    } else {
        NAME(factor) f = {g->hi[i], g->lo[i], SMALLEST_NORMAL * NAME(two_to)(OUT_BIAS), g->cut[i], g->most[i]};
        int apart = top->first - top->second >= TERMS_APART;
        int calm = apart && NAME(results_are_calm)(&f, (double)top->first - (double)top->least);
        NAME(scale_block)(NAME(group_terms)(g, job, i), count, &f, calm, calm ? top->at : -1, 0, streams, y);
    }
}

/* The largest scores of all rows; 0 if some row is not a usual one. */
static int NAME(find_group_tops)(NAME(row_group) *g, NAME(lanes) *s, int columns) {
    REAL first[LANES], second[LANES];
    int usual = 1;
    for (int i = 0; i < LANES; i++) {
        g->top[i] = NAME(block_top)(g->x + (int64_t)i * columns, columns);
        first[i] = g->top[i].first;
        second[i] = g->top[i].second;
        usual &= !g->top[i].has_nan && first[i] < WIDE_FROM && first[i] > -WIDE_FROM;
    }
    NAME(lanes_begin)(s);
    s->first = V(load)(first);
    s->second = V(load)(second);
    return usual;
}

/* From the largest scores to what the group's results need; in turn with the results of the group before (NULL: none). */
static void NAME(sum_group)(NAME(row_group) *g, NAME(lanes) *s, const softmax_job *job, const NAME(row_group) *before, const REAL *end, int streams) {
    const VECTOR zero = V(set)(0);
    int columns = (int)job->columns, keep = job->op == OPERATION_SOFTMAX;
    REAL magic[LANES], floor_score[LANES];
    BITS high[LANES], low[LANES];
    INTEGERS top_high = I(zero)(), top_low = top_high;
    VECTOR magics;
    s->kb = NAME(exponent_vector)(V(max)(s->second, V(sub)(s->first, V(set)(SPREAD))));
    magics = V(sub)(V(set)(MAGIC + SOFTMAX_BIAS), s->kb);
    V(store)(magic, magics);
    V(store)(floor_score, NAME(floor_vector)(s->kb));
    s->top = NAME(term_vector)(s->first, zero, magics, job->kind, &top_high, &top_low);
    for (int i = 0; i < LANES; i++) {
        const REAL *z = g->x + (int64_t)i * columns, *ahead = z + (int64_t)LANES * columns;
        if (ahead + columns > end) ahead = z;
        NAME(terms)(z, NULL, columns, magic[i], floor_score[i], ahead, keep ? NAME(group_terms)(g, job, i) : NULL, job->kind, &high[i], &low[i]);
        if (before) NAME(finish_group_row)(before, job, i, streams);
    }
    s->high = I(sub)(I(load)(high), I(sub)(top_high, I(set)(NAME(bits_of)(HIGH_MAGIC))));
    s->low = I(sub)(I(load)(low), I(sub)(top_low, I(set)(NAME(bits_of)(LOW_MAGIC))));
    NAME(read_lanes)(s, 1, job->kind, NAME(lane_want_of)(job->op));
    V(store)(g->hi, s->factor_hi);
    V(store)(g->lo, s->factor_lo);
    V(store)(g->cut, s->cut);
    V(store)(g->most, s->most);
    V(store)(g->minus_log, s->minus_log);
}

static void NAME(store_group_logsumexp)(const NAME(row_group) *g, const NAME(lanes) *s, const softmax_job *job) {
    REAL value[LANES];
    V(store)(value, s->value);
    for (int i = 0; i < LANES; i++) store_real(job->out.data + (g->row + i) * job->out.row_stride[0], job->out.type, (double)value[i]);
}

static void NAME(finish_group)(const NAME(row_group) *g, const softmax_job *job, int streams) {
    for (int i = 0; g && i < LANES; i++) NAME(finish_group_row)(g, job, i, streams);
}

static void NAME(group_rows)(const NAME(work) *work, const softmax_job *job, int64_t first, int64_t last, REAL *scratch) {
    NAME(row_group) group[2];
    const NAME(row_group) *before = NULL;
    NAME(lanes) s;
    int64_t row = first;
    int now = 0, streams = work->streams && (scratch || job->op == OPERATION_LOG_SOFTMAX);
    for (; row + LANES <= last; row += LANES) {
        NAME(row_group) *g = &group[now];
        g->row = row;
        g->x = work->end - (last - row) * job->columns;
        g->terms = scratch ? scratch + now * LANES * NAME(terms_pitch)((int)job->columns) : NULL;
        if (!NAME(find_group_tops)(g, &s, (int)job->columns)) {
            NAME(forward_rows)(job, row, row + LANES);
            continue;
        }
        NAME(sum_group)(g, &s, job, before, work->end, streams);
        before = g;
        now ^= 1;
        if (job->op == OPERATION_LOGSUMEXP) {
            NAME(store_group_logsumexp)(g, &s, job);
            before = NULL;
        }
    }
    NAME(finish_group)(before, job, streams);
    NAME(forward_rows)(job, row, last);
    if (streams) stream_end();
}

/* Longer rows that come from memory are faster one by one: the processor foresees what is read, while the groups of two come and go. */
#if !defined(GROUP_COLUMNS_FROM_MEMORY)
#define GROUP_COLUMNS_FROM_MEMORY 512
#endif

/* Rows [first, last) of a forward, whatever they are. */
static void NAME(all_rows)(const softmax_job *job, int64_t first, int64_t last) {
    int one_block = job->columns > SHORT_COLUMNS && job->columns <= SOFTMAX_BLOCK_COLUMNS && last - first >= LANES &&
                    (job->columns <= GROUP_COLUMNS_FROM_MEMORY || !softmax_cpu_is_large(job));
    int plain = job->op == OPERATION_LOGSUMEXP ||
                ((job->op == OPERATION_SOFTMAX || job->op == OPERATION_LOG_SOFTMAX) && job->out.type == REAL_ELEMENT && is_contiguous(&job->out));
    if (one_block && plain) {
        NAME(work) work = NAME(work_of_rows)(job, first, last);
        if (work.direct) {
            NAME(group_rows)(&work, job, first, last, work.streams && job->op == OPERATION_SOFTMAX ? (REAL *)softmax_cpu_scratch() : NULL);
            return;
        }
    }
    NAME(forward_rows)(job, first, last);
}
