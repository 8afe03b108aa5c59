/* The online states of an array of rows, and where they lie: in the CPU's memory, or where the tiles are. */
#ifndef SOFTMAX_PYTHON_STATE_H
#define SOFTMAX_PYTHON_STATE_H

#include "call.h"

typedef struct state_object {
    PyObject_HEAD softmax_state *states;
    int64_t count;
    int ndim;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    DLDataType type;
    bool begun;      /* has taken in columns: otherwise it goes where the next tile is */
    bool busy;       /* a call is at work on it, also while the interpreter's lock is another's */
    held_array home; /* the device memory that states points to; home.object is NULL on the CPU */
} state_object;

static inline bool state_is_on_cpu(const state_object *self)
{
    return !self->home.object;
}

static inline size_t state_bytes(const state_object *self)
{
    return (size_t)self->count * sizeof *self->states;
}

softmax_type state_library_type(DLDataType type);

/* Empty states in the CPU's memory, for count and type; false with an exception. */
bool state_begin_on_cpu(state_object *self);
/* To where `like`, a tile or another state's home, is, on the call's stream: empty states begin there, others are
 * copied from the CPU. false with an exception, also where they have begun elsewhere; `name` is what like is called in
 * it. */
bool state_follow(call *c, state_object *self, const char *name, const held_array *like);
/* self takes in other, of the same shape and type; one of them at least is on a device. false with an exception. */
bool state_merge_on_device(call *c, state_object *self, state_object *other);
/* The bytes of the states, and the device's work for them is waited for; NULL with an exception. */
PyObject *state_fetched(const state_object *self);
void state_release(state_object *self);

#endif
