/* What every lane of lanes.h adds up to, from its digits to factor, logarithm or logsumexp: state.h and forward.h's result_of_state for a
 * row of one block, in vectors of doubles. Such a row's accumulator holds one term, rest 2^(kb - 41) with rest < 2^52, so that it is read
 * without rounding, and every scaling by a power of two is exact. */
#ifndef SOFTMAX_LANE_READOUT_H
#define SOFTMAX_LANE_READOUT_H

#include "log_vectors.h"

/* Of half the lanes. */
typedef struct half_total {
    vd e_max; /* the row's sum is 2^k (e_max + rest) */
    vd rest;
    vd shift; /* 2^(kb - k) */
} half_total;

static ALWAYS_INLINE half_total total_of_half(const lanes_float *s, vd e_max, vd k, int half) {
    half_total t;
    vd rest = vd_fma(vd_of_integers(s->high, half), vd_set(0x1p21), vd_of_integers(s->low, half));
    t.e_max = e_max;
    t.shift = vd_power(vd_add(vd_sub(vd_of_floats(s->kb, half), k), vd_set(SOFTMAX_MAGIC64)));
    t.rest = vd_mul(vd_mul(rest, t.shift), vd_set(0x1p-41));
    return t;
}

/* exp_of_maximum for 16-bit results: the maximum's term relative to its own k. */
static ALWAYS_INLINE vf short_exp_of_maximum(vf first, vf first_low, unsigned wide, arithmetic kind, vf *k) {
    vi high = vi_zero(), low = high;
    vf magic, v;
    *k = exponent_vector_float(first);
    magic = vf_sub(vf_set(TERM32_MAGIC + SOFTMAX_BIAS), *k);
    v = term_vector_float(first, first_low, magic, kind, &high, &low);
    if (wide) { /* of scores without low parts */
        float z[VF_LANES], m[VF_LANES], e[VF_LANES];
        vf_store(z, first);
        vf_store(m, magic);
        for (int i = 0; i < VF_LANES; i++) e[i] = term32_near(z[i], 0.0f, m[i], kind, z[i]).v;
        v = vf_load(e);
    }
    return v;
}

/* Totals of `groups` groups: two halves of each. */
static ALWAYS_INLINE void totals_of_groups(const lanes_float *s, int groups, arithmetic kind, half_total *t) {
    vd e[MOST_MAXIMA], k[MOST_MAXIMA], first[MOST_MAXIMA], first_low[MOST_MAXIMA];
    vm low_parts = vm_none();
    if (arithmetic_is_short(kind)) {
        for (int g = 0; g < groups; g++) {
            vf power, v = short_exp_of_maximum(s[g].first, s[g].first_low, s[g].wide, kind, &power);
            for (int i = 0; i < 2; i++) {
                e[2 * g + i] = vd_mul(vd_of_floats(v, i), vd_set(0x1p-4));
                k[2 * g + i] = vd_of_floats(power, i);
            }
        }
    } else {
        for (int i = 0; i < 2 * groups; i++) first[i] = vd_of_floats(s[i / 2].first, i % 2);
        for (int g = 0; g < groups; g++) low_parts = vf_or_at_least(low_parts, vf_abs(s[g].first_low), vf_set(0x1p-149f));
        if (vm_any(low_parts)) {
            for (int i = 0; i < 2 * groups; i++) first_low[i] = vd_of_floats(s[i / 2].first_low, i % 2);
            exp_of_maximum_pairs(2 * groups, first, first_low, e, k);
        } else {
            exp_of_maximum_vectors(2 * groups, first, e, k);
        }
    }
    for (int i = 0; i < 2 * groups; i++) t[i] = total_of_half(&s[i / 2], e[i], k[i], i % 2);
}

static ALWAYS_INLINE void factor_of_group(lanes_float *s, arithmetic kind, const half_total t[2]) {
    vd inverse[2], g[2], most[2];
    vf hi;
    for (int i = 0; i < 2; i++) inverse[i] = vd_add(t[i].e_max, t[i].rest);
    if (arithmetic_is_short(kind)) {
        vf one = vf_div(vf_set(1.0f), vf_of_doubles(inverse[0], inverse[1]));
        for (int i = 0; i < 2; i++) inverse[i] = vd_of_floats(one, i);
    } else {
        for (int i = 0; i < 2; i++) inverse[i] = vd_div(vd_set(1.0), inverse[i]);
    }
    for (int i = 0; i < 2; i++) {
        g[i] = vd_mul(vd_mul(inverse[i], t[i].shift), vd_set(0x1p60)); /* OUT_BIAS - SOFTMAX_BIAS */
        most[i] = vd_mul(vd_mul(t[i].e_max, inverse[i]), vd_set(0x1p64));
    }
    hi = vf_of_doubles(g[0], g[1]);
    s->factor_hi = hi;
    s->factor_lo = vf_of_doubles(vd_sub(g[0], vd_of_floats(hi, 0)), vd_sub(g[1], vd_of_floats(hi, 1)));
    if (arithmetic_is_short(kind)) s->factor_lo = vf_set(0.0f);
    s->most = vf_of_doubles(most[0], most[1]);
    s->cut = vf_fma(s->top, hi, vf_mul(s->top, s->factor_lo));
}

static ALWAYS_INLINE void logarithm_of_group(lanes_float *s, lane_want want, const half_total t[2]) {
    vd result[2], result_low[2];
    vf value;
    for (int i = 0; i < 2; i++) {
        vd_pair log = log1p_vectors(vd_div(t[i].rest, t[i].e_max));
        if (want == LANE_LOG) {
            result[i] = vd_sub(vd_set(0.0), log.hi);
            result_low[i] = log.lo;
        } else {
            vd_pair sum = two_sum_vectors(vd_of_floats(s->first, i), log.hi);
            result[i] = vd_add(sum.hi, vd_add(sum.lo, vd_add(log.lo, vd_of_floats(s->first_low, i))));
        }
    }
    value = vf_of_doubles(result[0], result[1]);
    if (want == LANE_LOG) {
        s->minus_log = value;
        for (int i = 0; i < 2; i++) result_low[i] = vd_sub(vd_sub(result[i], vd_of_floats(value, i)), result_low[i]);
        s->minus_log_low = vf_of_doubles(result_low[0], result_low[1]);
        return;
    }
    value = vf_unbias(value, vf_set(0x1p-126f), 0);
    s->value = s->constant ? vf_add(vf_keep_from(s->usual, vf_set(1.0f), value), s->value) : value;
}

static ALWAYS_INLINE void read_groups(lanes_float *s, int groups, arithmetic kind, lane_want want) {
    half_total t[MOST_MAXIMA];
    totals_of_groups(s, groups, kind, t);
    for (int g = 0; g < groups; g++)
        if (want == LANE_FACTOR)
            factor_of_group(&s[g], kind, &t[2 * g]);
        else
            logarithm_of_group(&s[g], want, &t[2 * g]);
}

APART void read_lanes_float(lanes_float *s, int groups, arithmetic kind, lane_want want) {
#if defined(VECTOR_PIPELINE)
    for (; groups >= 4; groups -= 4, s += 4)
        want == LANE_FACTOR ? read_groups(s, 4, kind, LANE_FACTOR) : read_groups(s, 4, kind, want);
#endif
    for (; groups >= 2; groups -= 2, s += 2)
        want == LANE_FACTOR ? read_groups(s, 2, kind, LANE_FACTOR) : read_groups(s, 2, kind, want);
    if (groups) want == LANE_FACTOR ? read_groups(s, 1, kind, LANE_FACTOR) : read_groups(s, 1, kind, want);
}

/* An accumulator in every lane, of terms that are all there from the beginning (accumulator.h, without its wrapping: exponents are small). */
#define LANE_TERMS 3
typedef struct lane_accumulator {
    int64_t value[LANE_TERMS][VF_LANES]; /* times 2^exponent; not all of them 0 */
    int64_t exponent[LANE_TERMS][VF_LANES];
} lane_accumulator;

/* accumulator_read_first of every lane, times 2^-k. Loops for the compiler to make vectors of. */
static void read_lane_accumulators(const lane_accumulator *a, const int64_t *k, double *sum) {
    int64_t top[VF_LANES], limb[ACCUMULATOR_FIRST_LIMBS][VF_LANES] = {{0}};
    for (int i = 0; i < VF_LANES; i++) top[i] = -((int64_t)1 << 40);
    for (int t = 0; t < LANE_TERMS; t++)
        for (int i = 0; i < VF_LANES; i++) {
            int64_t its = a->value[t][i] ? (a->exponent[t][i] + 62) >> 5 : top[i];
            top[i] = its > top[i] ? its : top[i];
        }
    for (int t = 0; t < LANE_TERMS; t++)
        for (int j = 0; j < ACCUMULATOR_FIRST_LIMBS; j++)
            for (int i = 0; i < VF_LANES; i++) {
                int64_t value = a->value[t][i], shift = a->exponent[t][i] - 32 * (top[i] - j); /* below 64, for top is */
                uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
                uint64_t up = size << (shift > 0 ? shift : 0), down = shift > -64 ? size >> (shift < 0 ? -shift : 0) : 0;
                int64_t word = (int64_t)((shift < 0 ? down : up) & 0xffffffff);
                limb[j][i] += value < 0 ? -word : word;
            }
    for (int i = 0; i < VF_LANES; i++) {
        int64_t scale = 32 * (top[i] - (ACCUMULATOR_FIRST_LIMBS - 1)) - k[i];
        double s = fma((double)limb[0][i], 0x1p32, (double)limb[1][i]);
        s = fma(s, 0x1p32, (double)limb[2][i]);
        if (scale < -1000) scale = -1000; /* nothing, beside the maximum's term */
        sum[i] = s * bits_double((uint64_t)(1023 + scale) << 52);
    }
}

static void add_block_of_lanes(lane_accumulator *a, int term, const lanes_float *s) {
    float kb[VF_LANES];
    uint32_t high[VF_LANES], low[VF_LANES];
    vf_store(kb, s->kb);
    vi_store(high, s->high);
    vi_store(low, s->low);
    for (int i = 0; i < VF_LANES; i++) {
        a->value[term][i] = (int64_t)(int32_t)high[i] * (1 << (TERM32_LOW_UNIT - TERM32_HIGH_UNIT)) + (int32_t)low[i];
        a->exponent[term][i] = (int64_t)kb[i] - TERM32_LOW_UNIT;
    }
}

APART void read_two_blocks_float(lanes_float *s, const lanes_float *t, lane_want want) {
    const vd first[4] = {vd_of_floats(s->first, 0), vd_of_floats(s->first, 1), vd_of_floats(t->first, 0), vd_of_floats(t->first, 1)};
    vd e[4], k[4];
    double power[2][VF_LANES], exponent[2][VF_LANES], first_of[2][VF_LANES], e_max[VF_LANES], rest[VF_LANES], k_max[VF_LANES];
    int64_t k_of[VF_LANES];
    lane_accumulator a;
    half_total total[2];
    exp_of_maximum_vectors(4, first, e, k);
    for (int i = 0; i < 4; i++) {
        vd_store(&power[i / 2][i % 2 * VD_LANES], e[i]);
        vd_store(&exponent[i / 2][i % 2 * VD_LANES], k[i]);
        vd_store(&first_of[i / 2][i % 2 * VD_LANES], first[i]);
    }
    add_block_of_lanes(&a, 0, s);
    add_block_of_lanes(&a, 1, t);
    for (int i = 0; i < VF_LANES; i++) {
        int above = first_of[1][i] > first_of[0][i];
        e_max[i] = above ? power[1][i] : power[0][i];
        k_max[i] = above ? exponent[1][i] : exponent[0][i];
        a.value[2][i] = (int64_t)((above ? power[0][i] : power[1][i]) * 0x1p52);
        a.exponent[2][i] = (int64_t)(above ? exponent[0][i] : exponent[1][i]) - 52;
        k_of[i] = (int64_t)k_max[i];
    }
    read_lane_accumulators(&a, k_of, rest);
    for (int i = 0; i < 2; i++) {
        total[i].e_max = vd_load(e_max + i * VD_LANES);
        total[i].rest = vd_load(rest + i * VD_LANES);
        total[i].shift = vd_power(vd_add(vd_sub(vd_of_floats(s->kb, i), vd_load(k_max + i * VD_LANES)), vd_set(SOFTMAX_MAGIC64)));
    }
    s->top = vf_select(t->first, s->first, t->top, s->top);
    s->first = vf_max(s->first, t->first);
    want == LANE_FACTOR ? factor_of_group(s, ARITHMETIC_32, total) : logarithm_of_group(s, want, total);
}

static void read_two_blocks_double(lanes_double *s, const lanes_double *t, lane_want want) { (void)s, (void)t, (void)want; }

/* Pairs all along: lane by lane. */
static void read_group_double(lanes_double *s, arithmetic kind, lane_want want) {
    double first[VD_LANES], first_low[VD_LANES], minus_log_low[VD_LANES], kb[VD_LANES], top[VD_LANES], hi[VD_LANES], lo[VD_LANES],
        cut[VD_LANES], most[VD_LANES], minus_log[VD_LANES],
        value[VD_LANES], usual[VD_LANES];
    uint64_t high[VD_LANES], low[VD_LANES];
    vd_store(first, s->first);
    vd_store(first_low, s->first_low);
    vd_store(kb, s->kb);
    vd_store(top, s->top);
    vd_store(value, s->value);
    vd_store(usual, s->usual);
    vl_store(high, s->high);
    vl_store(low, s->low);
    for (int i = 0; i < VD_LANES; i++) {
        row_state row = row_state_empty();
        block_double block;
        row_result_double r;
        hi[i] = lo[i] = cut[i] = most[i] = minus_log[i] = minus_log_low[i] = 0;
        if (usual[i] == 0) continue;
        block.kb = (int64_t)kb[i];
        row.maximum = score_of_pair(first[i], first_low[i]);
        set_rest_double(&block, high[i], low[i]);
        add_rest_double(&row.rest, &block);
        if (want == LANE_LOGSUMEXP) {
            value[i] = row_state_logsumexp(&row, kind);
            continue;
        }
        r = result_of_state_double(&row, kind, want == LANE_LOG, 0);
        if (want == LANE_LOG) {
            minus_log[i] = 0.0 - r.log.hi;
            minus_log_low[i] = (-r.log.hi - minus_log[i]) - r.log.lo;
        } else {
            pair g;
            int64_t exponent = block.kb - SOFTMAX_BIAS - r.k + 256;
            g.hi = scale_by_power(r.factor.hi, exponent);
            hi[i] = g.hi;
            lo[i] = scale_by_power(r.factor.lo, exponent);
            most[i] = r.most.hi * 0x1p256;
            cut[i] = fma(top[i], hi[i], top[i] * lo[i]);
        }
    }
    s->factor_hi = vd_load(hi);
    s->factor_lo = vd_load(lo);
    s->cut = vd_load(cut);
    s->most = vd_load(most);
    s->minus_log = vd_load(minus_log);
    s->minus_log_low = vd_load(minus_log_low);
    s->value = vd_load(value);
}

static void read_lanes_double(lanes_double *s, int groups, arithmetic kind, lane_want want) {
    for (int g = 0; g < groups; g++) read_group_double(&s[g], kind, want);
}

static void exp_of_firsts_float(const float *first, const float *first_low, arithmetic kind, double *e, double *k) {
    const vf firsts = vf_load(first), lows = vf_load(first_low);
    const int is_short = arithmetic_is_short(kind), has_low = vm_any(vf_or_at_least(vm_none(), vf_abs(lows), vf_set(0x1p-149f)));
    for (int i = 0; i < 2; i++) {
        vd x = vd_of_floats(firsts, i), x_low = vd_of_floats(lows, i), f, n;
        if (is_short) {
            vf power, v = short_exp_of_maximum(firsts, lows, 0, kind, &power);
            f = vd_mul(vd_of_floats(v, i), vd_set(0x1p-4));
            n = vd_of_floats(power, i);
        } else if (has_low) {
            exp_of_maximum_pairs(1, &x, &x_low, &f, &n);
        } else {
            exp_of_maximum_vectors(1, &x, &f, &n);
        }
        vd_store(e + i * VD_LANES, f);
        vd_store(k + i * VD_LANES, n);
    }
}

static void exp_of_firsts_double(const double *first, const double *first_low, arithmetic kind, double *e, double *k) {
    for (int i = 0; i < VD_LANES; i++) {
        power its = exp_of_maximum(score_of_pair(first[i], first_low[i]), kind);
        e[i] = its.f.hi;
        k[i] = (double)its.k;
    }
}

#endif
