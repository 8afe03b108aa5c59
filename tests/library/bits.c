/* Contract B: one hash per operation, types and options, whatever the instruction set, threads, batch, alignment,
 * strides, axis, place, the caller's rounding and flush modes, tiles and merge order.
 *
 *   bits                 compares the configurations with each other and prints the hashes
 *   bits --golden FILE   ... and compares them with FILE's (tests/golden/bits.txt)
 *   bits --write FILE    ... and writes FILE
 *   bits --few ...       every seventh configuration, another seventh for each workload: for emulators
 *   bits --every N ...   every Nth, likewise
 *   bits --only WORD ... the workloads whose name has the word
 */
#include "bits_workload.h"
#include "oracle/check.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 8 };

/* Short and odd widths, the block's edges, and rows long enough to be split over threads. */
static const int64_t shapes[][2] = {{70, 5}, {40, 33}, {33, 128}, {33, 300}, {9, 513}, {3, 2100}, {1, 9000}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const bits_layout layouts[] = {
    {.name = "1 thread", .threads = 1},
    {.name = "2 threads", .threads = 2},
    {.name = "3 threads", .threads = 3},
    {.name = "8 threads", .threads = 8},
    {.name = "the library's threads"},
    {.name = "past the cache", .threads = 2, .streaming = SOFTMAX_STREAMING_ALWAYS},
    {.name = "past the cache, offset 3, row gap 5", .threads = 1, .offset = 3, .row_gap = 5, .streaming = SOFTMAX_STREAMING_ALWAYS},
    {.name = "past the cache, in place", .threads = 1, .in_place = true, .streaming = SOFTMAX_STREAMING_ALWAYS},
    {.name = "one row a call", .threads = 1, .rows_per_call = 1},
    {.name = "seven rows a call", .threads = 2, .rows_per_call = 7},
    {.name = "offset 1", .threads = 1, .offset = 1},
    {.name = "offset 3, row gap 5", .threads = 1, .offset = 3, .row_gap = 5},
    {.name = "column stride 3", .threads = 1, .column_stride = 3},
    {.name = "column stride -1", .threads = 2, .column_stride = -1},
    {.name = "column stride -2, offset 1", .threads = 1, .column_stride = -2, .offset = 1},
    {.name = "axis first", .threads = 1, .transposed = true},
    {.name = "axis first, row gap 3, 3 threads", .threads = 3, .transposed = true, .row_gap = 3},
    {.name = "axis first, backwards", .threads = 1, .transposed = true, .column_stride = -1},
    {.name = "streaming", .threads = 1, .streaming = SOFTMAX_STREAMING_ALWAYS},
    {.name = "streaming, 3 threads, offset 1, row gap 5", .threads = 3, .streaming = SOFTMAX_STREAMING_ALWAYS, .offset = 1, .row_gap = 5},
    {.name = "streaming, one row a call, in place", .threads = 2, .streaming = SOFTMAX_STREAMING_ALWAYS, .rows_per_call = 1, .in_place = true},
    {.name = "streaming, in place", .threads = 1, .streaming = SOFTMAX_STREAMING_ALWAYS, .in_place = true},
    {.name = "in place", .threads = 1, .in_place = true},
    {.name = "in place, one row a call, axis first",
     .threads = 1,
     .in_place = true,
     .rows_per_call = 1,
     .transposed = true},
    {.name = "in place, column stride -2, 3 threads", .threads = 3, .in_place = true, .column_stride = -2},
    {.name = "rounding up", .threads = 1, .rounding = FE_UPWARD},
    {.name = "rounding down, 3 threads", .threads = 3, .rounding = FE_DOWNWARD},
    {.name = "rounding to zero", .threads = 2, .rounding = FE_TOWARDZERO},
    {.name = "subnormals flushed", .threads = 1, .flush = true},
    {.name = "subnormals flushed, rounding up, 8 threads", .threads = 8, .flush = true, .rounding = FE_UPWARD},
};

static const struct {
    int64_t blocks;
    merge_order order;
} tilings[] = {{1, ONE_STATE}, {2, ONE_STATE}, {1, CHAIN}, {1, REVERSED},
               {1, TREE},      {2, CHAIN},     {3, TREE},  {5, REVERSED}};

enum { ENOUGH_DIFFERENCES = 4 }; /* a workload is left after so many */

static long comparisons, differences;
static int every = 1, turn; /* of so many configurations one is run, in turn */
static const char *only = "";

static bool is_in_turn(void)
{
    return turn++ % every == 0;
}

/* Where the results first differ from the reference's, in words. */
static void first_difference(const workload *made, const char *reference, char *words, size_t words_bytes)
{
    const float_format *format = made->output_format;
    int64_t columns = workload_has_row_outputs(made) ? 1 : made->columns;
    for (int64_t at = 0; at < made->rows * columns; at++) {
        if (memcmp(made->output + at * format->bytes, reference + at * format->bytes, (size_t)format->bytes) == 0)
            continue;
        snprintf(words, words_bytes, "row %ld, column %ld: %a, not %a", (long)(at / columns), (long)(at % columns),
                 format_load(format, made->output, at), format_load(format, reference, at));
        return;
    }
    snprintf(words, words_bytes, "the loss, row_logsumexp or targets' gradient");
}

static void compare(const workload *made, uint64_t expected, const char *reference, const char *set, const char *words)
{
    char difference[128] = "";
    bool same = workload_hash(made, WORKLOAD_HASH) == expected;
    comparisons++;
    if (!same)
        first_difference(made, reference, difference, sizeof difference);
    differences += !same;
    CHECK(same, "%s, %ld x %ld, %s, %s: other bits than portable C on one thread: %s", made->name, (long)made->rows,
          (long)made->columns, set, words, difference);
}

/* All configurations of one shape against the first; returns hash, continued by the shape's results. */
static uint64_t run_shape(workload *made, const char *sets[], int set_count, uint64_t hash)
{
    bits_layout first = {.name = "reference", .isa = "portable", .threads = 1};
    workload_run(made, &first);
    uint64_t expected = workload_hash(made, WORKLOAD_HASH);
    size_t reference_bytes = (size_t)(made->rows * made->columns * 8);
    char *reference = malloc(reference_bytes);
    if (!reference)
        abort();
    memcpy(reference, made->output, reference_bytes);
    hash = workload_hash(made, hash);
    for (int s = 0; s < set_count && differences < ENOUGH_DIFFERENCES; s++) {
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
            bits_layout layout = layouts[l];
            layout.isa = sets[s];
            if (is_in_turn() && workload_run(made, &layout))
                compare(made, expected, reference, sets[s], layout.name);
        }
        for (size_t t = 0; t < sizeof tilings / sizeof *tilings; t++) {
            char words[64];
            snprintf(words, sizeof words, "tiles of %d blocks, merge order %d", (int)tilings[t].blocks,
                     (int)tilings[t].order);
            if (is_in_turn() && workload_run_tiles(made, sets[s], tilings[t].blocks, tilings[t].order))
                compare(made, expected, reference, sets[s], words);
        }
    }
    free(reference);
    return hash;
}

/* The hash of this name in the file; 0: none. */
static uint64_t golden_hash(FILE *golden, const char *name)
{
    char line[256];
    rewind(golden);
    while (fgets(line, sizeof line, golden)) {
        char *colon = strrchr(line, ':');
        unsigned long long hash;
        if (colon && (size_t)(colon - line) == strlen(name) && strncmp(line, name, strlen(name)) == 0 &&
            sscanf(colon + 1, "%llx", &hash) == 1)
            return hash;
    }
    return 0;
}

static void run_workload(int number, const char *sets[], int set_count, FILE *golden, FILE *written)
{
    workload made;
    uint64_t hash = WORKLOAD_HASH;
    workload_choose(number, &made);
    differences = 0;
    for (int s = 0; s < SHAPES; s++) {
        workload_make(&made, shapes[s][0], shapes[s][1]);
        hash = run_shape(&made, sets, set_count, hash);
        workload_free(&made);
    }
    printf("%s: %016llx\n", made.name, (unsigned long long)hash);
    fflush(stdout);
    if (written)
        fprintf(written, "%s: %016llx\n", made.name, (unsigned long long)hash);
    if (golden)
        CHECK(golden_hash(golden, made.name) == hash, "%s: %016llx is not the golden hash", made.name,
              (unsigned long long)hash);
}

int main(int count, char **arguments)
{
    const char *sets[MAX_SETS];
    FILE *golden = NULL, *written = NULL;
    workload made;
    bool understood = true;
    for (int i = 1; i < count && understood; i++) {
        bool has_file = i + 1 < count;
        if (strcmp(arguments[i], "--few") == 0)
            every = 7;
        else if (strcmp(arguments[i], "--every") == 0 && has_file)
            understood = (every = atoi(arguments[++i])) > 0;
        else if (strcmp(arguments[i], "--only") == 0 && has_file)
            only = arguments[++i];
        else if (strcmp(arguments[i], "--golden") == 0 && has_file)
            understood = (golden = fopen(arguments[++i], "r")) != NULL;
        else if (strcmp(arguments[i], "--write") == 0 && has_file)
            understood = (written = fopen(arguments[++i], "w")) != NULL;
        else
            understood = false;
    }
    if (!understood) {
        fprintf(stderr, "usage: bits [--few] [--every N] [--only WORD] [--golden FILE] [--write FILE]; the files must open\n");
        return 2;
    }
    int set_count = library_instruction_sets(sets, MAX_SETS);
    if (written)
        fprintf(written,
                "# operation, input type, output type, options: FNV-1a of the results. Made by: bits --write\n");
    for (int number = 0; workload_choose(number, &made); number++)
        if (strstr(made.name, only))
            run_workload(number, sets, set_count, golden, written);
    printf("%ld comparisons of bits\n", comparisons);
    if (written && fclose(written) != 0)
        return 1;
    if (golden)
        fclose(golden);
    return check_finish("bits");
}
