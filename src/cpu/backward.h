/* The backwards of softmax and log_softmax from their outputs. A template like block.h. */

/* count elements of an operand from column `first` on, contiguous: where they are, of their *type, or gathered. */
static const void *NAME(elements)(const operand *a, const char *row, int64_t first, int count, REAL *buffer, element *type) {
    const char *address = row + first * a->column_stride;
    *type = a->type;
    if (is_contiguous(a)) return address;
    NAME(gather)(address, a->type, a->column_stride, count, buffer);
    *type = REAL_ELEMENT;
    return buffer;
}

/* The buffers are for what lies elsewhere in memory than contiguous. */
static void NAME(fetch_backward)(const softmax_job *job, const place *p, int64_t first, int count, REAL *y_buffer, REAL *dy_buffer, backward_terms *b) {
    const char *y_row = row_address(job, &job->x, p), *dy_row = row_address(job, &job->dy, p);
    element dy_type;
    b->count = count;
    b->y = NAME(elements)(&job->x, y_row, first, count, y_buffer, &b->type);
    b->dy = NAME(elements)(&job->dy, dy_row, first, count, dy_buffer, &dy_type);
    if (b->type == dy_type) return;
    if (b->type != REAL_ELEMENT) { /* one of them was gathered: so must the other be */
        NAME(gather)(b->y, b->type, element_bytes(b->type), count, y_buffer);
        b->y = y_buffer;
        b->type = REAL_ELEMENT;
    } else {
        NAME(gather)(b->dy, dy_type, element_bytes(dy_type), count, dy_buffer);
        b->dy = dy_buffer;
    }
}

#define AHEAD_LEAST (2 * SOFTMAX_BLOCK_COLUMNS * (int)sizeof(REAL))
#define AHEAD_MOST 16384

/* How far beyond what is read now to fetch: two blocks; the next row, where that is farther, up to a limit. */
static int64_t NAME(bytes_ahead)(const softmax_job *job) {
    int64_t bytes = job->columns * element_bytes(job->x.type);
    return bytes < AHEAD_LEAST ? AHEAD_LEAST : bytes > AHEAD_MOST ? AHEAD_MOST : bytes;
}

/* How a row's y and dy become dx. */
typedef struct NAME(slope) {
    int of_log;
    int calm; /* of_log: all is in the middle of the range (backward_sum.h) */
    int is_large; /* dy - sum might overflow where y (dy - sum) does not */
    REAL quarter; /* of the sum */
    VECTOR minus_sum;
    VECTOR minus_low;
    VECTOR magic; /* of_log: e^y 2^e by the terms' arithmetic, where sum = s 2^e, 1 <= |s| < 2 */
    VECTOR floors;
    VECTOR caps; /* only beyond e^y sum = 2^SUM_EXPONENT, which no log-probability reaches */
} NAME(slope);

static NAME(slope) NAME(slope_of)(pair sum, int of_log) {
    int64_t e = of_log ? exponent_of(sum.hi) : 0;
    NAME(slope) s;
    REAL hi, lo, kb;
    e = e > SUM_EXPONENT ? SUM_EXPONENT : e < -SUM_EXPONENT ? -SUM_EXPONENT : e;
    hi = (REAL)scale_by_power(sum.hi, -e);
    lo = (REAL)((scale_by_power(sum.hi, -e) - (double)hi) + scale_by_power(sum.lo, -e));
    kb = (REAL)(SOFTMAX_BIAS - e);
    s.of_log = of_log;
    s.calm = sizeof(REAL) == 4 && of_log && e >= -20 && e <= 100;
    s.is_large = !of_log && (sum.hi >= NEARLY_LARGEST || -sum.hi >= NEARLY_LARGEST);
    s.quarter = s.is_large ? (REAL)(sum.hi * 0.25) : 0;
    s.minus_sum = V(set)(-hi);
    s.minus_low = V(set)(-lo);
    s.magic = V(set)(MAGIC + SOFTMAX_BIAS - kb);
    s.floors = V(set)(NAME(term_floor)(kb));
    s.caps = V(set)((kb + SUM_EXPONENT) * (REAL)0.693);
    return s;
}

/* softmax: y (dy - hi) - y lo; log_softmax: dy - e^y sum; +0 below the smallest normal and where y is 0 (-inf) */
static ALWAYS_INLINE VECTOR NAME(gradient_of)(const NAME(slope) *s, VECTOR y, VECTOR dy, int of_log) {
    const VECTOR limit = V(set)(SMALLEST_NORMAL);
    if (of_log) {
        INTEGERS unused1 = I(zero)(), unused2 = I(zero)();
        VECTOR v = NAME(term_vector)(V(max)(V(min)(y, s->caps), s->floors), V(set)(0), s->magic, ARITHMETIC_32, &unused1, &unused2);
        v = V(keep_from)(y, s->floors, v);
        dy = V(keep_from)(y, V(set)(-LARGEST), V(fma)(v, s->minus_sum, V(fma)(v, s->minus_low, dy)));
        return V(unbias)(dy, limit, 0);
    }
    return V(unbias)(V(fma)(y, V(add)(dy, s->minus_sum), V(mul)(y, s->minus_low)), limit, 0);
}

/* Fewer columns than a vector. */
static void NAME(gradient_rest)(const NAME(slope) *s, const backward_terms *b, int i, int end, void *dx, element out) {
    VECTOR y = NAME(load_rest)(b->y, b->type, i, end), dy = NAME(load_rest)(b->dy, b->type, i, end);
    NAME(store_rest)(dx, out, i, end, s->of_log ? NAME(gradient_of)(s, y, dy, 1) : NAME(gradient_of)(s, y, dy, 0));
}

static ALWAYS_INLINE void NAME(gradient_typed)(const NAME(slope) *slope, const backward_terms *b, element type, void *dx, element out,
                                               int of_log, int stream) {
    const NAME(slope) copy = *slope, *s = &copy; /* which dx cannot be */
    const int count = b->count;
    int i = stream ? until_aligned(dx, element_bytes(out), LANES, count) : 0;
    if (i > 0) NAME(gradient_rest)(s, b, 0, i, dx, out);
    for (; i + 2 * LANES <= count; i += 2 * LANES) { /* two at a time: the chain of operations is longer than the processor's window */
        VECTOR u = NAME(gradient_of)(s, NAME(load_elements)(b->y, type, i), NAME(load_elements)(b->dy, type, i), of_log);
        VECTOR v = NAME(gradient_of)(s, NAME(load_elements)(b->y, type, i + LANES), NAME(load_elements)(b->dy, type, i + LANES), of_log);
        NAME(store_elements)(dx, out, i, u, stream);
        NAME(store_elements)(dx, out, i + LANES, v, stream);
    }
    for (; i < count; i += LANES) {
        if (i + LANES <= count)
            NAME(store_elements)(dx, out, i, NAME(gradient_of)(s, NAME(load_elements)(b->y, type, i), NAME(load_elements)(b->dy, type, i), of_log), 0);
        else
            NAME(gradient_rest)(s, b, i, count, dx, out);
    }
}

/* Where all is in the middle of the range; 0: there is no such form. */
static int NAME(calm_gradient)(const NAME(slope) *s, const backward_terms *b, REAL *dx, int stream) {
    const REAL *y = (const REAL *)b->y, *dy = (const REAL *)b->dy;
    const int head = stream ? until_aligned(dx, sizeof(REAL), LANES, b->count) : 0, whole = (b->count - head) / LANES * LANES;
    if (!NAME(values_take)(whole)) return 0;
    if (head > 0) NAME(gradient_rest)(s, b, 0, head, dx, REAL_ELEMENT);
    NAME(log_gradients)(y + head, dy + head, whole, s->magic, s->minus_sum, s->minus_low, dx + head, stream, NULL, NULL);
    if (head + whole < b->count) NAME(gradient_rest)(s, b, head + whole, b->count, dx, REAL_ELEMENT);
    return 1;
}

static void NAME(large_gradient)(const NAME(slope) *s, const backward_terms *b, void *dx, element out) {
    REAL result[LANES], y[LANES], dy[LANES];
    const int count = b->count;
    for (int i = 0; i < count; i += LANES) {
        int n = count - i < LANES ? count - i : LANES;
        V(store)(y, NAME(load_rest)(b->y, b->type, i, i + n));
        V(store)(dy, NAME(load_rest)(b->dy, b->type, i, i + n));
        for (int j = 0; j < LANES; j++) {
            REAL each = 4 * (y[j] * (dy[j] * (REAL)0.25 - s->quarter));
            result[j] = each >= SMALLEST_NORMAL || -each >= SMALLEST_NORMAL ? each : 0;
        }
        NAME(store_rest)(dx, out, i, i + n, V(load)(result));
    }
}

static void NAME(block_gradient)(const NAME(slope) *s, const backward_terms *b, void *dx, element out, int stream) {
    /* constants to the loop, so that each combination gets its own */
#define GRADIENT(its_type, its_out)                                          \
    (s->of_log ? stream ? NAME(gradient_typed)(s, b, its_type, dx, its_out, 1, 1)  \
                        : NAME(gradient_typed)(s, b, its_type, dx, its_out, 1, 0)  \
     : stream  ? NAME(gradient_typed)(s, b, its_type, dx, its_out, 0, 1)  \
               : NAME(gradient_typed)(s, b, its_type, dx, its_out, 0, 0))
    if (s->calm && b->type == REAL_ELEMENT && out == REAL_ELEMENT && NAME(calm_gradient)(s, b, (REAL *)dx, stream)) return;
    if (s->is_large)
        NAME(large_gradient)(s, b, dx, out);
    else if (b->type == REAL_ELEMENT && out == REAL_ELEMENT)
        GRADIENT(REAL_ELEMENT, REAL_ELEMENT);
    else if (b->type == ELEMENT_BFLOAT16 && out == ELEMENT_BFLOAT16)
        GRADIENT(ELEMENT_BFLOAT16, ELEMENT_BFLOAT16);
    else if (b->type == ELEMENT_FLOAT16 && out == ELEMENT_FLOAT16)
        GRADIENT(ELEMENT_FLOAT16, ELEMENT_FLOAT16);
    else
        GRADIENT(b->type, out);
#undef GRADIENT
}

/* A block's gradient in one loop with the search for the next one's largest term; 0: there is no such form. */
static int NAME(gradient_and_search)(const NAME(slope) *s, uint32_t flags, const backward_terms *b, void *dx, int stream, const backward_terms *next,
                                     float_terms *found) {
    const REAL *y = (const REAL *)b->y, *dy = (const REAL *)b->dy;
    if (sizeof(REAL) != 4 || flags & STATE_NAN || b->type != REAL_ELEMENT || next->type != REAL_ELEMENT || next->count != b->count) return 0;
    if (b->count % LANES || (stream && (uintptr_t)dx % 64) || s->is_large || (s->of_log && !(s->calm && NAME(values_take)(b->count)))) return 0;
    if (s->of_log)
        NAME(log_gradients)(y, dy, b->count, s->magic, s->minus_sum, s->minus_low, (REAL *)dx, stream, next, found);
    else
        NAME(softmax_gradients)(y, dy, b->count, s->minus_sum, s->minus_low, (REAL *)dx, stream, next, found);
    return 1;
}

/* Results go past the caches, but for lines that are there already. */
static int NAME(backward_streams)(const softmax_job *job) {
    return is_contiguous(&job->out) && job->out.data != job->x.data && job->out.data != job->dy.data && softmax_cpu_streams(job);
}

/* dx of columns [first, last); flags: of the row's sum. */
static void NAME(backward_gradient)(const softmax_job *job, const place *p, int64_t first, int64_t last, const NAME(slope) *s, uint32_t flags,
                                    int stream) {
    char *out = row_address(job, &job->out, p);
    backward_terms b;
    REAL y_buffer[SOFTMAX_BLOCK_COLUMNS], dy_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    if (flags & STATE_NAN) {
        NAME(fill)(&job->out, out, first, last, (REAL)NAN);
        return;
    }
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, last);
        char *to = out + c * job->out.column_stride;
        NAME(fetch_backward)(job, p, c, count, y_buffer, dy_buffer, &b);
        if (is_contiguous(&job->out)) {
            NAME(block_gradient)(s, &b, to, job->out.type, stream);
        } else {
            NAME(block_gradient)(s, &b, results, REAL_ELEMENT, 0);
            NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
        }
    }
}

/* A row whose results are still to be written. */
typedef struct NAME(late_row) {
    place p;
    NAME(slope) slope;
    uint32_t flags; /* of its sum */
} NAME(late_row);

/* The gradient of the row before from column c on, with the search of the next one's block; 0: there is no such form. */
static int NAME(gradient_in_turn)(const softmax_job *job, const NAME(late_row) *before, int64_t c, const backward_terms *next, float_terms *found) {
    const backward_terms b = {row_address(job, &job->x, &before->p) + c * (int64_t)sizeof(REAL), row_address(job, &job->dy, &before->p) + c * (int64_t)sizeof(REAL),
                              REAL_ELEMENT, next->count, SUMMED_DY, 1, 0};
    if (job->x.type != REAL_ELEMENT || job->dy.type != REAL_ELEMENT || job->out.type != REAL_ELEMENT) return 0;
    if (!is_contiguous(&job->x) || !is_contiguous(&job->dy) || !is_contiguous(&job->out)) return 0;
    return NAME(gradient_and_search)(&before->slope, before->flags, &b, row_address(job, &job->out, &before->p) + c * (int64_t)sizeof(REAL), 1, next, found);
}

/* sum of dy y (softmax), or of dy where y is not -inf (log_softmax), over columns [first, last); in turn with the results of the row before (NULL:
 * none), for many stores past the caches at a time would be waited for. */
static void NAME(reduce_in_turn)(const softmax_job *job, const place *p, int64_t first, int64_t last, const NAME(late_row) *before,
                                 row_partial *partial) {
    REAL y_buffer[2][SOFTMAX_BLOCK_COLUMNS], dy_buffer[2][SOFTMAX_BLOCK_COLUMNS];
    backward_terms b[2];
    float_terms found;
    const int of_log = job->op == OPERATION_LOG_SOFTMAX_BACKWARD;
    int64_t ahead = NAME(bytes_ahead)(job);
    int now = 0;
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS, now ^= 1) {
        int count = NAME(block_columns)(c, last);
        NAME(fetch_backward)(job, p, c, count, y_buffer[now], dy_buffer[now], &b[now]);
        if (before && NAME(gradient_in_turn)(job, before, c, &b[now], &found)) {
            take_largest(&b[now], &found, of_log, &partial->flags);
        } else {
            if (before) NAME(backward_gradient)(job, &before->p, c, c + count, &before->slope, before->flags, 1);
            NAME(find_largest)(&b[now], of_log, &partial->flags);
        }
        if (c > first) NAME(add_block)(&b[now ^ 1], ahead, &partial->sum, &partial->flags);
    }
    if (first < last) NAME(add_block)(&b[now ^ 1], ahead, &partial->sum, &partial->flags);
}

static void NAME(backward_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_partial *partial) {
    NAME(reduce_in_turn)(job, p, first, last, NULL, partial);
}

static NAME(slope) NAME(slope_of_row)(const softmax_job *job, const row_partial *partial) {
    NAME(slope) s = NAME(slope_of)(accumulator_read(&partial->sum, 0), job->op == OPERATION_LOG_SOFTMAX_BACKWARD);
    s.calm &= !(partial->flags & BACKWARD_CAREFUL);
    return s;
}

static void NAME(backward_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_partial *partial) {
    NAME(slope) s = NAME(slope_of_row)(job, partial);
    int stream = NAME(backward_streams)(job);
    NAME(backward_gradient)(job, p, first, last, &s, partial->flags, stream);
    if (stream) stream_end();
}

/* Whether rows of one block each are worked on in turn: float32, contiguous. */
static int NAME(rows_go_in_turn)(const softmax_job *job) {
    if (sizeof(REAL) != 4 || job->columns < 1 || job->columns > SOFTMAX_BLOCK_COLUMNS || job->dimensions != 1) return 0;
    if (job->x.type != REAL_ELEMENT || job->dy.type != REAL_ELEMENT || job->out.type != REAL_ELEMENT) return 0;
    return is_contiguous(&job->x) && is_contiguous(&job->dy) && is_contiguous(&job->out);
}

/* The only block of a row. */
static backward_terms NAME(terms_of_row)(const softmax_job *job, int64_t row) {
    const backward_terms b = {job->x.data + row * job->x.row_stride[0], job->dy.data + row * job->dy.row_stride[0], REAL_ELEMENT, (int)job->columns,
                              SUMMED_DY, 1, 0};
    return b;
}

/* Rows [first, last): a row's results and the search for the next one's largest term in one loop. */
static void NAME(rows_in_turn)(const softmax_job *job, int64_t first, int64_t last, int stream) {
    const int64_t ahead = NAME(bytes_ahead)(job);
    const int of_log = job->op == OPERATION_LOG_SOFTMAX_BACKWARD;
    float_terms found;
    int known = 0; /* found is of this row */
    for (int64_t row = first; row < last; row++) {
        backward_terms b = NAME(terms_of_row)(job, row);
        const backward_terms next = NAME(terms_of_row)(job, row + 1 < last ? row + 1 : row);
        char *out = job->out.data + row * job->out.row_stride[0];
        row_partial partial;
        NAME(slope) s;
        partial.sum = accumulator_empty();
        partial.flags = 0;
        if (known)
            take_largest(&b, &found, of_log, &partial.flags);
        else
            NAME(find_largest)(&b, of_log, &partial.flags);
        NAME(add_block)(&b, ahead, &partial.sum, &partial.flags);
        s = NAME(slope_of_row)(job, &partial);
        known = row + 1 < last && NAME(gradient_and_search)(&s, partial.flags, &b, out, stream, &next, &found);
        if (known) continue;
        if (partial.flags & STATE_NAN)
            NAME(fill)(&job->out, out, 0, job->columns, (REAL)NAN);
        else
            NAME(block_gradient)(&s, &b, out, REAL_ELEMENT, stream);
    }
}

#define LATE_BYTES 131072 /* of y: as much of dy, and both again, stay in a second-level cache */

/* Rows [first, last). */
static void NAME(backward_rows)(const softmax_job *job, int64_t first, int64_t last) {
    NAME(late_row) row[2];
    int stream = NAME(backward_streams)(job), waits = 0, now = 0;
    int late = stream && job->columns > SOFTMAX_BLOCK_COLUMNS && job->columns * element_bytes(job->x.type) <= LATE_BYTES;
    if (NAME(rows_go_in_turn)(job)) {
        NAME(rows_in_turn)(job, first, last, stream);
        if (stream) stream_end();
        return;
    }
    for (int64_t r = first; r < last; r++, now ^= 1) {
        row_partial partial;
        row[now].p = place_of_row(job, r);
        partial.sum = accumulator_empty();
        partial.flags = 0;
        NAME(reduce_in_turn)(job, &row[now].p, 0, job->columns, waits ? &row[now ^ 1] : NULL, &partial);
        row[now].slope = NAME(slope_of_row)(job, &partial);
        row[now].flags = partial.flags;
        waits = late;
        if (!late) NAME(backward_gradient)(job, &row[now].p, 0, job->columns, &row[now].slope, partial.flags, stream);
    }
    if (waits) NAME(backward_gradient)(job, &row[now ^ 1].p, 0, job->columns, &row[now ^ 1].slope, row[now ^ 1].flags, stream);
    if (stream) stream_end();
}
