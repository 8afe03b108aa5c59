/* Rows of one block with options, of other types or with gaps: as block_rows.h a vector's lanes of them are read out together. Columns beyond a row's
 * limit (causal, valid lengths) are not looked at; other scores are made where the largest are sought and wait in scratch memory, or are looked
 * at through a boolean mask (block_scores.h). A template like block.h; the bits are forward.h's. */

typedef struct NAME(option_row) {
    const char *x;
    NAME(block_view) view;
    REAL *v;   /* terms; scores too unless they are where x is */
    REAL *room_for_low;
    int count; /* columns below the limit */
    int empty; /* none of them counts */
    char *out;
    NAME(top) top;
} NAME(option_row);

/* The largest scores of a row; 0 if it is not a usual one. */
static int NAME(option_top)(const softmax_job *job, const place *p, NAME(option_row) *r) {
    NAME(source) source = NAME(source_of_row)(job, p);
    r->count = (int)source.limit;
    r->empty = r->count == 0;
    r->out = row_address(job, &job->out, p);
    r->x = source.x;
    if (r->empty) return 1;
    r->top = NAME(scores_and_top)(&source, 0, r->count, r->v, r->room_for_low, &r->view);
    r->empty = !r->top.has_nan && r->top.first == -(REAL)INFINITY;
    return r->empty || (!r->top.has_nan && !source.doubtful && r->top.first < WIDE_FROM && r->top.first > -WIDE_FROM);
}

/* What every row's results need, as in block_rows.h. */
static void NAME(option_sums)(const softmax_job *job, const NAME(option_row) *row, int rows, NAME(lanes) *s) {
    const int keep = job->op == OPERATION_SOFTMAX;
    const int64_t stride = job->x.row_stride[job->dimensions - 1];
    REAL first[LANES], second[LANES], first_low[LANES], used[LANES];
    BITS high[LANES] = {0}, low[LANES] = {0};
    NAME(lane_terms) terms;
    NAME(term_row) piped_row[LANES]; /* those without low parts */
    int of[LANES], piped = 0;
    for (int i = 0; i < LANES; i++) {
        first[i] = second[i] = first_low[i] = used[i] = 0;
        if (i >= rows || row[i].empty) continue;
        first[i] = row[i].top.first;
        second[i] = row[i].top.second;
        if (row[i].view.low) first_low[i] = row[i].top.at >= 0 ? row[i].view.low[row[i].top.at] : NAME(top_low)(row[i].view.z, row[i].view.low, row[i].count, first[i]);
        used[i] = 1;
    }
    NAME(lanes_begin)(s);
    s->first = V(load)(first);
    s->second = V(load)(second);
    s->first_low = V(load)(first_low);
    s->usual = V(load)(used);
    NAME(lane_terms_begin)(s, job->kind, &terms);
    for (int i = 0; i < rows; i++) {
        const NAME(option_row) *r = &row[i];
        const ahead_lines ahead = {(uintptr_t)r->x + (uintptr_t)(rows * stride), LANES * element_bytes(job->x.type)};
        NAME(term_row) its = {r->view.z, r->view.mask, r->v, r->count, terms.magic[i], terms.floor_score[i], ahead, 0, 0};
        if (r->empty) continue;
        if (r->view.low) {
            NAME(terms)(r->view.z, r->view.low, r->count, terms.magic[i], terms.floor_score[i], ahead, keep ? r->v : NULL, job->kind, &high[i], &low[i]);
            continue;
        }
        of[piped] = i;
        piped_row[piped++] = its;
    }
    NAME(terms_of_rows)(piped_row, piped, keep, job->kind);
    for (int j = 0; j < piped; j++) {
        high[of[j]] = piped_row[j].high;
        low[of[j]] = piped_row[j].low;
    }
    NAME(lane_terms_end)(s, &terms, high, low);
    NAME(read_lanes)(s, 1, job->kind, NAME(lane_want_of)(job->op));
}

/* log_values_low in vectors. */
static void NAME(option_logs)(const NAME(option_row) *r, REAL m, REAL m_low, REAL minus_log, REAL minus_log_low, REAL *y) {
    NAME(lanes) s;
    s.first = V(set)(m);
    s.first_low = V(set)(m_low);
    s.minus_log = V(set)(minus_log);
    s.minus_log_low = V(set)(minus_log_low);
    s.usual = V(set)(1);
    s.value = V(set)(0);
    for (int i = 0; i < r->count; i += LANES) {
        int n = r->count - i;
        if (n >= LANES)
            V(store)(y + i, NAME(lanes_log_low)(&s, V(load)(r->view.z + i), V(load)(r->view.low + i)));
        else
            V(store_part)(y + i, n, NAME(lanes_log_low)(&s, V(load_part)(r->view.z + i, n, 0), V(load_part)(r->view.low + i, n, 0)));
    }
}

static void NAME(option_results)(const softmax_job *job, const NAME(option_row) *row, int rows, const NAME(lanes) *s, int streams) {
    const int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out), want_log = job->op == OPERATION_LOG_SOFTMAX;
    const int columns = (int)job->columns;
    REAL hi[LANES], lo[LANES], cut[LANES], most[LANES], minus_log[LANES], minus_log_low[LANES], first_low[LANES];
    V(store)(hi, s->factor_hi);
    V(store)(lo, s->factor_lo);
    V(store)(cut, s->cut);
    V(store)(most, s->most);
    V(store)(minus_log, s->minus_log);
    V(store)(minus_log_low, s->minus_log_low);
    V(store)(first_low, s->first_low);
    for (int i = 0; i < rows; i++) {
        const NAME(option_row) *r = &row[i];
        REAL *y = direct ? (REAL *)(void *)r->out : r->v, nothing = want_log ? -(REAL)INFINITY : 0;
        int written = r->empty ? 0 : r->count;
        if (r->empty && !job->empty_zero) nothing = (REAL)NAN;
        if (r->empty) {
            /* below */
        } else if (!want_log) {
            NAME(factor) f = {hi[i], lo[i], SMALLEST_NORMAL * NAME(two_to)(OUT_BIAS), cut[i], most[i]};
            const int at = !arithmetic_is_short(job->kind) && r->top.first - r->top.second >= (r->view.low ? 1 : TERMS_APART) ? r->top.at : -1;
            NAME(scale_row)(r->v, r->count, &f, (double)r->top.first - (double)r->top.least, r->top.holes && arithmetic_is_short(job->kind), at, y, REAL_ELEMENT, streams && direct, NULL);
        } else if (r->view.low) {
            NAME(option_logs)(r, r->top.first, first_low[i], minus_log[i], minus_log_low[i], y);
        } else if (r->view.mask) {
            NAME(seen_logs)(r->view.z, r->view.mask, r->count, r->top.first, minus_log[i], y, streams && direct);
        } else {
            NAME(log_values)(r->view.z, r->count, r->top.first, minus_log[i], y, streams && direct, NULL);
        }
        for (int j = written; j < columns; j++) y[j] = nothing;
        if (!direct) NAME(scatter)(r->out, job->out.type, job->out.column_stride, columns, y);
    }
}

static void NAME(option_rows)(const softmax_job *job, int64_t first, int64_t last, REAL *scratch, int streams) {
    const int columns = (int)job->columns, pitch = NAME(terms_pitch)(columns), has_low = NAME(has_low_parts)(job), most = NAME(rows_of_group)(columns, streams || has_low);
    NAME(option_row) row[LANES];
    NAME(lanes) s;
    place p = place_of_row(job, first);
    for (int64_t at = first; at < last; at += most) {
        int rows = last - at < most ? (int)(last - at) : most, usual = 1;
        for (int i = 0; i < rows; i++, next_place(job, &p)) {
            row[i].v = scratch + i * pitch;
            row[i].room_for_low = has_low ? scratch + (LANES + i) * pitch : NULL;
            usual = NAME(option_top)(job, &p, &row[i]) && usual;
        }
        if (!usual) {
            NAME(forward_rows)(job, at, at + rows);
            continue;
        }
        NAME(option_sums)(job, row, rows, &s);
        if (job->op == OPERATION_LOGSUMEXP) {
            REAL value[LANES];
            V(store)(value, s.value);
            for (int i = 0; i < rows; i++)
                store_real(row[i].out, job->out.type, row[i].empty ? -(double)INFINITY : (double)value[i]);
        } else {
            NAME(option_results)(job, row, rows, &s, streams);
        }
    }
    if (streams) stream_end();
}

/* Whether they are so computed. */
static int NAME(rows_take_options)(const softmax_job *job) {
    const double size = fabs(job->scale);
    return job->op <= OPERATION_LOGSUMEXP && size >= 0x1p-100 && size <= 0x1p100;
}
