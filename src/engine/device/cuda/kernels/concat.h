// SPDX-License-Identifier: Apache-2.0
// Numbers of the concatenation of dense operands along their innermost extents.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_CONCAT_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_CONCAT_H

#include <stdint.h>

enum { PLB_CONCAT_PARTS = 128, PLB_CONCAT_THREADS = 256 };

// `to` is rows of `width` elements; part k gives its elements begin[k] to begin[k + 1] - 1.
typedef struct plb_concat_params {
    void *to;
    int64_t rows;
    int32_t width, n;
    const void *from[PLB_CONCAT_PARTS];
    int32_t begin[PLB_CONCAT_PARTS + 1];
    int32_t zero;
} plb_concat_params;

#endif
