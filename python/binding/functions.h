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

/* Runs the library, without the interpreter's lock where that pays. */
#define WITHOUT_LOCK(c, elements, statement)                                                                           \
    do {                                                                                                               \
        PyThreadState *unlocked_ = (elements) >= UNLOCKED_FROM_ELEMENTS ? PyEval_SaveThread() : NULL;                  \
        (c)->options.stream = (c)->stream;                                                                             \
        statement;                                                                                                     \
        if (unlocked_)                                                                                                 \
            PyEval_RestoreThread(unlocked_);                                                                           \
    } while (0)

#endif
