/* The functions and types that the module has, one file each kind. */
#ifndef SOFTMAX_PYTHON_FUNCTIONS_H
#define SOFTMAX_PYTHON_FUNCTIONS_H

#include "call.h"

typedef PyObject *python_function(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names);

/* rows.c */
python_function python_softmax, python_log_softmax, python_logsumexp;
python_function python_softmax_backward, python_log_softmax_backward;
int shape_without(const DLTensor *x, int axis, int64_t shape[SOFTMAX_MAX_DIMENSIONS]);

/* cross_entropy.c */
python_function python_cross_entropy;

/* state.c: adds the type State to the module. */
bool state_type_begin(PyObject *module);

/* Runs `status = the library's call` over arrays on the device of `first`: with the scratch that it asks for on CUDA,
 * and without the interpreter's lock where that pays. SOFTMAX_ERROR_NULL with an exception set where there is no
 * memory. */
#define RUN(c, first, status, expression)                                                                              \
    do {                                                                                                               \
        size_t scratch_bytes_ = 0;                                                                                     \
        (status) = SOFTMAX_OK;                                                                                         \
        (c)->options.stream = (c)->stream;                                                                             \
        if (!is_on_cpu((first)->tensor.device)) {                                                                      \
            (c)->options.scratch_needed = &scratch_bytes_;                                                             \
            (status) = (expression);                                                                                   \
            (c)->options.scratch_needed = NULL;                                                                        \
            if ((status) == SOFTMAX_OK && scratch_bytes_ && !call_scratch(c, first, scratch_bytes_))                   \
                (status) = SOFTMAX_ERROR_NULL;                                                                         \
        }                                                                                                              \
        if ((status) == SOFTMAX_OK) {                                                                                  \
            PyThreadState *unlocked_ =                                                                                 \
                elements_of(&(first)->tensor) >= UNLOCKED_FROM_ELEMENTS ? PyEval_SaveThread() : NULL;                  \
            (status) = (expression);                                                                                   \
            if (unlocked_)                                                                                             \
                PyEval_RestoreThread(unlocked_);                                                                       \
            if ((status) == SOFTMAX_OK && !is_on_cpu((first)->tensor.device) && !call_settle(c))                       \
                (status) = SOFTMAX_ERROR_NULL;                                                                         \
        }                                                                                                              \
    } while (0)

#endif
