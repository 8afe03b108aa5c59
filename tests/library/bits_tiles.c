/* The workload through the online state, tile by tile: the bits of one call. */
#include "bits_workload.h"

#include "oracle/check.h"

#include <stdlib.h>
#include <string.h>

typedef struct tiles {
    workload *made;
    const char *isa;
    int64_t tile_columns;
    int64_t count;
} tiles;

/* Options' tensors cut to the tile's columns. */
typedef struct tile_sides {
    tensor input, output, bias, mask, lengths;
} tile_sides;

static softmax_options tile_options(const tiles *tiles, int64_t tile, tile_sides *sides)
{
    workload *made = tiles->made;
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    int64_t rows = made->rows, columns = made->columns, first = tile * tiles->tile_columns;
    int64_t width = tiles->tile_columns < columns - first ? tiles->tile_columns : columns - first;
    const int64_t shape[2] = {rows, width}, strides[2] = {columns, 1};
    int bytes = made->input_format->bytes;
    options.isa = tiles->isa;
    options.first_column = first;
    options.message = library_message;
    options.message_bytes = sizeof library_message;
    tensor_make(&sides->input, made->x + first * bytes, made->input_format->dlpack, 2, shape, strides);
    tensor_make(&sides->output, made->output + first * made->output_format->bytes, made->output_format->dlpack, 2,
                shape, strides);
    if (made->options == CAUSAL) {
        options.causal = 1;
        options.causal_offset = columns / 2 - rows / 2;
        options.empty_rows = SOFTMAX_EMPTY_ZERO;
    }
    if (made->options == OPTIONS) {
        options.softcap = 25;
        options.scale = 0.7;
        options.bias = tensor_vector(&sides->bias, made->bias + first * bytes, made->input_format->dlpack, width);
        options.mask = tensor_make(&sides->mask, made->mask + first, tensor_uint8, 2, shape, strides);
        options.valid_lengths = tensor_vector(&sides->lengths, made->lengths, tensor_int64, rows);
    }
    return options;
}

static void check_ok(softmax_status status, const tiles *tiles, const char *call)
{
    CHECK(status == SOFTMAX_OK, "%s: %s: %s: %s", tiles->made->name, call, softmax_status_string(status),
          library_message);
}

static void update(const tiles *tiles, int64_t tile, softmax_state *states)
{
    tile_sides sides;
    softmax_options options = tile_options(tiles, tile, &sides);
    check_ok(softmax_state_update(states, &sides.input.dl, 1, &options), tiles, "softmax_state_update");
}

static void merge(const tiles *tiles, softmax_state *into, const softmax_state *from)
{
    check_ok(softmax_state_merge(into, from, tiles->made->rows), tiles, "softmax_state_merge");
}

/* `states` has count + 1 groups of the rows' states; the result is left in group 0. */
static void merge_tiles(const tiles *tiles, softmax_state *states, merge_order order)
{
    int64_t rows = tiles->made->rows, count = tiles->count;
    softmax_state *empty = states + count * rows;
    if (order == ONE_STATE)
        for (int64_t tile = 0; tile < count; tile++)
            update(tiles, tile, states);
    for (int64_t tile = 0; tile < count && order != ONE_STATE; tile++)
        update(tiles, tile, states + tile * rows);
    for (int64_t tile = 1; tile < count && order == CHAIN; tile++)
        merge(tiles, states, states + tile * rows);
    for (int64_t tile = count - 1; tile > 0 && order == REVERSED; tile--)
        merge(tiles, states + (tile - 1) * rows, states + tile * rows);
    for (int64_t width = 1; width < count && order == TREE; width *= 2) {
        for (int64_t tile = 0; tile + width < count; tile += 2 * width) {
            merge(tiles, states + tile * rows, empty);
            merge(tiles, states + tile * rows, states + (tile + width) * rows);
        }
    }
    if (order == TREE) { /* and once from an empty state */
        merge(tiles, empty, states);
        memcpy(states, empty, (size_t)rows * sizeof *states);
    }
}

bool workload_run_tiles(workload *made, const char *isa, int64_t tile_blocks, merge_order order)
{
    int64_t tile_columns = tile_blocks * SOFTMAX_BLOCK_COLUMNS;
    tiles tiles = {made, isa, tile_columns, (made->columns + tile_columns - 1) / tile_columns};
    if (made->operation > LOGSUMEXP)
        return false;
    /* A state of a 16-bit type gives its logsumexp in float. */
    if (made->operation == LOGSUMEXP && made->output_format->bytes == 2)
        return false;
    softmax_state *states = malloc((size_t)((tiles.count + 1) * made->rows) * sizeof *states);
    if (!states)
        abort();
    workload_poison(made);
    check_ok(softmax_state_init(states, (tiles.count + 1) * made->rows, made->output_format->type), &tiles,
             "softmax_state_init");
    merge_tiles(&tiles, states, order);
    if (made->operation == LOGSUMEXP)
        check_ok(softmax_state_logsumexp(states, made->output, made->rows), &tiles, "softmax_state_logsumexp");
    for (int64_t tile = 0; tile < tiles.count && made->operation != LOGSUMEXP; tile++) {
        tile_sides sides;
        softmax_options options = tile_options(&tiles, tile, &sides);
        if (made->operation == SOFTMAX)
            check_ok(softmax_state_normalise(states, &sides.input.dl, &sides.output.dl, 1, &options), &tiles,
                     "softmax_state_normalise");
        else
            check_ok(softmax_state_log_normalise(states, &sides.input.dl, &sides.output.dl, 1, &options), &tiles,
                     "softmax_state_log_normalise");
    }
    free(states);
    return true;
}
