/* The public softmax_state and the row_state of src/numerics: the same fields, and a tag that tells an initialised
 * state and the type of its results. */
#ifndef SOFTMAX_API_STATE_H
#define SOFTMAX_API_STATE_H

#include "kernels.h"

/* Memory that softmax_state_init never saw is unlikely to hold it. */
#define SOFTMAX_STATE_TAG 0x7360u
#define STATE_LEVEL_SHIFT 2 /* flags beside STATE_NAN and STATE_INFINITE: the maximum's level, 0 to 2 */

/* The type of the states' results; 0: not an initialised state. */
SOFTMAX_FN softmax_type softmax_state_type(const softmax_state *state)
{
    uint32_t type = state->type ^ SOFTMAX_STATE_TAG;
    if (type < SOFTMAX_FLOAT32 || type > SOFTMAX_BFLOAT16 || state->flags >> STATE_LEVEL_SHIFT > SCORE_BEYOND)
        return (softmax_type)0;
    return (softmax_type)type;
}

/* The arithmetic of results of a type. */
SOFTMAX_FN arithmetic softmax_arithmetic_of(softmax_type type)
{
    if (type == SOFTMAX_FLOAT16 || type == SOFTMAX_BFLOAT16)
        return type == SOFTMAX_FLOAT16 ? ARITHMETIC_FLOAT16 : ARITHMETIC_BFLOAT16;
    return type == SOFTMAX_FLOAT64 ? ARITHMETIC_64 : ARITHMETIC_32;
}

SOFTMAX_FN row_state softmax_state_to_row(const softmax_state *state)
{
    row_state row;
    row.maximum.high = state->maximum;
    row.maximum.middle = state->maximum_low;
    row.maximum.low = state->maximum_lowest;
    row.maximum.level = state->flags >> STATE_LEVEL_SHIFT;
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++)
        row.rest.limb[i] = state->limb[i];
    row.rest.top = state->top == INT32_MIN ? ACCUMULATOR_EMPTY : state->top;
    row.flags = state->flags & (STATE_NAN | STATE_INFINITE);
    return row;
}

/* The type stays as it is. */
SOFTMAX_FN void softmax_state_from_row(softmax_state *state, const row_state *row)
{
    state->maximum = row->maximum.high;
    state->maximum_low = row->maximum.middle;
    state->maximum_lowest = row->maximum.low;
    for (int i = 0; i < ACCUMULATOR_LIMBS; i++)
        state->limb[i] = row->rest.limb[i];
    state->top = row->rest.top == ACCUMULATOR_EMPTY ? INT32_MIN : (int32_t)row->rest.top; /* 31 bits */
    state->flags = (uint16_t)(row->flags | (uint32_t)row->maximum.level << STATE_LEVEL_SHIFT);
}

#endif
