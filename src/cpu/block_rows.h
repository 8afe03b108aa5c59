/* Contiguous rows of one block each: a vector's lanes of them are read out together (lanes.h), for what is computed once for a row is a chain of
 * some 500 cycles, as long as 30 vectors of terms. Groups are as small as a first-level cache: their scores are read once from farther away, and
 * terms that go past the caches in the end are not written to the second level in between. A template like block.h; the bits are forward.h's. */

#if !defined(GROUP_BYTES)
#define GROUP_BYTES 16384 /* of terms that go past the caches */
#endif

#if !defined(TURN_BYTES)
#define TURN_BYTES 4096 /* of them before others are taken in turn with */
#endif

#if !defined(ROWS_TOGETHER)
#define ROWS_TOGETHER 512 /* columns of rows whose results are made in one loop */
#endif

#include "block_tail.h"
#include "row_tops.h"

/* Up to LANES rows between the sums of their terms and their results. */
typedef struct NAME(row_group) {
    int64_t row; /* the first */
    int rows;
    const char *x;
    REAL *kept; /* where terms go, and first the scores of 16-bit rows; NULL: in the results' place */
    NAME(top) top[LANES];
    REAL hi[LANES]; /* as NAME(factor) */
    REAL lo[LANES];
    REAL cut[LANES];
    REAL most[LANES];
    REAL minus_log[LANES];
} NAME(row_group);

static REAL *NAME(row_of_results)(const softmax_job *job, int64_t row) {
    return (REAL *)(void *)(job->out.data + row * job->out.row_stride[0]);
}

static inline int NAME(terms_pitch)(int columns) { return (columns + LANES - 1) / LANES * LANES; }

static int NAME(rows_of_group)(int64_t columns, int streams) {
    if (streams && columns > SOFTMAX_BLOCK_COLUMNS) return LANES / 2; /* block_tail.h costs the same for one and for all lanes */
    int64_t rows = GROUP_BYTES / (columns * (int64_t)sizeof(REAL));
    return !streams || rows > LANES ? LANES : rows < 2 ? 2 : (int)rows;
}

static inline REAL *NAME(group_terms)(const NAME(row_group) *g, const softmax_job *job, int i) {
    return g->kept ? g->kept + i * NAME(terms_pitch)((int)job->columns) : NAME(row_of_results)(job, g->row + i);
}

static inline const char *NAME(group_elements)(const NAME(row_group) *g, const softmax_job *job, int i) {
    return g->x + i * job->columns * element_bytes(job->x.type);
}

static inline const REAL *NAME(group_scores)(const NAME(row_group) *g, const softmax_job *job, int i) {
    return job->x.type == REAL_ELEMENT ? (const REAL *)(const void *)NAME(group_elements)(g, job, i) : NAME(group_terms)(g, job, i);
}

/* The mask through which row i is seen, or NULL. */
static inline const uint8_t *NAME(group_mask)(const NAME(row_group) *g, const softmax_job *job, int i) {
    return job->mask.data ? (const uint8_t *)job->mask.data + (g->row + i) * job->mask.row_stride[0] : NULL;
}

/* The results of row i of the group. */
static inline void NAME(finish_group_row)(const NAME(row_group) *g, const softmax_job *job, int i, int streams, NAME(line) *line) {
    REAL *y = NAME(row_of_results)(job, g->row + i);
    const NAME(top) *top = &g->top[i];
    int count = (int)job->columns;
    if (job->op == OPERATION_LOG_SOFTMAX && job->mask.data) {
        NAME(seen_logs)(NAME(group_scores)(g, job, i), NAME(group_mask)(g, job, i), count, top->first, g->minus_log[i], y, streams);
    } else if (job->op == OPERATION_LOG_SOFTMAX) {
        NAME(log_row)(NAME(group_scores)(g, job, i), count, top->first, g->minus_log[i], y, job->out.type, streams, line);
    } else {
        NAME(factor) f = {g->hi[i], g->lo[i], SMALLEST_NORMAL * NAME(two_to)(OUT_BIAS), g->cut[i], g->most[i]};
        const int at = top->first - top->second >= TERMS_APART ? top->at : -1;
        NAME(scale_row)(NAME(group_terms)(g, job, i), count, &f, (double)top->first - (double)top->least, 0, at, y, job->out.type, streams, line);
    }
}

/* The results of rows [first, last) of the group: in one loop where all of them are level. */
static void NAME(finish_group_rows)(const NAME(row_group) *g, const softmax_job *job, int first, int last, int streams, NAME(line) *line) {
    const int count = (int)job->columns;
    int together = job->op == OPERATION_SOFTMAX && job->out.type == REAL_ELEMENT && !arithmetic_is_short(job->kind) && count <= ROWS_TOGETHER;
    together &= !streams || (count % LANES == 0 && NAME(columns_to_alignment)(NAME(row_of_results)(job, g->row)) == 0);
    for (int i = first; together && i < last; i++) {
        const NAME(factor) f = {g->hi[i], g->lo[i], 0, g->cut[i], g->most[i]};
        together = NAME(results_are_calm)(&f, (double)g->top[i].first - (double)g->top[i].least);
    }
    for (int i = first; i < last; i++) {
        NAME(factor) f = {g->hi[i], g->lo[i], 0, g->cut[i], g->most[i]};
        if (!together) {
            NAME(finish_group_row)(g, job, i, streams, line);
            continue;
        }
        NAME(leave_bias_out)(&f);
        if (streams)
            NAME(results_loop)(NAME(group_terms)(g, job, i), count, &f, NAME(row_of_results)(job, g->row + i), LEVEL, 0, 1);
        else
            NAME(results_loop)(NAME(group_terms)(g, job, i), count, &f, NAME(row_of_results)(job, g->row + i), LEVEL, 0, 0);
    }
}

/* 0 if some row is not a usual one. */
static int NAME(find_group_tails)(NAME(row_group) *g, const NAME(lanes) *s, NAME(tails) *t, const softmax_job *job) {
    REAL first[LANES], least[LANES];
    VECTOR low;
    const REAL *z = NAME(group_scores)(g, job, 0) + SOFTMAX_BLOCK_COLUMNS;
    if (!NAME(find_tails)(t, z, job->columns, g->rows, s, &low)) return 0;
    V(store)(first, t->lanes.first);
    V(store)(least, low);
    for (int i = 0; i < g->rows; i++) {
        NAME(top) *top = &g->top[i];
        if (!(top->first - first[i] >= TERMS_APART)) top->at = -1;
        if (first[i] > top->first) top->first = first[i];
        g->top[i].least = least[i] < g->top[i].least ? least[i] : g->top[i].least;
    }
    return 1;
}

/* The largest scores of all rows, as find_group_tops begins. */
static int NAME(find_tops_together)(NAME(row_group) *g, NAME(lanes) *s, const softmax_job *job, int columns) {
    NAME(row_tops) tops;
    REAL first[LANES], second[LANES], low[LANES], used[LANES];
    VECTOR firsts, seconds, lows;
    int usual;
    NAME(row_tops_begin)(&tops);
    for (int i = 0; i < g->rows; i++) {
        if (job->x.type != REAL_ELEMENT)
            NAME(gather)(NAME(group_elements)(g, job, i), job->x.type, element_bytes(job->x.type), columns, NAME(group_terms)(g, job, i));
        NAME(row_tops_add)(&tops, i, NAME(group_scores)(g, job, i), columns);
    }
    usual = !tops.has_nan;
    NAME(row_tops_meet)(&tops, &firsts, &seconds, &lows);
    V(store)(first, firsts);
    V(store)(second, seconds);
    V(store)(low, lows);
    for (int i = 0; i < LANES; i++) {
        NAME(top) top = {first[i], second[i], low[i] < 0 ? low[i] : low[i] >= 0 ? 0 : -(REAL)INFINITY, 0, -1, 0};
        used[i] = i < g->rows;
        if (i < g->rows) g->top[i] = top;
        usual &= first[i] < WIDE_FROM && first[i] > -WIDE_FROM;
    }
    NAME(lanes_begin)(s);
    s->first = firsts;
    s->second = seconds;
    s->usual = V(load)(used);
    return usual;
}

/* The largest scores of all rows; 0 if some row is not a usual one. */
static int NAME(find_group_tops)(NAME(row_group) *g, NAME(lanes) *s, NAME(tails) *t, const softmax_job *job) {
    REAL first[LANES], second[LANES], used[LANES];
    int usual = 1, columns = (int)job->columns - t->columns;
    if (LANES >= 4 && columns <= TOPS_TOGETHER && !job->mask.data && g->rows >= LANES / 4) return NAME(find_tops_together)(g, s, job, columns);
    for (int i = 0; i < g->rows; i++) {
        if (job->x.type != REAL_ELEMENT)
            NAME(gather)(NAME(group_elements)(g, job, i), job->x.type, element_bytes(job->x.type), columns, NAME(group_terms)(g, job, i));
        g->top[i] = job->mask.data ? NAME(seen_top)(NAME(group_scores)(g, job, i), NAME(group_mask)(g, job, i), columns)
                                   : NAME(block_top)(NAME(group_scores)(g, job, i), columns);
        first[i] = g->top[i].first;
        second[i] = g->top[i].second;
        used[i] = 1;
        usual &= !g->top[i].has_nan && first[i] < WIDE_FROM && first[i] > -WIDE_FROM;
    }
    for (int i = g->rows; i < LANES; i++) first[i] = second[i] = used[i] = 0;
    NAME(lanes_begin)(s);
    s->first = V(load)(first);
    s->second = V(load)(second);
    s->usual = V(load)(used);
    return usual && (!t->columns || NAME(find_group_tails)(g, s, t, job));
}

static void NAME(finish_group)(const NAME(row_group) *g, const softmax_job *job, int streams, NAME(line) *line) {
    if (g) NAME(finish_group_rows)(g, job, 0, g->rows, streams, line);
}

/* The results of the group before, where they may be written within the loop of the next one's terms; else 0. */
static int NAME(group_logs)(const NAME(row_group) *before, const softmax_job *job, int rows, int streams, NAME(late_log) *log) {
    if (!before || before->rows != rows || job->op != OPERATION_LOG_SOFTMAX || job->mask.data) return 0;
    if (job->x.type != REAL_ELEMENT || job->out.type != REAL_ELEMENT || job->columns > SOFTMAX_BLOCK_COLUMNS) return 0;
    for (int i = 0; i < rows; i++) {
        NAME(late_log) its = {NAME(group_scores)(before, job, i), NAME(row_of_results)(job, before->row + i), before->top[i].first, before->minus_log[i]};
        if (!NAME(logs_may_wait)(job->columns, its.y, streams, job->kind) || !(its.minus_log <= -SMALLEST_NORMAL)) return 0;
        log[i] = its;
    }
    return 1;
}

/* From the largest scores to what the group's results need, while the scores of the group after it are fetched; in turn with the results of the
 * group before (NULL: none), for stores past the caches must not come many at a time. */
static void NAME(sum_group)(NAME(row_group) *g, NAME(lanes) *s, const softmax_job *job, NAME(tails) *t, const NAME(row_group) *before, int streams,
                            NAME(line) *line) {
    const int64_t bytes = element_bytes(job->x.type);
    const int columns = (int)job->columns, keep = job->op == OPERATION_SOFTMAX;
    const int few = TURN_BYTES / (int)(columns * (int)sizeof(REAL)), some = !streams ? g->rows : few < 1 ? 1 : few;
    BITS high[LANES] = {0}, low[LANES] = {0};
    NAME(term_row) row[LANES];
    NAME(late_log) log[LANES];
    NAME(lane_terms) terms;
    int first = 0;
    NAME(lane_terms_begin)(s, job->kind, &terms);
    for (int i = 0; i < g->rows; i++) {
        const ahead_lines ahead = {(uintptr_t)NAME(group_elements)(g, job, i) + (uintptr_t)(g->rows * columns * bytes), LANES * bytes};
        NAME(term_row) its = {NAME(group_scores)(g, job, i), NAME(group_mask)(g, job, i), keep ? NAME(group_terms)(g, job, i) : NULL, columns - t->columns, terms.magic[i], terms.floor_score[i],
                                ahead, 0, 0};
        row[i] = its;
        prefetch_ends(ahead, columns * bytes);
        for (int j = 0; its.mask && j < columns; j += 64) prefetch_line(its.mask + g->rows * job->mask.row_stride[0] + j);
    }
    if (t->columns) NAME(sum_tails)(t, job, keep);
    if (NAME(group_logs)(before, job, g->rows, streams, log)) {
        NAME(terms_and_logs)(row, g->rows, log, streams);
        before = NULL;
        first = g->rows;
    }
    for (int i = first; i < g->rows; i += some) {
        const int last = g->rows - i < some ? g->rows : i + some;
        if (before) NAME(finish_group_rows)(before, job, i, last, streams, line);
        NAME(terms_of_rows)(&row[i], last - i, keep, job->kind);
        for (int j = i; t->columns && keep && j < last; j++) NAME(place_tail)(t, j, row[j].v + SOFTMAX_BLOCK_COLUMNS);
    }
    for (int i = 0; i < g->rows; i++) {
        high[i] = row[i].high;
        low[i] = row[i].low;
    }
    NAME(lane_terms_end)(s, &terms, high, low);
    if (t->columns)
        NAME(read_two_blocks)(s, &t->lanes, NAME(lane_want_of)(job->op));
    else
        NAME(read_lanes)(s, 1, job->kind, NAME(lane_want_of)(job->op));
    V(store)(g->hi, s->factor_hi);
    V(store)(g->lo, s->factor_lo);
    V(store)(g->cut, s->cut);
    V(store)(g->most, s->most);
    V(store)(g->minus_log, s->minus_log);
}

static void NAME(store_group_logsumexp)(const NAME(row_group) *g, const NAME(lanes) *s, const softmax_job *job) {
    REAL value[LANES];
    V(store)(value, s->value);
    for (int i = 0; i < g->rows; i++) store_real(job->out.data + (g->row + i) * job->out.row_stride[0], job->out.type, (double)value[i]);
}

static void NAME(rows_in_batches)(const softmax_job *job, int64_t first, int64_t last, REAL *kept, int streams);
static void NAME(option_rows)(const softmax_job *job, int64_t first, int64_t last, REAL *scratch, int streams);

/* Some of the rows are not usual ones. */
static void NAME(unusual_group)(const softmax_job *job, const NAME(row_group) *g, REAL *kept, int streams) {
    REAL *scratch = kept || !job->mask.data ? kept : (REAL *)softmax_cpu_scratch();
    if (job->columns > SOFTMAX_BLOCK_COLUMNS)
        NAME(rows_in_batches)(job, g->row, g->row + g->rows, kept, streams);
    else if (job->mask.data && scratch)
        NAME(option_rows)(job, g->row, g->row + g->rows, scratch, streams);
    else
        NAME(forward_rows)(job, g->row, g->row + g->rows);
}

/* `kept`: room for the terms of rows that are not kept in the results' place; two groups' for 16-bit scores, whose rows take it up earlier. */
static void NAME(group_rows)(const softmax_job *job, int64_t first, int64_t last, REAL *kept, int streams) {
    NAME(row_group) group[2];
    const NAME(row_group) *before = NULL;
    NAME(lanes) s;
    NAME(line) line;
    NAME(tails) tails;
    int columns = (int)job->columns, most = NAME(rows_of_group)(columns, kept != NULL), now = 0;
    int64_t other = job->x.type == REAL_ELEMENT ? 0 : most * (int64_t)NAME(terms_pitch)(columns);
    line.at = NULL;
    tails.columns = columns > SOFTMAX_BLOCK_COLUMNS ? columns - SOFTMAX_BLOCK_COLUMNS : 0;
    for (int64_t row = first; row < last; row += most) {
        NAME(row_group) *g = &group[now];
        g->row = row;
        g->rows = last - row < most ? (int)(last - row) : most;
        g->x = job->x.data + row * columns * element_bytes(job->x.type);
        g->kept = kept ? kept + now * other : NULL; /* row by row, the group before has done with its own */
        if (before && before->rows > g->rows) {
            NAME(finish_group)(before, job, streams, &line);
            before = NULL;
        }
        if (!NAME(find_group_tops)(g, &s, &tails, job)) {
            NAME(finish_group)(before, job, streams, &line);
            before = NULL;
            NAME(unusual_group)(job, g, kept, streams);
            continue;
        }
        NAME(sum_group)(g, &s, job, &tails, before, streams, &line);
        before = g;
        now ^= 1;
        if (job->op == OPERATION_LOGSUMEXP) {
            NAME(store_group_logsumexp)(g, &s, job);
            before = NULL;
        }
    }
    NAME(finish_group)(before, job, streams, &line);
    NAME(line_end)(&line);
    if (streams) stream_end();
}

/* Whether rows lie one after another and their elements are the scores. */
static int NAME(rows_are_scores)(const softmax_job *job) {
    place p = place_of_row(job, 0);
    NAME(source) source = NAME(source_of_row)(job, &p);
    return source.plain && !source.mask && is_contiguous(&job->x) && source.limit == job->columns && !job->causal && !job->lengths.data &&
           job->dimensions == 1 && (job->rows == 1 || job->x.row_stride[0] == job->columns * element_bytes(job->x.type));
}

/* The same but for a mask, through which they are seen. */
static int NAME(rows_are_seen)(const softmax_job *job) {
    place p = place_of_row(job, 0);
    return NAME(source_of_row)(job, &p).through && !job->causal && !job->lengths.data && job->dimensions == 1 && job->out.type == REAL_ELEMENT &&
           job->op <= OPERATION_LOGSUMEXP && (job->rows == 1 || job->x.row_stride[0] == job->columns * (int64_t)sizeof(REAL));
}

#include "option_rows.h"
#include "batch_rows.h"
#include "option_batches.h"
#include "long_rows.h"

/* Rows [first, last) of a forward, whatever they are. */
static void NAME(all_rows)(const softmax_job *job, int64_t first, int64_t last) {
    int one_block = job->columns > SHORT_COLUMNS && job->columns <= SOFTMAX_BLOCK_COLUMNS && last - first > 1;
    int nearly = job->columns > SOFTMAX_BLOCK_COLUMNS && job->columns <= SOFTMAX_BLOCK_COLUMNS + TAIL_COLUMNS && last - first > 1;
    int results = (job->op == OPERATION_SOFTMAX || job->op == OPERATION_LOG_SOFTMAX) && is_contiguous(&job->out);
    if ((one_block || (nearly && NAME(rows_take_batches)(job))) && (results || job->op == OPERATION_LOGSUMEXP) &&
        (NAME(rows_are_scores)(job) || (one_block && NAME(rows_are_seen)(job)))) {
        int streams = NAME(forward_streams)(job), widens = job->x.type != REAL_ELEMENT;
        int keeps = widens || (job->op == OPERATION_SOFTMAX && (streams || job->out.type != REAL_ELEMENT));
        REAL *kept = keeps ? (REAL *)softmax_cpu_scratch() : NULL;
        if (!keeps || kept) {
            NAME(group_rows)(job, first, last, kept, streams);
            return;
        }
    }
    if (one_block && NAME(rows_take_options)(job)) {
        REAL *scratch = (REAL *)softmax_cpu_scratch();
        if (scratch) {
            NAME(option_rows)(job, first, last, scratch, NAME(forward_streams)(job));
            return;
        }
    }
    if (NAME(rows_take_batches)(job)) {
        int streams = NAME(forward_streams)(job), keeps = streams && job->op == OPERATION_SOFTMAX;
        REAL *kept = keeps ? (REAL *)softmax_cpu_scratch() : NULL;
        if (!keeps || kept) {
            NAME(rows_in_batches)(job, first, last, kept, streams);
            return;
        }
    }
    if (NAME(rows_take_option_batches)(job)) {
        int streams = NAME(forward_streams)(job), keeps = job->op == OPERATION_SOFTMAX && (streams || job->out.type != REAL_ELEMENT || !is_contiguous(&job->out));
        REAL *kept = keeps ? (REAL *)softmax_cpu_scratch() : NULL;
        if (!keeps || kept) {
            NAME(option_batches)(job, first, last, kept, streams);
            return;
        }
    }
    if (NAME(rows_are_long)(job, 0, job->columns)) {
        for (int64_t row = first; row < last; row++) NAME(long_row)(job, row);
        return;
    }
    NAME(forward_rows)(job, first, last);
}
