/* The scores of a block: fetched, through softcap, scale, bias and masks. A template like block.h. */

#if !defined(SCALED_COLUMNS)
#define SCALED_COLUMNS 128
#endif

/* One row as its blocks are read: where its arrays begin and how many of its columns are seen. */
typedef struct NAME(source) {
    const softmax_job *job;
    const char *x;
    const char *bias;
    const char *mask;
    int64_t limit; /* columns at or beyond it are masked out */
    int plain;     /* no softcap, scale or bias: scores are the elements themselves */
    int direct;    /* they need not even be moved */
    REAL scale_hi; /* scale = scale_hi + scale_lo */
    REAL scale_lo;
} NAME(source);

static NAME(source) NAME(source_of_row)(const softmax_job *job, const place *p) {
    NAME(source) s;
    int64_t limit = job->columns;
    s.job = job;
    s.x = row_address(job, &job->x, p);
    s.bias = row_address(job, &job->bias, p);
    s.mask = row_address(job, &job->mask, p);
    if (job->lengths.data) {
        int64_t length = load_integer(row_address(job, &job->lengths, p), job->lengths.type);
        length = length < job->first_column ? 0 : length - job->first_column;
        if (length < limit) limit = length;
    }
    if (job->causal) {
        int64_t seen, i = p->coordinate[job->query_dimension];
        /* i + offset + 1 - first_column, and no overflow */
        if (__builtin_add_overflow(i, job->causal_offset, &seen)) seen = job->causal_offset > 0 ? INT64_MAX - 1 : INT64_MIN;
        if (seen == INT64_MAX) seen--;
        if (__builtin_sub_overflow(seen + 1, job->first_column, &seen)) seen = INT64_MIN;
        if (seen < limit) limit = seen;
    }
    s.limit = limit < 0 ? 0 : limit;
    s.plain = job->softcap == 0.0 && job->scale == 1.0 && !s.bias;
    s.direct = s.plain && !s.mask && job->x.type == REAL_ELEMENT && is_contiguous(&job->x);
    s.scale_hi = (REAL)job->scale;
    s.scale_lo = (REAL)(job->scale - (double)s.scale_hi);
    return s;
}

/* scale z + bias of one column as hi + lo. A bias of -inf masks out, whatever the score is. Infinities and NaN stand alone (lo = 0); what is
 * beyond REAL's range is taken at its end.
 * *trouble: finite parts, a sum that is not. Without branches, for the compiler to make vectors of. */
static ALWAYS_INLINE void NAME(scaled)(REAL given, REAL b, int has_bias, REAL scale_hi, REAL scale_lo, REAL *z, REAL *low, int *trouble) {
    REAL hi = given * scale_hi, lo = FMA(given, scale_hi, -hi), s;
    int finite, masked = b == -(REAL)INFINITY;
    lo = FMA(given, scale_lo, lo);
    if (has_bias) {
        REAL sum = hi + b, t = sum - hi;
        lo += (hi - (sum - t)) + (b - t);
        hi = sum;
    }
    s = hi + lo;
    finite = s - s == 0;
    *z = masked ? -(REAL)INFINITY : finite ? s : hi;
    *low = finite ? lo - (s - hi) : 0;
    *trouble |= !finite & (given - given == 0) & (b - b == 0);
}

/* Of finite parts a sum beyond REAL's range; and scale 0, which leaves infinities: -inf masks out. */
static void NAME(scale_in_trouble)(const REAL *given, const REAL *bias, int count, REAL scale_hi, REAL scale_lo, REAL *z, REAL *low) {
    for (int i = 0; i < count; i++) {
        REAL x = given[i], b = bias ? bias[i] : 0;
        int trouble = 0;
        NAME(scaled)(x, b, bias != NULL, scale_hi, scale_lo, &z[i], &low[i], &trouble);
        if (trouble)
            z[i] = z[i] > 0 ? LARGEST : -LARGEST;
        else if (scale_hi == 0 && x == x && x - x != 0 && b - b == 0)
            z[i] = x;
    }
}

/* Scores and low parts of at most SOFTMAX_BLOCK_COLUMNS columns, in place. */
static void NAME(scale_and_bias)(REAL *z, REAL *low, int count, REAL scale_hi, REAL scale_lo, const REAL *bias) {
    REAL s[SCALED_COLUMNS];
    for (; count > 0; count -= SCALED_COLUMNS, z += SCALED_COLUMNS, low += SCALED_COLUMNS) {
        int n = count < SCALED_COLUMNS ? count : SCALED_COLUMNS, trouble = scale_hi == 0;
        if (bias)
            for (int i = 0; i < n; i++) NAME(scaled)(z[i], bias[i], 1, scale_hi, scale_lo, &s[i], &low[i], &trouble);
        else
            for (int i = 0; i < n; i++) NAME(scaled)(z[i], 0, 0, scale_hi, scale_lo, &s[i], &low[i], &trouble);
        if (trouble) NAME(scale_in_trouble)(z, bias, n, scale_hi, scale_lo, s, low);
        memcpy(z, s, (size_t)n * sizeof(REAL));
        if (bias) bias += SCALED_COLUMNS;
    }
}

/* The scores of columns whose mask is zero become -inf, low parts (NULL: none) 0. */
static void NAME(mask_out)(const char *mask, int64_t stride, int count, REAL *z, REAL *low) {
    if (stride == 1) { /* a loop for the compiler to make vectors of */
        for (int i = 0; i < count; i++) z[i] = mask[i] ? z[i] : -(REAL)INFINITY;
        if (low)
            for (int i = 0; i < count; i++) low[i] = mask[i] ? low[i] : 0;
        return;
    }
    for (int i = 0; i < count; i++, mask += stride) {
        if (*mask) continue;
        z[i] = -(REAL)INFINITY;
        if (low) low[i] = 0;
    }
}

/* Scores of columns [first, first + count): contiguous, in `buffer` or where they are; *low is NULL when every low part is 0. */
static const REAL *NAME(scores)(const NAME(source) *s, int64_t first, int count, REAL *buffer, REAL *low_buffer, const REAL **low) {
    const softmax_job *job = s->job;
    const char *x = s->x + first * job->x.column_stride;
    int64_t seen = s->limit - first;
    *low = NULL;
    if (s->direct && seen >= count) return (const REAL *)(const void *)x;
    NAME(gather)(x, job->x.type, job->x.column_stride, count, buffer);
    if (job->softcap != 0.0) NAME(softcap_scores)(buffer, count, job->softcap);
    if (job->scale != 1.0 || s->bias) {
        REAL bias[SOFTMAX_BLOCK_COLUMNS];
        if (s->bias) NAME(gather)(s->bias + first * job->bias.column_stride, job->bias.type, job->bias.column_stride, count, bias);
        NAME(scale_and_bias)(buffer, low_buffer, count, s->scale_hi, s->scale_lo, s->bias ? bias : NULL);
        *low = low_buffer;
    }
    if (s->mask) NAME(mask_out)(s->mask + first * job->mask.column_stride, job->mask.column_stride, count, buffer, *low ? low_buffer : NULL);
    for (int i = seen < 0 ? 0 : (int)(seen < count ? seen : count); i < count; i++) {
        buffer[i] = -(REAL)INFINITY;
        if (*low) low_buffer[i] = 0;
    }
    return buffer;
}
