#include "npy_file.h"

#include "fail.h"
#include "temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stdlib.h>

bool npy_is_float(npy_kind kind)
{
    return kind == NPY_FLOAT16 || kind == NPY_FLOAT32 || kind == NPY_FLOAT64 || kind == NPY_UINT16;
}

static DLDataType tensor_type(npy_kind kind)
{
    uint8_t code = kDLUInt;
    if (kind == NPY_FLOAT16 || kind == NPY_FLOAT32 || kind == NPY_FLOAT64)
        code = kDLFloat;
    else if (kind == NPY_UINT16)
        code = kDLBfloat;
    else if (kind == NPY_INT32 || kind == NPY_INT64)
        code = kDLInt;
    else if (kind == NPY_BOOL)
        code = SOFTMAX_DLPACK_BOOL;
    return (DLDataType){code, (uint8_t)(8 * npy_kind_bytes(kind)), 1};
}

static void describe(npy_array *array)
{
    npy_header *header = &array->header;
    int64_t stride = 1;
    for (int i = 0; i < header->ndim; i++) {
        int d = header->fortran_order ? i : header->ndim - 1 - i;
        array->strides[d] = stride;
        stride *= header->shape[d] ? header->shape[d] : 1;
    }
    array->tensor = (DLTensor){.data = (char *)array->memory + header->data_offset,
                               .device = {kDLCPU, 0},
                               .ndim = header->ndim,
                               .dtype = tensor_type(header->kind),
                               .shape = header->shape,
                               .strides = array->strides};
}

static void read_all(npy_array *array, int descriptor)
{
    size_t capacity = 1 << 16;
    char *bytes = allocate(capacity);
    for (;;) {
        ssize_t count = read(descriptor, bytes + array->memory_bytes, capacity - array->memory_bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail_data("%s: cannot be read: %s", array->name, strerror(errno));
        if (count == 0)
            break;
        array->memory_bytes += (size_t)count;
        if (array->memory_bytes == capacity) {
            capacity *= 2;
            bytes = realloc(bytes, capacity);
            if (!bytes)
                fail_data("%s: does not fit in memory: %zu bytes so far", array->name, array->memory_bytes);
        }
    }
    array->memory = bytes;
}

static void map_or_read(npy_array *array)
{
    if (strcmp(array->name, "-") == 0) {
        read_all(array, STDIN_FILENO);
        return;
    }
    int descriptor = open(array->name, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        fail_data("%s: cannot be opened: %s", array->name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        fail_data("%s: is a folder; allowed is a .npy file or -", array->name);
    if (S_ISREG(status.st_mode) && status.st_size > 0) {
        array->memory_bytes = (size_t)status.st_size;
        array->memory = mmap(NULL, array->memory_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (array->memory == MAP_FAILED)
            fail_data("%s: cannot be mapped: %s", array->name, strerror(errno));
        array->file_mapped = true;
    } else {
        read_all(array, descriptor); /* a pipe or a device */
    }
    close(descriptor);
}

void npy_open(npy_array *array, const char *name, bool bfloat16)
{
    *array = (npy_array){.name = name, .temporary = -1, .descriptor = -1};
    map_or_read(array);
    char message[200];
    if (!npy_header_parse(array->memory, array->memory_bytes, &array->header, message, sizeof message))
        fail_data("%s: %s", name, message);
    npy_header *header = &array->header;
    size_t held = array->memory_bytes - header->data_offset;
    size_t needed = (size_t)(header->elements * npy_kind_bytes(header->kind));
    if (held != needed)
        fail_data("%s: holds %zu bytes of data; its shape and type need exactly %zu", name, held, needed);
    if (header->kind == NPY_UINT16 && !bfloat16)
        fail_data("%s: holds type '<u2'; allowed is that only as bfloat16, with --dtype bfloat16", name);
    if (header->data_offset % (size_t)npy_kind_bytes(header->kind) != 0) {
        /* Not what NumPy writes; elements must not straddle their alignment. */
        char *aligned = allocate(needed);
        memcpy(aligned, (char *)array->memory + header->data_offset, needed);
        array->memory = aligned;
        array->memory_bytes = needed;
        array->file_mapped = false;
        header->data_offset = 0;
    }
    describe(array);
}

void npy_create(npy_array *array, const char *name, npy_kind kind, bool fortran_order, int ndim, const int64_t *shape)
{
    *array = (npy_array){.name = name, .is_output = true, .temporary = -1, .descriptor = -1};
    npy_header *header = &array->header;
    header->kind = kind;
    header->fortran_order = fortran_order;
    header->ndim = ndim;
    memcpy(header->shape, shape, (size_t)ndim * sizeof *shape);
    unsigned char head[NPY_HEADER_BYTES];
    size_t head_bytes = npy_header_write(header, head);
    array->memory_bytes = head_bytes + (size_t)(header->elements * npy_kind_bytes(kind));

    struct stat status;
    int file = -1;
    if (name && strcmp(name, "-") == 0) {
        array->descriptor = STDOUT_FILENO;
        if (isatty(STDOUT_FILENO))
            fail_usage(
                "-o -: standard output is a terminal; allowed is a file or a pipe (without -o the result is printed)");
    } else if (name && stat(name, &status) == 0 && !S_ISREG(status.st_mode)) {
        if (S_ISDIR(status.st_mode))
            fail_data("%s: is a folder; allowed is the name of a file", name);
        array->descriptor = open(name, O_WRONLY | O_CLOEXEC);
        if (array->descriptor < 0)
            fail_data("%s: cannot be opened: %s", name, strerror(errno));
    } else if (name) {
        array->temporary = temporary_create(name, array->memory_bytes, &file);
        array->file_mapped = true;
    }
    array->memory = mmap(NULL, array->memory_bytes, PROT_READ | PROT_WRITE,
                         file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, file, 0);
    if (array->memory == MAP_FAILED)
        fail_data("%s: %zu bytes cannot be mapped: %s", name ? name : "the result", array->memory_bytes,
                  strerror(errno));
    if (file >= 0)
        close(file);
    memcpy(array->memory, head, head_bytes);
    describe(array);
}

static void write_all(const npy_array *array)
{
    const char *bytes = array->memory;
    for (size_t done = 0; done < array->memory_bytes;) {
        ssize_t count = write(array->descriptor, bytes + done, array->memory_bytes - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail_data("%s: cannot be written: %s", array->name, strerror(errno));
        done += (size_t)count;
    }
}

void npy_finish(npy_array *array)
{
    if (array->descriptor >= 0)
        write_all(array);
    if (array->temporary >= 0)
        temporary_rename(array->temporary, array->name);
}

void npy_release_pages(const npy_array *array)
{
    if (array->file_mapped)
        madvise(array->memory, array->memory_bytes, MADV_DONTNEED);
}
