/* Rows of test inputs from an integer generator: only integer arithmetic and exact scalings feed them, so that a seed
 * gives the same bits on every machine and with every C library. */
#ifndef TESTS_RANDOM_ROWS_H
#define TESTS_RANDOM_ROWS_H

#include <stdint.h>

typedef struct random_source {
    uint64_t state;
} random_source;

random_source random_seed(uint64_t seed);
uint64_t random_bits(random_source *source);
int64_t random_below(random_source *source, int64_t bound); /* in [0, bound) */
double random_uniform(random_source *source, double low, double high);
/* Like N(0,1): the sum of twelve uniform 32-bit integers, centred; within [-6, 6]. */
double random_normal(random_source *source);

typedef enum distribution {
    NORMAL,        /* N(0,1) */
    NORMAL_10,     /* 10 N(0,1) */
    UNIFORM_TAILS, /* U[-80,0] */
    OFFSET_10000,  /* 1e4 + 5 N(0,1) */
    TWO_VALUED,    /* two values of [-10,10]; one of them once in every other row, else in random shares */
    DISTRIBUTIONS
} distribution;

extern const char *const distribution_names[DISTRIBUTIONS];

/* Not rounded to any format: the caller's format_store does that, once. */
void random_row(random_source *source, distribution which, double *row, int64_t columns);

#endif
