/* The passes for one type: NAME(part), REAL, VECTOR of LANES, V(instruction), EXP, REDUCE_MAX, REDUCE_ADD, EXP1 and LOG1
 * for one value. Included once per type. */

static REAL NAME(maximum)(const REAL *x, int64_t n)
{
    VECTOR a = V(set1)(-(REAL)INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = V(max)(a, V(loadu)(x + i));
        b = V(max)(b, V(loadu)(x + i + LANES));
        c = V(max)(c, V(loadu)(x + i + 2 * LANES));
        d = V(max)(d, V(loadu)(x + i + 3 * LANES));
    }
    for (; i + LANES <= n; i += LANES)
        a = V(max)(a, V(loadu)(x + i));
    REAL m = REDUCE_MAX(V(max)(V(max)(a, b), V(max)(c, d)));
    for (; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* The sum of exp(x - m); the terms go to y unless that is NULL. */
static REAL NAME(sum_of_exp)(const REAL *x, REAL *y, int64_t n, REAL m)
{
    const VECTOR shift = V(set1)(m);
    VECTOR a = V(set1)(0), b = a;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const VECTOR e = EXP(V(sub)(V(loadu)(x + i), shift)), f = EXP(V(sub)(V(loadu)(x + i + LANES), shift));
        a = V(add)(a, e);
        b = V(add)(b, f);
        if (y) {
            V(storeu)(y + i, e);
            V(storeu)(y + i + LANES, f);
        }
    }
    REAL sum = REDUCE_ADD(V(add)(a, b));
    for (; i < n; i++) {
        const REAL e = EXP1(x[i] - m);
        sum += e;
        if (y)
            y[i] = e;
    }
    return sum;
}

static void NAME(multiply)(REAL *y, int64_t n, REAL by)
{
    const VECTOR factor = V(set1)(by);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        V(storeu)(y + i, V(mul)(V(loadu)(y + i), factor));
    for (; i < n; i++)
        y[i] *= by;
}

static void NAME(subtract)(const REAL *x, REAL *y, int64_t n, REAL shift)
{
    const VECTOR all = V(set1)(shift);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        V(storeu)(y + i, V(sub)(V(loadu)(x + i), all));
    for (; i < n; i++)
        y[i] = x[i] - shift;
}

/* Rows [begin, end); the sum of their losses. */
static REAL NAME(rows)(const bench_work *work, int64_t begin, int64_t end)
{
    const int64_t n = work->columns;
    const REAL share = (REAL)1 / (REAL)work->outer;
    REAL loss = 0;
    for (int64_t r = begin; r < end; r++) {
        const REAL *const x = (const REAL *)work->x + r * n;
        REAL *const y = (REAL *)work->y + r * n;
        const REAL m = NAME(maximum)(x, n);
        switch (work->operation) {
        case BENCH_SOFTMAX:
            NAME(multiply)(y, n, 1 / NAME(sum_of_exp)(x, y, n, m));
            break;
        case BENCH_LOG_SOFTMAX:
            NAME(subtract)(x, y, n, m + LOG1(NAME(sum_of_exp)(x, NULL, n, m)));
            break;
        case BENCH_LOGSUMEXP:
            ((REAL *)work->y)[r] = m + LOG1(NAME(sum_of_exp)(x, NULL, n, m));
            break;
        default: {
            const REAL sum = NAME(sum_of_exp)(x, y, n, m), at_target = x[work->targets[r]];
            NAME(multiply)(y, n, share / sum);
            y[work->targets[r]] -= share;
            loss += m + LOG1(sum) - at_target;
            break;
        }
        }
    }
    return loss * share;
}

#include "rows_over_threads.h"

static int NAME(work)(const bench_work *work)
{
    if (work->inner != 1 || (work->operation > BENCH_LOGSUMEXP && work->operation != BENCH_CROSS_ENTROPY))
        return 1;
    return NAME(rows_over_threads)(work);
}

#undef NAME
#undef REAL
#undef VECTOR
#undef LANES
#undef V
#undef EXP
#undef REDUCE_MAX
#undef REDUCE_ADD
#undef EXP1
#undef LOG1
