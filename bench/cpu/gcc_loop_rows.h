/* The loops for one type: NAME(part), STORED in memory, REAL to compute in, EXP, LOG, LOAD, STORE. Included once per type. */

static REAL NAME(maximum)(const STORED *restrict x, int64_t n)
{
    REAL m = -(REAL)INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const REAL v = LOAD(x[i]);
        m = v > m ? v : m;
    }
    return m;
}

static REAL NAME(sum_of_exp)(const STORED *restrict x, int64_t n, REAL m)
{
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += EXP(LOAD(x[i]) - m);
    return sum;
}

static void NAME(softmax_row)(const STORED *restrict x, STORED *restrict y, int64_t n)
{
    const REAL m = NAME(maximum)(x, n);
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const REAL e = EXP(LOAD(x[i]) - m);
        sum += e;
        y[i] = STORE(e);
    }
    const REAL inverse = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        y[i] = STORE(LOAD(y[i]) * inverse);
}

static void NAME(masked_row)(const STORED *restrict x, const uint8_t *restrict mask, STORED *restrict y, int64_t n)
{
    REAL m = -(REAL)1e30, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const REAL v = mask[i] ? LOAD(x[i]) : -(REAL)1e30;
        m = v > m ? v : m;
    }
    for (int64_t i = 0; i < n; i++) {
        const REAL e = mask[i] ? EXP(LOAD(x[i]) - m) : 0;
        sum += e;
        y[i] = STORE(e);
    }
    const REAL inverse = 1 / sum;
    for (int64_t i = 0; i < n; i++)
        y[i] = STORE(LOAD(y[i]) * inverse);
}

static void NAME(log_softmax_row)(const STORED *restrict x, STORED *restrict y, int64_t n)
{
    const REAL m = NAME(maximum)(x, n), shift = m + LOG(NAME(sum_of_exp)(x, n, m));
    for (int64_t i = 0; i < n; i++)
        y[i] = STORE(LOAD(x[i]) - shift);
}

static void NAME(softmax_backward_row)(const STORED *restrict y, const STORED *restrict dy, STORED *restrict dx,
                                       int64_t n)
{
    REAL dot = 0;
    for (int64_t i = 0; i < n; i++)
        dot += LOAD(y[i]) * LOAD(dy[i]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = STORE(LOAD(y[i]) * (LOAD(dy[i]) - dot));
}

static void NAME(log_softmax_backward_row)(const STORED *restrict y, const STORED *restrict dy, STORED *restrict dx,
                                           int64_t n)
{
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += LOAD(dy[i]);
    for (int64_t i = 0; i < n; i++)
        dx[i] = STORE(LOAD(dy[i]) - EXP(LOAD(y[i])) * sum);
}

static REAL NAME(cross_entropy_row)(const STORED *restrict x, int64_t target, STORED *restrict gradient, int64_t n,
                                    REAL share)
{
    const REAL m = NAME(maximum)(x, n);
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const REAL e = EXP(LOAD(x[i]) - m);
        sum += e;
        gradient[i] = STORE(e);
    }
    const REAL inverse = share / sum, at_target = LOAD(x[target]);
    for (int64_t i = 0; i < n; i++)
        gradient[i] = STORE(LOAD(gradient[i]) * inverse);
    gradient[target] = STORE(LOAD(gradient[target]) - share);
    return m + LOG(sum) - at_target;
}

/* Not the last axis: columns outside, neighbours inside, as the memory lies; 256 neighbours at a time. */
static void NAME(softmax_strip)(const STORED *restrict x, STORED *restrict y, int64_t n, int64_t inner, int64_t width)
{
    REAL m[256], sum[256];
    for (int64_t k = 0; k < width; k++) {
        m[k] = -(REAL)INFINITY;
        sum[k] = 0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) {
            const REAL v = LOAD(x[i * inner + k]);
            m[k] = v > m[k] ? v : m[k];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) {
            const REAL e = EXP(LOAD(x[i * inner + k]) - m[k]);
            sum[k] += e;
            y[i * inner + k] = STORE(e);
        }
    for (int64_t k = 0; k < width; k++)
        sum[k] = 1 / sum[k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++)
            y[i * inner + k] = STORE(LOAD(y[i * inner + k]) * sum[k]);
}

static int NAME(strips)(const bench_work *work)
{
    const int64_t n = work->columns, inner = work->inner, per_tensor = (inner + 255) / 256;
    if (work->operation != BENCH_SOFTMAX)
        return 1;
#pragma omp parallel for num_threads(work->threads) schedule(static)
    for (int64_t strip = 0; strip < work->outer * per_tensor; strip++) {
        const int64_t k = strip % per_tensor * 256, at = strip / per_tensor * n * inner + k;
        NAME(softmax_strip)((const STORED *)work->x + at, (STORED *)work->y + at, n, inner,
                            inner - k < 256 ? inner - k : 256);
    }
    return 0;
}

/* Rows [begin, end); the sum of their losses. */
static REAL NAME(rows)(const bench_work *work, int64_t begin, int64_t end)
{
    const int64_t n = work->columns;
    const REAL share = (REAL)1 / (REAL)work->outer;
    REAL loss = 0;
    for (int64_t r = begin; r < end; r++) {
        const STORED *const x = (const STORED *)work->x + r * n, *const dy = (const STORED *)work->dy + r * n;
        STORED *const y = (STORED *)work->y + r * n;
        switch (work->operation) {
        case BENCH_SOFTMAX:
            NAME(softmax_row)(x, y, n);
            break;
        case BENCH_MASKED_SOFTMAX:
            NAME(masked_row)(x, work->mask + r * n, y, n);
            break;
        case BENCH_LOG_SOFTMAX:
            NAME(log_softmax_row)(x, y, n);
            break;
        case BENCH_LOGSUMEXP: {
            const REAL m = NAME(maximum)(x, n);
            ((REAL *)work->y)[r] = m + LOG(NAME(sum_of_exp)(x, n, m));
            break;
        }
        case BENCH_SOFTMAX_BACKWARD:
            NAME(softmax_backward_row)(x, dy, y, n);
            break;
        case BENCH_LOG_SOFTMAX_BACKWARD:
            NAME(log_softmax_backward_row)(x, dy, y, n);
            break;
        default:
            loss += NAME(cross_entropy_row)(x, work->targets[r], y, n, share);
            break;
        }
    }
    return loss * share;
}

#include "rows_over_threads.h"

static int NAME(work)(const bench_work *work)
{
    if (work->inner != 1)
        return NAME(strips)(work);
    return NAME(rows_over_threads)(work);
}

#undef NAME
#undef STORED
#undef REAL
#undef EXP
#undef LOG
#undef LOAD
#undef STORE
