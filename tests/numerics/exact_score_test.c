/* numerics/exact_score.h against MPFR: the parts are the score, the first the nearest double to it, the order and the differences those of the real
 * numbers, and e^score right for any exponent of scale, x and bias. */
#include "numerics/exact_score.h"
#include "oracle/check.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <mpfr.h>

enum { BITS = 6000, SCORES = 20000 };

typedef struct parts {
    double x, scale, bias;
} parts;

static double any(random_source *source, int low, int high)
{
    double size = random_uniform(source, 1, 2); /* drawn one after another: compilers choose the order of arguments */
    int negative = !(random_bits(source) & 1);
    int exponent = low + (int)random_below(source, high - low);
    return ldexp(negative ? -size : size, exponent);
}

/* Exponents at random; every other time a bias that cancels; few bits in some, for ties between doubles. */
static parts random_parts(random_source *source)
{
    int wide = random_below(source, 2) ? 1020 : 60;
    parts p;
    p.x = any(source, -wide, wide);
    p.scale = any(source, -wide, wide);
    p.bias = any(source, -wide, wide);
    if (random_below(source, 3) == 0)
        p.x = ldexp(1 + (double)random_below(source, 8) / 8, ilogb(p.x)), p.scale = ldexp(1.5, ilogb(p.scale));
    if (random_below(source, 3) == 0 && fabs(p.x * p.scale) < 0x1p1000)
        p.bias = -p.x * p.scale * (1 + ldexp(1, -(int)random_below(source, 60)));
    if (random_below(source, 4) == 0) { /* a product in the middle between two doubles, and a bias that decides */
        int exponent = (int)random_below(source, 1000) - 500;
        p.x = 1 + 0x1p-26, p.scale = ldexp(1 + 0x1p-27, exponent);
        p.bias = (double)random_below(source, 3) - 1;
        p.bias = ldexp(p.bias, exponent - 60 - (int)random_below(source, 250));
    }
    return p;
}

static void true_score(mpfr_t s, const parts *p)
{
    mpfr_set_d(s, p->x, MPFR_RNDN);
    mpfr_mul_d(s, s, p->scale, MPFR_RNDN);
    mpfr_add_d(s, s, p->bias, MPFR_RNDN);
}

static void add_part(mpfr_t sum, double part, int shift)
{
    mpfr_t x;
    mpfr_init2(x, 60);
    mpfr_set_d(x, part, MPFR_RNDN);
    mpfr_mul_2si(x, x, shift, MPFR_RNDN);
    mpfr_add(sum, sum, x, MPFR_RNDN);
    mpfr_clear(x);
}

/* |a - b| as a power of two of |b|, or of 1 where that is larger. */
static long distance(mpfr_t a, mpfr_t b, mpfr_t scratch)
{
    mpfr_sub(scratch, a, b, MPFR_RNDN);
    if (mpfr_zero_p(scratch))
        return -9999;
    return mpfr_get_exp(scratch) - (mpfr_zero_p(b) || mpfr_get_exp(b) < 0 ? 0 : mpfr_get_exp(b));
}

static void check_parts(const parts *p, exact_score s, mpfr_t exact, mpfr_t sum, mpfr_t scratch)
{
    int low = s.level == SCORE_PLAIN ? 0 : SCORE_LARGE_SHIFT, high = s.level == SCORE_BEYOND ? SCORE_BEYOND_SHIFT : low;
    mpfr_t nearest;
    mpfr_init2(nearest, 53);
    mpfr_set_zero(sum, 1);
    add_part(sum, s.high, high);
    add_part(sum, s.middle, high);
    add_part(sum, s.low, low);
    mpfr_sub(scratch, sum, exact, MPFR_RNDN);
    CHECK(mpfr_zero_p(scratch) || mpfr_get_exp(scratch) < -800, "the parts of %a %a + %a are not the score", p->x, p->scale, p->bias);
    if (s.level != SCORE_BEYOND && (mpfr_zero_p(exact) || mpfr_get_exp(exact) > -800)) { /* below, products underflow */
        mpfr_set(nearest, exact, MPFR_RNDN);
        mpfr_mul_2si(nearest, nearest, -high, MPFR_RNDN);
        CHECK(s.high == mpfr_get_d(nearest, MPFR_RNDN), "%a %a + %a: high is %a", p->x, p->scale, p->bias, s.high);
    }
    mpfr_clear(nearest);
}

/* e^score = f 2^k, k modulo 2^64. */
static void check_power(const parts *p, exact_score s, mpfr_t exact, mpfr_t sum, mpfr_t scratch)
{
    power e = exp_of_score(s);
    mpfr_const_log2(scratch, MPFR_RNDN);
    mpfr_div(sum, exact, scratch, MPFR_RNDN);
    mpfr_sub_si(sum, sum, (long)e.k, MPFR_RNDN); /* a multiple of 2^64 and a fraction */
    mpfr_div_2si(sum, sum, 64, MPFR_RNDN);
    mpfr_rint(scratch, sum, MPFR_RNDN);
    mpfr_sub(sum, sum, scratch, MPFR_RNDN);
    mpfr_mul_2si(sum, sum, 64, MPFR_RNDN);
    mpfr_set_prec(scratch, 200);
    mpfr_exp2(scratch, sum, MPFR_RNDN);
    mpfr_div_d(scratch, scratch, e.f.hi, MPFR_RNDN);
    mpfr_sub_d(scratch, scratch, e.f.lo / e.f.hi, MPFR_RNDN);
    mpfr_sub_ui(scratch, scratch, 1, MPFR_RNDN);
    CHECK(mpfr_zero_p(scratch) || mpfr_get_exp(scratch) <= -56, "e^(%a %a + %a) is off by 2^%ld", p->x, p->scale, p->bias, (long)mpfr_get_exp(scratch));
    mpfr_set_prec(scratch, BITS);
}

static void check_two(const parts *p, exact_score a, exact_score b, mpfr_t difference, mpfr_t sum, mpfr_t scratch)
{
    pair d = score_difference(a, b);
    int order = mpfr_sgn(difference);
    CHECK(compare_scores(a, b) == -compare_scores(b, a), "%a %a + %a has two places", p->x, p->scale, p->bias);
    if (order == 0 || mpfr_get_exp(difference) > -800) { /* nearer ones differ by a product that underflows */
        CHECK(compare_scores(a, b) == (order > 0) - (order < 0), "%a %a + %a is not in its place", p->x, p->scale, p->bias);
        CHECK(score_is_above(a, b) + score_is_above(b, a) == (order != 0) || order == 0, "%a %a + %a is above and below", p->x, p->scale, p->bias);
    }
    mpfr_abs(sum, difference, MPFR_RNDN);
    CHECK(scores_meet(a, b) || mpfr_cmp_d(sum, SCORE_DISTANCE - 1) > 0, "%a %a + %a meets nobody", p->x, p->scale, p->bias);
    CHECK(!scores_meet(a, b) || mpfr_cmp_d(sum, SCORE_DISTANCE + 1) < 0, "%a %a + %a meets too many", p->x, p->scale, p->bias);
    if (fabs(d.hi) > 0x1p1023)
        CHECK(mpfr_get_exp(difference) > 1020, "%a %a + %a: a difference is infinite", p->x, p->scale, p->bias);
    else {
        mpfr_set_d(sum, d.hi, MPFR_RNDN);
        mpfr_add_d(sum, sum, d.lo, MPFR_RNDN);
        CHECK(distance(sum, difference, scratch) < -98, "%a %a + %a: the difference is off by 2^%ld", p->x, p->scale, p->bias,
              distance(sum, difference, scratch));
    }
}

int main(void)
{
    random_source source = random_seed(21);
    mpfr_t exact, before, sum, scratch;
    exact_score last = score_of_value(0);
    mpfr_inits2(BITS, exact, before, sum, scratch, (mpfr_ptr)NULL);
    mpfr_set_zero(before, 1);
    for (int i = 0; i < SCORES; i++) {
        parts p = random_parts(&source), other = p;
        exact_score s = exact_score_of(p.x, p.scale, p.bias);
        true_score(exact, &p);
        check_parts(&p, s, exact, sum, scratch);
        if (i % 8 == 0)
            check_power(&p, s, exact, sum, scratch);
        mpfr_sub(sum, exact, before, MPFR_RNDN);
        mpfr_set(before, sum, MPFR_RNDN);
        check_two(&p, s, last, before, sum, scratch);
        other.bias += any(&source, -60, 40); /* a neighbour */
        last = exact_score_of(other.x, other.scale, other.bias);
        true_score(before, &other);
        mpfr_sub(exact, before, exact, MPFR_RNDN);
        check_two(&p, last, s, exact, sum, scratch);
    }
    mpfr_clears(exact, before, sum, scratch, (mpfr_ptr)NULL);
    mpfr_free_cache();
    return check_finish("exact_score_test");
}
