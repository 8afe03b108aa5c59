/* No operation touches a byte outside its arrays: every array lies against a page without access, on either side in
 * turn, inputs are read-only, and the results are those of ordinary memory, there through the caches and here past them.
 * Every type, instruction set and many widths, aligned or not. */
#include "guarded_memory.h"
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 8, ROWS = 3, OPTION_ROWS = 19 };

static const int64_t widths[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,  32,  33,
                                 47, 48, 63, 64, 65, 67, 127, 128, 129, 257, 511, 512, 513, 1031, 2100};

typedef struct guarded_call {
    operation operation;
    const float_format *input, *output, *losses;
    int64_t columns;
    const char *set;
    bool axis_first;
} guarded_call;

typedef struct arrays {
    char *x, *second, *y, *loss; /* targets in second for a cross-entropy */
} arrays;

static int64_t output_elements(const guarded_call *what)
{
    return ROWS * (what->operation == LOGSUMEXP ? 1 : what->columns);
}

static void fill(const guarded_call *what, arrays to)
{
    random_source source = random_seed((uint64_t)(what->columns * 8 + (int)what->operation));
    for (int64_t at = 0; at < ROWS * what->columns; at++) {
        bool share = what->operation == SOFTMAX_BACKWARD;
        format_store(what->input, to.x, at, share ? random_uniform(&source, 0, 1) : random_uniform(&source, -9, 0));
        if (what->operation != CROSS_ENTROPY)
            format_store(what->input, to.second, at, random_normal(&source));
    }
    for (int64_t r = 0; r < ROWS && what->operation == CROSS_ENTROPY; r++) {
        int64_t target = random_below(&source, what->columns);
        memcpy(to.second + r * 8, &target, 8);
    }
}

static void run(const guarded_call *what, arrays in, softmax_streaming streaming, const char *words)
{
    tensor x, second, y, loss;
    int64_t a = what->axis_first ? what->columns : ROWS, b = what->axis_first ? ROWS : what->columns;
    tensor_matrix(&x, in.x, what->input->dlpack, a, b);
    tensor_matrix(&second, in.second, what->input->dlpack, a, b);
    tensor_matrix(&y, in.y, what->output->dlpack, a, b);
    tensor_vector(&loss, in.loss, what->losses->dlpack, ROWS);
    if (what->operation == LOGSUMEXP)
        tensor_vector(&y, in.y, what->output->dlpack, ROWS);
    if (what->operation == CROSS_ENTROPY)
        tensor_vector(&second, in.second, tensor_int64, ROWS);
    library_call call = library_call_of(what->operation, &x.dl, &second.dl, &y.dl, &loss.dl, what->axis_first ? 0 : 1);
    if (what->operation == CROSS_ENTROPY)
        call.options.reduction = SOFTMAX_NONE;
    call.options.isa = what->set;
    call.options.streaming = streaming;
    library_run_ok(&call, words);
}

static void compare(const guarded_call *what, bool at_end, const char *words)
{
    size_t in_bytes = (size_t)(ROWS * what->columns * what->input->bytes);
    size_t out_bytes = (size_t)(output_elements(what) * what->output->bytes),
           loss_bytes = (size_t)(ROWS * what->losses->bytes);
    size_t second_bytes = what->operation == CROSS_ENTROPY ? ROWS * 8 : in_bytes;
    guarded_memory x = guarded_make(in_bytes, at_end), second = guarded_make(second_bytes, at_end);
    guarded_memory y = guarded_make(out_bytes, at_end), loss = guarded_make(loss_bytes, at_end);
    arrays plain = {malloc(in_bytes), malloc(second_bytes), malloc(out_bytes), malloc(loss_bytes)};
    arrays guarded = {x.data, second.data, y.data, loss.data};
    if (!plain.x || !plain.second || !plain.y || !plain.loss)
        abort();
    memset(plain.y, 0xc5, out_bytes);
    memset(guarded.y, 0x3a, out_bytes);
    fill(what, plain);
    fill(what, guarded);
    guarded_read_only(&x);
    guarded_read_only(&second);
    run(what, plain, SOFTMAX_STREAMING_NEVER, words);
    run(what, guarded, SOFTMAX_STREAMING_ALWAYS, words);
    CHECK(memcmp(plain.y, guarded.y, out_bytes) == 0, "%s: other results between guard pages", words);
    CHECK(memcmp(plain.x, guarded.x, in_bytes) == 0 && memcmp(plain.second, guarded.second, second_bytes) == 0,
          "%s: an input was changed", words);
    if (what->operation == CROSS_ENTROPY)
        CHECK(memcmp(plain.loss, guarded.loss, loss_bytes) == 0, "%s: other losses between guard pages", words);
    guarded_free(&x);
    guarded_free(&second);
    guarded_free(&y);
    guarded_free(&loss);
    free(plain.x);
    free(plain.second);
    free(plain.y);
    free(plain.loss);
}

/* x, mask, bias and y for softmax with options. */
typedef struct option_arrays {
    guarded_memory memory[4];
} option_arrays;

static void run_options(const option_arrays *a, int64_t columns, const char *set, int options, bool axis_first, const char *words)
{
    int64_t rows = axis_first ? columns : OPTION_ROWS, width = axis_first ? OPTION_ROWS : columns;
    tensor x, mask, bias, y;
    tensor_matrix(&x, a->memory[0].data, float_formats[0].dlpack, rows, width);
    tensor_matrix(&mask, a->memory[1].data, tensor_uint8, rows, width);
    tensor_matrix(&bias, a->memory[2].data, float_formats[0].dlpack, rows, width);
    tensor_matrix(&y, a->memory[3].data, float_formats[0].dlpack, rows, width);
    library_call call = library_call_of(SOFTMAX, &x.dl, NULL, &y.dl, NULL, axis_first ? 0 : 1);
    call.options.isa = set;
    call.options.mask = options & 1 ? &mask.dl : NULL;
    call.options.bias = options & 2 ? &bias.dl : NULL;
    call.options.streaming = axis_first ? SOFTMAX_STREAMING_ALWAYS : SOFTMAX_STREAMING_CHOOSE;
    library_run_ok(&call, words);
}

/* Masks and biases against a page without access on either side. */
static void compare_options(int64_t columns, const char *set)
{
    char words[160];
    for (int variant = 0; variant < 12; variant++) {
        int options = variant % 3 + 1;
        bool at_end = variant / 3 & 1, axis_first = variant / 6;
        option_arrays before, after;
        size_t count = (size_t)(OPTION_ROWS * columns), bytes[4] = {count * 4, count, count * 4, count * 4};
        random_source source = random_seed((uint64_t)columns);
        for (int i = 0; i < 4; i++) before.memory[i] = guarded_make(bytes[i], at_end), after.memory[i] = guarded_make(bytes[i], !at_end);
        for (size_t i = 0; i < count; i++) {
            format_store(&float_formats[0], before.memory[0].data, (int64_t)i, random_normal(&source));
            before.memory[1].data[i] = random_below(&source, 4) != 0;
            format_store(&float_formats[0], before.memory[2].data, (int64_t)i, random_normal(&source));
        }
        for (int i = 0; i < 3; i++) {
            memcpy(after.memory[i].data, before.memory[i].data, bytes[i]);
            guarded_read_only(&before.memory[i]);
            guarded_read_only(&after.memory[i]);
        }
        snprintf(words, sizeof words, "softmax with options %d, %ld columns, %s%s", options, (long)columns, set, axis_first ? ", axis first" : "");
        run_options(&before, columns, set, options, axis_first, words);
        run_options(&after, columns, set, options, axis_first, words);
        CHECK(memcmp(before.memory[3].data, after.memory[3].data, bytes[3]) == 0, "%s: other results at the other page", words);
        for (int i = 0; i < 4; i++) guarded_free(&before.memory[i]), guarded_free(&after.memory[i]);
    }
}

/* Every width, past the caches, at every distance from a vector's alignment. */
static void test_every_width(const char *set)
{
    char words[160];
    for (int64_t columns = 1; columns <= 1100; columns++) {
        guarded_call what = {columns % 3 ? SOFTMAX : LOG_SOFTMAX, &float_formats[0], &float_formats[0], &float_formats[0], columns, set, false};
        snprintf(words, sizeof words, "%s, every width, %ld columns, %s", operation_names[what.operation], (long)columns, set);
        compare(&what, columns & 1, words);
        if (columns % 7 == 0 || columns < 70) compare_options(columns, set);
    }
}

int main(void)
{
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    char words[160];
    for (int s = 0; s < set_count; s++) {
        test_every_width(sets[s]);
        for (int operation = 0; operation < OPERATIONS; operation++) {
            for (int f = 0; f < 6; f++) {
                const float_format *input = &float_formats[f < 4 ? f : f - 2],
                                   *output = f < 4 ? input : &float_formats[0];
                for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                    for (int variant = 0; variant < 4; variant++) {
                        guarded_call what = {(enum operation)operation,
                                             input,
                                             output,
                                             float_format_of_losses(input),
                                             widths[w],
                                             sets[s],
                                             variant & 1};
                        snprintf(words, sizeof words, "%s %s->%s %dx%ld %s%s, %s", operation_names[operation],
                                 input->name, output->name, ROWS, (long)widths[w], sets[s],
                                 what.axis_first ? ", axis first" : "",
                                 variant & 2 ? "against the page after" : "against the page before");
                        compare(&what, variant & 2, words);
                    }
                }
            }
        }
    }
    return check_finish("guard_pages");
}
