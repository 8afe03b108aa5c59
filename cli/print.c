#include "print.h"

#include "element.h"

#include <math.h>
#include <stdio.h>

/* Arrays with more elements than this show the ends of every dimension only, so many of each. */
#define MOST_ELEMENTS 1000
#define ENDS 3

/* Digits that tell neighbours of the type apart. */
static int digits(npy_kind kind)
{
    return kind == NPY_FLOAT64 ? 17 : kind == NPY_FLOAT32 ? 9 : kind == NPY_FLOAT16 ? 5 : 4;
}

static void print_value(const npy_array *array, int64_t offset)
{
    double value = element_value(&array->tensor, offset);
    if (isnan(value))
        fputs("nan", stdout);
    else
        printf("%.*g", digits(array->header.kind), value);
}

static void print_dimension(const npy_array *array, int d, int64_t offset)
{
    const npy_header *header = &array->header;
    if (d == header->ndim) {
        print_value(array, offset);
        return;
    }
    int64_t size = header->shape[d];
    bool shortened = header->elements > MOST_ELEMENTS && size > 2 * ENDS;
    putchar('[');
    for (int64_t i = 0; i < size; i++) {
        if (i > 0)
            fputs(d + 1 == header->ndim ? " " : "\n", stdout);
        for (int blank = 0; i > 0 && d + 1 < header->ndim && blank <= d; blank++)
            putchar(' ');
        if (shortened && i == ENDS) {
            fputs("...", stdout);
            i = size - ENDS - 1;
            continue;
        }
        print_dimension(array, d + 1, offset + i * array->strides[d]);
    }
    putchar(']');
}

void print_array(const npy_array *array)
{
    print_dimension(array, 0, 0);
    putchar('\n');
}
