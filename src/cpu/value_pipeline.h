/* Results from scores whose row's sum is known: term_pipeline.h's values without their digits, 10 of its 12 multiply-adds, times the row's factor.
 * For long_rows.h; included once, after block_results.h's functions for float. */

typedef struct factor_double factor_double;

static inline int values_take_double(int count) {
    (void)count;
    return 0;
}

static inline void values_double(const double *z, int count, double magic, double floor_score, const factor_double *f, ahead_lines ahead, double *y,
                                 int calm, int streams) {
    (void)z, (void)count, (void)magic, (void)floor_score, (void)f, (void)ahead, (void)y, (void)calm, (void)streams;
}

#if defined(VECTOR_PIPELINE)

/* What a vector takes along from stage to stage, as term_pipeline. */
typedef struct value_pipeline {
    vf magic, floors;
    vf t1, r1, low1, rr1;
    vf s2, p2, rr2, r2, low2;
    vf s3, q3;
} value_pipeline;

/* One step: a vector of scores enters, the value of the one that entered three steps ago leaves. bounded: there may be scores below the floors. */
static ALWAYS_INLINE vf value_pipeline_step(value_pipeline *p, vf z, int bounded) {
    const value_pipeline in = *p;
    const vf x = bounded ? vf_max(z, in.floors) : z, square = vf_mul(in.rr2, in.rr2);
    vf value, s, k, more, q;
    s = vf_exponent(in.t1);
    value = vf_fma(in.q3, in.s3, in.s3);
    p->t1 = vf_fma(x, vf_set(TERM32_LOG2E), in.magic);
    q = vf_fma(in.p2, in.rr2, vf_set(0.5f));
    more = vf_fma(vf_set(TERM32_C5), in.rr1, vf_set(TERM32_C4));
    k = vf_sub(p->t1, in.magic);
    p->r1 = vf_fma(k, vf_set(-TERM32_LN2_HI), x);
    more = vf_fma(more, in.rr1, vf_set(TERM32_C3));
    q = vf_fma(q, square, in.low2);
    p->low1 = vf_mul(k, vf_set(TERM32_LN2_MINUS));
    p->p2 = vf_fma(more, in.rr1, vf_set(TERM32_C2));
    p->q3 = vf_add(q, in.r2);
    p->rr1 = vf_add(p->r1, p->low1);
    p->s3 = in.s2;
    p->s2 = s, p->rr2 = in.rr1, p->r2 = in.r1, p->low2 = in.low1;
    return value;
}

/* count: whole vectors, four or more. y may be z; it is the beginning of a line where it streams. calm, streams: constants, as in results_loop; scores of
 * calm results are all above the floor. */
static ALWAYS_INLINE void values_loop(const float *z, int count, float magic, float floor_score, const factor_float *f, ahead_lines ahead, float *y,
                                      int calm, int streams) {
    const vf hi = vf_set(f->hi), lo = vf_set(f->lo);
    const float *end = z + count;
    value_pipeline p;
    p.magic = vf_set(magic + 127.0f); /* an integer more: the exponent's bits come out biased */
    p.floors = vf_set(floor_score);
    p.t1 = p.r1 = p.low1 = p.rr1 = p.s2 = p.p2 = p.rr2 = p.r2 = p.low2 = p.s3 = p.q3 = vf_set(0.0f);
    for (int i = 0; i < 3; i++, z += VF_LANES) {
        prefetch_next(&ahead);
        value_pipeline_step(&p, vf_load(z), !calm);
    }
    for (int i = 0; i < count; i += VF_LANES, z += VF_LANES) {
        const vf v = value_pipeline_step(&p, z < end ? vf_load(z) : p.floors, !calm), w = result_float(v, hi, lo, f, calm, 0);
        prefetch_next(&ahead);
        streams ? vf_stream(y + i, w) : vf_store(y + i, w);
    }
}

static inline int values_take_float(int count) { return count >= 4 * VF_LANES && count % VF_LANES == 0; }

static NOINLINE void values_float(const float *z, int count, float magic, float floor_score, const factor_float *f, ahead_lines ahead, float *y, int calm,
                                  int streams) {
    if (calm && streams)
        values_loop(z, count, magic, floor_score, f, ahead, y, CALM, 1);
    else if (calm)
        values_loop(z, count, magic, floor_score, f, ahead, y, CALM, 0);
    else if (streams)
        values_loop(z, count, magic, floor_score, f, ahead, y, 0, 1);
    else
        values_loop(z, count, magic, floor_score, f, ahead, y, 0, 0);
}

#else

static inline int values_take_float(int count) {
    (void)count;
    return 0;
}

static inline void values_float(const float *z, int count, float magic, float floor_score, const factor_float *f, ahead_lines ahead, float *y, int calm,
                                int streams) {
    (void)z, (void)count, (void)magic, (void)floor_score, (void)f, (void)ahead, (void)y, (void)calm, (void)streams;
}

#endif
