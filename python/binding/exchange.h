/* DLPack 1.x as far as Debian's header lacks it: versioned tensors, and the table of C functions that an array type may
 * offer as
 * `__dlpack_c_exchange_api__` (DLPack 1.2; PyTorch since 2.10). The layouts are part of DLPack's ABI. */
#ifndef SOFTMAX_PYTHON_EXCHANGE_H
#define SOFTMAX_PYTHON_EXCHANGE_H

#include "binding.h"

#define DLPACK_READ_ONLY ((uint64_t)1)

typedef struct dlpack_version {
    uint32_t major, minor;
} dlpack_version;

typedef struct versioned_tensor {
    dlpack_version version;
    void *manager_ctx;
    void (*deleter)(struct versioned_tensor *self);
    uint64_t flags;
    DLTensor dl_tensor;
} versioned_tensor;

typedef struct exchange_header {
    dlpack_version version;
    struct exchange_header *previous;
} exchange_header;

typedef struct exchange_api {
    exchange_header header;
    int (*allocate)(DLTensor *prototype, versioned_tensor **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message));
    int (*export_tensor)(void *object, versioned_tensor **out);
    int (*import_tensor)(versioned_tensor *tensor, void **object); /* takes the tensor over */
    int (*borrow_tensor)(void *object, DLTensor *out);             /* or NULL */
    int (*current_stream)(DLDeviceType device_type, int32_t device_id, void **stream);
} exchange_api;

#endif
