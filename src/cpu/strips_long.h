/* Strips of rows of many blocks: each lane has a row_sum, to which every block is added. A template like block.h, included by strips.h. */

typedef struct NAME(strip_sums) {
    NAME(row_sum) sum[LANES * STRIP_GROUPS];
    row_state row[LANES * STRIP_GROUPS];
    NAME(row_result) result[LANES * STRIP_GROUPS];
} NAME(strip_sums);

/* A block of every lane is added to its row; an empty one adds nothing. Lanes with a block that is not a plain one are left to forward_row. */
static void NAME(strip_add)(NAME(strip) *s, const NAME(lanes) *lanes, NAME(strip_sums) *sums) {
    for (int u = 0; u < s->groups; u++) {
        REAL first[LANES], kb[LANES];
        BITS high[LANES], low[LANES];
        V(store)(first, lanes[u].first);
        V(store)(kb, lanes[u].kb);
        I(store)(high, lanes[u].high);
        I(store)(low, lanes[u].low);
        s->far[u] |= lanes[u].far | (lanes[u].constant & ~lanes[u].empty);
        for (int i = 0; i < NAME(strip_lanes)(s, u); i++) {
            NAME(block) block;
            if ((s->far[u] | lanes[u].empty) >> i & 1) continue;
            block.maximum = score_of_value((double)first[i]);
            block.kb = (int64_t)kb[i];
            block.flags = 0;
            NAME(set_rest)(&block, high[i], low[i]);
            NAME(row_sum_add)(&sums->sum[u * LANES + i], &block, s->job->kind);
        }
    }
}

/* What brings one block's terms to results, lane by lane: block_results. */
static void NAME(strip_factors)(const NAME(strip) *s, const NAME(strip_sums) *sums, NAME(lanes) *lanes, int group) {
    REAL first[LANES], kb[LANES], top[LANES], hi[LANES], lo[LANES], cut[LANES], most[LANES], least[LANES], down[LANES];
    V(store)(first, lanes->first);
    V(store)(kb, lanes->kb);
    V(store)(top, lanes->top);
    lanes->patch = 0;
    for (int i = 0; i < LANES; i++) {
        const NAME(row_result) *r = &sums->result[group * LANES + i];
        int is_row = i < NAME(strip_lanes)(s, group) && !(s->far[group] >> i & 1);
        int64_t distance = is_row ? (int64_t)kb[i] - r->k : 0, exponent = distance - SOFTMAX_BIAS + OUT_BIAS;
        pair g;
        hi[i] = lo[i] = cut[i] = most[i] = least[i] = 0;
        down[i] = 1;
        if (!is_row) continue;
        most[i] = cut[i] = (REAL)(r->most.hi * (double)NAME(two_to)(OUT_BIAS));
        if (exponent < LEAST_EXPONENT || lanes->empty >> i & 1) continue; /* zeros */
        if (distance < FAR_BLOCK) {
            lanes->patch = LANES_DISTANT;
            exponent += FAR_SHIFT;
            least[i] = NAME(two_to)(8);
            down[i] = NAME(two_to)(-FAR_SHIFT);
            cut[i] = (REAL)INFINITY;
        }
        g.hi = scale_by_power(r->factor.hi, exponent);
        g.lo = scale_by_power(r->factor.lo, exponent);
        hi[i] = (REAL)g.hi;
        lo[i] = arithmetic_is_short(s->job->kind) ? 0 : (REAL)((g.hi - (double)hi[i]) + g.lo);
        if (distance >= FAR_BLOCK && (double)first[i] == r->maximum.high) cut[i] = FMA(top[i], hi[i], top[i] * lo[i]);
    }
    lanes->factor_hi = V(load)(hi);
    lanes->factor_lo = V(load)(lo);
    lanes->cut = V(load)(cut);
    lanes->most = V(load)(most);
    lanes->least = V(load)(least);
    lanes->down = V(load)(down);
}

static void NAME(strip_logarithms)(const NAME(strip) *s, const NAME(strip_sums) *sums, NAME(lanes) *lanes, int group) {
    REAL first[LANES], minus_log[LANES];
    for (int i = 0; i < LANES; i++) {
        int is_row = i < NAME(strip_lanes)(s, group) && !(s->far[group] >> i & 1);
        first[i] = is_row ? (REAL)sums->result[group * LANES + i].maximum.high : 0;
        minus_log[i] = is_row ? (REAL)(0.0 - sums->result[group * LANES + i].log.hi) : 0;
    }
    lanes->patch = 0;
    lanes->first = V(load)(first);
    lanes->minus_log = V(load)(minus_log);
}

static void NAME(strip_long)(NAME(strip) *s) {
    const softmax_job *job = s->job;
    const int64_t columns = job->columns, blocks = (columns + SOFTMAX_BLOCK_COLUMNS - 1) / SOFTMAX_BLOCK_COLUMNS;
    const int want_log = job->op == OPERATION_LOG_SOFTMAX, softmax = job->op == OPERATION_SOFTMAX;
    const int kept = s->pitch == columns * LANES && blocks <= STRIP_BLOCKS;
    NAME(strip_sums) sums;
    NAME(lanes) lanes[STRIP_BLOCKS][STRIP_GROUPS];
    for (int i = 0; i < s->lanes; i++) {
        sums.row[i] = row_state_empty();
        sums.sum[i] = NAME(row_sum_begin)(&sums.row[i]);
    }
    for (int64_t b = 0; b < blocks; b++) {
        int64_t c = b * SOFTMAX_BLOCK_COLUMNS;
        NAME(lanes) *its = lanes[kept ? b : 0];
        NAME(strip_block)(s, its, c, NAME(block_columns)(c, columns), kept ? c : 0, kept && softmax);
        NAME(strip_add)(s, its, &sums);
    }
    for (int i = 0; i < s->lanes; i++) {
        if (s->far[i / LANES] >> i % LANES & 1) continue;
        NAME(row_sum_end)(&sums.sum[i]);
        if (sums.row[i].maximum.high == -(double)INFINITY) {
            s->far[i / LANES] |= 1u << i % LANES;
            continue;
        }
        if (job->op == OPERATION_LOGSUMEXP)
            store_real(s->out + i * element_bytes(job->out.type), job->out.type, row_state_logsumexp(&sums.row[i], job->kind));
        else
            sums.result[i] = NAME(result_of_state)(&sums.row[i], job->kind, want_log, job->empty_zero);
    }
    for (int64_t b = 0; job->op != OPERATION_LOGSUMEXP && b < blocks; b++) {
        int64_t c = b * SOFTMAX_BLOCK_COLUMNS;
        int count = NAME(block_columns)(c, columns);
        NAME(lanes) *its = lanes[kept ? b : 0];
        if (!kept && softmax)
            NAME(strip_block)(s, its, c, count, 0, 1);
        else if (!kept)
            NAME(strip_load)(s, c, count, 0);
        for (int u = 0; !kept && !softmax && !s->plain && u < s->groups; u++)
            NAME(strip_scores)(s, &its[u], u, c, count, s->tile + u * s->pitch, NULL);
        for (int u = 0; u < s->groups; u++)
            if (softmax)
                NAME(strip_factors)(s, &sums, &its[u], u);
            else
                NAME(strip_logarithms)(s, &sums, &its[u], u);
        NAME(strip_results)(s, its, c, count, kept ? c : 0);
    }
}
