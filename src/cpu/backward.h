/* The backwards of softmax and log_softmax from their outputs. A template like block.h. */

/* count elements of an operand from column `first` on: where they are, or gathered. */
static const REAL *NAME(elements)(const operand *a, const char *row, int64_t first, int count, REAL *buffer) {
    const char *address = row + first * a->column_stride;
    if (a->type == REAL_ELEMENT && is_contiguous(a)) return (const REAL *)(const void *)address;
    NAME(gather)(address, a->type, a->column_stride, count, buffer);
    return buffer;
}

/* sum of dy y (softmax), or of dy where y is not -inf (log_softmax), over columns [first, last). */
static void NAME(backward_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_partial *partial) {
    const char *y_row = row_address(job, &job->x, p), *dy_row = row_address(job, &job->dy, p);
    REAL y_buffer[SOFTMAX_BLOCK_COLUMNS], dy_buffer[SOFTMAX_BLOCK_COLUMNS];
    double hi[SOFTMAX_BLOCK_COLUMNS], lo[SOFTMAX_BLOCK_COLUMNS];
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, last), bad = 0;
        const REAL *y = NAME(elements)(&job->x, y_row, c, count, y_buffer);
        const REAL *dy = NAME(elements)(&job->dy, dy_row, c, count, dy_buffer);
        if (job->op == OPERATION_SOFTMAX_BACKWARD) {
            for (int i = 0; i < count; i++) {
                bad |= !(y[i] - y[i] == 0) | !(dy[i] - dy[i] == 0);
                hi[i] = (double)dy[i] * (double)y[i]; /* floats: exact */
                lo[i] = LOW_PRODUCT(dy[i], y[i], hi[i]);
            }
        } else {
            for (int i = 0; i < count; i++) {
                bad |= (y[i] != y[i]) | (y[i] > LARGEST) | !(dy[i] - dy[i] == 0);
                hi[i] = y[i] >= -LARGEST ? (double)dy[i] : 0.0;
                lo[i] = 0.0;
            }
        }
        if (bad) partial->flags |= STATE_NAN;
        sum_exactly(hi, sizeof(REAL) == 4 ? NULL : lo, count, &partial->sum, &partial->flags);
    }
}

/* dx = y (dy - hi) - y lo, +0 below the smallest normal and where y = 0 */
static void NAME(softmax_gradient)(const REAL *y, const REAL *dy, int count, pair sum, REAL *dx) {
    REAL hi = (REAL)sum.hi, lo = (REAL)((sum.hi - (double)hi) + sum.lo);
    VECTOR h = V(set)(hi), l = V(set)(-lo), limit = V(set)(SMALLEST_NORMAL);
    if (sum.hi >= NEARLY_LARGEST || -sum.hi >= NEARLY_LARGEST) { /* dy - hi might overflow where y (dy - hi) does not */
        const REAL quarter = (REAL)0.25;
        hi = (REAL)(sum.hi * 0.25);
        for (int i = 0; i < count; i++) {
            REAL b = 4 * (y[i] * (dy[i] * quarter - hi));
            dx[i] = b >= SMALLEST_NORMAL || -b >= SMALLEST_NORMAL ? b : 0;
        }
        return;
    }
    for (int i = 0; i < count; i += LANES) {
        int whole = i + LANES <= count;
        VECTOR a = whole ? V(load)(y + i) : V(load_part)(y + i, count - i, 0), b = whole ? V(load)(dy + i) : V(load_part)(dy + i, count - i, 0);
        b = V(unbias)(V(fma)(a, V(sub)(b, h), V(mul)(a, l)), limit, 0);
        if (whole)
            V(store)(dx + i, b);
        else
            V(store_part)(dx + i, count - i, b);
    }
}

/* dx = dy - e^y sum: e^y 2^e by the terms' arithmetic, where sum = s 2^e, 1 <= |s| < 2. */
static void NAME(log_softmax_gradient)(const REAL *y, const REAL *dy, int count, pair sum, REAL *dx) {
    int64_t e = exponent_of(sum.hi);
    REAL hi, lo, kb, floor_score;
    VECTOR h, l, magic, floors, caps, limit = V(set)(SMALLEST_NORMAL), zero = V(set)(0), none = V(set)(-LARGEST);
    INTEGERS unused1 = I(zero)(), unused2 = I(zero)();
    e = e > SUM_EXPONENT ? SUM_EXPONENT : e < -SUM_EXPONENT ? -SUM_EXPONENT : e;
    hi = (REAL)scale_by_power(sum.hi, -e);
    lo = (REAL)((scale_by_power(sum.hi, -e) - (double)hi) + scale_by_power(sum.lo, -e));
    kb = (REAL)(SOFTMAX_BIAS - e);
    floor_score = NAME(term_floor)(kb);
    h = V(set)(-hi);
    l = V(set)(-lo);
    magic = V(set)(MAGIC + SOFTMAX_BIAS - kb);
    floors = V(set)(floor_score);
    caps = V(set)((kb + SUM_EXPONENT) * (REAL)0.693); /* only beyond e^y sum = 2^SUM_EXPONENT, which no log-probability reaches */
    for (int i = 0; i < count; i += LANES) {
        int whole = i + LANES <= count;
        VECTOR a = whole ? V(load)(y + i) : V(load_part)(y + i, count - i, 0), b = whole ? V(load)(dy + i) : V(load_part)(dy + i, count - i, 0);
        VECTOR v = NAME(term_vector)(V(max)(V(min)(a, caps), floors), zero, magic, ARITHMETIC_32, &unused1, &unused2);
        v = V(keep_from)(a, floors, v);
        b = V(keep_from)(a, none, V(fma)(v, h, V(fma)(v, l, b)));
        b = V(unbias)(b, limit, 0);
        if (whole)
            V(store)(dx + i, b);
        else
            V(store_part)(dx + i, count - i, b);
    }
}

static void NAME(backward_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_partial *partial) {
    const char *y_row = row_address(job, &job->x, p), *dy_row = row_address(job, &job->dy, p);
    char *out = row_address(job, &job->out, p);
    REAL y_buffer[SOFTMAX_BLOCK_COLUMNS], dy_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    pair sum = accumulator_read(&partial->sum, 0);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out);
    if (partial->flags) {
        NAME(fill)(&job->out, out, first, last, (REAL)NAN);
        return;
    }
    for (int64_t c = first; c < last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, last);
        const REAL *y = NAME(elements)(&job->x, y_row, c, count, y_buffer);
        const REAL *dy = NAME(elements)(&job->dy, dy_row, c, count, dy_buffer);
        char *to = out + c * job->out.column_stride;
        REAL *dx = direct ? (REAL *)(void *)to : results;
        if (job->op == OPERATION_SOFTMAX_BACKWARD)
            NAME(softmax_gradient)(y, dy, count, sum, dx);
        else
            NAME(log_softmax_gradient)(y, dy, count, sum, dx);
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
}

static void NAME(backward_row)(const softmax_job *job, const place *p) {
    row_partial partial;
    partial.sum = accumulator_empty();
    partial.flags = 0;
    NAME(backward_reduce)(job, p, 0, job->columns, &partial);
    NAME(backward_finish)(job, p, 0, job->columns, &partial);
}
