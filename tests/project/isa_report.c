/* Runs every instruction set that the library was built with, by force, and says which ran and which could not.
 * The bits must agree: a small check here; tests/bits*.c is the thorough one. */
#include <softmax.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 3, COLUMNS = 1031 };

/* Names the sets that the library knows and was not built with. */
static void name_missing(void)
{
    static const char *const known[] = {"portable", "avx2", "avx512", "neon"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int built = 0;
        for (int k = 0; k < softmax_isa_count(); k++) {
            built |= strcmp(softmax_isa_name(k), known[i]) == 0;
        }
        if (!built) {
            printf("isa %s: not in this build\n", known[i]);
        }
    }
}

int main(void)
{
    static float x[ROWS * COLUMNS], first[ROWS * COLUMNS], y[ROWS * COLUMNS];
    int failed = 0, ran = 0;
    uint32_t seed = 1;

    for (int i = 0; i < ROWS * COLUMNS; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)(seed >> 8) * 0x1p-20f;
    }
    for (int k = 0; k < softmax_isa_count(); k++) {
        char message[200];
        softmax_options options = SOFTMAX_OPTIONS_INIT;
        options.isa = softmax_isa_name(k);
        options.message = message;
        options.message_bytes = sizeof message;
        memset(y, 0xff, sizeof y);
        softmax_status status = softmax_softmax_rows(SOFTMAX_FLOAT32, ROWS, COLUMNS, x, y, &options);
        if (!softmax_isa_available(k)) {
            printf("isa %s: skipped, this processor lacks it\n", options.isa);
            if (status != SOFTMAX_ERROR_ISA) {
                printf("FAILED: forcing it gave status %d, not SOFTMAX_ERROR_ISA\n", (int)status);
                failed++;
            }
            continue;
        }
        if (status != SOFTMAX_OK) {
            printf("FAILED: isa %s: status %d: %s\n", options.isa, (int)status, message);
            failed++;
            continue;
        }
        double sum = 0;
        for (int i = 0; i < COLUMNS; i++) {
            sum += y[i];
        }
        if (!(sum > 1 - 1e-6 && sum < 1 + 1e-6)) {
            printf("FAILED: isa %s: a row sums to %.9g\n", options.isa, sum);
            failed++;
        }
        if (ran++ == 0) {
            memcpy(first, y, sizeof y);
        } else if (memcmp(first, y, sizeof y) != 0) {
            printf("FAILED: isa %s: bits differ from %s's\n", options.isa, softmax_isa_name(0));
            failed++;
        }
        printf("isa %s: ran\n", options.isa);
    }
    name_missing();
    if (ran == 0) {
        printf("FAILED: no instruction set ran\n");
    }
    return failed != 0 || ran == 0;
}
