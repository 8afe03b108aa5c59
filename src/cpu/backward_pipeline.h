/* Gradients of a block in one loop with the search for the next one's largest term (backward_sum.h). For backward.h; included once, before it. */

static inline void log_gradients_double(const double *y, const double *dy, int count, vd magic, vd minus_sum, vd minus_low, double *dx, int streams,
                                        const backward_terms *next, float_terms *found) {
    (void)y, (void)dy, (void)count, (void)magic, (void)minus_sum, (void)minus_low, (void)dx, (void)streams, (void)next, (void)found;
}

static inline void softmax_gradients_double(const double *y, const double *dy, int count, vd minus_sum, vd minus_low, double *dx, int streams,
                                            const backward_terms *next, float_terms *found) {
    (void)y, (void)dy, (void)count, (void)minus_sum, (void)minus_low, (void)dx, (void)streams, (void)next, (void)found;
}

/* dx = y (dy - sum) of whole vectors, as gradient_of_float; next: as log_gradients_loop. */
static ALWAYS_INLINE void softmax_gradients_loop(const float *y, const float *dy, int count, vf minus_sum, vf minus_low, float *dx, int streams,
                                                 const backward_terms *next, float_terms *found) {
    const float *next_y = (const float *)next->y, *next_dy = (const float *)next->dy;
    const vf limit = vf_set(FLT_MIN);
    float_terms t = no_float_terms();
    for (int i = 0; i < count; i += VF_LANES) {
        const vf a = vf_load(y + i), w = vf_unbias(vf_fma(a, vf_add(vf_load(dy + i), minus_sum), vf_mul(a, minus_low)), limit, 0);
        streams ? vf_stream(dx + i, w) : vf_store(dx + i, w);
        see_terms(&t, vf_load(next_y + i), vf_load(next_dy + i), 0);
    }
    *found = t;
}

static NOINLINE void softmax_gradients_float(const float *y, const float *dy, int count, vf minus_sum, vf minus_low, float *dx, int streams,
                                             const backward_terms *next, float_terms *found) {
    streams ? softmax_gradients_loop(y, dy, count, minus_sum, minus_low, dx, 1, next, found)
            : softmax_gradients_loop(y, dy, count, minus_sum, minus_low, dx, 0, next, found);
}

#if defined(VECTOR_PIPELINE)

/* dx = dy - e^y sum, all in the middle of the range (BACKWARD_CAREFUL is not set); magic and sums: as slope_float. dx may be y or dy. next: NULL, or the
 * block after it, as long, whose float_terms are added to those found: by integers, which have other pipes. */
static ALWAYS_INLINE void log_gradients_loop(const float *y, const float *dy, int count, vf magic, vf minus_sum, vf minus_low, float *dx, int streams,
                                             const backward_terms *next, float_terms *found) {
    const float *end = y + count, *next_y = next ? (const float *)next->y : NULL, *next_dy = next ? (const float *)next->dy : NULL;
    float_terms t = no_float_terms();
    value_pipeline p;
    p.magic = vf_add(magic, vf_set(127.0f));
    p.t1 = p.r1 = p.low1 = p.rr1 = p.s2 = p.p2 = p.rr2 = p.r2 = p.low2 = p.s3 = p.q3 = vf_set(0.0f);
    p.floors = p.t1;
    for (int i = 0; i < 3; i++, y += VF_LANES) value_pipeline_step(&p, vf_load(y), 0);
    for (int i = 0; i < count; i += VF_LANES, y += VF_LANES) {
        const vf v = value_pipeline_step(&p, y < end ? vf_load(y) : p.floors, 0);
        const vf w = vf_fma(v, minus_sum, vf_fma(v, minus_low, vf_load(dy + i)));
        streams ? vf_stream(dx + i, w) : vf_store(dx + i, w);
        if (next) see_terms(&t, vf_load(next_y + i), vf_load(next_dy + i), 1);
    }
    if (next) *found = t;
}

static NOINLINE void log_gradients_float(const float *y, const float *dy, int count, vf magic, vf minus_sum, vf minus_low, float *dx, int streams,
                                         const backward_terms *next, float_terms *found) {
    if (next)
        streams ? log_gradients_loop(y, dy, count, magic, minus_sum, minus_low, dx, 1, next, found)
                : log_gradients_loop(y, dy, count, magic, minus_sum, minus_low, dx, 0, next, found);
    else
        streams ? log_gradients_loop(y, dy, count, magic, minus_sum, minus_low, dx, 1, NULL, NULL)
                : log_gradients_loop(y, dy, count, magic, minus_sum, minus_low, dx, 0, NULL, NULL);
}

#else

static inline void log_gradients_float(const float *y, const float *dy, int count, vf magic, vf minus_sum, vf minus_low, float *dx, int streams,
                                       const backward_terms *next, float_terms *found) {
    (void)y, (void)dy, (void)count, (void)magic, (void)minus_sum, (void)minus_low, (void)dx, (void)streams, (void)next, (void)found;
}

#endif
