/* Which kernel a job takes, and in which shape it is launched: by the job's shape alone. Needs no GPU and no CUDA header. */
#ifndef SOFTMAX_CUDA_CHOICE_H
#define SOFTMAX_CUDA_CHOICE_H

#include "../kernels.h"

typedef enum cuda_kernel {
    CUDA_GENERIC, /* anything */
    CUDA_THREE_PASS, /* the textbook's, with its own bits; never chosen unasked */
    CUDA_ONLINE,  /* a thread block a row, which it reads twice */
    CUDA_WARP,    /* a warp a row, or several rows a warp */
    CUDA_BLOCK,   /* a thread block a row */
    CUDA_CLUSTER, /* a cluster of thread blocks a row */
    CUDA_SPLIT,   /* all thread blocks a row, in two launches */
    CUDA_STRIPS,  /* neighbouring rows together, where the axis is not the last */
    CUDA_KERNELS
} cuda_kernel;

#define CUDA_ANY_KERNEL CUDA_KERNELS

typedef struct cuda_device {
    int capability; /* 90 for 9.0 */
    int multiprocessors;
} cuda_device;

typedef struct cuda_shape {
    cuda_kernel kernel;
    int multiprocessors;
    int options; /* contiguous rows with a scale, a mask, lengths or the causal mask */
    int scores;  /* not plain rows: element by element, through options and strides */
    int edges;   /* rows begin anywhere, but x and out alike: accesses of 16 bytes between single elements at both ends */
    int vectors; /* accesses of 16 bytes, or of what a lane holds of a short row, or of two rows of a strip; otherwise element by element */
    int full_blocks; /* the row's last block of columns is full, or nearly so, or one of many */
    int warps;   /* in a thread block */
    int cluster; /* thread blocks of a row */
    int rows;    /* CUDA_BLOCK: rows of a thread block */
    int noted;   /* one more warp, that reads the rows out */
    int balanced; /* thread blocks of clusters where few run so far, not side by side */
    int ahead;   /* a row (CUDA_WARP: a thread block's rows) is on its way to the L2 cache so many before its turn; 0: not */
    int stages;  /* of rows on their way in shared memory; 0: none */
    int turns;   /* without stages: rows that a thread block takes one after another */
    int records; /* cross-entropy: losses and targets' gradients are left to the sum over rows */
    int row_lanes;    /* CUDA_WARP: lanes that hold a row */
    int lane_columns; /* ... columns of a row in a lane */
    int access;       /* ... bytes of an access: 16, 8, an element's */
    int tile_columns; /* CUDA_STRIPS: columns of a row in a thread block; 0: a thread has a row */
    int turned;       /* CUDA_STRIPS: rows at multiples of 16 bytes, turned round in shared memory */
    int pieces; /* CUDA_SPLIT: of a row, a thread block each */
    int fine;   /* CUDA_SPLIT: a piece is a block of columns, by several warps */
    int early;  /* CUDA_SPLIT: the second launch may start before the first has ended */
} cuda_shape;

#define THREAD_COLUMNS 64 /* of a row that a thread has */
#define THREAD_ROWS 128   /* of a thread block whose threads have one each */
#define STRIP_ROWS 8 /* neighbouring rows of a thread block at least */
#define SPLIT_PART_BYTES 56 /* of a piece's part in scratch */
#define FINE_NOTE_BYTES 32  /* ... of a fine piece's */
#define FINE_BLOCKS 256     /* of a row of fine pieces, which one warp reads */

/* What kernels may ask of a device, whose driver may run code (its PTX) for less than the device has: both 90 for 9.0. Clusters and bulk copies are compiled
 * for 9.0 and more alone. */
int softmax_cuda_capability(int of_device, int of_code);

/* The kernel of that name, -1 if there is none. */
int softmax_cuda_kernel_named(const char *name);

/* How a job is launched, by the kernel that is wanted (CUDA_ANY_KERNEL: the best); 0: no such kernel can run it. */
int softmax_cuda_choose(const softmax_job *job, const cuda_device *device, cuda_kernel wanted, cuda_shape *shape);

/* How much scratch CUDA_SPLIT takes; 0 for the others. */
size_t softmax_cuda_split_scratch(const softmax_job *job, const cuda_shape *shape);

#endif
