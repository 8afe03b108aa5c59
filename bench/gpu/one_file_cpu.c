/* The CPU's hashes of what bench/gpu/one_file.cu computes: 64 rows a width, by the library. */
#include <softmax.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(uint32_t i) {
    i *= 2654435761u;
    i ^= 12345u;
    i ^= i >> 16;
    i *= 0x85ebca6bu;
    i ^= i >> 13;
    i *= 0xc2b2ae35u;
    return i ^ (i >> 16);
}

static uint16_t to_bfloat16(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static void print_hash(const char *name, softmax_type type, int64_t columns) {
    int64_t count = 64 * columns;
    size_t bytes = (size_t)count * (type == SOFTMAX_FLOAT32 ? 4 : 2);
    float *x = malloc((size_t)count * 4);
    unsigned char *y = malloc(bytes);
    uint16_t *half = (uint16_t *)(void *)x;
    uint64_t hash = 1469598103934665603u;
    if (!x || !y) exit(1);
    for (int64_t i = 0; i < count; i++) {
        float value = ((float)(hash_of((uint32_t)i) & 0xffffffu) * 0x1p-24f - 0.5f) * 16.0f;
        if (type == SOFTMAX_FLOAT32)
            x[i] = value;
        else
            half[i] = to_bfloat16(value);
    }
    if (softmax_softmax_rows(type, 64, columns, x, y, NULL) != SOFTMAX_OK) exit(1);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ y[i]) * 1099511628211u;
    printf("%-8s %6ld columns  hash %016llx\n", name, (long)columns, (unsigned long long)hash);
    free(x);
    free(y);
}

int main(void) {
    const int64_t columns[] = {256, 1024, 4096, 8192, 32768};
    for (int i = 0; i < 5; i++) print_hash("float32", SOFTMAX_FLOAT32, columns[i]);
    for (int i = 0; i < 5; i++) print_hash("bfloat16", SOFTMAX_BFLOAT16, columns[i]);
    return 0;
}
