// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_CAST_MANY_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_CAST_MANY_H

#include <stdint.h>

enum { PLB_CAST_CHUNK = 4096, PLB_CAST_THREADS = 256 };

// So many elements from one place to another; a block takes one piece.
typedef struct plb_cast_piece {
    const void *from;
    void *to;
    int64_t count; // at most PLB_CAST_CHUNK
} plb_cast_piece;

#endif
