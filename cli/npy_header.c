#include "npy_header.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *descr;
    int64_t bytes;
} kinds[NPY_KIND_COUNT] = {
    [NPY_FLOAT16] = {"<f2", 2}, [NPY_FLOAT32] = {"<f4", 4}, [NPY_FLOAT64] = {"<f8", 8}, [NPY_INT32] = {"<i4", 4},
    [NPY_INT64] = {"<i8", 8},   [NPY_BOOL] = {"|b1", 1},    [NPY_UINT8] = {"|u1", 1},   [NPY_UINT16] = {"<u2", 2},
};

const char *npy_kind_descr(npy_kind kind)
{
    return kinds[kind].descr;
}

int64_t npy_kind_bytes(npy_kind kind)
{
    return kinds[kind].bytes;
}

/* What is left of the dictionary, and where words about an error go. Every read is checked against `end`. */
typedef struct parser {
    const unsigned char *at, *end;
    char *message;
    size_t message_bytes;
} parser;

#define FAIL(p, ...) (snprintf((p)->message, (p)->message_bytes, __VA_ARGS__), false)

static void skip_blanks(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(p);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length) != 0)
        return false;
    p->at += length;
    return true;
}

/* A quoted string of printable ASCII without escapes, at most 15 characters: enough for every key and type that is
 * allowed. */
static bool take_string(parser *p, char text[16], const char *what)
{
    skip_blanks(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"'))
        return FAIL(p, "the header's %s is not a quoted string", what);
    unsigned char quote = *p->at++;
    size_t length = 0;
    for (; p->at < p->end && *p->at != quote; p->at++) {
        if (*p->at < 0x20 || *p->at > 0x7e || *p->at == '\\')
            return FAIL(p, "the header's %s holds the byte 0x%02x", what, *p->at);
        if (length == 15)
            return FAIL(p, "the header's %s '%.15s...' is not known", what, text);
        text[length++] = (char)*p->at;
        text[length] = '\0';
    }
    text[length] = '\0';
    if (p->at == p->end)
        return FAIL(p, "the header's %s has no closing quote", what);
    p->at++;
    return true;
}

static bool take_descr(parser *p, npy_kind *kind)
{
    char text[16] = "";
    skip_blanks(p);
    if (p->at < p->end && *p->at == '[')
        return FAIL(p, "holds records; allowed are plain arrays");
    if (!take_string(p, text, "type"))
        return false;
    for (int k = 0; k < NPY_KIND_COUNT; k++) {
        if (strcmp(text, kinds[k].descr) == 0) {
            *kind = (npy_kind)k;
            return true;
        }
    }
    return FAIL(p, "holds %stype '%s'; allowed are <f2 <f4 <f8 <i4 <i8 |b1 |u1 <u2",
                text[0] == '>' ? "big-endian " : "", text);
}

static bool take_bool(parser *p, bool *value)
{
    *value = take_word(p, "True");
    if (!*value && !take_word(p, "False"))
        return FAIL(p, "the header's fortran_order is neither True nor False");
    return true;
}

static bool take_size(parser *p, int64_t *size)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at < '0' || *p->at > '9')
        return FAIL(p, "the header's shape is not a tuple of sizes");
    *size = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *p->at - '0', size))
            return FAIL(p, "a size in the header's shape is beyond 2^63 - 1");
    }
    return true;
}

static bool take_shape(parser *p, npy_header *header)
{
    if (!take(p, '('))
        return FAIL(p, "the header's shape is not a tuple of sizes");
    header->ndim = 0;
    while (!take(p, ')')) {
        if (header->ndim == SOFTMAX_MAX_DIMENSIONS)
            return FAIL(p, "has more than %d dimensions; at most %d are allowed", SOFTMAX_MAX_DIMENSIONS,
                        SOFTMAX_MAX_DIMENSIONS);
        if (!take_size(p, &header->shape[header->ndim]))
            return false;
        header->ndim++;
        if (!take(p, ',')) {
            if (header->ndim == 1)
                return FAIL(p, "the header's shape has no comma after its only size");
            if (take(p, ')'))
                break;
            return FAIL(p, "the header's shape is not closed");
        }
    }
    return true;
}

/* Sizes of 0 count as 1 in the check, as in strides: (0, 2^62, 2^62) is refused, as its strides would overflow. */
static bool count_elements(parser *p, npy_header *header)
{
    int64_t bytes = kinds[header->kind].bytes;
    bool empty = false;
    for (int d = 0; d < header->ndim; d++) {
        empty |= header->shape[d] == 0;
        if (header->shape[d] != 0 && __builtin_mul_overflow(bytes, header->shape[d], &bytes))
            return FAIL(p, "the header's shape holds more than 2^63 - 1 bytes");
    }
    header->elements = empty ? 0 : bytes / kinds[header->kind].bytes;
    return true;
}

static bool take_dictionary(parser *p, npy_header *header)
{
    bool descr = false, order = false, shape = false;
    if (!take(p, '{'))
        return FAIL(p, "the header is not a dictionary");
    while (!take(p, '}')) {
        char key[16] = "";
        if (!take_string(p, key, "key"))
            return false;
        if (!take(p, ':'))
            return FAIL(p, "the header's key '%s' has no value", key);
        bool *seen = strcmp(key, "descr") == 0           ? &descr
                     : strcmp(key, "fortran_order") == 0 ? &order
                     : strcmp(key, "shape") == 0         ? &shape
                                                         : NULL;
        if (!seen || *seen)
            return FAIL(p, "the header's key '%s' is %s", key, seen ? "there twice" : "not known");
        *seen = true;
        if (seen == &descr ? !take_descr(p, &header->kind)
                           : (seen == &order ? !take_bool(p, &header->fortran_order) : !take_shape(p, header)))
            return false;
        if (!take(p, ',')) {
            if (take(p, '}'))
                break;
            return FAIL(p, "the header is not closed after its key '%s'", key);
        }
    }
    if (!descr || !order || !shape)
        return FAIL(p, "the header has no key '%s'", !descr ? "descr" : !order ? "fortran_order" : "shape");
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n'))
        p->at++;
    return p->at == p->end || FAIL(p, "the header goes on after its dictionary");
}

bool npy_header_parse(const unsigned char *bytes, size_t count, npy_header *header, char *message, size_t message_bytes)
{
    parser p = {bytes, bytes + count, message, message_bytes};
    *header = (npy_header){0};
    if (count < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return FAIL(&p, "is not a .npy file: it does not begin with \\x93NUMPY and a version");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return FAIL(&p, "is a .npy file of version %d.%d; allowed are 1.0, 2.0 and 3.0", bytes[6], bytes[7]);
    size_t start = bytes[6] == 1 ? 10 : 12;
    if (count < start)
        return FAIL(&p, "ends inside its header");
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > count - start)
        return FAIL(&p, "ends inside its header: %zu bytes of %zu are there", count - start, length);
    p.at = bytes + start;
    p.end = p.at + length;
    header->data_offset = start + length;
    return take_dictionary(&p, header) && count_elements(&p, header);
}

size_t npy_header_write(npy_header *header, unsigned char bytes[NPY_HEADER_BYTES])
{
    char text[NPY_HEADER_BYTES];
    size_t at = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
                                 kinds[header->kind].descr, header->fortran_order ? "True" : "False");
    header->elements = 1;
    for (int d = 0; d < header->ndim; d++) {
        const char *comma = d + 1 < header->ndim ? ", " : header->ndim == 1 ? "," : "";
        at += (size_t)snprintf(text + at, sizeof text - at, "%lld%s", (long long)header->shape[d], comma);
        header->elements *= header->shape[d];
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "), }");
    size_t offset = (10 + at + 1 + 63) / 64 * 64;
    memset(bytes, ' ', offset);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (unsigned char)((offset - 10) & 255);
    bytes[9] = (unsigned char)((offset - 10) >> 8);
    memcpy(bytes + 10, text, at);
    bytes[offset - 1] = '\n';
    header->data_offset = offset;
    return offset;
}
