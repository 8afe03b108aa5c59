/* A row's state while its blocks are added. A template like block.h.
 * The exponentials of the blocks' maxima are only numbers to be summed: they wait until there is a vector of them. The set of terms is
 * row_state_merge's, and the set alone makes the sum. */

typedef struct NAME(row_sum) {
    row_state *row;
    double waiting[VD_LANES]; /* maxima near 0, without low parts, that are not the row's */
    int count;
} NAME(row_sum);

static inline NAME(row_sum) NAME(row_sum_begin)(row_state *row) {
    NAME(row_sum) s;
    s.row = row;
    s.count = 0;
    return s;
}

/* Adds what waits. */
static void NAME(row_sum_end)(NAME(row_sum) *s) {
    double f[VD_LANES], k[VD_LANES];
    if (s->count == 0) return;
    for (int i = s->count; i < VD_LANES; i++) s->waiting[i] = 0.0;
    exp_of_maxima(s->waiting, f, k);
    for (int i = 0; i < s->count; i++) accumulator_add(&s->row->rest, (int64_t)(f[i] * 0x1p52), (int64_t)k[i] - 52);
    s->count = 0;
}

static void NAME(add_rest)(accumulator *rest, const NAME(block) *block) {
    if (!block->has_rest) return;
    accumulator_add(rest, block->rest, block->rest_exponent);
    if (sizeof(REAL) == 8) accumulator_add(rest, block->rest_low, wrapped_difference(block->rest_exponent, TERM64_LOW_UNIT - TERM64_HIGH_UNIT));
}

static void NAME(row_sum_add)(NAME(row_sum) *s, const NAME(block) *block, arithmetic kind) {
    row_state *row = s->row, added;
    int is_near = kind == ARITHMETIC_32 && !block->flags && score_is_near(block->maximum);
    if (is_near && row->maximum.high == -(double)INFINITY) {
        row->maximum = block->maximum;
        NAME(add_rest)(&row->rest, block);
    } else if (is_near && score_is_near(row->maximum)) {
        exact_score other = block->maximum;
        if (score_is_above(other, row->maximum)) {
            other = row->maximum;
            row->maximum = block->maximum;
        }
        NAME(add_rest)(&row->rest, block);
        if (score_is_single(other)) {
            s->waiting[s->count++] = other.high;
            if (s->count == VD_LANES) NAME(row_sum_end)(s);
        } else {
            power e = exp_of_maximum(other, kind);
            accumulator_add(&row->rest, (int64_t)(e.f.hi * 0x1p52), e.k - 52);
        }
    } else {
        NAME(row_sum_end)(s);
        added = row_state_empty();
        added.maximum = block->maximum;
        added.flags = block->flags;
        NAME(add_rest)(&added.rest, block);
        row_state_merge(row, &added, kind);
    }
}
