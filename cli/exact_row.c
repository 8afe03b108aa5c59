#include "exact_row.h"

#define REAL_NAN ((real)NAN)
#define REAL_INFINITY ((real)INFINITY)

/* What is known of a row of scores once it has been walked along. */
typedef struct summary {
    int64_t top; /* the first column that holds the maximum, or -1 in an empty row */
    real max;
    real log_total; /* log sum_j exp(z_j - max), right also next to 0 */
    real total;     /* sum_j exp(z_j - max) */
    bool nan, plus_infinity;
} summary;

/* A column that takes no part scores -inf. softcap is exact here; the library rounds it once. */
static real score(const problem *p, const row_view *view, int64_t c)
{
    const softmax_options *options = &p->arguments->options;
    if (row_masked(view, c))
        return -REAL_INFINITY;
    real z = row_value(&view->input, c);
    if (options->softcap > 0 && !real_is_nan(z))
        z = options->softcap * real_tanh(z / options->softcap);
    if (options->scale != 0)
        z *= options->scale;
    else if (!real_is_nan(z) && !real_is_infinite(z)) /* infinities stay: -inf is masked out under any scale */
        z = 0;
    return view->bias.tensor ? z + row_value(&view->bias, c) : z;
}

static summary summarise(const problem *p, const row_view *view, real *scores)
{
    summary s = {.top = -1, .max = -REAL_INFINITY};
    for (int64_t c = 0; c < view->columns; c++) {
        scores[c] = score(p, view, c);
        s.nan |= real_is_nan(scores[c]);
        s.plus_infinity |= scores[c] == REAL_INFINITY;
        if (scores[c] > s.max) {
            s.max = scores[c];
            s.top = c;
        }
    }
    if (s.nan || s.plus_infinity || s.top < 0)
        return s;
    real rest = 0;
    for (int64_t c = 0; c < view->columns; c++)
        rest += c == s.top ? 0 : real_exp(scores[c] - s.max);
    s.total = 1 + rest;
    s.log_total = real_log1p(rest);
    return s;
}

static void forward(const problem *p, const row_view *view, const real *scores, const summary *s, real *exact,
                    real *magnitude)
{
    bool is_log = p->arguments->op == OP_LOG_SOFTMAX;
    bool zero = p->arguments->options.empty_rows == SOFTMAX_EMPTY_ZERO;
    for (int64_t c = 0; c < view->columns; c++) {
        if (s->nan || s->plus_infinity)
            exact[c] = row_masked(view, c) ? (is_log ? -REAL_INFINITY : 0) : REAL_NAN;
        else if (s->top < 0)
            exact[c] = zero ? (is_log ? -REAL_INFINITY : 0) : REAL_NAN;
        else if (is_log)
            exact[c] = scores[c] - s->max - s->log_total;
        else
            exact[c] = real_exp(scores[c] - s->max) / s->total;
        magnitude[c] = real_abs(exact[c]);
    }
}

static void logsumexp(const summary *s, real *exact, real *magnitude)
{
    *exact = s->nan ? REAL_NAN : s->plus_infinity ? REAL_INFINITY : s->top < 0 ? -REAL_INFINITY : s->max + s->log_total;
    real sizes[] = {real_abs(*exact), real_abs(s->max), s->log_total};
    *magnitude = sizes[0];
    for (int i = 1; i < 3; i++)
        *magnitude = sizes[i] > *magnitude ? sizes[i] : *magnitude;
}

/* softmax: y (dy - sum dy y); log_softmax: dy - exp(y) sum dy. Columns of no probability get 0 and take no part. */
static void backward(const problem *p, const row_view *view, real *exact, real *magnitude)
{
    bool is_log = p->arguments->op == OP_LOG_SOFTMAX_BACKWARD;
    bool zero = p->arguments->options.empty_rows == SOFTMAX_EMPTY_ZERO;
    real sum = 0, sizes = 0;
    bool bad = false;
    int64_t empty = 0;
    for (int64_t c = 0; c < view->columns; c++) {
        real y = row_value(&view->input, c), dy = row_value(&view->grad, c);
        empty += real_is_nan(y) || (is_log ? y == -REAL_INFINITY : y == 0);
        bad |= real_is_nan(y) || real_is_nan(dy) || real_is_infinite(dy);
        if (is_log ? y == -REAL_INFINITY : y == 0)
            continue;
        sum += is_log ? dy : dy * y;
        sizes += real_abs(is_log ? dy : dy * y);
    }
    for (int64_t c = 0; c < view->columns; c++) {
        real y = row_value(&view->input, c), dy = row_value(&view->grad, c);
        real share = is_log ? real_exp(y) : y;
        if (zero && empty == view->columns)
            exact[c] = 0;
        else if (bad)
            exact[c] = REAL_NAN;
        else if (is_log)
            exact[c] = y == -REAL_INFINITY ? 0 : dy - share * sum;
        else
            exact[c] = y == 0 ? 0 : y * (dy - sum);
        magnitude[c] = is_log ? real_abs(dy) + share * sizes : share * (real_abs(dy) + sizes);
    }
}

/* The loss's factor of (l - z_c): target or probability, smoothing, class weight. */
static real coefficient(const problem *p, const row_view *view, int64_t c, int64_t target)
{
    const softmax_options *options = &p->arguments->options;
    real smoothing = options->label_smoothing;
    real weight = 1, probability = c == target;
    if (p->operands.class_weights) {
        row_line weights = {p->operands.class_weights, 0, p->operands.class_weights->strides[0]};
        weight = row_value(&weights, c);
    }
    if (target < 0)
        probability = row_value(&view->targets, c);
    return weight * ((1 - smoothing) * probability + smoothing / view->columns);
}

static void loss(const problem *p, const row_view *view, const real *scores, const summary *s, real *exact,
                 real *magnitude)
{
    bool classes = !npy_is_float(p->targets.header.kind);
    int64_t target = classes ? (int64_t)row_value(&view->targets, 0) : -1;
    *exact = *magnitude = 0;
    if (classes && target == p->arguments->options.ignore_index)
        return;
    if (s->nan || s->plus_infinity || s->top < 0) {
        *exact = REAL_NAN;
        return;
    }
    for (int64_t c = 0; c < view->columns; c++) {
        real factor = coefficient(p, view, c, target);
        bool counts = factor != 0 && (c == target || !row_masked(view, c));
        *exact += counts ? factor * (s->log_total + (s->max - scores[c])) : 0;
        *magnitude += counts ? real_abs(factor * (s->log_total + (s->max - scores[c]))) : 0;
    }
    real l = s->max + s->log_total, extra = p->arguments->options.z_loss * l * l;
    *exact += extra;
    *magnitude += extra;
}

void exact_row(const problem *p, int64_t row, real *scores, real *exact, real *magnitude)
{
    row_view view;
    row_open(p, row, &view);
    if (operation_is_backward(p->arguments->op)) {
        backward(p, &view, exact, magnitude);
        return;
    }
    summary s = summarise(p, &view, scores);
    if (p->arguments->op == OP_LOGSUMEXP)
        logsumexp(&s, exact, magnitude);
    else if (p->arguments->op == OP_CROSS_ENTROPY)
        loss(p, &view, scores, &s, exact, magnitude);
    else
        forward(p, &view, scores, &s, exact, magnitude);
}
