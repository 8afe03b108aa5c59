#include "random_rows.h"

const char *const distribution_names[DISTRIBUTIONS] = {"N(0,1)", "10 N(0,1)", "U[-80,0]", "1e4 + 5 N(0,1)",
                                                       "two-valued"};

random_source random_seed(uint64_t seed)
{
    return (random_source){seed};
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t random_bits(random_source *source)
{
    uint64_t z = source->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t random_below(random_source *source, int64_t bound)
{
    return (int64_t)(random_bits(source) % (uint64_t)bound);
}

double random_uniform(random_source *source, double low, double high)
{
    return low + (high - low) * ((double)(random_bits(source) >> 11) * 0x1p-53);
}

double random_normal(random_source *source)
{
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t bits = random_bits(source);
        sum += (int64_t)(bits >> 32) + (int64_t)(bits & 0xffffffff);
    }
    return (double)(sum - 6 * (INT64_C(1) << 32)) * 0x1p-32;
}

static void two_valued_row(random_source *source, double *row, int64_t columns)
{
    double a = random_uniform(source, -10, 10);
    double b = random_uniform(source, -10, 10);
    if (random_bits(source) & 1) {
        int64_t single = random_below(source, columns);
        for (int64_t j = 0; j < columns; j++)
            row[j] = j == single ? a : b;
        return;
    }
    uint64_t share = random_bits(source);
    for (int64_t j = 0; j < columns; j++)
        row[j] = random_bits(source) < share ? a : b;
}

void random_row(random_source *source, distribution which, double *row, int64_t columns)
{
    if (which == TWO_VALUED) {
        two_valued_row(source, row, columns);
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        switch (which) {
        case NORMAL:
            row[j] = random_normal(source);
            break;
        case NORMAL_10:
            row[j] = 10 * random_normal(source);
            break;
        case UNIFORM_TAILS:
            row[j] = random_uniform(source, -80, 0);
            break;
        default:
            row[j] = 1e4 + 5 * random_normal(source);
            break;
        }
    }
}
