/* The kernels for portable. */
#include "vector_portable.h"

#include "kernels.h"

const softmax_kernels softmax_kernels_portable = {VECTOR_NAME, run_rows, reduce_columns, finish_columns};
