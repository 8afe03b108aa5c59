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
    int through;   /* the same but for a mask, through which they are seen */
    REAL scale_hi; /* scale = scale_hi + scale_lo */
    REAL scale_lo;
    int is_wild;   /* the scale is outside of what pairs of REAL are right for */
    int64_t at;    /* the columns that were read last begin here */
    int doubtful;  /* ... and some score among them is not known as a pair */
} NAME(source);

/* Columns at or beyond it are masked out of a row. */
static int64_t NAME(limit_of_row)(const softmax_job *job, const place *p) {
    int64_t limit = job->columns;
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
    return limit < 0 ? 0 : limit;
}

static NAME(source) NAME(source_of_row)(const softmax_job *job, const place *p) {
    NAME(source) s;
    s.job = job;
    s.x = row_address(job, &job->x, p);
    s.bias = row_address(job, &job->bias, p);
    s.mask = row_address(job, &job->mask, p);
    s.limit = NAME(limit_of_row)(job, p);
    s.plain = job->softcap == 0.0 && job->scale == 1.0 && !s.bias;
    s.direct = s.plain && !s.mask && job->x.type == REAL_ELEMENT && is_contiguous(&job->x);
    s.through = s.plain && s.mask && job->x.type == REAL_ELEMENT && is_contiguous(&job->x) && job->mask.column_stride == 1;
    s.scale_hi = (REAL)job->scale;
    s.scale_lo = (REAL)(job->scale - (double)s.scale_hi);
    s.is_wild = sizeof(REAL) == 4 && score_scale_is_wild(job->scale);
    s.at = 0;
    s.doubtful = 0;
    return s;
}

/* scale z + bias of one column as hi + lo. A bias of -inf masks out, whatever the score is. Infinities and NaN stand alone (lo = 0).
 * *doubt: not what the pair should be, for the product is large and most of it cancels, or for finite parts have a sum that is not: exact_block.h
 * computes such blocks. Without branches, for the compiler to make vectors of. */
static ALWAYS_INLINE void NAME(scaled)(REAL given, REAL b, int has_bias, REAL scale_hi, REAL scale_lo, REAL *z, REAL *low, int *doubt) {
    REAL hi = given * scale_hi, lo = FMA(given, scale_hi, -hi), size = NAME(size_of)(hi), s;
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
    if (has_bias) {
        s = finite ? s : 0; /* a product beyond the range is large, but for one of an infinity */
        *doubt |= FMA(given, 0, (REAL)0.75 * size - NAME(size_of)(s)) > CANCELLED_LIMIT;
    } else {
        *doubt |= !finite & (given - given == 0);
    }
}

/* The score of one column where no pair is right: a finite one is somewhere in REAL's range; of infinities scale 0 leaves -inf, which masks out. */
static REAL NAME(wild_score)(REAL given, REAL b, double scale) {
    double z = (double)given * scale + (double)b;
    if (b == -(REAL)INFINITY) return b;
    if (scale == 0.0 && given == given && given - given != 0 && b - b == 0) return given;
    if (given - given != 0 || b - b != 0) return (REAL)z;
    return z > (double)LARGEST ? LARGEST : z < -(double)LARGEST ? -LARGEST : z == z ? (REAL)z : 0;
}

/* Scores and low parts of at most SOFTMAX_BLOCK_COLUMNS columns, in place; returns whether some are doubtful. */
static int NAME(scale_and_bias)(const NAME(source) *source, REAL *z, REAL *low, int count, const REAL *bias) {
    const REAL scale_hi = source->scale_hi, scale_lo = source->scale_lo;
    REAL s[SCALED_COLUMNS];
    int doubtful = source->is_wild;
    for (; count > 0; count -= SCALED_COLUMNS, z += SCALED_COLUMNS, low += SCALED_COLUMNS) {
        int n = count < SCALED_COLUMNS ? count : SCALED_COLUMNS, doubt = 0;
        if (bias)
            for (int i = 0; i < n; i++) NAME(scaled)(z[i], bias[i], 1, scale_hi, scale_lo, &s[i], &low[i], &doubt);
        else
            for (int i = 0; i < n; i++) NAME(scaled)(z[i], 0, 0, scale_hi, scale_lo, &s[i], &low[i], &doubt);
        doubtful |= doubt;
        if (doubtful || scale_hi == 0)
            for (int i = 0; i < n; i++)
                if (source->is_wild || !(s[i] - s[i] == 0)) s[i] = NAME(wild_score)(z[i], bias ? bias[i] : 0, source->job->scale);
        memcpy(z, s, (size_t)n * sizeof(REAL));
        if (bias) bias += SCALED_COLUMNS;
    }
    return doubtful;
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

/* The columns that were read last: what scale is multiplied with, and the bias. */
static void NAME(parts_of_scores)(const NAME(source) *s, int count, REAL *x, REAL *bias) {
    const softmax_job *job = s->job;
    NAME(gather)(s->x + s->at * job->x.column_stride, job->x.type, job->x.column_stride, count, x);
    if (job->softcap != 0.0) NAME(softcap_scores)(x, count, job->softcap);
    if (s->bias)
        NAME(gather)(s->bias + s->at * job->bias.column_stride, job->bias.type, job->bias.column_stride, count, bias);
    else
        memset(bias, 0, (size_t)count * sizeof(REAL));
}

/* Whether a column that takes part is among the doubtful ones. */
static NOINLINE int NAME(doubt_remains)(const NAME(source) *s, const REAL *z, int count) {
    REAL x[SOFTMAX_BLOCK_COLUMNS], bias[SOFTMAX_BLOCK_COLUMNS], any, low;
    int doubt = s->is_wild;
    NAME(parts_of_scores)(s, count, x, bias);
    for (int i = 0; i < count; i++)
        if (z[i] != -(REAL)INFINITY) NAME(scaled)(x[i], bias[i], s->bias != NULL, s->scale_hi, s->scale_lo, &any, &low, &doubt);
    return doubt;
}

/* Scores of columns [first, first + count): contiguous, in `buffer` or where they are; *low is NULL when every low part is 0. */
static const REAL *NAME(scores)(NAME(source) *s, int64_t first, int count, REAL *buffer, REAL *low_buffer, const REAL **low) {
    const softmax_job *job = s->job;
    const char *x = s->x + first * job->x.column_stride;
    int64_t seen = s->limit - first;
    *low = NULL;
    s->at = first;
    s->doubtful = 0;
    if (s->direct && seen >= count) return (const REAL *)(const void *)x;
    NAME(gather)(x, job->x.type, job->x.column_stride, count, buffer);
    if (job->softcap != 0.0) NAME(softcap_scores)(buffer, count, job->softcap);
    if (job->scale != 1.0 || s->bias) {
        REAL bias[SOFTMAX_BLOCK_COLUMNS];
        if (s->bias) NAME(gather)(s->bias + first * job->bias.column_stride, job->bias.type, job->bias.column_stride, count, bias);
        s->doubtful = NAME(scale_and_bias)(s, buffer, low_buffer, count, s->bias ? bias : NULL);
        *low = low_buffer;
    }
    if (s->mask) NAME(mask_out)(s->mask + first * job->mask.column_stride, job->mask.column_stride, count, buffer, *low ? low_buffer : NULL);
    for (int i = seen < 0 ? 0 : (int)(seen < count ? seen : count); i < count; i++) {
        buffer[i] = -(REAL)INFINITY;
        if (*low) low_buffer[i] = 0;
    }
    if (s->doubtful) s->doubtful = NAME(doubt_remains)(s, buffer, count);
    return buffer;
}
