/* An axis that is not the last: LANES neighbours in memory are LANES rows, one per lane (lanes.h), so that nothing is transposed. A strip is a
 * few such groups, wide enough for whole lines of the cache; its scores are read once into a tile, in L2 if they fit, become terms there, and
 * are written once: rows of one block three strips at a time (strip_turns.h), longer ones strip by strip (strips_long.h). Rows longer than L2 holds
 * are read a second time instead. A template like block.h. */

#if !defined(STRIP_GROUPS)
#define STRIP_GROUPS 4
#define STRIP_CHUNK 16               /* columns that are loaded, or written, at a time */
#define STRIP_BLOCKS 8               /* rows up to so many blocks keep their terms, if the tile holds them */
#define STRIP_AHEAD 12               /* columns that are prefetched */
#endif

typedef struct NAME(strip) {
    const softmax_job *job;
    const char *x; /* of lane 0, column 0 */
    char *out;
    const char *mask; /* as x, or NULL */
    const char *bias;
    int limited;
    int plain; /* elements are scores */
    int64_t limit[LANES * STRIP_GROUPS];
    int lanes; /* that are rows */
    int groups;
    int streams;
    REAL *tile;    /* group u: at tile + u pitch */
    REAL *lows;    /* as tile; NULL: scores have no low parts */
    int64_t pitch; /* elements */
    unsigned far[STRIP_GROUPS]; /* lanes whose rows are left to forward_row */
} NAME(strip);

static inline int NAME(strip_lanes)(const NAME(strip) *s, int group) {
    int lanes = s->lanes - group * LANES;
    return lanes < LANES ? lanes : LANES;
}

/* Columns [first, first + count) into the tiles' columns from `to` on. */
static ALWAYS_INLINE void NAME(strip_load_typed)(const NAME(strip) *s, int64_t first, int count, int64_t to, element type, int bytes) {
    const int64_t stride = s->job->x.column_stride, ahead = STRIP_AHEAD * stride;
    const int last = NAME(strip_lanes)(s, s->groups - 1), span = s->lanes * bytes;
    const char *x = s->x + first * stride;
    for (int j = 0; j < count; j++, x += stride) {
        REAL *tile = s->tile + (to + j) * LANES;
        if (first + j + STRIP_AHEAD < s->job->columns)
            for (int line = 0; line < span; line += 64) prefetch_line(x + ahead + line);
        for (int u = 0; u < s->groups; u++) {
            const char *from = x + u * LANES * bytes;
            V(store)(tile + u * s->pitch, NAME(load_lanes)(from, type, u < s->groups - 1 ? LANES : last));
        }
    }
}

APART void NAME(strip_load)(const NAME(strip) *s, int64_t first, int count, int64_t to) {
    element type = s->job->x.type;
    if (type == REAL_ELEMENT)
        NAME(strip_load_typed)(s, first, count, to, REAL_ELEMENT, (int)sizeof(REAL));
    else if (type == ELEMENT_FLOAT16)
        NAME(strip_load_typed)(s, first, count, to, ELEMENT_FLOAT16, 2);
    else
        NAME(strip_load_typed)(s, first, count, to, ELEMENT_BFLOAT16, 2);
}

/* One vector's elements of an operand whose lanes are neighbours, or one for all lanes. */
static inline VECTOR NAME(strip_elements)(const operand *a, int d, const char *from, int lanes) {
    REAL one;
    if (a->row_stride[d] != 0) return NAME(load_lanes)(from, a->type, lanes);
    NAME(gather)(from, a->type, 0, 1, &one);
    return V(set)(one);
}

/* What the mask leaves out of a group's chunk becomes -inf. */
static void NAME(strip_mask)(const NAME(strip) *s, int group, int64_t first, int count, REAL *tile) {
    const operand *a = &s->job->mask;
    const int n = NAME(strip_lanes)(s, group), each = a->row_stride[s->job->dimensions - 1] != 0;
    const uint8_t *from = (const uint8_t *)s->mask + first * a->column_stride + (each ? group * LANES : 0);
    uint8_t bytes[LANES] = {0};
    for (int j = 0; j < count; j++, from += a->column_stride) {
        const uint8_t *mask = bytes;
        if (each && n == LANES)
            mask = from;
        else if (each)
            memcpy(bytes, from, (size_t)n);
        else
            memset(bytes, *from, sizeof bytes);
        V(store)(tile + j * LANES, V(masked)(V(load)(tile + j * LANES), mask));
    }
}

/* A group's chunk of elements becomes scores. */
APART void NAME(strip_scores)(const NAME(strip) *s, NAME(lanes) *lanes, int group, int64_t first, int count, REAL *tile, REAL *lows) {
    const softmax_job *job = s->job;
    const int d = job->dimensions - 1, n = NAME(strip_lanes)(s, group);
    REAL biases[STRIP_CHUNK * LANES], *bias = s->bias ? biases : NULL;
    if (job->softcap != 0.0) NAME(softcap_scores)(tile, count * LANES, job->softcap);
    if (bias) {
        const char *from = s->bias + first * job->bias.column_stride + group * LANES * job->bias.row_stride[d];
        for (int j = 0; j < count; j++, from += job->bias.column_stride)
            V(store)(bias + j * LANES, NAME(strip_elements)(&job->bias, d, from, n));
    }
    if (s->mask) NAME(strip_mask)(s, group, first, count, bias ? bias : tile); /* a bias of -inf masks out whatever the score is */
    if (lows) NAME(lanes_scale)(lanes, job, tile, lows, bias, count);
    if (s->limited) NAME(lanes_limit)(s->limit + group * LANES, first, tile, lows, count);
}

/* One block: scores, the two largest and terms. */
static void NAME(strip_block)(NAME(strip) *s, NAME(lanes) *lanes, int64_t first, int count, int64_t to, int keep) {
    for (int u = 0; u < s->groups; u++) NAME(lanes_begin)(&lanes[u]);
    for (int j = 0; j < count; j += STRIP_CHUNK) {
        int n = count - j < STRIP_CHUNK ? count - j : STRIP_CHUNK;
        NAME(strip_load)(s, first + j, n, to + j);
        for (int u = 0; u < s->groups; u++) {
            int64_t at = u * s->pitch + (to + j) * LANES;
            if (!s->plain) NAME(strip_scores)(s, &lanes[u], u, first + j, n, s->tile + at, s->lows ? s->lows + at : NULL);
            NAME(lanes_scan)(&lanes[u], s->tile + at, n);
        }
    }
    for (int u = 0; u < s->groups; u++) {
        const int64_t at = u * s->pitch + to * LANES;
        NAME(lanes_sum)(&lanes[u], s->job, s->tile + at, s->lows ? s->lows + at : NULL, count, keep, (const char *)s->tile, 0); /* nothing is fetched */
    }
}

/* Results of one group's columns [first, first + count), whose terms or scores are in the tile from `from` on. */
#define LANES_LOW 4 /* besides: log_softmax of scores with low parts */
static ALWAYS_INLINE void NAME(strip_write)(const NAME(strip) *s, const NAME(lanes) *its_lanes, int group, int64_t first, int count, int64_t from,
                                            int want_log, int patch) {
    const NAME(lanes) lanes = *its_lanes;
    const operand *out = &s->job->out;
    const int n = NAME(strip_lanes)(s, group), bytes = (int)element_bytes(out->type);
    char *to = s->out + first * out->column_stride + group * LANES * bytes;
    const REAL *tile = s->tile + group * s->pitch + from * LANES;
    const int whole = n == LANES && out->type == REAL_ELEMENT && !s->far[group];
    const int streams = whole && s->streams && (uintptr_t)to % sizeof(VECTOR) == 0 && out->column_stride % (int64_t)sizeof(VECTOR) == 0;
    for (int j = 0; j < count; j++, to += out->column_stride) {
        VECTOR a = V(load)(tile + j * LANES), y;
        if (patch == LANES_LOW)
            y = NAME(lanes_log_low)(&lanes, a, V(load)(s->lows + (tile - s->tile) + j * LANES));
        else
            y = NAME(lanes_result)(&lanes, a, want_log, patch);
        if (streams)
            V(stream)((REAL *)(void *)to, y);
        else if (whole)
            V(store)((REAL *)(void *)to, y);
        else
            NAME(store_lanes)(to, out->type, n, s->far[group], y);
    }
}

APART void NAME(strip_results)(const NAME(strip) *s, const NAME(lanes) *lanes, int64_t first, int count, int64_t from) {
    int want_log = s->job->op == OPERATION_LOG_SOFTMAX;
    for (int j = 0; j < count; j += STRIP_CHUNK) {
        int n = count - j < STRIP_CHUNK ? count - j : STRIP_CHUNK;
        for (int u = 0; u < s->groups; u++) {
            const NAME(lanes) *a = &lanes[u];
            if (want_log && s->lows)
                NAME(strip_write)(s, a, u, first + j, n, from + j, 1, LANES_LOW);
            else if (want_log && a->patch)
                NAME(strip_write)(s, a, u, first + j, n, from + j, 1, LANES_CONSTANT);
            else if (want_log)
                NAME(strip_write)(s, a, u, first + j, n, from + j, 1, 0);
            else if (a->patch == LANES_DISTANT)
                NAME(strip_write)(s, a, u, first + j, n, from + j, 0, LANES_DISTANT);
            else if (a->patch)
                NAME(strip_write)(s, a, u, first + j, n, from + j, 0, LANES_CONSTANT);
            else
                NAME(strip_write)(s, a, u, first + j, n, from + j, 0, 0);
        }
    }
}

/* Rows of one block, whatever they hold. */
static void NAME(strip_short)(NAME(strip) *s) {
    const softmax_job *job = s->job;
    NAME(lanes) lanes[STRIP_GROUPS];
    NAME(strip_block)(s, lanes, 0, (int)job->columns, 0, job->op == OPERATION_SOFTMAX);
    NAME(read_lanes)(lanes, s->groups, job->kind, NAME(lane_want_of)(job->op));
    for (int u = 0; u < s->groups; u++) s->far[u] = lanes[u].far;
    if (job->op != OPERATION_LOGSUMEXP) {
        NAME(strip_results)(s, lanes, 0, (int)job->columns, 0);
        return;
    }
    for (int u = 0; u < s->groups; u++) {
        char *to = s->out + u * LANES * element_bytes(job->out.type);
        NAME(store_lanes)(to, job->out.type, NAME(strip_lanes)(s, u), s->far[u], lanes[u].value);
    }
}
#include "strips_long.h"

#include "strip_turns.h"

/* The strip of `lanes` rows from p on, neighbours in memory. */
static void NAME(strip_at)(NAME(strip) *s, const place *p, int lanes) {
    const softmax_job *job = s->job;
    s->x = row_address(job, &job->x, p);
    s->mask = row_address(job, &job->mask, p);
    s->bias = row_address(job, &job->bias, p);
    s->out = row_address(job, &job->out, p);
    s->lanes = lanes;
    s->groups = (lanes + LANES - 1) / LANES;
    memset(s->far, 0, sizeof s->far);
    if (s->limited) {
        place q = *p;
        for (int i = 0; i < LANES * STRIP_GROUPS; i++) {
            s->limit[i] = i < lanes ? NAME(limit_of_row)(job, &q) : job->columns;
            if (i < lanes) next_place(job, &q);
        }
    }
}

/* Rows that were left out, of a strip whose first is `row`. They take the tile's memory. */
static void NAME(strip_far_rows)(const NAME(strip) *s, int64_t row) {
    for (int i = 0; i < s->lanes; i++)
        if (s->far[i / LANES] >> i % LANES & 1) NAME(forward_rows)(s->job, row + i, row + i + 1);
}

/* Strips of rows of many blocks, one after another. */
static void NAME(strips_alone)(NAME(strip) *s, int64_t first, int64_t last, int64_t groups) {
    const softmax_job *job = s->job;
    const int d = job->dimensions - 1;
    place p = place_of_row(job, first);
    for (int64_t row = first; row < last;) {
        int64_t run = job->shape[d] - p.coordinate[d] < last - row ? job->shape[d] - p.coordinate[d] : last - row;
        int lanes = (int)(run < groups * LANES ? run : groups * LANES);
        NAME(strip_at)(s, &p, lanes);
        NAME(strip_long)(s);
        NAME(strip_far_rows)(s, row);
        row += lanes;
        pass_places(job, &p, lanes);
    }
}

static void NAME(strips)(const softmax_job *job, int64_t first, int64_t last) {
    NAME(strip) s;
    const int parts = NAME(has_low_parts)(job) ? 2 : 1, turns = job->columns <= SOFTMAX_BLOCK_COLUMNS;
    const int64_t bytes = job->columns * LANES * (int64_t)sizeof(REAL) * parts * (turns ? 2 : 1);
    const int64_t fit = softmax_cpu_scratch_bytes() / bytes; /* all of it: a strip of few lines costs more than a tile that pushes others out */
    int64_t groups = fit < STRIP_GROUPS ? fit : STRIP_GROUPS;
    if (groups < 1) groups = STRIP_GROUPS; /* block by block then */
    s.job = job;
    s.pitch = (fit < 1 ? SOFTMAX_BLOCK_COLUMNS : job->columns) * LANES;
    s.tile = (REAL *)softmax_cpu_scratch();
    s.lows = parts == 2 ? s.tile + groups * s.pitch * (turns ? 2 : 1) : NULL;
    s.limited = job->lengths.data != NULL;
    s.plain = !s.lows && !s.limited && !job->mask.data && job->softcap == 0.0;
    s.streams = softmax_cpu_streams(job);
    if (!s.tile) {
        NAME(forward_rows)(job, first, last);
        return;
    }
    if (turns) /* which have room in SCRATCH_LEAST */
        NAME(strips_in_turns)(&s, first, last, (int)groups);
    else
        NAME(strips_alone)(&s, first, last, groups);
    if (s.streams) stream_end();
}
