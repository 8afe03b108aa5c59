/* A row that arrives in tiles: each tile goes into a state, states merge in any order, and the bits are those of one
 * call. */
#include <softmax.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 5000
#define TILE (4 * SOFTMAX_BLOCK_COLUMNS) /* tiles begin at multiples of the block */

static float row[COLUMNS], at_once[COLUMNS], by_tiles[COLUMNS];

/* Columns [first, end) of a row, as a tensor that points into it. */
static DLTensor columns_of(float *values, int64_t first, int64_t *count)
{
    *count = COLUMNS - first < TILE ? COLUMNS - first : TILE;
    return (DLTensor){
        .data = values + first, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = count};
}

int main(void)
{
    for (int i = 0; i < COLUMNS; i++)
        row[i] = (float)((i * 7919) % 10007) / 100.0f;

    /* The tiles from last to first, each in a state of its own, merged as they come. */
    softmax_state total, state;
    int64_t count;
    softmax_state_init(&total, 1, SOFTMAX_FLOAT32);
    for (int64_t first = (COLUMNS - 1) / TILE * TILE; first >= 0; first -= TILE) {
        DLTensor tile = columns_of(row, first, &count);
        softmax_state_init(&state, 1, SOFTMAX_FLOAT32);
        if (softmax_state_update(&state, &tile, 0, NULL) != SOFTMAX_OK)
            return 1;
        softmax_state_merge(&total, &state, 1);
    }
    for (int64_t first = 0; first < COLUMNS; first += TILE) {
        DLTensor tile = columns_of(row, first, &count), out = columns_of(by_tiles, first, &count);
        if (softmax_state_normalise(&total, &tile, &out, 0, NULL) != SOFTMAX_OK)
            return 1;
    }

    if (softmax_softmax_rows(SOFTMAX_FLOAT32, 1, COLUMNS, row, at_once, NULL) != SOFTMAX_OK)
        return 1;
    float logsumexp;
    softmax_state_logsumexp(&total, &logsumexp, 1);
    printf("logsumexp %.7g; softmax by tiles %s softmax at once\n", logsumexp,
           memcmp(by_tiles, at_once, sizeof row) == 0 ? "has the bits of" : "DIFFERS from");
    return 0;
}
