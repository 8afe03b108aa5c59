/* A contiguous float32 row whose elements are the scores, too long for its terms to be kept, or a thread's part of it: read twice, first a batch of
 * blocks at a time (block_batch.h). What each block's terms are relative to is kept, so that the second pass neither looks for the largest scores nor
 * computes digits; it begins with the last blocks, for they are in the caches still. A template like block.h; the bits are forward.h's. */

#if !defined(LONG_BATCH)
#define LONG_BATCH (LANES < 8 ? LANES : 8) /* blocks: the first-level cache holds them */
#endif
#if !defined(LONG_AHEAD)
#define LONG_AHEAD 2 /* blocks before the one whose results are written */
#endif

/* Where the places are, as many as the scratch memory has room for. */
static NAME(later_terms) *NAME(long_places_of)(int *count) {
    *count = (int)((softmax_cpu_scratch_bytes() - (int64_t)sizeof(NAME(later_terms))) / (int64_t)sizeof(NAME(place_of_block)));
    return (NAME(later_terms) *)softmax_cpu_scratch();
}

static void NAME(long_reduce)(const softmax_job *job, int64_t row, int64_t first, int64_t last, row_state *state) {
    const int from = (int)(first / SOFTMAX_BLOCK_COLUMNS), to = (int)((last + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS);
    const int full = to - (last - (int64_t)(to - 1) * SOFTMAX_BLOCK_COLUMNS < PIPED_COLUMNS); /* those that are long enough for the pipeline */
    NAME(later_terms) *places = NULL;
    NAME(batch_rows) g;
    NAME(batch_sum) sum;
    g.row = row;
    g.rows = 1;
    g.blocks = 0;
    g.keeps = 0;
    g.ahead = LONG_BATCH * (int)(SOFTMAX_BLOCK_COLUMNS * sizeof(REAL));
    g.first = from;
    g.places = 0;
    if (job->op == OPERATION_SOFTMAX) places = NAME(long_places_of)(&g.places);
    if (places)
        g.place = places->places;
    else
        g.places = 0;
    sum.state = row_state_empty();
    sum.usual = 1;
    NAME(sum_batches)(&g, &sum, from, full, LONG_BATCH, job, NULL, NULL, 0, NULL);
    NAME(sum_batches)(&g, &sum, full, to, LONG_BATCH, job, NULL, NULL, 0, NULL);
    *state = sum.state;
    if (!places) return;
    places->out = job->out.data + row * job->out.row_stride[0];
    places->first = first;
    places->last = last;
    places->terms = 0;
}

/* The results of a block whose place is known. */
static void NAME(long_results)(const softmax_job *job, const NAME(row_result) *r, const REAL *z, int count, const NAME(place_of_block) *place, REAL *y,
                               int streams, NAME(line) *line) {
    const ahead_lines ahead = {(uintptr_t)z - (uintptr_t)(LONG_AHEAD * SOFTMAX_BLOCK_COLUMNS * (int)sizeof(REAL)), LANES * sizeof(REAL)};
    const REAL magic = MAGIC + SOFTMAX_BIAS - (REAL)place->kb;
    const REAL floor_score = V(first)(NAME(zero_floors)(V(set)((REAL)place->kb), job->kind));
    const double size = place->maximum.high < 0 ? -place->maximum.high : place->maximum.high;
    NAME(factor) f;
    int equal;
    if (size < (double)WIDE_FROM && NAME(values_take)(count) && !(streams && (uintptr_t)y % 64) &&
        NAME(factor_of_block)(r, job->kind, place, &equal, &f) == FACTOR_USUAL) {
        const int calm = !equal && NAME(care_of_block)(r, &f, place, 0) == CALM;
        if (calm) NAME(leave_bias_out)(&f);
        NAME(values)(z, count, magic, floor_score, &f, ahead, y, calm, streams);
    } else {
        REAL terms[SOFTMAX_BLOCK_COLUMNS] __attribute__((aligned(64))), *v = streams ? terms : y;
        BITS high, low;
        NAME(block) block;
        if (size < (double)WIDE_FROM)
            NAME(terms)(z, NULL, count, magic, floor_score, ahead, v, job->kind, &high, &low);
        else
            NAME(block_sum)(z, count, job->kind, v, &block);
        NAME(block_results)(r, job->kind, v, count, place, y, streams, line);
    }
}

static void NAME(long_finish)(const softmax_job *job, int64_t row, int64_t first, int64_t last, const row_state *state) {
    const int streams = NAME(forward_streams)(job);
    const REAL *x = (const REAL *)(const void *)job->x.data + row * job->columns;
    const NAME(row_result) r = NAME(result_of_state)(state, job->kind, 0, job->empty_zero);
    REAL *out = NAME(row_of_results)(job, row);
    NAME(later_terms) *places = NULL;
    int known = 0;
    if (job->op == OPERATION_SOFTMAX) places = NAME(long_places_of)(&known);
    if (r.constant || !places || places->out != (char *)(void *)out || places->first != first || places->last != last || places->terms) {
        place p = place_of_row(job, row);
        NAME(forward_finish)(job, &p, first, last, state);
        return;
    }
    for (int64_t c = (last - 1) / SOFTMAX_BLOCK_COLUMNS * SOFTMAX_BLOCK_COLUMNS; c >= first; c -= SOFTMAX_BLOCK_COLUMNS) {
        const int64_t index = (c - first) / SOFTMAX_BLOCK_COLUMNS;
        const int count = NAME(block_columns)(c, last);
        NAME(place_of_block) place;
        if (index < known) {
            place = places->places[index];
        } else {
            NAME(block) block;
            NAME(block_sum)(x + c, count, job->kind, NULL, &block);
            place = NAME(place_in_row)(&block);
        }
        NAME(long_results)(job, &r, x + c, count, &place, out + c, streams, NULL);
    }
    places->out = NULL;
    if (streams) stream_end();
}

/* Whether rows, or a thread's parts of them, are so computed: those of softmax whose terms do not wait in the results' place. */
static int NAME(rows_are_long)(const softmax_job *job, int64_t first, int64_t last) {
    if (sizeof(REAL) != 4 || job->kind != ARITHMETIC_32 || job->op > OPERATION_LOGSUMEXP || last <= first) return 0;
    if (job->columns <= SOFTMAX_BLOCK_COLUMNS || job->columns > (int64_t)SOFTMAX_BLOCK_COLUMNS << 30) return 0;
    if (job->x.type != REAL_ELEMENT || !NAME(rows_are_scores)(job)) return 0;
    if (job->op == OPERATION_LOGSUMEXP) return 1;
    return job->out.type == REAL_ELEMENT && is_contiguous(&job->out) && !NAME(later_terms_of)(job, first, last);
}

static void NAME(long_row)(const softmax_job *job, int64_t row) {
    row_state state = row_state_empty();
    NAME(long_reduce)(job, row, 0, job->columns, &state);
    if (job->op == OPERATION_LOGSUMEXP)
        store_real(job->out.data + row * job->out.row_stride[0], job->out.type, row_state_logsumexp(&state, job->kind));
    else
        NAME(long_finish)(job, row, 0, job->columns, &state);
}
