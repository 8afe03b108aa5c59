/* Cross-entropy of a row with its gradient. A template like block.h. With l = logsumexp(z), t_j the weight of column j in the loss:
 *   loss = sum_j t_j (l - z_j) + z_loss l^2,  l - z_j = (m - z_j) + log: both parts positive, so that nothing cancels
 *   dz_j = p_j (G sum_j t_j + 2 z_loss l G') - G t_j
 * hard target y: t_j = w_y (1 - e) [j = y] + (e / V) w_j; probabilities q: t_j = ((1 - e) q_j + e / V) w_j. */

typedef struct NAME(loss_row) {
    const softmax_job *job;
    const place *p;
    NAME(source) source;
    row_state state;
    row_total total;
    pair log;            /* l - m */
    int64_t target;      /* -1: probabilities */
    pair keep;           /* 1 - e */
    pair on_target;      /* w_y (1 - e) */
    pair smoothing;      /* e / V */
    int spread;          /* columns other than the target count */
    pair g;              /* gradient of the row's first terms */
    pair g_z;            /* 2 z_loss l G' */
    pair sum_weights;    /* sum_j t_j */
} NAME(loss_row);

/* t_j = t + t_low for columns [first, first + count), without the hard target's own part; 0 where the score is masked out. */
static void NAME(column_weights)(const NAME(loss_row) *row, int64_t first, int count, double *t, double *t_low) {
    const softmax_job *job = row->job;
    double weights[SOFTMAX_BLOCK_COLUMNS];
    const char *mask = row->source.mask ? row->source.mask + first * job->mask.column_stride : NULL;
    for (int i = 0; i < count; i++) {
        t[i] = row->smoothing.hi;
        t_low[i] = row->smoothing.lo;
    }
    if (row->target < 0) {
        double q[SOFTMAX_BLOCK_COLUMNS];
        gather_double(row_address(job, &job->targets, row->p) + first * job->targets.column_stride, job->targets.type,
                      job->targets.column_stride, count, q);
        for (int i = 0; i < count; i++) {
            pair each = {q[i], 0.0};
            each = pair_add(pair_multiply(row->keep, each), row->smoothing);
            t[i] = each.hi;
            t_low[i] = each.lo;
        }
    }
    if (job->weights.data) {
        gather_double(row_address(job, &job->weights, row->p) + first * job->weights.column_stride, job->weights.type,
                      job->weights.column_stride, count, weights);
        for (int i = 0; i < count; i++) {
            pair each = {t[i], t_low[i]}, w = {weights[i], 0.0};
            each = pair_multiply(each, w);
            t[i] = each.hi;
            t_low[i] = each.lo;
        }
    }
    for (int i = 0; i < count; i++)
        if (first + i >= row->source.limit || (mask && !mask[i * job->mask.column_stride])) t[i] = t_low[i] = 0.0;
}

/* sum_j t_j (m - z_j) and sum_j t_j over the row, without the hard target's own part. A weight of 0 contributes 0, whatever the score. */
static pair NAME(spread_loss)(NAME(loss_row) *row, pair *weights, uint32_t *flags) {
    accumulator distances = accumulator_empty(), sum = accumulator_empty();
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS];
    double t[SOFTMAX_BLOCK_COLUMNS], t_low[SOFTMAX_BLOCK_COLUMNS], product[SOFTMAX_BLOCK_COLUMNS], product_low[SOFTMAX_BLOCK_COLUMNS];
    for (int64_t c = 0; c < row->job->columns; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, row->job->columns);
        const REAL *low, *z = NAME(scores)(&row->source, c, count, buffer, low_buffer, &low);
        NAME(column_weights)(row, c, count, t, t_low);
        for (int i = 0; i < count; i++) {
            double d = row->state.maximum - (double)z[i];
            product[i] = t[i] == 0.0 ? 0.0 : t[i] * d;
            product_low[i] = 0.0;
            if (product[i] > DBL_MAX) {
                *flags |= STATE_INFINITE;
                product[i] = 0.0;
            } else {
                product_low[i] = t[i] == 0.0 ? 0.0 : fma(t[i], d, -product[i]) + t_low[i] * d;
            }
        }
        sum_exactly(product, product_low, count, &distances, flags);
        sum_exactly(t, t_low, count, &sum, flags);
    }
    *weights = accumulator_read(&sum, 0);
    return accumulator_read(&distances, 0);
}

/* The score of the target and m - z_y. */
static pair NAME(target_distance)(const NAME(loss_row) *row, REAL *z) {
    REAL buffer[1], low_buffer[1];
    const REAL *low;
    *z = *NAME(scores)(&row->source, row->target, 1, buffer, low_buffer, &low);
    return two_sum(row->state.maximum, -(double)*z);
}

/* a (d + log), rounded about once */
static double NAME(times_surprise)(pair a, pair d, pair log) {
    if (a.hi == 0.0) return 0.0;
    if (!(d.hi <= DBL_MAX)) return a.hi * d.hi;
    return pair_multiply(a, pair_add(d, log)).hi;
}

/* p_y - 1 as minus the share of all others. */
static double NAME(target_gradient)(const NAME(loss_row) *row, REAL z, pair distance) {
    pair inverse = row_total_inverse(&row->total, row->job->kind), minus_one = {-1.0, 0.0}, p;
    pair scale = pair_multiply(row->g, row->on_target);
    if (distance.hi == 0.0) { /* the maximum itself, or a tie with it */
        pair share = pair_multiply(pair_multiply(row->total.rest, inverse), scale);
        share.hi = -share.hi;
        share.lo = -share.lo;
        return pair_add(pair_multiply(row->g_z, pair_multiply(row->total.e_max, inverse)), share).hi;
    }
    if (z == -(REAL)INFINITY || score_is_huge(row->state.maximum) || score_is_huge((double)z)) return -scale.hi;
    {
        power e = exp_pair((double)z, 0.0);
        e.f.hi = scale_by_power(e.f.hi, e.k - row->total.k);
        e.f.lo = scale_by_power(e.f.lo, e.k - row->total.k);
        p = pair_multiply(e.f, inverse);
    }
    return pair_add(pair_multiply(row->g_z, p), pair_multiply(scale, pair_add(minus_one, p))).hi;
}

/* p_j times factor for a score whose p_j alone is below the smallest normal, where the product may not be. */
static double NAME(small_gradient)(const NAME(loss_row) *row, REAL z, pair factor) {
    double limit = sizeof(REAL) == 4 ? 87.0 : 708.0, distance = row->state.maximum - (double)z;
    power e;
    pair p;
    if (z == -(REAL)INFINITY || !scores_meet((double)z, 0.0, row->state.maximum, 0.0) || distance < limit || distance > 3.0 * limit) return 0.0;
    e = exp_pair((double)z, 0.0);
    p = pair_multiply(pair_multiply(e.f, row_total_inverse(&row->total, row->job->kind)), factor);
    return scale_by_power(p.hi, e.k - row->total.k);
}

/* The gradient where only the target's column has a weight: p_j times a constant, then the target. */
static void NAME(plain_gradient)(const NAME(loss_row) *row) {
    const softmax_job *job = row->job;
    char *out = row_address(job, &job->out, row->p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS], z = 0;
    pair distance = NAME(target_distance)(row, &z), factor = pair_add(pair_multiply(row->g, row->on_target), row->g_z);
    NAME(row_result) r = NAME(result_of_state)(&row->state, job->kind, 0, 0);
    double size = fabs(factor.hi);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out);
    double target = NAME(target_gradient)(row, z, distance);
    r.factor = pair_multiply(r.factor, factor);
    r.most = pair_multiply(r.most, factor);
    if (size > 1.0) r.threshold = (REAL)(size * (double)SMALLEST_NORMAL);
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS) {
        NAME(block) block;
        NAME(place_of_block) place;
        int count = NAME(block_columns)(c, job->columns);
        char *to = out + c * job->out.column_stride;
        REAL *y = direct ? (REAL *)(void *)to : results;
        const REAL *low, *scores = NAME(scores)(&row->source, c, count, buffer, low_buffer, &low);
        if (size > 1.0 && scores != buffer) { /* they may lie where y goes */
            memcpy(buffer, scores, (size_t)count * sizeof(REAL));
            scores = buffer;
        }
        NAME(block_sum)(scores, low, count, job->kind, y, &block);
        place = NAME(place_in_row)(&block);
        NAME(block_results)(&r, job->kind, y, count, &place, y, 0);
        if (size > 1.0)
            for (int i = 0; i < count; i++)
                if (y[i] == 0) {
                    REAL b = (REAL)NAME(small_gradient)(row, scores[i], factor);
                    y[i] = b >= SMALLEST_NORMAL || -b >= SMALLEST_NORMAL ? b : 0;
                }
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
    store_real(out + row->target * job->out.column_stride, job->out.type, target);
}

/* dloss / dq_j = G (1 - e) w_j (l - z_j); 0 where q_j = 0 meets z_j = -inf, as in the loss. */
static void NAME(targets_gradient)(const NAME(loss_row) *row, int64_t first, int count, const REAL *z, const double *t, double *result) {
    const softmax_job *job = row->job;
    double weights[SOFTMAX_BLOCK_COLUMNS];
    if (job->weights.data)
        gather_double(row_address(job, &job->weights, row->p) + first * job->weights.column_stride, job->weights.type,
                      job->weights.column_stride, count, weights);
    for (int i = 0; i < count; i++) {
        pair each = {job->weights.data ? weights[i] : 1.0, 0.0}, w = pair_multiply(pair_multiply(each, row->keep), row->g);
        pair d = two_sum(row->state.maximum, -(double)z[i]);
        int masked = z[i] == -(REAL)INFINITY && t[i] == 0.0;
        result[i] = masked ? 0.0 : NAME(times_surprise)(w, d, row->log);
    }
}

/* The gradient in full: probabilities, smoothing, softcap; column by column in double. */
static void NAME(general_gradient)(const NAME(loss_row) *row) {
    const softmax_job *job = row->job;
    char *out = row_address(job, &job->out, row->p), *q_out = row_address(job, &job->targets_gradient, row->p);
    const char *x = row_address(job, &job->x, row->p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], v[SOFTMAX_BLOCK_COLUMNS], z_target = 0;
    REAL results[SOFTMAX_BLOCK_COLUMNS];
    double t[SOFTMAX_BLOCK_COLUMNS], t_low[SOFTMAX_BLOCK_COLUMNS], raw[SOFTMAX_BLOCK_COLUMNS];
    const pair spread = pair_multiply(row->g, row->sum_weights);
    const pair factor = pair_add(pair_add(spread, pair_multiply(row->g, row->on_target)), row->g_z);
    double target = 0.0;
    NAME(row_result) r = NAME(result_of_state)(&row->state, job->kind, 0, 0);
    if (row->target >= 0) {
        pair distance = NAME(target_distance)(row, &z_target);
        target = NAME(target_gradient)(row, z_target, distance);
    }
    for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS) {
        NAME(block) block;
        NAME(place_of_block) place;
        int count = NAME(block_columns)(c, job->columns);
        const REAL *low, *z = NAME(scores)(&row->source, c, count, buffer, low_buffer, &low);
        NAME(column_weights)(row, c, count, t, t_low);
        if (job->softcap != 0.0) gather_double(x + c * job->x.column_stride, job->x.type, job->x.column_stride, count, raw);
        if (q_out) {
            double q[SOFTMAX_BLOCK_COLUMNS];
            NAME(targets_gradient)(row, c, count, z, t, q);
            for (int i = 0; i < count; i++)
                store_real(q_out + (c + i) * job->targets_gradient.column_stride, job->targets_gradient.type, q[i]);
        }
        if (!out) continue;
        NAME(block_sum)(z, low, count, job->kind, v, &block);
        place = NAME(place_in_row)(&block);
        NAME(block_results)(&r, job->kind, v, count, &place, v, 0);
        for (int i = 0; i < count; i++) {
            pair slope = {1.0, 0.0}, each = {t[i], t_low[i]};
            double d;
            each = pair_multiply(row->g, each);
            if (job->softcap != 0.0) slope = softcap_derivative(raw[i], job->softcap);
            if (c + i == row->target) { /* p - 1 relative, and the target's share of what is spread */
                d = target + (fma((double)v[i], spread.hi, (double)v[i] * spread.lo) - each.hi);
                d = d == 0.0 ? 0.0 : fma(d, slope.hi, d * slope.lo);
            } else {
                pair f = pair_multiply(slope, factor);
                each = pair_multiply(slope, each);
                d = fma((double)v[i], f.hi, fma((double)v[i], f.lo, -each.hi));
                if (v[i] == 0) d += NAME(small_gradient)(row, z[i], f);
            }
            results[i] = (REAL)d;
            if (!(fabs(d) >= (double)SMALLEST_NORMAL)) results[i] = d == d ? 0 : (REAL)NAN;
        }
        NAME(scatter)(out + c * job->out.column_stride, job->out.type, job->out.column_stride, count, results);
    }
}

static void NAME(fill_gradients)(const softmax_job *job, const place *p, REAL value) {
    if (job->out.data) NAME(fill)(&job->out, row_address(job, &job->out, p), 0, job->columns, value);
    if (job->targets_gradient.data)
        for (int64_t c = 0; c < job->columns; c++)
            store_real(row_address(job, &job->targets_gradient, p) + c * job->targets_gradient.column_stride, job->targets_gradient.type, (double)value);
}

typedef struct NAME(loss_value) {
    double terms;
    double z_loss;
} NAME(loss_value);

static pair NAME(quotient)(double a, double b) {
    pair n = {a, 0.0}, d = {b, 0.0}, plain = {a / b, 0.0};
    return plain.hi - plain.hi == 0.0 ? pair_divide(n, d) : plain;
}

static NAME(loss_value) NAME(loss_of_row)(NAME(loss_row) *row, const loss_divisors *divisors) {
    const softmax_job *job = row->job;
    NAME(loss_value) loss = {0.0, 0.0};
    uint32_t flags = 0;
    double l = row_state_logsumexp(&row->state, job->kind);
    double upstream = job->grad_output.data ? load_real(row_address(job, &job->grad_output, row->p), job->grad_output.type) : 1.0;
    REAL z = 0;
    const pair nothing = {0.0, 0.0};
    pair distance = nothing;
    row->g = NAME(quotient)(upstream, divisors->terms);
    row->g_z = row->sum_weights = nothing;
    if (job->z_loss != 0.0) {
        pair z_loss = {2.0 * job->z_loss, 0.0}, maximum = {row->state.maximum, 0.0};
        row->g_z = pair_multiply(pair_multiply(z_loss, pair_add(maximum, row->log)), NAME(quotient)(upstream, divisors->z_loss));
    }
    if (row->target >= 0) {
        distance = NAME(target_distance)(row, &z);
        loss.terms = NAME(times_surprise)(row->on_target, distance, row->log);
    }
    if (row->spread) {
        pair spread = NAME(spread_loss)(row, &row->sum_weights, &flags);
        spread = pair_add(spread, pair_multiply(row->sum_weights, row->log));
        loss.terms += spread.hi;
        if (flags & STATE_INFINITE) loss.terms = (double)INFINITY;
        if (flags & STATE_NAN) { /* a weight or a probability that is not finite: every p_j times their sum */
            loss.terms = (double)NAN;
            NAME(fill_gradients)(job, row->p, (REAL)NAN);
            return loss;
        }
    }
    loss.z_loss = job->z_loss * l * l;
    if (!job->out.data && !job->targets_gradient.data) return loss;
    if (!row->spread && job->softcap == 0.0 && fabs(row->g.hi * row->on_target.hi) < 0x1p40 && fabs(row->g_z.hi) < 0x1p40 && job->out.data)
        NAME(plain_gradient)(row);
    else
        NAME(general_gradient)(row);
    return loss;
}

static void NAME(add_to_totals)(loss_totals *totals, NAME(loss_value) loss) {
    double sum = loss.terms + loss.z_loss;
    if (sum != sum)
        totals->nans++;
    else if (sum - sum != 0.0)
        totals->infinities++;
    else {
        accumulator_add_double(&totals->terms, loss.terms);
        accumulator_add_double(&totals->z_loss, loss.z_loss);
    }
}

static void NAME(cross_entropy_row)(const softmax_job *job, const place *p, const loss_divisors *divisors, loss_totals *totals) {
    NAME(loss_row) row;
    NAME(loss_value) loss = {0.0, 0.0};
    double weight = 1.0;
    pair on_weight = {1.0, 0.0};
    int ignored = 0;
    memset(&row, 0, sizeof row);
    row.job = job;
    row.p = p;
    row.target = -1;
    row.keep = two_sum(1.0, -job->label_smoothing);
    if (job->columns) row.smoothing = NAME(quotient)(job->label_smoothing, (double)job->columns);
    if (job->targets.type == ELEMENT_INT32 || job->targets.type == ELEMENT_INT64) {
        row.target = load_integer(row_address(job, &job->targets, p), job->targets.type);
        ignored = row.target == job->ignore_index;
        if (!ignored && job->weights.data) weight = load_weight(job, p, row.target);
        on_weight.hi = weight;
        row.on_target = pair_multiply(on_weight, row.keep);
    }
    row.spread = row.target < 0 || job->label_smoothing != 0.0;
    row.source = NAME(source_of_row)(job, p);
    row.state = row_state_empty();
    if (!ignored || job->row_logsumexp.data) NAME(forward_reduce)(job, p, 0, job->columns, &row.state);
    if (job->row_logsumexp.data)
        store_real(row_address(job, &job->row_logsumexp, p), job->row_logsumexp.type, row_state_logsumexp(&row.state, job->kind));
    if (ignored) {
        NAME(fill_gradients)(job, p, 0);
    } else if (row.state.flags || row.state.maximum == -(double)INFINITY) {
        int zero = !row.state.flags && job->empty_zero;
        NAME(fill_gradients)(job, p, zero ? 0 : (REAL)NAN);
        loss.terms = zero ? 0.0 : (double)NAN;
    } else {
        row.total = row_state_total(&row.state, job->kind);
        row.log = row_total_log(&row.total, job->kind);
        loss = NAME(loss_of_row)(&row, divisors);
    }
    if (job->reduction == SOFTMAX_NONE) {
        if (job->loss.data) store_real(row_address(job, &job->loss, p), job->loss.type, loss.terms + loss.z_loss);
    } else if (!ignored) {
        NAME(add_to_totals)(totals, loss);
    }
}
