/* Shapes and strides: the result of any view is that of the same rows laid out contiguously, bit for bit; bytes between
 * an output's elements stay as they were; broadcast inputs; sizes of 0; exact in-place. */
#include "oracle/check.h"
#include "oracle/library_call.h"
#include "oracle/random_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 8, ARENA_ELEMENTS = 60000, CANARY = 0x5e };

static const char *current_set;
static char words[200];

typedef struct view {
    const char *name;
    int ndim;
    int64_t shape[4];
    int64_t strides[4]; /* elements */
    int64_t start;      /* element of the arena that index 0 is */
    bool output;        /* may be an output: no stride of 0 */
} view;

static const view views[] = {
    {"row-major", 3, {3, 4, 5}, {20, 5, 1}, 0, true},
    {"transposed", 3, {3, 4, 5}, {1, 3, 12}, 0, true},
    {"gaps", 3, {3, 4, 5}, {97, 17, 3}, 5, true},
    {"negative strides", 3, {3, 4, 5}, {-20, -5, -1}, 59, true},
    {"negative in the middle", 3, {3, 4, 37}, {400, -40, 1}, 200, true},
    {"long rows with gaps", 2, {3, 700}, {2500, 3}, 1, true},
    {"many short rows", 2, {200, 3}, {3, 1}, 0, true},
    {"strip of columns", 2, {130, 67}, {71, 1}, 2, true},
    {"ones", 4, {1, 2, 2, 2}, {8, 4, 2, 1}, 0, true},
    {"one column", 2, {1, 1023}, {1023, 1}, 0, true},
    {"one dimension", 1, {77}, {2}, 0, true},
    {"one dimension backwards", 1, {77}, {-2}, 200, true},
    {"broadcast rows", 3, {3, 4, 5}, {0, 5, 1}, 0, false},
    {"broadcast row", 2, {6, 70}, {0, 1}, 0, false},
    {"broadcast columns", 2, {6, 70}, {1, 0}, 0, false},
    {"one value", 3, {3, 4, 5}, {0, 0, 0}, 9, false},
};

typedef struct arena {
    char *bytes; /* ARENA_ELEMENTS of 8 bytes */
} arena;

static arena arena_make(void)
{
    arena made = {malloc(ARENA_ELEMENTS * 8)};
    if (!made.bytes)
        abort();
    memset(made.bytes, CANARY, ARENA_ELEMENTS * 8);
    return made;
}

static DLTensor *view_tensor(const view *view, const float_format *format, arena arena, tensor *made)
{
    return tensor_make(made, arena.bytes + view->start * format->bytes, format->dlpack, view->ndim, view->shape,
                       view->strides);
}

/* Copies between a view and row-major elements. */
static void gather(const DLTensor *from, const float_format *format, char *to)
{
    for (int64_t i = 0; i < tensor_elements(from); i++)
        memcpy(to + i * format->bytes, (char *)from->data + tensor_offset(from, i) * format->bytes,
               (size_t)format->bytes);
}

static void fill(const DLTensor *to, const float_format *format, operation operation, uint64_t seed)
{
    random_source source = random_seed(seed);
    for (int64_t i = 0; i < tensor_elements(to); i++) {
        double value = operation == SOFTMAX_BACKWARD ? random_uniform(&source, 0, 1) : random_uniform(&source, -9, 2);
        format_store(format, (char *)to->data + tensor_offset(to, i) * format->bytes, 0, value);
    }
}

/* Bytes of the arena that are no element of the view and no longer the canary. */
static int64_t touched_gaps(const DLTensor *output, const float_format *format, arena arena)
{
    char *is_element = calloc(ARENA_ELEMENTS * 8, 1);
    int64_t touched = 0;
    if (!is_element)
        abort();
    for (int64_t i = 0; i < tensor_elements(output); i++)
        memset(is_element + ((char *)output->data - arena.bytes) + tensor_offset(output, i) * format->bytes, 1,
               (size_t)format->bytes);
    for (int64_t at = 0; at < ARENA_ELEMENTS * 8; at++)
        touched += !is_element[at] && arena.bytes[at] != CANARY;
    free(is_element);
    return touched;
}

/* The shape without the axis. */
static void reduced_shape(const view *view, int axis, int64_t shape[4])
{
    for (int d = 0, e = 0; d < view->ndim; d++)
        if (d != axis)
            shape[e++] = view->shape[d];
}

/* The operation on the view `in`, with results in the view `out` of the same shape, against row-major copies. */
static void compare(operation operation, const float_format *format, const view *in, const view *out, int axis)
{
    arena x_arena = arena_make(), dy_arena = arena_make(), y_arena = arena_make();
    tensor x, dy, y, plain_x, plain_dy, plain_y, targets, loss;
    int64_t shape[4] = {0}, count, *target = calloc(ARENA_ELEMENTS, 8);
    view_tensor(in, format, x_arena, &x);
    view_tensor(in, format, dy_arena, &dy);
    view_tensor(out, format, y_arena, &y);
    count = tensor_elements(&x.dl);
    fill(&x.dl, format, operation, 1);
    fill(&dy.dl, format, LOG_SOFTMAX_BACKWARD, 2);
    char *px = malloc((size_t)count * 8), *pdy = malloc((size_t)count * 8), *py = malloc((size_t)count * 8);
    char *got = malloc((size_t)count * 8), *before = malloc(ARENA_ELEMENTS * 8), *losses = malloc((size_t)count * 8);
    if (!target || !px || !pdy || !py || !got || !before || !losses)
        abort();
    gather(&x.dl, format, px);
    gather(&dy.dl, format, pdy);
    memcpy(before, x_arena.bytes, ARENA_ELEMENTS * 8);
    tensor_make(&plain_x, px, format->dlpack, in->ndim, in->shape, NULL);
    tensor_make(&plain_dy, pdy, format->dlpack, in->ndim, in->shape, NULL);
    tensor_make(&plain_y, py, format->dlpack, in->ndim, in->shape, NULL);
    reduced_shape(in, axis, shape);
    tensor_make(&targets, target, tensor_int64, in->ndim - 1, shape, NULL);
    tensor_make(&loss, losses, float_format_of_losses(format)->dlpack, in->ndim - 1, shape, NULL);
    if (operation == LOGSUMEXP) {
        tensor_make(&plain_y, py, format->dlpack, in->ndim - 1, shape, NULL);
        tensor_make(&y, y_arena.bytes, format->dlpack, in->ndim - 1, shape, NULL);
    }
    library_call call =
        library_call_of(operation, &x.dl, operation == CROSS_ENTROPY ? &targets.dl : &dy.dl, &y.dl, &loss.dl, axis);
    call.options.isa = current_set;
    if (operation == CROSS_ENTROPY)
        call.options.reduction = SOFTMAX_NONE;
    library_run_ok(&call, words);
    call.input = &plain_x.dl;
    call.second = operation == CROSS_ENTROPY ? &targets.dl : &plain_dy.dl;
    call.output = &plain_y.dl;
    call.axis = axis - in->ndim;
    library_run_ok(&call, words);
    gather(&y.dl, format, got);
    CHECK(memcmp(got, py, (size_t)(tensor_elements(&y.dl) * format->bytes)) == 0, "%s: other bits than row-major",
          words);
    CHECK(memcmp(before, x_arena.bytes, ARENA_ELEMENTS * 8) == 0, "%s: the input's arena was written", words);
    CHECK(touched_gaps(&y.dl, format, y_arena) == 0, "%s: bytes between the output's elements were written", words);
    free(px), free(pdy), free(py), free(got), free(before), free(losses), free(target);
    free(x_arena.bytes), free(dy_arena.bytes), free(y_arena.bytes);
}

static bool same_shape(const view *a, const view *b)
{
    return a->ndim == b->ndim && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

static void test_views(void)
{
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        for (size_t o = 0; o < sizeof views / sizeof *views; o++) {
            if (!views[o].output || !same_shape(&views[i], &views[o]))
                continue;
            for (int axis = 0; axis < views[i].ndim; axis++) {
                for (int operation = 0; operation < OPERATIONS; operation++) {
                    for (int f = 0; f < 4; f++) {
                        snprintf(words, sizeof words, "%s %s, axis %d, '%s' to '%s', %s", operation_names[operation],
                                 float_formats[f].name, axis, views[i].name, views[o].name, current_set);
                        compare((enum operation)operation, &float_formats[f], &views[i], &views[o], axis);
                    }
                }
            }
        }
    }
}

/* (1,1023) along axis -2: rows of one column, all ones. */
static void test_ones(void)
{
    for (int f = 0; f < 4; f++) {
        const float_format *format = &float_formats[f];
        char x[1023 * 8], y[1023 * 8];
        tensor in, out;
        int64_t wrong = 0;
        for (int j = 0; j < 1023; j++)
            format_store(format, x, j, j - 500);
        library_call call = library_call_of(SOFTMAX, tensor_matrix(&in, x, format->dlpack, 1, 1023), NULL,
                                            tensor_matrix(&out, y, format->dlpack, 1, 1023), NULL, -2);
        call.options.isa = current_set;
        library_run_ok(&call, "(1,1023) along axis -2");
        for (int j = 0; j < 1023; j++)
            wrong += format_load(format, y, j) != 1;
        CHECK(wrong == 0, "(1,1023) along axis -2, %s %s: %ld are not 1", format->name, current_set, (long)wrong);
    }
}

/* Shapes with a 0: nothing is read or written; logsumexp of rows without columns is -inf. */
static void test_empty(void)
{
    static const int64_t shapes[][2] = {{10, 0}, {0, 10}, {0, 0}};
    for (int s = 0; s < 3; s++) {
        for (int operation = 0; operation < OPERATIONS; operation++) {
            for (int f = 0; f < 4; f++) {
                const float_format *format = &float_formats[f];
                char y[128], loss[128], canary[128];
                int64_t targets[10], rows = shapes[s][0];
                tensor in, second, out, losses;
                memset(canary, CANARY, sizeof canary);
                memset(y, CANARY, sizeof y);
                memset(loss, CANARY, sizeof loss);
                for (int r = 0; r < 10; r++)
                    targets[r] = -100;
                tensor_matrix(&in, NULL, format->dlpack, rows, shapes[s][1]);
                tensor_matrix(&second, NULL, format->dlpack, rows, shapes[s][1]);
                tensor_matrix(&out, y, format->dlpack, rows, shapes[s][1]);
                tensor_vector(&losses, loss, float_format_of_losses(format)->dlpack, rows);
                if (operation == LOGSUMEXP)
                    tensor_vector(&out, y, format->dlpack, rows);
                if (operation == CROSS_ENTROPY)
                    tensor_vector(&second, targets, tensor_int64, rows);
                library_call call =
                    library_call_of((enum operation)operation, &in.dl, &second.dl, &out.dl, &losses.dl, 1);
                call.options.isa = current_set;
                if (operation == CROSS_ENTROPY)
                    call.options.reduction = SOFTMAX_NONE;
                snprintf(words, sizeof words, "%s %s (%ld,%ld) %s", operation_names[operation], format->name,
                         (long)rows, (long)shapes[s][1], current_set);
                library_run_ok(&call, words);
                for (int64_t r = 0; r < rows && operation == LOGSUMEXP; r++)
                    CHECK(format_load(format, y, r) == -INFINITY, "%s: %g", words, format_load(format, y, r));
                for (int64_t r = 0; r < rows && operation == CROSS_ENTROPY; r++)
                    CHECK(format_load(float_format_of_losses(format), loss, r) == 0, "%s: an ignored row's loss",
                          words);
                int64_t written = operation == LOGSUMEXP ? rows * format->bytes : 0;
                CHECK(memcmp(y + written, canary, sizeof y - (size_t)written) == 0, "%s: something was written", words);
            }
        }
    }
}

int main(void)
{
    const char *sets[MAX_SETS];
    int set_count = library_instruction_sets(sets, MAX_SETS);
    for (int s = 0; s < set_count; s++) {
        current_set = sets[s];
        test_views();
        test_ones();
        test_empty();
    }
    return check_finish("shapes");
}
