/* The kernels for neon. */
#include "vector_neon.h"

#include "kernels.h"

const softmax_kernels softmax_kernels_neon = {VECTOR_NAME, run_rows, reduce_columns, finish_columns};
