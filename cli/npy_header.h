/* The header of a .npy file, versions 1.0 to 3.0: parsed strictly from bytes, and written. Knows no files. */
#ifndef SOFTMAX_CLI_NPY_HEADER_H
#define SOFTMAX_CLI_NPY_HEADER_H

#include <softmax.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum npy_kind {
    NPY_FLOAT16,
    NPY_FLOAT32,
    NPY_FLOAT64,
    NPY_INT32,
    NPY_INT64,
    NPY_BOOL,
    NPY_UINT8,
    NPY_UINT16,
    NPY_KIND_COUNT
} npy_kind;

typedef struct npy_header {
    npy_kind kind;
    bool fortran_order;
    int ndim;
    int64_t shape[SOFTMAX_MAX_DIMENSIONS];
    int64_t elements;   /* the product of shape */
    size_t data_offset; /* bytes from the file's start to the first element */
} npy_header;

/* Enough for every header that npy_header_write makes. */
#define NPY_HEADER_BYTES 640

/* "<f4" and so on; bytes of one element. */
const char *npy_kind_descr(npy_kind kind);
int64_t npy_kind_bytes(npy_kind kind);

/* Parses the `count` bytes that a file begins with (all of it, or at least the header). Elements and bytes fit int64_t
 * then. On failure: false, and one line without the file's name in message. */
bool npy_header_parse(const unsigned char *bytes, size_t count, npy_header *header, char *message,
                      size_t message_bytes);

/* Writes version 1.0, padded so that data begins at a multiple of 64; sets data_offset and elements; returns
 * data_offset. */
size_t npy_header_write(npy_header *header, unsigned char bytes[NPY_HEADER_BYTES]);

#endif
