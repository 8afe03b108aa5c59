/* What every file of the extension begins with: Python, NumPy's C interface and the library. */
#ifndef SOFTMAX_PYTHON_BINDING_H
#define SOFTMAX_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL softmax_numpy_api
#ifndef SOFTMAX_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <softmax.h>
#include <stdbool.h>

#define SOFTMAX_PYTHON_FUNCTION (METH_FASTCALL | METH_KEYWORDS)
/* A function of the FASTCALL kind as the type that PyMethodDef has. */
#define AS_METHOD(function) ((PyCFunction)(void (*)(void))(function))

#endif
