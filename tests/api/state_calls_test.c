/* States as plain values: what init, merge and logsumexp refuse, and that logsumexp is that of src/numerics. */
#include "api_state.h"
#include "oracle/check.h"
#include "oracle/tensor.h"

#include <math.h>
#include <string.h>

static const DLDataType types[5] = {
    {0, 0, 0}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}};

static void refusals(void)
{
    softmax_state states[4], garbage[2];
    float l[4] = {7, 7, 7, 7};
    double data[4] = {0};
    char message[200];
    tensor tile;
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.message = message;
    options.message_bytes = sizeof message;
    memset(garbage, 0x5a, sizeof garbage);
    CHECK(softmax_state_init(states, -1, SOFTMAX_FLOAT32) == SOFTMAX_ERROR_SHAPE, "count -1");
    CHECK(softmax_state_init(NULL, 1, SOFTMAX_FLOAT32) == SOFTMAX_ERROR_NULL, "NULL");
    CHECK(softmax_state_init(NULL, 0, SOFTMAX_FLOAT32) == SOFTMAX_OK, "no states");
    CHECK(softmax_state_init(states, 4, (softmax_type)5) == SOFTMAX_ERROR_TYPE, "type 5");
    CHECK(softmax_state_init(states, 4, SOFTMAX_FLOAT32) == SOFTMAX_OK, "init");
    CHECK(softmax_state_merge(states, states, 1) == SOFTMAX_ERROR_ALIAS, "a state with itself");
    CHECK(softmax_state_merge(states, states + 1, 2) == SOFTMAX_ERROR_ALIAS, "states that overlap");
    CHECK(softmax_state_merge(states, states + 2, 2) == SOFTMAX_OK, "neighbours");
    CHECK(softmax_state_merge(states, garbage, 1) == SOFTMAX_ERROR_STATE, "not initialised");
    CHECK(softmax_state_logsumexp(garbage, l, 1) == SOFTMAX_ERROR_STATE && l[0] == 7, "not initialised");
    CHECK(softmax_state_logsumexp(states, states, 1) == SOFTMAX_ERROR_ALIAS, "l over the states");
    CHECK(softmax_state_init(states + 3, 1, SOFTMAX_FLOAT64) == SOFTMAX_OK, "init");
    CHECK(softmax_state_logsumexp(states, l, 4) == SOFTMAX_ERROR_STATE && l[0] == 7, "two types");
    CHECK(softmax_state_merge(states, states + 3, 1) == SOFTMAX_ERROR_STATE, "two types");
    CHECK(softmax_state_update(states, tensor_matrix(&tile, data, types[SOFTMAX_FLOAT32], 4, 1), -1, &options) ==
                  SOFTMAX_ERROR_STATE &&
              strstr(message, "states[3] "),
          "two types: %s", message);
    CHECK(softmax_state_update(NULL, &tile.dl, -1, &options) == SOFTMAX_ERROR_NULL &&
              strcmp(message, "state_update: states is NULL; 4 states, one a row, are required") == 0,
          "NULL: %s", message);
}

/* Which tiles go with which states. */
static void tile_types(void)
{
    for (int state = 1; state <= 4; state++)
        for (int type = 1; type <= 4; type++) {
            double data[2] = {0};
            softmax_state states[1];
            tensor tile;
            bool right = type == state || (state == SOFTMAX_FLOAT32 && type >= SOFTMAX_FLOAT16);
            softmax_state_init(states, 1, (softmax_type)state);
            softmax_status status =
                softmax_state_update(states, tensor_matrix(&tile, data, types[type], 1, 2), -1, NULL);
            CHECK(status == (right ? SOFTMAX_OK : SOFTMAX_ERROR_TYPE), "tile %d, states %d: status %d", type, state,
                  (int)status);
        }
}

static void readout(void)
{
    static const struct {
        double maximum;
        uint32_t flags;
        double l;
    } cases[] = {{-INFINITY, 0, -INFINITY},
                 {3.5, 0, 3.5},
                 {3.5, STATE_NAN, NAN},
                 {3.5, STATE_INFINITE, INFINITY},
                 {3.5, STATE_NAN | STATE_INFINITE, NAN},
                 {0x1p-130, 0, 0.0},
                 {-0x1p-1030, 0, 0.0},
                 {-0.0, 0, 0.0},
                 {1e300, 0, 1e300}};
    for (int type = 1; type <= 2; type++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double wide = 7, right = cases[i].l;
            float narrow = 7;
            softmax_state state;
            if (cases[i].maximum > 0 && cases[i].maximum < 1 && type == SOFTMAX_FLOAT64)
                right = cases[i].maximum; /* below float's normals, not double's */
            if (cases[i].maximum > 1e200 && type == SOFTMAX_FLOAT32)
                continue;
            softmax_state_init(&state, 1, (softmax_type)type);
            state.maximum = cases[i].maximum;
            state.flags = cases[i].flags;
            CHECK(softmax_state_logsumexp(&state, type == SOFTMAX_FLOAT64 ? (void *)&wide : &narrow, 1) == SOFTMAX_OK,
                  "case %zu", i);
            double got = type == SOFTMAX_FLOAT64 ? wide : narrow;
            CHECK(isnan(right) ? isnan(got) && !signbit(got) : got == right && (got != 0 || !signbit(got)),
                  "case %zu: %a, not %a", i, got, right);
        }
}

int main(void)
{
    refusals();
    tile_types();
    readout();
    return check_finish("state_calls_test");
}
