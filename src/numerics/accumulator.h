/* An exact sum of integers times powers of two, whose bits do not depend on the order of its terms.
 *
 * Limb i counts 2^(32 (top - i)), on one absolute grid; every term is cut into pieces of 32 bits, so that sums are integer adds and
 * carries wait until the sum is read. top is the largest of the terms' tops: a property of the set of terms. Pieces below the window
 * are dropped whole, and a piece that was dropped early lies below the last window too: the result depends on the set alone.
 * At least 96 bits below the largest term are kept; 2^31 terms fit. Source of the idea: Kulisch's accumulator;
 * Demmel and Nguyen, "Fast reproducible floating-point summation", 2013. */
#ifndef SOFTMAX_NUMERICS_ACCUMULATOR_H
#define SOFTMAX_NUMERICS_ACCUMULATOR_H

#include "arithmetic.h"

#define ACCUMULATOR_LIMBS 4
#define ACCUMULATOR_EMPTY INT64_MIN
#define ACCUMULATOR_TOP_BITS 31 /* exponents count modulo 2^36, tops modulo 2^31: terms of one sum are nearer to each other than half of that */

typedef struct accumulator {
    int64_t limb[ACCUMULATOR_LIMBS];
    int64_t top; /* ACCUMULATOR_EMPTY: no term yet */
} accumulator;

SOFTMAX_FN accumulator accumulator_empty(void) {
    accumulator a = {{0, 0, 0, 0}, ACCUMULATOR_EMPTY};
    return a;
}

/* The integer next to 0 that equals x modulo 2^bits. */
SOFTMAX_FN int64_t wrapped(uint64_t x, int bits) { return (int64_t)(x << (64 - bits)) >> (64 - bits); }

/* The top of a term value 2^exponent, |value| < 2^63: its 32-bit pieces end there. */
SOFTMAX_FN int64_t accumulator_top(int64_t exponent) { return wrapped(((uint64_t)exponent + 62) >> 5, ACCUMULATOR_TOP_BITS); }

SOFTMAX_FN int64_t tops_apart(int64_t a, int64_t b) { return wrapped((uint64_t)a - (uint64_t)b, ACCUMULATOR_TOP_BITS); }

/* What an exponent is above that of the unit of a limb: 0 is the top's. */
SOFTMAX_FN int64_t above_limb(int64_t exponent, int64_t top, int limb) {
    return wrapped((uint64_t)exponent - 32 * ((uint64_t)top - (uint64_t)limb), ACCUMULATOR_TOP_BITS + 5);
}

SOFTMAX_FN void accumulator_raise(accumulator *a, int64_t top) {
    int i;
    int64_t shift;
    shift = a->top == ACCUMULATOR_EMPTY ? ACCUMULATOR_LIMBS : tops_apart(top, a->top);
    if (shift <= 0) return;
    for (i = ACCUMULATOR_LIMBS - 1; i >= 0; i--) a->limb[i] = i >= shift ? a->limb[i - shift] : 0;
    a->top = top;
}

/* magnitude 2^exponent cut into the 32-bit words of the limbs of a window: word[i] belongs to limb i. What lies below is dropped. */
SOFTMAX_FN void accumulator_words(uint64_t magnitude, int64_t exponent, int64_t top, uint32_t word[ACCUMULATOR_LIMBS]) {
    int64_t offset = above_limb(exponent, top, ACCUMULATOR_LIMBS - 1); /* of its unit above the window's bottom */
    uint32_t low, middle, high;
    int first, shift;
    if (offset < 0) {
        magnitude = offset > -64 ? magnitude >> -offset : 0;
        offset = 0;
    }
    first = ACCUMULATOR_LIMBS - 1 - (int)(offset >> 5); /* the limb of its lowest word */
    shift = (int)(offset & 31);
    low = (uint32_t)(magnitude << shift);
    middle = (uint32_t)((magnitude << shift) >> 32);
    high = (uint32_t)(magnitude >> 32 >> (31 - shift) >> 1); /* the bits that shift pushes out of 64 */
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++) word[i] = i == first ? low : i == first - 1 ? middle : i == first - 2 ? high : 0;
}

SOFTMAX_FN void accumulator_add(accumulator *a, int64_t value, int64_t exponent) {
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint32_t word[ACCUMULATOR_LIMBS];
    int i;
    accumulator_raise(a, accumulator_top(exponent));
    accumulator_words(magnitude, exponent, a->top, word);
    for (i = 0; i < ACCUMULATOR_LIMBS; i++) a->limb[i] += value < 0 ? -(int64_t)word[i] : (int64_t)word[i];
}

/* A finite double, exactly (but for what lies below the window). */
SOFTMAX_FN void accumulator_add_double(accumulator *a, double x) {
    uint64_t bits = double_bits(x);
    int64_t exponent = (int64_t)((bits >> 52) & 0x7ff);
    int64_t mantissa = (int64_t)(bits & 0xfffffffffffffULL);
    if (exponent) mantissa |= (int64_t)1 << 52;
    if (!exponent) exponent = 1;
    if (mantissa) accumulator_add(a, bits >> 63 ? -mantissa : mantissa, exponent - 1075);
}

SOFTMAX_FN void accumulator_merge(accumulator *a, const accumulator *b) {
    int i;
    if (b->top == ACCUMULATOR_EMPTY) return;
    accumulator_raise(a, b->top);
    for (i = 0; i < ACCUMULATOR_LIMBS; i++) {
        int64_t from = i - tops_apart(a->top, b->top);
        if (from >= 0) a->limb[i] += b->limb[from];
    }
}

/* Carries resolved: words of 32 bits, the first signed and with all that is above. */
SOFTMAX_FN void accumulator_carry(const accumulator *a, int64_t word[ACCUMULATOR_LIMBS]) {
    int64_t carry = 0;
    for (int i = ACCUMULATOR_LIMBS - 1; i > 0; i--) {
        int64_t limb = a->limb[i] + carry;
        word[i] = limb & 0xffffffff;
        carry = limb >> 32;
    }
    word[0] = a->limb[0] + carry;
}

#define ACCUMULATOR_FIRST_LIMBS 3

/* The sum times 2^-reference from its first limbs as they are: at least 64 bits below the largest term, enough for results of 24 bits.
 * For a sum of no negative terms. */
SOFTMAX_FN double accumulator_read_first(const accumulator *a, int64_t reference) {
    double sum;
    if (a->top == ACCUMULATOR_EMPTY) return 0.0;
    sum = (double)a->limb[0];
    for (int i = 1; i < ACCUMULATOR_FIRST_LIMBS; i++) sum = fma(sum, 0x1p32, (double)a->limb[i]);
    return scale_by_power(sum, -above_limb(reference, a->top, ACCUMULATOR_FIRST_LIMBS - 1));
}

/* The sum times 2^-reference, as a pair of about 100 bits. */
SOFTMAX_FN pair accumulator_read(const accumulator *a, int64_t reference) {
    pair sum = {0.0, 0.0};
    int64_t word[ACCUMULATOR_LIMBS], exponent;
    int i;
    if (a->top == ACCUMULATOR_EMPTY) return sum;
    accumulator_carry(a, word);
    exponent = -above_limb(reference, a->top, ACCUMULATOR_LIMBS - 1); /* of the last limb's unit */
    for (i = 0; i < ACCUMULATOR_LIMBS; i++) {
        pair s = two_sum(sum.hi, (double)word[i] * bits_double((uint64_t)(1023 + 32 * (ACCUMULATOR_LIMBS - 1 - i)) << 52));
        sum = fast_two_sum(s.hi, s.lo + sum.lo);
    }
    sum.hi = scale_by_power(sum.hi, exponent);
    sum.lo = scale_by_power(sum.lo, exponent);
    return sum;
}

#endif
