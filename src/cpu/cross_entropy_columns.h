/* What the columns of a row weigh in the loss, and what that adds to loss and gradient, in double. A template like block.h, between the two
 * halves of cross_entropy.h. Loops without branches, for the compiler to make vectors of. */

/* Whether every column has the same weight: smoothing alone. */
static int NAME(weights_are_equal)(const NAME(loss_row) *row) {
    return row->target >= 0 && !row->job->weights.data && !row->source.mask && row->source.limit >= row->job->columns;
}

/* Class weights of columns [first, first + count); 1 without any. */
static void NAME(class_weights)(const NAME(loss_row) *row, int64_t first, int count, double *restrict w) {
    const softmax_job *job = row->job;
    if (job->weights.data)
        gather_double(row_address(job, &job->weights, row->p) + first * job->weights.column_stride, job->weights.type,
                      job->weights.column_stride, count, w);
    else
        for (int i = 0; i < count; i++) w[i] = 1.0;
}

/* t_j = t + t_low for columns [first, first + count), without the hard target's own part; 0 where the score is masked out. */
static void NAME(column_weights)(const NAME(loss_row) *row, int64_t first, int count, double *restrict t, double *restrict t_low) {
    const softmax_job *job = row->job;
    const pair keep = row->keep, smoothing = row->smoothing;
    double given[SOFTMAX_BLOCK_COLUMNS];
    const char *mask = row->source.mask ? row->source.mask + first * job->mask.column_stride : NULL;
    for (int i = 0; i < count; i++) {
        t[i] = smoothing.hi;
        t_low[i] = smoothing.lo;
    }
    if (row->target < 0) {
        gather_double(row_address(job, &job->targets, row->p) + first * job->targets.column_stride, job->targets.type,
                      job->targets.column_stride, count, given);
        for (int i = 0; i < count; i++) {
            pair each = {given[i], 0.0};
            each = pair_add(pair_multiply(keep, each), smoothing);
            t[i] = each.hi;
            t_low[i] = each.lo;
        }
    }
    if (job->weights.data) {
        NAME(class_weights)(row, first, count, given);
        for (int i = 0; i < count; i++) {
            pair each = {t[i], t_low[i]}, w = {given[i], 0.0};
            each = pair_multiply(each, w);
            t[i] = each.hi;
            t_low[i] = each.lo;
        }
    }
    if (mask)
        for (int i = 0; i < count; i++)
            if (!mask[i * job->mask.column_stride]) t[i] = t_low[i] = 0.0;
    for (int64_t i = row->source.limit > first ? row->source.limit - first : 0; i < count; i++) t[i] = t_low[i] = 0.0;
}

/* t (m - z) in two parts: 0 where t is, whatever z is. 1 if there is an infinite one, which is left out. */
static int NAME(weighted_distances)(double maximum, const REAL *z, const double *restrict t, const double *restrict t_low, int count,
                                    double *restrict product, double *restrict product_low) {
    int64_t infinite = 0;
    for (int i = 0; i < count; i++) {
        double d = maximum - (double)z[i], p = t[i] == 0.0 ? 0.0 : t[i] * d, low = fma(t[i], d, -p) + t_low[i] * d;
        infinite |= (int64_t)(p > DBL_MAX);
        low = t[i] == 0.0 ? 0.0 : low;
        product_low[i] = p > DBL_MAX ? 0.0 : low;
        product[i] = p > DBL_MAX ? 0.0 : p;
    }
    return infinite != 0;
}

/* sum_j t_j (m - z_j) and sum_j t_j over the row, without the hard target's own part. A weight of 0 contributes 0, whatever the score. */
static pair NAME(spread_loss)(NAME(loss_row) *row, pair *weights, uint32_t *flags) {
    accumulator distances = accumulator_empty(), sum = accumulator_empty();
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS];
    double t[SOFTMAX_BLOCK_COLUMNS], t_low[SOFTMAX_BLOCK_COLUMNS], product[SOFTMAX_BLOCK_COLUMNS], product_low[SOFTMAX_BLOCK_COLUMNS];
    int equal = NAME(weights_are_equal)(row);
    for (int64_t c = 0; c < row->job->columns; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, row->job->columns);
        const REAL *low, *z = NAME(scores)(&row->source, c, count, buffer, low_buffer, &low);
        if (c == 0 || !equal) NAME(column_weights)(row, c, count, t, t_low);
        if (NAME(weighted_distances)(NAME(maximum_of_loss)(row), z, t, t_low, count, product, product_low)) *flags |= STATE_INFINITE;
        sum_exactly(product, product_low, count, &distances, flags);
        if (equal)
            sum_equals_exactly(row->smoothing, count, &sum, flags);
        else
            sum_exactly(t, t_low, count, &sum, flags);
    }
    *weights = accumulator_read(&sum, 0);
    return accumulator_read(&distances, 0);
}
