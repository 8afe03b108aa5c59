/* .npy files as tensors: inputs mapped, outputs written under a temporary name and renamed when they are whole. */
#ifndef SOFTMAX_CLI_NPY_FILE_H
#define SOFTMAX_CLI_NPY_FILE_H

#include "npy_header.h"

typedef struct npy_array {
    const char *name; /* as the user gave it; "-" is standard input or output */
    npy_header header;
    DLTensor tensor; /* tensor.shape is header.shape: an npy_array is not to be moved */
    int64_t strides[SOFTMAX_MAX_DIMENSIONS];
    void *memory; /* of the whole file, header first */
    size_t memory_bytes;
    bool file_mapped; /* pages may be dropped: the file keeps them */
    bool is_output;
    int temporary;  /* index of the output's temporary file, or -1 */
    int descriptor; /* of an output that is written at the end, or -1 */
} npy_array;

/* Opens `name` for reading. uint16 elements are bfloat16 if `bfloat16`, otherwise an error. Fails by fail_data. */
void npy_open(npy_array *array, const char *name, bool bfloat16);

/* An array to be filled in. name NULL: memory only; "-": standard output, refused if that is a terminal. */
void npy_create(npy_array *array, const char *name, npy_kind kind, bool fortran_order, int ndim, const int64_t *shape);

/* Makes a created array appear under its name: whole. */
void npy_finish(npy_array *array);

/* Drops pages that have been worked on from memory; their values stay. */
void npy_release_pages(const npy_array *array);

bool npy_is_float(npy_kind kind);

#endif
