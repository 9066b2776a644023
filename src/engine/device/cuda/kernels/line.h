// SPDX-License-Identifier: Apache-2.0
// Numbers of ops along lines of one axis: running sums, sorting.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_LINE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_LINE_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_LINE_THREADS = 256, PLB_SORT_THREADS = 512, PLB_SORT_MOST = 8192 };

// Plain values: lines of `extent` elements that are `inner` from each other; of the results of
// top_k only the `kept` first.
typedef struct plb_line_params {
    int64_t lines;
    int32_t extent, inner, dtype;
    int32_t reverse, exclusive; // cumsum
    int32_t kept, descending;   // sort
    int32_t padded;             // sort: extent, up to a power of two
} plb_line_params;

#endif
