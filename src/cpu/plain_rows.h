/* Rows of 4 to SHORT_COLUMNS floats without options, at equal distances: short_rows.h's rows, several groups of them at a time. Each step is done
 * for all groups of a batch: scores into tiles with the two largest found on the way; terms through one pipeline that is not emptied between
 * groups; the read-out of several groups side by side; results, transposed back to whole vectors of their rows. For sets with registers
 * enough (VECTOR_PIPELINE). Included once, after lane_readout.h. */
#ifndef SOFTMAX_PLAIN_ROWS_H
#define SOFTMAX_PLAIN_ROWS_H

static int64_t plain_rows_double(const softmax_job *job, int64_t first, int64_t last) {
    (void)job, (void)last;
    return first;
}

#if defined(VECTOR_PIPELINE)

#define PLAIN_GROUPS 8
#define PLAIN_VECTORS 256 /* of a batch: terms of 16 KB */

#define PLAIN_BEFORE 4    /* vectors: where a pipeline stores before its first vector leaves */

/* Groups of VF_LANES rows. */
typedef struct plain_batch {
    const float *x;
    int64_t pitch; /* elements */
    float *out;
    int64_t out_pitch;
    int columns;
    int groups;
    int streams;
    vf magic[PLAIN_GROUPS];
    vf floors[PLAIN_GROUPS];
    int calm[PLAIN_GROUPS]; /* no result is near the smallest normal number */
    lanes_float s[PLAIN_GROUPS];
    float room[(PLAIN_BEFORE + PLAIN_VECTORS) * VF_LANES]; /* plain_tile */
    float rows[SHORT_COLUMNS * VF_LANES]; /* results on their way past the caches */
} plain_batch;

static inline float *plain_tile(plain_batch *b) { return b->room + PLAIN_BEFORE * VF_LANES; }

/* Whether all of a job's rows are such; they lie in one dimension. */
static int rows_are_plain(const softmax_job *job) {
    const int64_t bytes = (int64_t)sizeof(float);
    if (job->kind != ARITHMETIC_32 || job->dimensions != 1 || job->columns < 4 || job->columns > SHORT_COLUMNS) return 0;
    if (job->bias.data || job->mask.data || job->lengths.data || job->causal || job->softcap != 0.0 || job->scale != 1.0) return 0;
    if (job->x.type != ELEMENT_FLOAT32 || !is_contiguous(&job->x) || job->x.row_stride[0] % bytes) return 0;
    if (job->out.type != ELEMENT_FLOAT32 || (uintptr_t)job->out.data % sizeof(float) || job->out.row_stride[0] % bytes) return 0;
    return job->op == OPERATION_LOGSUMEXP ? job->out.row_stride[0] == bytes : is_contiguous(&job->out);
}

/* Scores so far apart in rows of SHORT_COLUMNS have results above e^-80 / 64 > 2^-122. */
#define CALM_SPREAD 80.0f

/* Takes four columns into the two largest and the least. */
static ALWAYS_INLINE void extremes_of_four(const vf z[4], vf *first, vf *second, vf *least) {
    const vf a = vf_max(z[0], z[1]), b = vf_min(z[0], z[1]), c = vf_max(z[2], z[3]), d = vf_min(z[2], z[3]);
    const vf top = vf_max(a, c), next = vf_max(vf_min(a, c), vf_max(b, d));
    *second = vf_max(vf_max(*second, next), vf_min(*first, top));
    *first = vf_max(*first, top);
    *least = vf_min(*least, vf_min(b, d));
}

/* Scores of a group become a tile; returns where a lane is not for this path. */
static ALWAYS_INLINE vm plain_scan(plain_batch *b, int group) {
    const int columns = b->columns, rest = columns % 4;
    const float *x = b->x + group * VF_LANES * b->pitch;
    float *tile = plain_tile(b) + group * VF_LANES * columns;
    lanes_float *s = &b->s[group];
    vf first = vf_set(-INFINITY), second = first, least = vf_set(INFINITY), sum = vf_set(0.0f), z[4];
    int j = 0;
    for (; j + 4 <= columns; j += 4) {
        vf_load_columns(x + j, b->pitch, z);
        for (int k = 0; k < 4; k++) vf_store(tile + (j + k) * VF_LANES, z[k]);
        extremes_of_four(z, &first, &second, &least);
        sum = vf_add(sum, vf_add(vf_add(z[0], z[1]), vf_add(z[2], z[3])));
    }
    if (rest) vf_load_columns(x + columns - 4, b->pitch, z); /* the first of these have been taken */
    for (int k = 4 - rest; rest && k < 4; k++, j++) {
        vf_store(tile + j * VF_LANES, z[k]);
        second = vf_max(second, vf_min(first, z[k]));
        first = vf_max(first, z[k]);
        least = vf_min(least, z[k]);
        sum = vf_add(sum, z[k]);
    }
    s->first = vf_add(first, vf_set(0.0f));
    s->second = second;
    b->calm[group] = !vm_any(vf_or_at_least(vm_none(), vf_sub(first, least), vf_set(CALM_SPREAD)));
    return vf_or_nan(vf_or_at_least(vm_none(), vf_abs(s->first), vf_set(TERM32_LIMIT)), sum);
}

/* What a group's terms are relative to; its digits begin without the maximum's and the constants'. */
static ALWAYS_INLINE void plain_begin(plain_batch *b, int group) {
    lanes_float *s = &b->s[group];
    const uint32_t others = (uint32_t)(b->columns - 1);
    const vf kb = lanes_exponent_float(s), magic = vf_sub(vf_set(TERM32_MAGIC + SOFTMAX_BIAS), kb);
    vi high = vi_set(others * float_bits(TERM32_HIGH)), low = vi_set(others * float_bits(TERM32_LOW));
    s->kb = kb;
    s->top = term_vector_float(s->first, vf_set(0.0f), magic, ARITHMETIC_32, &high, &low);
    s->high = vi_sub(vi_zero(), high);
    s->low = vi_sub(vi_zero(), low);
    s->first_low = s->value = vf_set(0.0f);
    s->constant = 0;
    b->magic[group] = vf_add(magic, vf_set(127.0f)); /* as in piped_vectors_float */
    b->floors[group] = floor_vector_float(kb);
}

/* Scores of the batch's tiles become terms, which replace them where `stores`; their digits are added up. */
static ALWAYS_INLINE void plain_terms_loop(plain_batch *b, int stores) {
    const int step = VF_LANES, stored = stores ? VF_LANES : 0, columns = b->columns;
    ahead_lines ahead = {(uintptr_t)(b->x + b->groups * VF_LANES * b->pitch), b->pitch == columns ? 64 : 0};
    const float *z = plain_tile(b);
    float *v = plain_tile(b) - 3 * step;
    lanes_float *s = b->s;
    term_pipeline p = empty_pipeline();
    for (int g = 0; g < b->groups; g++) {
        p.magic = b->magic[g];
        p.floors = b->floors[g];
        for (int j = 0; j < 3; j++, z += step, v += step) {
            prefetch_next(&ahead);
            term_pipeline_step(&p, vf_load(z), v, stored, 0, 4);
        }
        if (g) s[g - 1].high = p.high;
        p.high = s[g].high;
        prefetch_next(&ahead);
        term_pipeline_step(&p, vf_load(z), v, stored, 0, 4);
        z += step;
        v += step;
        if (g) s[g - 1].low = p.low;
        p.low = s[g].low;
        for (int j = 4; j < columns; j++, z += step, v += step) {
            prefetch_next(&ahead);
            term_pipeline_step(&p, vf_load(z), v, stored, 0, 4);
        }
    }
    s += b->groups - 1;
    term_pipeline_step(&p, p.floors, v, stored, 1, 4);
    term_pipeline_step(&p, p.floors, v + step, stored, 2, 4);
    term_pipeline_step(&p, p.floors, v + 2 * step, stored, 3, 4);
    s->high = p.high;
    term_pipeline_step(&p, p.floors, v, 0, 4, 4);
    s->low = p.low;
}

APART void plain_values(plain_batch *b) { plain_terms_loop(b, 1); }

APART void plain_digits(plain_batch *b) { plain_terms_loop(b, 0); }

/* What a result needs of its group. */
typedef struct plain_factor {
    vf hi, lo, cut, most; /* softmax */
    vf first, minus_log;  /* log_softmax */
} plain_factor;

static ALWAYS_INLINE vf plain_result(const plain_factor *f, const float *v, int want_log, int calm) {
    const vf a = vf_load(v);
    if (!want_log && calm) return vf_unbias_below(vf_fma(a, f->hi, vf_mul(a, f->lo)), f->cut, f->most, 64);
    if (want_log) return vf_unbias(vf_add(vf_sub(a, f->first), f->minus_log), vf_set(0x1p-126f), 0);
    return vf_unbias_positive(vf_raise(vf_fma(a, f->hi, vf_mul(a, f->lo)), f->cut, f->most), vf_set(0x1p-62f), 64);
}

/* A group's results, to rows at y. */
static ALWAYS_INLINE void plain_results(const plain_batch *b, int group, float *y, int64_t pitch, int want_log, int calm, int streams) {
    const lanes_float *s = &b->s[group];
    const float *v = b->room + (PLAIN_BEFORE + group * b->columns) * VF_LANES;
    const int columns = b->columns;
    plain_factor f = {s->first, s->first, s->first, s->first, s->first, s->first};
    vf column[16];
    int j = 0;
    if (want_log)
        f.minus_log = s->minus_log;
    else
        f.hi = s->factor_hi, f.lo = s->factor_lo, f.cut = s->cut, f.most = s->most;
    if (!want_log && calm) f.most = vf_unbias_positive(f.most, vf_set(0x1p-62f), 64);
    for (; j + 16 <= columns; j += 16) {
        for (int k = 0; k < 16; k++) column[k] = plain_result(&f, v + (j + k) * VF_LANES, want_log, calm);
        vf_store_sixteen_columns(y + j, pitch, column, streams);
    }
    if (j + 8 <= columns) {
        for (int k = 0; k < 8; k++) column[k] = plain_result(&f, v + (j + k) * VF_LANES, want_log, calm);
        vf_store_eight_columns(y + j, pitch, column);
        j += 8;
    }
    for (; j < columns; j += 4) {
        if (j + 4 > columns) j = columns - 4;
        for (int k = 0; k < 4; k++) column[k] = plain_result(&f, v + (j + k) * VF_LANES, want_log, calm);
        vf_store_columns(y + j, pitch, column);
    }
}

static ALWAYS_INLINE void plain_results_of_group(const plain_batch *b, int group, float *y, int64_t pitch, int want_log, int streams) {
    if (want_log || b->calm[group])
        plain_results(b, group, y, pitch, want_log, 1, streams);
    else
        plain_results(b, group, y, pitch, want_log, 0, streams);
}

/* All groups' results. Past the caches whole lines only: rows that are not made of such wait until their group is there. */
static ALWAYS_INLINE void plain_results_loop(plain_batch *b, int want_log, int streams) {
    const int lines = streams && b->columns % 16 == 0;
    for (int g = 0; g < b->groups; g++) {
        float *y = b->out + g * VF_LANES * b->out_pitch;
        if (!streams || lines) {
            plain_results_of_group(b, g, y, b->out_pitch, want_log, lines);
            continue;
        }
        plain_results_of_group(b, g, b->rows, b->columns, want_log, 0);
        for (int j = 0; j < b->columns; j++) vf_stream(y + j * VF_LANES, vf_load(b->rows + j * VF_LANES));
    }
}

APART void plain_softmax(plain_batch *b) { b->streams ? plain_results_loop(b, 0, 1) : plain_results_loop(b, 0, 0); }

APART void plain_log_softmax(plain_batch *b) { b->streams ? plain_results_loop(b, 1, 1) : plain_results_loop(b, 1, 0); }

APART vm plain_scans(plain_batch *b) {
    vm odd = vm_none();
    for (int g = 0; g < b->groups; g++) odd |= plain_scan(b, g);
    for (int g = 0; g < b->groups; g++) plain_begin(b, g);
    return odd;
}

/* Returns 0 where a row needs more than this. */
static int plain_rows_of_batch(plain_batch *b, operation op) {
    if (vm_any(plain_scans(b))) return 0;
    op == OPERATION_SOFTMAX ? plain_values(b) : plain_digits(b);
    read_lanes_float(b->s, b->groups, ARITHMETIC_32, lane_want_of_float(op));
    if (op == OPERATION_SOFTMAX)
        plain_softmax(b);
    else if (op == OPERATION_LOG_SOFTMAX)
        plain_log_softmax(b);
    else
        for (int g = 0; g < b->groups; g++) vf_store(b->out + g * VF_LANES, b->s[g].value);
    return 1;
}

/* Rows from `first` on, as many as make whole groups; returns the first that is left. */
static int64_t plain_rows_float(const softmax_job *job, int64_t first, int64_t last) {
    plain_batch b;
    int most;
    if (last - first < VF_LANES || !rows_are_plain(job)) return first;
    b.columns = (int)job->columns;
    b.pitch = job->x.row_stride[0] / (int64_t)sizeof(float);
    b.out_pitch = job->out.row_stride[0] / (int64_t)sizeof(float);
    b.streams = job->op != OPERATION_LOGSUMEXP && softmax_cpu_streams(job) && b.out_pitch == b.columns;
    most = PLAIN_VECTORS / b.columns < PLAIN_GROUPS ? PLAIN_VECTORS / b.columns : PLAIN_GROUPS;
    while (last - first >= VF_LANES) {
        const int64_t groups = (last - first) / VF_LANES;
        b.groups = groups < most ? (int)groups : most;
        b.x = (const float *)(const void *)job->x.data + first * b.pitch;
        b.out = (float *)(void *)job->out.data + first * b.out_pitch;
        b.streams = b.streams && (uintptr_t)b.out % sizeof(vf) == 0;
        if (!plain_rows_of_batch(&b, job->op)) any_short_rows_float(job, first, first + b.groups * VF_LANES);
        first += b.groups * VF_LANES;
    }
    if (b.streams) stream_end();
    return first;
}

#else

static int64_t plain_rows_float(const softmax_job *job, int64_t first, int64_t last) {
    (void)job, (void)last;
    return first;
}

#endif
#endif
