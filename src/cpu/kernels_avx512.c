/* The kernels for avx512. */
#include "vector_avx512.h"

#include "kernels.h"

const softmax_kernels softmax_kernels_avx512 = {VECTOR_NAME, run_rows, reduce_columns, finish_columns};
