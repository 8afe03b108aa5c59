/* Where states lie. Device memory for them is an array of bytes of the tiles' own library, so that it is freed as that
 * library's arrays are. */
#include "state.h"

#include <string.h>

softmax_type state_library_type(DLDataType type)
{
    if (type.code == kDLBfloat)
        return SOFTMAX_BFLOAT16;
    return type.bits == 64 ? SOFTMAX_FLOAT64 : type.bits == 16 ? SOFTMAX_FLOAT16 : SOFTMAX_FLOAT32;
}

void state_release(state_object *self)
{
    if (state_is_on_cpu(self))
        PyMem_RawFree(self->states);
    release_array(&self->home);
    memset(&self->home, 0, sizeof self->home);
    self->states = NULL;
}

bool state_begin_on_cpu(state_object *self)
{
    softmax_state *states = PyMem_RawMalloc(state_bytes(self) + sizeof *states); /* not 0 bytes */
    if (!states) {
        PyErr_NoMemory();
        return false;
    }
    state_release(self);
    self->states = states;
    softmax_state_init(self->states, self->count, state_library_type(self->type));
    return true;
}

static void *memory_of(const held_array *a)
{
    return (char *)a->tensor.data + a->tensor.byte_offset;
}

/* The states of the CPU as an array of like's library on its device. */
static bool send(call *c, const state_object *self, const held_array *like, held_array *home)
{
    PyObject *module = PyImport_ImportModule("libsoftmax._interchange"), *sent = NULL;
    bool held = false;
    if (module)
        sent = PyObject_CallMethod(module, "sent", "Oy#", like->object, (const char *)self->states,
                                   (Py_ssize_t)state_bytes(self));
    if (sent)
        held = hold_array(home, "the state", sent, ARRAY_INPUT, &c->stream) &&
               call_joins(c, home, home->family == FAMILY_DLPACK);
    Py_XDECREF(sent);
    Py_XDECREF(module);
    return held;
}

static bool make(call *c, const state_object *self, const held_array *like, held_array *home)
{
    static const DLDataType byte = {kDLUInt, 8, 1};
    int64_t bytes = (int64_t)state_bytes(self) + (int64_t)sizeof *self->states;
    softmax_status status;
    if (!hold_result(home, like, byte, 1, &bytes, &c->stream) || !call_joins(c, home, home->family == FAMILY_DLPACK))
        return false;
    status = softmax_cuda_state_init(memory_of(home), self->count, state_library_type(self->type),
                                     home->tensor.device.device_id, c->stream);
    *c->message = '\0';
    return call_succeeded(c, status);
}

static bool is_same_device(DLDevice a, DLDevice b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

static void refuse_device(call *c, const state_object *self, const char *name, const held_array *like)
{
    char words[2][32];
    const held_array *each[2] = {like, &self->home};
    for (int i = 0; i < 2; i++) {
        DLDevice device = each[i]->object ? each[i]->tensor.device : (DLDevice){kDLCPU, 0};
        if (is_on_cpu(device))
            snprintf(words[i], sizeof words[i], "the CPU");
        else
            snprintf(words[i], sizeof words[i], "%s:%d", device.device_type == kDLCUDA ? "cuda" : "device",
                     device.device_id);
    }
    PyErr_Format(PyExc_ValueError, "%s: %s is on %s; %s, where the state is, is required%s", c->signature->name, name,
                 words[0], words[1], is_on_cpu(like->tensor.device) ? " (cpu() gives one on the CPU)" : "");
}

bool state_follow(call *c, state_object *self, const char *name, const held_array *like)
{
    const DLDevice device = like->tensor.device;
    held_array home = {.object = NULL};
    bool made;
    if (is_on_cpu(device) ? state_is_on_cpu(self)
                          : !state_is_on_cpu(self) && is_same_device(device, self->home.tensor.device))
        return state_is_on_cpu(self) || (find_library_stream(&self->home) && call_joins(c, &self->home, false));
    if (self->begun && !state_is_on_cpu(self)) {
        refuse_device(c, self, name, like);
        return false;
    }
    if (is_on_cpu(device))
        return state_begin_on_cpu(self);
    if (device.device_type != kDLCUDA) {
        refuse_device(c, self, name, like);
        return false;
    }
    made = self->begun ? send(c, self, like, &home) : make(c, self, like, &home);
    if (!made) {
        release_array(&home);
        return false;
    }
    state_release(self);
    self->home = home;
    self->states = memory_of(&self->home);
    return true;
}

bool state_merge_on_device(call *c, state_object *self, state_object *other)
{
    held_array *sent = NULL;
    const softmax_state *from = other->states;
    softmax_status status;
    if (!other->begun && state_is_on_cpu(other))
        return true; /* nothing to take in */
    if (state_is_on_cpu(other)) {
        if (!find_library_stream(&self->home) || !call_joins(c, &self->home, false))
            return false;
        sent = &c->array[c->arrays++];
        memset(sent, 0, sizeof *sent);
        if (!send(c, other, &self->home, sent))
            return false;
        from = memory_of(sent);
    } else if (!state_follow(c, self, "other", &other->home) ||
               (self != other && (!find_library_stream(&other->home) || !call_joins(c, &other->home, false)))) {
        return false;
    }
    *c->message = '\0';
    status = softmax_cuda_state_merge(self->states, from, self->count, state_library_type(self->type),
                                      self->home.tensor.device.device_id, c->stream);
    if (!call_succeeded(c, status) || !call_settle(c))
        return false;
    self->begun = self->begun || other->begun;
    return true;
}

PyObject *state_fetched(const state_object *self)
{
    PyObject *module, *bytes, *whole = NULL;
    if (state_is_on_cpu(self))
        return PyBytes_FromStringAndSize((const char *)self->states, (Py_ssize_t)state_bytes(self));
    module = PyImport_ImportModule("libsoftmax._interchange");
    bytes = module ? PyObject_CallMethod(module, "fetched", "O", self->home.object) : NULL;
    if (bytes && PyBytes_Check(bytes) && (size_t)PyBytes_GET_SIZE(bytes) >= state_bytes(self))
        whole = PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), (Py_ssize_t)state_bytes(self));
    else if (bytes)
        PyErr_SetString(PyExc_RuntimeError, "State: its library gave other bytes than were asked for");
    Py_XDECREF(bytes);
    Py_XDECREF(module);
    return whole;
}
