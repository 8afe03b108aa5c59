/* Where a row's elements are, and single elements of any type. */
#ifndef SOFTMAX_ROW_OPERANDS_H
#define SOFTMAX_ROW_OPERANDS_H

#include "../kernels.h"
#include "../numerics/half.h"

/* The coordinates of a row. */
typedef struct place {
    int64_t coordinate[SOFTMAX_MAX_DIMENSIONS];
} place;

static inline place place_of_row(const softmax_job *job, int64_t row) {
    place p;
    for (int d = job->dimensions - 1; d > 0; d--) {
        p.coordinate[d] = row % job->shape[d];
        row /= job->shape[d];
    }
    p.coordinate[0] = row;
    return p;
}

/* The place of the row after it; beyond the last row it grows in its first dimension. */
static inline void next_place(const softmax_job *job, place *p) {
    int d = job->dimensions - 1;
    for (; d > 0 && p->coordinate[d] == job->shape[d] - 1; d--) p->coordinate[d] = 0;
    p->coordinate[d]++;
}

static inline void skip_places(const softmax_job *job, place *p, int count) {
    int d = job->dimensions - 1;
    if (d == 0 || job->shape[d] - p->coordinate[d] > count) {
        p->coordinate[d] += count;
        return;
    }
    for (int i = 0; i < count; i++) next_place(job, p);
}

/* The same where the rows passed are neighbours in the last dimension. */
static inline void pass_places(const softmax_job *job, place *p, int64_t count) {
    p->coordinate[job->dimensions - 1] += count - 1;
    next_place(job, p);
}

static inline char *row_address(const softmax_job *job, const operand *a, const place *p) {
    char *address = a->data;
    if (!address) return NULL;
    for (int d = 0; d < job->dimensions; d++) address += p->coordinate[d] * a->row_stride[d];
    return address;
}

static inline int64_t element_bytes(element type) {
    switch (type) {
    case ELEMENT_FLOAT32:
    case ELEMENT_INT32:
        return 4;
    case ELEMENT_FLOAT64:
    case ELEMENT_INT64:
        return 8;
    case ELEMENT_FLOAT16:
    case ELEMENT_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

/* Contiguous, and on addresses that the element may have. Others go through memcpy. */
static inline int is_contiguous(const operand *a) {
    int64_t bytes = element_bytes(a->type);
    return a->column_stride == bytes && (uintptr_t)a->data % (uintptr_t)bytes == 0;
}

static inline double load_real(const char *address, element type) {
    float f;
    double d;
    uint16_t h;
    switch (type) {
    case ELEMENT_FLOAT32:
        memcpy(&f, address, 4);
        return f;
    case ELEMENT_FLOAT64:
        memcpy(&d, address, 8);
        return d;
    case ELEMENT_FLOAT16:
        memcpy(&h, address, 2);
        return widen_float16(h);
    default:
        memcpy(&h, address, 2);
        return widen_bfloat16(h);
    }
}

static inline int64_t load_integer(const char *address, element type) {
    int32_t i;
    int64_t l;
    if (type == ELEMENT_INT32) {
        memcpy(&i, address, 4);
        return i;
    }
    memcpy(&l, address, 8);
    return l;
}

/* The only rounding of a result. Below the smallest normal: +0 (float16 keeps its subnormals); NaN: the positive quiet one. */
static inline void store_real(char *address, element type, double x) {
    float f = (float)x;
    uint16_t h;
    if (x != x) x = f = (float)NAN;
    if (type == ELEMENT_FLOAT64) {
        if (fabs(x) < 0x1p-1022) x = 0.0;
        memcpy(address, &x, 8);
        return;
    }
    if (fabsf(f) < 0x1p-126f) f = 0.0f;
    if (type == ELEMENT_FLOAT32) {
        memcpy(address, &f, 4);
        return;
    }
    h = type == ELEMENT_FLOAT16 ? round_to_float16(f) : round_to_bfloat16(f);
    if (h == 0x8000) h = 0;
    memcpy(address, &h, 2);
}

static inline double load_weight(const softmax_job *job, const place *p, int64_t target) {
    return load_real(row_address(job, &job->weights, p) + target * job->weights.column_stride, job->weights.type);
}

/* The one element of a reduced loss. */
static inline void store_loss(const softmax_job *job, double loss) { store_real(job->loss.data, job->loss.type, loss); }

#endif
