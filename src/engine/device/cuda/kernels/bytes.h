// SPDX-License-Identifier: Apache-2.0
// What kernels that set or copy a run of bytes are told.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_BYTES_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_BYTES_H

#include <stdint.h>

enum { PLB_BYTES_THREADS = 256 };

typedef struct plb_bytes_params {
    void *to;
    const void *from; // NULL: set
    int64_t count;    // of bytes
    uint32_t word;    // four times the byte that is set
} plb_bytes_params;

#endif
