/* The backwards along an axis that is not the last: as many neighbours as a vector has lanes are turned round into rows in scratch memory, which are
 * worked on as any other rows, and turned back. Sums of signed products need their own power of two for every row, so that a row per lane
 * would be a kernel of its own. A template like block.h, included after backward.h. */

#if !defined(TURNED_AHEAD)
#define TURNED_AHEAD 32 /* columns */
#endif

/* Elements between rows: not a power of two of them, so that rows do not share sets of the caches. */
static inline int64_t NAME(turned_pitch)(const softmax_job *job) { return (job->columns + LANES - 1) / LANES * LANES + LANES; }

static int NAME(rows_can_turn)(const softmax_job *job) {
    return 2 * LANES * NAME(turned_pitch)(job) * (int64_t)sizeof(REAL) <= softmax_cpu_scratch_bytes();
}

/* n rows, side by side from `from` on, one after another at `rows`. */
static ALWAYS_INLINE void NAME(turn_typed)(const operand *a, const char *from, int64_t columns, int n, element type, REAL *rows, int64_t pitch) {
    const int64_t stride = a->column_stride;
    for (int64_t j = 0; j < columns; j += 4) {
        VECTOR column[4];
        for (int k = 0; k < 4; k++, from += stride) {
            const int there = j + k < columns;
            if (there) prefetch_line(from + TURNED_AHEAD * stride);
            column[k] = there ? NAME(load_lanes)(from, type, n) : V(set)(0);
        }
        V(store_columns)(rows + j, pitch, column);
    }
}

APART void NAME(turn_rows)(const operand *a, const char *from, int64_t columns, int n, REAL *rows, int64_t pitch) {
    if (a->type == REAL_ELEMENT && n == LANES)
        NAME(turn_typed)(a, from, columns, LANES, REAL_ELEMENT, rows, pitch);
    else
        NAME(turn_typed)(a, from, columns, n, a->type, rows, pitch);
}

APART void NAME(turn_back)(const operand *a, char *to, int64_t columns, int n, const REAL *rows, int64_t pitch, int streams) {
    const int64_t stride = a->column_stride;
    const int whole = a->type == REAL_ELEMENT && n == LANES;
    streams &= whole && (uintptr_t)to % sizeof(VECTOR) == 0 && stride % (int64_t)sizeof(VECTOR) == 0;
    for (int64_t j = 0; j < columns; j += 4) {
        VECTOR column[4];
        V(load_columns)(rows + j, pitch, column);
        for (int k = 0; k < 4 && j + k < columns; k++, to += stride) {
            if (streams)
                V(stream)((REAL *)(void *)to, column[k]);
            else if (whole)
                V(store)((REAL *)(void *)to, column[k]);
            else
                NAME(store_lanes)(to, a->type, n, 0, column[k]);
        }
    }
}

static void NAME(backward_strips)(const softmax_job *job, int64_t first, int64_t last) {
    const int d = job->dimensions - 1, in_place = job->out.data == job->x.data || job->out.data == job->dy.data;
    const int streams = !in_place && softmax_cpu_streams(job);
    const int64_t pitch = NAME(turned_pitch)(job);
    REAL *y = (REAL *)softmax_cpu_scratch(), *dy = y + LANES * pitch;
    softmax_job rows = *job;
    place p = place_of_row(job, first);
    if (!y) {
        NAME(backward_rows)(job, first, last);
        return;
    }
    rows.dimensions = 1;
    rows.x.type = rows.dy.type = rows.out.type = REAL_ELEMENT;
    rows.x.column_stride = rows.dy.column_stride = rows.out.column_stride = (int64_t)sizeof(REAL);
    rows.x.row_stride[0] = rows.dy.row_stride[0] = rows.out.row_stride[0] = pitch * (int64_t)sizeof(REAL);
    rows.x.data = (char *)y;
    rows.dy.data = rows.out.data = (char *)dy; /* in place */
    rows.streaming = SOFTMAX_STREAMING_NEVER;
    for (int64_t row = first; row < last;) {
        const int64_t run = job->shape[d] - p.coordinate[d] < last - row ? job->shape[d] - p.coordinate[d] : last - row;
        const int n = (int)(run < LANES ? run : LANES);
        NAME(turn_rows)(&job->x, row_address(job, &job->x, &p), job->columns, n, y, pitch);
        NAME(turn_rows)(&job->dy, row_address(job, &job->dy, &p), job->columns, n, dy, pitch);
        rows.rows = rows.shape[0] = n;
        NAME(backward_rows)(&rows, 0, n);
        NAME(turn_back)(&job->out, row_address(job, &job->out, &p), job->columns, n, dy, pitch, streams);
        row += n;
        pass_places(job, &p, n);
    }
    if (streams) stream_end();
}
