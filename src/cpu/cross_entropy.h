/* Cross-entropy of a row with its gradient. A template like block.h. With l = logsumexp(z), t_j the weight of column j in the loss:
 *   loss = sum_j t_j (l - z_j) + z_loss l^2,  l - z_j = (m - z_j) + log: both parts positive, so that nothing cancels
 *   dz_j = p_j (G sum_j t_j + 2 z_loss l G') - G t_j
 * hard target y: t_j = w_y (1 - e) [j = y] + (e / V) w_j; probabilities q: t_j = ((1 - e) q_j + e / V) w_j. */

#define LOSS_BLOCKS ((int)(TERMS_MOST / (SOFTMAX_BLOCK_COLUMNS * sizeof(REAL)))) /* rows of more never keep their terms */

/* A row's terms, kept for its gradient; of a gradient past the caches that waits to be written in turn with the next row's terms, also the rest. */
typedef struct NAME(kept_loss) {
    REAL *terms;
    int waits;
    char *out;
    NAME(row_result) r;
    int64_t target; /* its column, and gradient */
    double target_gradient;
    NAME(place_of_block) places[LOSS_BLOCKS];
} NAME(kept_loss);

typedef struct NAME(loss_row) {
    const softmax_job *job;
    const place *p;
    int streams;         /* the gradient goes past the caches */
    NAME(source) source;
    row_state state;
    row_total total;
    pair log;            /* l - m */
    int64_t first;       /* the columns whose gradient is written: all, or a thread's part */
    int64_t last;
    int64_t target;      /* -1: probabilities */
    int ignored;
    REAL target_score;
    pair keep;           /* 1 - e */
    pair on_target;      /* w_y (1 - e) */
    pair smoothing;      /* e / V */
    int spread;          /* columns other than the target count */
    pair g;              /* gradient of the row's first terms */
    pair g_z;            /* 2 z_loss l G' */
    pair sum_weights;    /* sum_j t_j */
    NAME(kept_loss) *kept; /* NULL: its terms are computed again */
} NAME(loss_row);

static void NAME(waiting_gradient)(const softmax_job *job, const NAME(kept_loss) *kept, int64_t c) {
    REAL *y = (REAL *)(void *)kept->out + c;
    NAME(block_results)(&kept->r, job->kind, kept->terms + c, NAME(block_columns)(c, job->columns), &kept->places[c / SOFTMAX_BLOCK_COLUMNS], y, 1, NULL);
}

static void NAME(end_waiting)(const softmax_job *job, NAME(kept_loss) *kept) {
    store_real(kept->out + kept->target * job->out.column_stride, job->out.type, kept->target_gradient);
    kept->waits = 0;
}

/* The row's state, and its terms where they are kept. */
static void NAME(loss_reduce)(NAME(loss_row) *row) {
    const softmax_job *job = row->job;
    NAME(row_sum) sum = NAME(row_sum_begin)(&row->state);
    NAME(kept_loss) *kept = row->kept;
    NAME(block_walk) walk;
    for (NAME(walk_begin)(&walk, job, row->p, 0, job->columns); walk.count > 0; NAME(walk_on)(&walk)) {
        NAME(block) block;
        if (kept && kept->waits) NAME(waiting_gradient)(job, kept, walk.column);
        NAME(walk_terms)(&walk, kept ? kept->terms + walk.column : NULL, &block);
        NAME(row_sum_add)(&sum, &block, job->kind);
        if (kept) kept->places[walk.column / SOFTMAX_BLOCK_COLUMNS] = NAME(place_in_row)(&block);
    }
    if (kept && kept->waits) NAME(end_waiting)(job, kept);
    NAME(row_sum_end)(&sum);
}

/* p_j of columns [first, first + count), z their scores; y may be where z is. */
static void NAME(probabilities)(const NAME(loss_row) *row, const NAME(row_result) *r, int64_t first, int count, const REAL *z, REAL *y,
                                int streams) {
    arithmetic kind = row->job->kind;
    NAME(block) block;
    NAME(place_of_block) place;
    if (row->kept) {
        NAME(block_results)(r, kind, row->kept->terms + first, count, &row->kept->places[first / SOFTMAX_BLOCK_COLUMNS], y, streams, NULL);
        return;
    }
    NAME(block_sum)(z, count, kind, y, &block);
    place = NAME(place_in_row)(&block);
    NAME(block_results)(r, kind, y, count, &place, y, 0, NULL);
}

/* z_y, read before a gradient may overwrite it. */
static REAL NAME(score_of_target)(NAME(source) *source, int64_t target) {
    REAL buffer[1], low_buffer[1];
    const REAL *low;
    return *NAME(scores)(source, target, 1, buffer, low_buffer, &low);
}

/* m, one of the scores */
static inline double NAME(maximum_of_loss)(const NAME(loss_row) *row) { return value_of_score(row->state.maximum); }

#include "cross_entropy_columns.h"

/* m - z_y */
static pair NAME(target_distance)(const NAME(loss_row) *row) { return two_sum(NAME(maximum_of_loss)(row), -(double)row->target_score); }

/* a (d + log), rounded about once */
static double NAME(times_surprise)(pair a, pair d, pair log) {
    if (a.hi == 0.0) return 0.0;
    if (!(d.hi <= DBL_MAX)) return a.hi * d.hi;
    return pair_multiply(a, pair_add(d, log)).hi;
}

/* p_y - 1 as minus the share of all others. */
static double NAME(target_gradient)(const NAME(loss_row) *row) {
    REAL z = row->target_score;
    pair distance = NAME(target_distance)(row);
    pair inverse = row_total_inverse(&row->total, row->job->kind), minus_one = {-1.0, 0.0}, p;
    pair scale = pair_multiply(row->g, row->on_target);
    if (distance.hi == 0.0) { /* the maximum itself, or a tie with it */
        pair share = pair_multiply(pair_multiply(row->total.rest, inverse), scale);
        share.hi = -share.hi;
        share.lo = -share.lo;
        return pair_add(pair_multiply(row->g_z, pair_multiply(row->total.e_max, inverse)), share).hi;
    }
    if (z == -(REAL)INFINITY || !scores_meet(score_of_value((double)z), row->state.maximum)) return -scale.hi;
    {
        power e = exp_pair((double)z, 0.0);
        int64_t up = wrapped_difference(e.k, row->total.k);
        e.f.hi = scale_by_power(e.f.hi, up);
        e.f.lo = scale_by_power(e.f.lo, up);
        p = pair_multiply(e.f, inverse);
    }
    return pair_add(pair_multiply(row->g_z, p), pair_multiply(scale, pair_add(minus_one, p))).hi;
}

/* p_j times factor for a score whose p_j alone is below the smallest normal, where the product may not be. */
static double NAME(small_gradient)(const NAME(loss_row) *row, REAL z, pair factor) {
    double limit = sizeof(REAL) == 4 ? 87.0 : 708.0, distance = NAME(maximum_of_loss)(row) - (double)z;
    power e;
    pair p;
    if (z == -(REAL)INFINITY || !(distance >= limit && distance <= 3.0 * limit)) return 0.0;
    e = exp_pair((double)z, 0.0);
    p = pair_multiply(pair_multiply(e.f, row_total_inverse(&row->total, row->job->kind)), factor);
    return scale_by_power(p.hi, wrapped_difference(e.k, row->total.k));
}

/* The gradient where only the target's column has a weight: p_j times a constant, then the target. */
static void NAME(plain_gradient)(const NAME(loss_row) *row) {
    const softmax_job *job = row->job;
    char *out = row_address(job, &job->out, row->p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], results[SOFTMAX_BLOCK_COLUMNS];
    pair factor = pair_add(pair_multiply(row->g, row->on_target), row->g_z);
    NAME(source) source = row->source;
    NAME(row_result) r = NAME(result_of_state)(&row->state, job->kind, 0, 0);
    double size = fabs(factor.hi);
    int direct = job->out.type == REAL_ELEMENT && is_contiguous(&job->out);
    int streams = direct && size <= 1.0 && row->streams;
    double target = NAME(target_gradient)(row);
    r.factor = pair_multiply(r.factor, factor);
    r.most = pair_multiply(r.most, factor);
    if (size > 1.0) r.threshold = (REAL)(size * (double)SMALLEST_NORMAL);
    if (row->kept && streams && row->target >= 0 && !r.constant) {
        NAME(kept_loss) *kept = row->kept;
        kept->waits = 1;
        kept->out = out;
        kept->r = r;
        kept->target = row->target;
        kept->target_gradient = target;
        return;
    }
    for (int64_t c = row->first; c < row->last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, row->last);
        char *to = out + c * job->out.column_stride;
        REAL *y = direct ? (REAL *)(void *)to : results;
        const REAL *low = NULL, *scores = NULL;
        if (!row->kept || size > 1.0) scores = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        if (size > 1.0 && scores != buffer) { /* they may lie where y goes */
            memcpy(buffer, scores, (size_t)count * sizeof(REAL));
            scores = buffer;
        }
        NAME(probabilities)(row, &r, c, count, scores, y, streams);
        if (size > 1.0)
            for (int i = 0; i < count; i++)
                if (y[i] == 0) {
                    REAL b = (REAL)NAME(small_gradient)(row, scores[i], factor);
                    y[i] = b >= SMALLEST_NORMAL || -b >= SMALLEST_NORMAL ? b : 0;
                }
        if (!direct) NAME(scatter)(to, job->out.type, job->out.column_stride, count, results);
    }
    if (row->target >= row->first && row->target < row->last) store_real(out + row->target * job->out.column_stride, job->out.type, target);
}

/* dloss / dq_j = G (1 - e) w_j (l - z_j); 0 where q_j = 0 meets z_j = -inf, as in the loss. */
static void NAME(targets_gradient)(const NAME(loss_row) *row, int64_t first, int count, const REAL *z, const double *t) {
    const softmax_job *job = row->job;
    const operand *out = &job->targets_gradient;
    const pair keep = row->keep, g = row->g, log = row->log;
    const double maximum = NAME(maximum_of_loss)(row);
    double w[SOFTMAX_BLOCK_COLUMNS], products[SOFTMAX_BLOCK_COLUMNS];
    REAL result[SOFTMAX_BLOCK_COLUMNS];
    NAME(class_weights)(row, first, count, w);
    for (int i = 0; i < count; i++) {
        double score = (double)z[i], product;
        pair each = {w[i], 0.0}, a = pair_multiply(pair_multiply(each, keep), g), d = two_sum(maximum, -score);
        product = pair_multiply(a, pair_add(d, log)).hi;
        product = d.hi <= DBL_MAX ? product : a.hi * d.hi; /* as times_surprise */
        product = a.hi == 0.0 ? 0.0 : product;
        products[i] = score >= -DBL_MAX ? product : t[i] == 0.0 ? 0.0 : product;
    }
    for (int i = 0; i < count; i++) {
        REAL rounded = (REAL)products[i], size = rounded < 0 ? -rounded : rounded;
        rounded = size < SMALLEST_NORMAL ? 0 : rounded;
        result[i] = rounded == rounded ? rounded : (REAL)NAN;
    }
    if (sizeof(REAL) == 4 || out->type == ELEMENT_FLOAT64)
        NAME(scatter)(row_address(job, out, row->p) + first * out->column_stride, out->type, out->column_stride, count, result);
    else
        for (int i = 0; i < count; i++)
            store_real(row_address(job, out, row->p) + (first + i) * out->column_stride, out->type, (double)result[i]);
}

/* What the columns' gradients are made of. */
typedef struct NAME(spread_gradient) {
    pair spread; /* G sum_j t_j */
    pair factor; /* of p_j, but for the target */
    double target;
} NAME(spread_gradient);

static double NAME(column_gradient)(const NAME(loss_row) *row, const NAME(spread_gradient) *g, int64_t column, REAL v, REAL z, pair t) {
    const softmax_job *job = row->job;
    pair slope = {1.0, 0.0}, each = pair_multiply(row->g, t), f;
    double d;
    if (job->softcap != 0.0 && z >= -LARGEST) /* else masked out: never used */
        slope = softcap_derivative(load_real(row_address(job, &job->x, row->p) + column * job->x.column_stride, job->x.type), job->softcap);
    if (column == row->target) { /* p - 1 relative, and the target's share of what is spread */
        d = g->target + (fma((double)v, g->spread.hi, (double)v * g->spread.lo) - each.hi);
        return d == 0.0 ? 0.0 : fma(d, slope.hi, d * slope.lo);
    }
    f = pair_multiply(slope, g->factor);
    each = pair_multiply(slope, each);
    d = fma((double)v, f.hi, fma((double)v, f.lo, -each.hi));
    if (v == 0) d += NAME(small_gradient)(row, z, f);
    return d;
}

static REAL NAME(rounded_gradient)(double d) {
    if (fabs(d) >= (double)SMALLEST_NORMAL) return (REAL)d;
    return d == d ? 0 : (REAL)NAN;
}

/* column_gradient of a block but for its target, and 1 if there are probabilities of 0 whose gradient may not be 0 and is not in it. slope:
 * the softcap's derivative, a constant NULL where there is none. */
static ALWAYS_INLINE int NAME(spread_gradient_loop)(const pair g, const pair factor, const REAL *restrict z, const REAL *restrict v,
                                                    const double *restrict t, const double *restrict t_low, const double *restrict slope,
                                                    const double *restrict slope_low, int count, REAL *restrict result) {
    const pair one = {1.0, 0.0};
    int zeros = 0;
    for (int i = 0; i < count; i++) {
        pair each = {t[i], t_low[i]}, its_slope = {slope ? slope[i] : 1.0, slope ? slope_low[i] : 0.0};
        pair f = pair_multiply(slope ? its_slope : one, factor);
        double p = (double)v[i], d, size;
        each = pair_multiply(its_slope, pair_multiply(g, each));
        d = fma(p, f.hi, fma(p, f.lo, -each.hi));
        size = d < 0.0 ? -d : d;
        result[i] = (REAL)(size >= (double)SMALLEST_NORMAL ? d : d == d ? 0.0 : (double)NAN);
        zeros |= (v[i] == 0) & (z[i] >= -LARGEST);
    }
    return zeros;
}

/* The same from a slope whose relative error is below 2^-44 and without low parts: 0 if the error may reach some result. */
static int NAME(near_spread_gradient)(double g, double factor, const REAL *restrict v, const double *restrict t, const double *restrict slope, int count,
                                      REAL *restrict result) {
    int unsure = 0;
    for (int i = 0; i < count; i++) {
        double grown = (double)v[i] * factor, each = g * t[i], d = (grown - each) * slope[i];
        double error = (fabs(grown) + fabs(each)) * slope[i] * 0x1p-43, low = d - error, high = d + error;
        REAL least = (REAL)(fabs(low) >= (double)SMALLEST_NORMAL ? low : 0.0), most = (REAL)(fabs(high) >= (double)SMALLEST_NORMAL ? high : 0.0);
        unsure |= !(least == most);
        result[i] = least + 0;
    }
    return !unsure;
}

#define CAPPED_COLUMNS 128

static NOINLINE int NAME(block_spread_gradient)(const NAME(loss_row) *row, const pair factor, int64_t first, const REAL *z, const REAL *v,
                                                const double *t, const double *t_low, int count, REAL *result) {
    const softmax_job *job = row->job;
    const char *x = row_address(job, &job->x, row->p) + first * job->x.column_stride;
    double raw[CAPPED_COLUMNS], slope[CAPPED_COLUMNS], slope_low[CAPPED_COLUMNS];
    int zeros = 0, n = CAPPED_COLUMNS;
    if (job->softcap == 0.0) return NAME(spread_gradient_loop)(row->g, factor, z, v, t, t_low, NULL, NULL, count, result);
    for (int i = 0; i < count; i += n) {
        if (count - i < n) n = count - i;
        gather_double(x + i * job->x.column_stride, job->x.type, job->x.column_stride, n, raw);
        for (int j = 0; j < n; j++) raw[j] = z[i + j] >= -LARGEST ? raw[j] : 0.0; /* masked out: never used */
        if (sizeof(REAL) == 4 && softcap_near_slopes(raw, n, job->softcap, slope) &&
            NAME(near_spread_gradient)(row->g.hi, factor.hi, v + i, t + i, slope, n, result + i)) {
            for (int j = i; j < i + n; j++) zeros |= (v[j] == 0) & (z[j] >= -LARGEST);
            continue;
        }
        softcap_slopes(raw, n, job->softcap, slope, slope_low);
        zeros |= NAME(spread_gradient_loop)(row->g, factor, z + i, v + i, t + i, t_low + i, slope, slope_low, n, result + i);
    }
    return zeros;
}

/* The gradient in full: probabilities, smoothing, softcap. */
static void NAME(general_gradient)(const NAME(loss_row) *row) {
    const softmax_job *job = row->job;
    char *out = row_address(job, &job->out, row->p);
    REAL buffer[SOFTMAX_BLOCK_COLUMNS], low_buffer[SOFTMAX_BLOCK_COLUMNS], v[SOFTMAX_BLOCK_COLUMNS];
    REAL results[SOFTMAX_BLOCK_COLUMNS];
    double t[SOFTMAX_BLOCK_COLUMNS], t_low[SOFTMAX_BLOCK_COLUMNS];
    NAME(row_result) r = NAME(result_of_state)(&row->state, job->kind, 0, 0);
    NAME(source) source = row->source;
    NAME(spread_gradient) g = {pair_multiply(row->g, row->sum_weights), {0.0, 0.0}, 0.0};
    int equal = NAME(weights_are_equal)(row);
    g.factor = pair_add(pair_add(g.spread, pair_multiply(row->g, row->on_target)), row->g_z);
    if (row->target >= 0) g.target = NAME(target_gradient)(row);
    for (int64_t c = row->first; c < row->last; c += SOFTMAX_BLOCK_COLUMNS) {
        int count = NAME(block_columns)(c, row->last), zeros;
        const REAL *low, *z = NAME(scores)(&source, c, count, buffer, low_buffer, &low);
        if (c == row->first || !equal) NAME(column_weights)(row, c, count, t, t_low);
        if (job->targets_gradient.data) NAME(targets_gradient)(row, c, count, z, t);
        if (!out) continue;
        NAME(probabilities)(row, &r, c, count, z, v, 0);
        zeros = NAME(block_spread_gradient)(row, g.factor, c, z, v, t, t_low, count, results);
        for (int64_t target = row->target - c, i = zeros ? 0 : target; i >= 0 && i < count && (zeros || i == target); i++) {
            pair each = {t[i], t_low[i]};
            if (i != target && v[i] != 0) continue;
            results[i] = NAME(rounded_gradient)(NAME(column_gradient)(row, &g, c + i, v[i], z[i], each));
        }
        NAME(scatter)(out + c * job->out.column_stride, job->out.type, job->out.column_stride, count, results);
    }
}

static void NAME(fill_gradients)(const NAME(loss_row) *row, REAL value) {
    const softmax_job *job = row->job;
    if (job->out.data) NAME(fill)(&job->out, row_address(job, &job->out, row->p), row->first, row->last, value);
    if (job->targets_gradient.data)
        for (int64_t c = row->first; c < row->last; c++)
            store_real(row_address(job, &job->targets_gradient, row->p) + c * job->targets_gradient.column_stride, job->targets_gradient.type,
                       (double)value);
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
    const pair nothing = {0.0, 0.0};
    row->g = NAME(quotient)(upstream, divisors->terms);
    row->g_z = row->sum_weights = nothing;
    if (job->z_loss != 0.0) {
        pair z_loss = {2.0 * job->z_loss, 0.0}, maximum = {NAME(maximum_of_loss)(row), 0.0};
        row->g_z = pair_multiply(pair_multiply(z_loss, pair_add(maximum, row->log)), NAME(quotient)(upstream, divisors->z_loss));
    }
    if (row->target >= 0) loss.terms = NAME(times_surprise)(row->on_target, NAME(target_distance)(row), row->log);
    if (row->spread) {
        pair spread = NAME(spread_loss)(row, &row->sum_weights, &flags);
        spread = pair_add(spread, pair_multiply(row->sum_weights, row->log));
        loss.terms += spread.hi;
        if (flags & STATE_INFINITE) loss.terms = (double)INFINITY;
        if (flags & STATE_NAN) { /* a weight or a probability that is not finite: every p_j times their sum */
            loss.terms = (double)NAN;
            NAME(fill_gradients)(row, (REAL)NAN);
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

/* Results go past the cache, but for lines that are there already. */
static int NAME(loss_streams)(const softmax_job *job) { return job->out.data && job->out.data != job->x.data && softmax_cpu_streams(job); }

/* All but the state and what follows from it. */
static void NAME(loss_row_begin)(NAME(loss_row) *row, const softmax_job *job, const place *p) {
    double weight = 1.0;
    pair on_weight = {1.0, 0.0};
    memset(row, 0, sizeof *row);
    row->job = job;
    row->p = p;
    row->streams = NAME(loss_streams)(job);
    row->last = job->columns;
    row->target = -1;
    row->keep = two_sum(1.0, -job->label_smoothing);
    if (job->columns) row->smoothing = NAME(quotient)(job->label_smoothing, (double)job->columns);
    if (job->targets.type == ELEMENT_INT32 || job->targets.type == ELEMENT_INT64) {
        row->target = load_integer(row_address(job, &job->targets, p), job->targets.type);
        row->ignored = row->target == job->ignore_index;
        if (!row->ignored && job->weights.data) weight = load_weight(job, p, row->target);
        on_weight.hi = weight;
        row->on_target = pair_multiply(on_weight, row->keep);
    }
    row->spread = row->target < 0 || job->label_smoothing != 0.0;
    row->source = NAME(source_of_row)(job, p);
    row->state = row_state_empty();
}

/* The gradient of the row's columns [first, last), and the loss by whoever has the first. */
static void NAME(loss_row_end)(NAME(loss_row) *row, const loss_divisors *divisors, loss_totals *totals) {
    const softmax_job *job = row->job;
    NAME(loss_value) loss = {0.0, 0.0};
    if (job->row_logsumexp.data && row->first == 0)
        store_real(row_address(job, &job->row_logsumexp, row->p), job->row_logsumexp.type, row_state_logsumexp(&row->state, job->kind));
    if (row->ignored) {
        NAME(fill_gradients)(row, 0);
    } else if (row->state.flags || row->state.maximum.high == -(double)INFINITY) {
        int zero = !row->state.flags && job->empty_zero;
        NAME(fill_gradients)(row, zero ? 0 : (REAL)NAN);
        loss.terms = zero ? 0.0 : (double)NAN;
    } else {
        row->total = row_state_total(&row->state, job->kind);
        row->log = row_total_log(&row->total, job->kind);
        loss = NAME(loss_of_row)(row, divisors);
    }
    if (row->first != 0) return;
    if (job->reduction == SOFTMAX_NONE) {
        if (job->loss.data) store_real(row_address(job, &job->loss, row->p), job->loss.type, loss.terms + loss.z_loss);
    } else if (!row->ignored) {
        NAME(add_to_totals)(totals, loss);
    }
}

static void NAME(cross_entropy_row)(const softmax_job *job, const place *p, NAME(kept_loss) *kept, const loss_divisors *divisors,
                                    loss_totals *totals) {
    NAME(loss_row) row;
    NAME(loss_row_begin)(&row, job, p);
    if (!row.ignored && kept->terms) row.kept = kept;
    if (!row.ignored && row.target >= 0) row.target_score = NAME(score_of_target)(&row.source, row.target);
    if (!row.ignored || job->row_logsumexp.data) NAME(loss_reduce)(&row);
    NAME(loss_row_end)(&row, divisors, totals);
}

/* Rows [first, last). */
static void NAME(cross_entropy_rows)(const softmax_job *job, int64_t first, int64_t last, const loss_divisors *divisors, loss_totals *totals) {
    NAME(kept_loss) kept;
    kept.waits = 0;
    kept.terms = job->out.data && job->columns <= NAME(kept_blocks)() * SOFTMAX_BLOCK_COLUMNS ? (REAL *)softmax_cpu_scratch() : NULL;
    for (int64_t row = first; row < last; row++) {
        place p = place_of_row(job, row);
        NAME(cross_entropy_row)(job, &p, &kept, divisors, totals);
    }
    if (kept.waits) {
        for (int64_t c = 0; c < job->columns; c += SOFTMAX_BLOCK_COLUMNS) NAME(waiting_gradient)(job, &kept, c);
        NAME(end_waiting)(job, &kept);
    }
    if (NAME(loss_streams)(job)) stream_end();
}

/* Columns [first, last) of a row that is split over threads: a hard target, and no other column counts in the loss. */
static void NAME(cross_entropy_reduce)(const softmax_job *job, const place *p, int64_t first, int64_t last, row_partial *partial) {
    int64_t target = load_integer(row_address(job, &job->targets, p), job->targets.type);
    NAME(source) source = NAME(source_of_row)(job, p);
    if (target >= first && target < last && target != job->ignore_index) partial->target_score = (double)NAME(score_of_target)(&source, target);
    if (target != job->ignore_index || job->row_logsumexp.data) NAME(forward_reduce)(job, p, first, last, &partial->state);
}

static void NAME(cross_entropy_finish)(const softmax_job *job, const place *p, int64_t first, int64_t last, const row_partial *partial) {
    NAME(loss_row) row;
    NAME(loss_row_begin)(&row, job, p);
    row.state = partial->state;
    row.target_score = (REAL)partial->target_score;
    row.first = first;
    row.last = last;
    NAME(loss_row_end)(&row, partial->divisors, partial->totals);
    if (NAME(loss_streams)(job)) stream_end();
}
