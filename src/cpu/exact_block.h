/* Blocks whose scores are far out, or come of parts that cancel, element by element with exact scores (numerics/exact_score.h). A template like
 * block.h. */

/* Scores of the block that was read last, at most SOFTMAX_BLOCK_COLUMNS; source is NULL where there are no low parts, and z is all. */
static void NAME(exact_scores)(const NAME(source) *source, const REAL *z, int count, exact_score *scores) {
    REAL x[SOFTMAX_BLOCK_COLUMNS], bias[SOFTMAX_BLOCK_COLUMNS];
    if (!source) {
        for (int i = 0; i < count; i++) scores[i] = score_of_value((double)z[i]);
        return;
    }
    NAME(parts_of_scores)(source, count, x, bias);
    for (int i = 0; i < count; i++)
        scores[i] = z[i] - z[i] == 0 ? exact_score_of((double)x[i], source->job->scale, (double)bias[i]) : score_of_value((double)z[i]);
}

/* The largest score and the largest of the others. */
static void NAME(exact_top)(const exact_score *scores, int count, exact_score *first, exact_score *second) {
    *first = *second = score_of_value(-(double)INFINITY);
    for (int i = 0; i < count; i++) {
        if (score_is_above(scores[i], *first)) {
            *second = *first;
            *first = scores[i];
        } else if (score_is_above(scores[i], *second)) {
            *second = scores[i];
        }
    }
}

/* block_terms for such a block, which has a finite score and nothing that is NaN or infinite but -inf. v may be z. */
static NOINLINE void NAME(exact_block)(const NAME(source) *source, const REAL *z, int count, arithmetic kind, REAL *v, NAME(block) *block) {
    exact_score scores[SOFTMAX_BLOCK_COLUMNS], second;
    BITS high = 0, low = 0;
    TERM top;
    reduced first;
    int64_t kb;
    NAME(exact_scores)(source, z, count, scores);
    NAME(exact_top)(scores, count, &block->maximum, &second);
    first = reduce_for_terms(block->maximum, kind);
    kb = wrapped_difference(first.k, FAR_SPREAD);
    if (second.high != -(double)INFINITY && scores_meet(second, block->maximum)) {
        int64_t k = reduce_for_terms(second, kind).k;
        if (wrapped_difference(k, kb) > 0) kb = k;
    }
    for (int i = 0; i < count; i++) {
        TERM t = {TERM_NOTHING, 0, 0};
        if (scores[i].high != -(double)INFINITY && scores_meet(scores[i], block->maximum))
            t = NAME(term_far)(reduce_for_terms(scores[i], kind), kb, kind);
        high += t.high;
        low += t.low;
        if (v) v[i] = t.v;
    }
    top = NAME(term_far)(first, kb, kind);
    block->kb = kb;
    block->top = top.v;
    NAME(set_rest)(block, high - top.high, low - top.low);
}

/* y = (score - m) - log, rounded once. */
static void NAME(exact_log_values)(const NAME(source) *source, const REAL *z, int count, exact_score m, pair log, REAL *y) {
    exact_score scores[SOFTMAX_BLOCK_COLUMNS];
    NAME(exact_scores)(source, z, count, scores);
    for (int i = 0; i < count; i++) y[i] = (REAL)log_of_exact_score(scores[i], m, log, (double)SMALLEST_NORMAL);
}
