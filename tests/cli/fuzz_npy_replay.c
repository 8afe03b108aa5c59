/* The seeds of the .npy fuzzer, and a driver for builds without libFuzzer:
 *   fuzz_npy_replay                 every seed, every prefix of it, and every change of one byte
 *   fuzz_npy_replay --write FOLDER  the seeds as files, for libFuzzer's corpus */
#include <softmax.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Version, then the dictionary. */
static const struct {
    unsigned char major;
    const char *text;
} seeds[] = {
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"},
    {1, "{'descr': '<f8', 'fortran_order': True, 'shape': (7,), }"},
    {2, "{'descr': '<f2', 'fortran_order': False, 'shape': (), }"},
    {3, "{'descr': '<u2', 'fortran_order': False, 'shape': (0, 4), }"},
    {1, "{\"shape\":(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16),\"descr\":\"<i8\",\"fortran_order\":True}"},
    {1, "{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}"},
    {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4294967296, 0, 2147483648), }"},
    {2, "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }"},
    {1, "{'descr': [('a', '<f4'), ('b', '>i2', (2,))], 'fortran_order': False, 'shape': (3,), }"},
    {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2L, 3L), }"},
};

#define SEEDS (sizeof seeds / sizeof *seeds)
#define SEED_BYTES 256

static size_t make_seed(size_t index, uint8_t bytes[SEED_BYTES])
{
    size_t start = seeds[index].major == 1 ? 10 : 12;
    size_t length = (start + strlen(seeds[index].text) + 1 + 63) / 64 * 64 - start;
    memset(bytes, ' ', SEED_BYTES);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = seeds[index].major;
    bytes[7] = 0;
    memset(bytes + 8, 0, start - 8);
    bytes[8] = (uint8_t)length;
    bytes[9] = (uint8_t)(length >> 8);
    memcpy(bytes + start, seeds[index].text, strlen(seeds[index].text));
    bytes[start + length - 1] = '\n';
    return start + length;
}

static long replay(uint8_t *bytes, size_t count)
{
    long runs = 0;
    size_t start = bytes[6] == 1 ? 10 : 12;
    uint8_t length = bytes[8], length_high = bytes[9];
    for (size_t end = 0; end <= count; end++, runs += 2) {
        LLVMFuzzerTestOneInput(bytes, end);
        if (end < start)
            continue;
        bytes[8] = (uint8_t)(end - start); /* a header that says it ends here, too */
        bytes[9] = 0;
        LLVMFuzzerTestOneInput(bytes, end);
        bytes[8] = length;
        bytes[9] = length_high;
    }
    for (size_t at = 0; at < count; at++) {
        uint8_t kept = bytes[at];
        for (int value = 0; value < 256; value++, runs++) {
            bytes[at] = (uint8_t)value;
            LLVMFuzzerTestOneInput(bytes, count);
        }
        bytes[at] = kept;
    }
    return runs;
}

static int write_seed(const char *folder, size_t index, const uint8_t *bytes, size_t count)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/seed%zu.npy", folder, index);
    FILE *file = fopen(path, "wb");
    int written = file && fwrite(bytes, 1, count, file) == count;
    if (file)
        written &= fclose(file) == 0;
    return written;
}

int main(int argc, char **argv)
{
    int write = argc == 3 && strcmp(argv[1], "--write") == 0;
    long runs = 0;
    for (size_t i = 0; i < SEEDS; i++) {
        uint8_t bytes[SEED_BYTES];
        size_t count = make_seed(i, bytes);
        if (!write)
            runs += replay(bytes, count);
        else if (!write_seed(argv[2], i, bytes, count))
            return 1;
    }
    if (!write)
        printf("%ld headers from %zu seeds\n", runs, SEEDS);
    return 0;
}
