/* libFuzzer's target for the parser of .npy headers: whatever it accepts must be sound, and survive being written and
 * parsed again. Without libFuzzer, fuzz_npy_replay.c feeds it. */
#include "npy_header.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_sound(const npy_header *header, size_t count)
{
    require(header->kind >= 0 && header->kind < NPY_KIND_COUNT);
    require(header->ndim >= 0 && header->ndim <= SOFTMAX_MAX_DIMENSIONS);
    require(header->data_offset >= 10 && header->data_offset <= count);
    int64_t elements = 1, strides = 1;
    for (int d = 0; d < header->ndim; d++) {
        require(header->shape[d] >= 0);
        require(!__builtin_mul_overflow(elements, header->shape[d], &elements));
        require(!__builtin_mul_overflow(strides, header->shape[d] ? header->shape[d] : 1, &strides));
    }
    int64_t bytes;
    require(elements == header->elements);
    require(!__builtin_mul_overflow(strides, npy_kind_bytes(header->kind), &bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    /* A copy of exactly this size: a sanitizer sees a read beyond it. */
    uint8_t *copy = malloc(count ? count : 1);
    require(copy != NULL);
    memcpy(copy, bytes, count);
    npy_header header, again;
    char message[200] = "";
    bool accepted = npy_header_parse(copy, count, &header, message, sizeof message);
    free(copy);
    if (!accepted) {
        require(*message != '\0' && strchr(message, '\n') == NULL);
        return 0;
    }
    require(*message == '\0');
    check_sound(&header, count);
    unsigned char written[NPY_HEADER_BYTES];
    again = header;
    size_t length = npy_header_write(&again, written);
    require(length <= sizeof written && length % 64 == 0);
    npy_header parsed;
    require(npy_header_parse(written, length, &parsed, message, sizeof message));
    require(parsed.kind == header.kind && parsed.fortran_order == header.fortran_order && parsed.ndim == header.ndim);
    require(memcmp(parsed.shape, header.shape, sizeof header.shape) == 0 && parsed.elements == header.elements);
    return 0;
}
