// SPDX-License-Identifier: Apache-2.0
// Numbers of the softmax kernels: lines of `extent` elements, `inner` elements from one another.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_SOFTMAX_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_SOFTMAX_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_SOFTMAX_THREADS = 256 };

typedef struct plb_softmax_params {
    int64_t lines;
    int32_t extent, inner;
} plb_softmax_params;

#endif
