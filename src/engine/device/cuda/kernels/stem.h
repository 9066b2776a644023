// SPDX-License-Identifier: Apache-2.0
// What host and device share of the moves between few channels and the many that tensor cores want.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_STEM_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_STEM_H

#include <stdint.h>

// `few`[n, c, height, width], any strides, and `many`[n, rows, columns, channels], dense:
//   many[n, i, j, (a block + b) c + k] = few[n, k, block i + a - top, block j + b - left]
// and zero where `few` has no such element or the channel is past block² c.
typedef struct plb_stem_params {
    const void *from;
    void *to;
    int64_t count; // pixels of `many`, or elements of `few`
    int64_t stride[4];
    int32_t c, height, width, block, top, left, rows, columns, channels, zero;
} plb_stem_params;

#endif
