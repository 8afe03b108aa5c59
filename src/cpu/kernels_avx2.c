/* The kernels for avx2. */
#include "vector_avx2.h"

#include "kernels.h"

const softmax_kernels softmax_kernels_avx2 = {VECTOR_NAME, run_rows, reduce_columns, finish_columns};
