// SPDX-License-Identifier: Apache-2.0
// What a convolution of a few pixels is told: y[pixel, k] = act(x[pixel] w[k] + bias + residual).
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_VECTOR_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_VECTOR_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_VECTOR_THREADS = 128, PLB_VECTOR_PIXELS = 8 };

// x[pixels, c], w[k, c], y[pixels, k], all dense. `lanes`, a power of two up to 32, share a sum.
typedef struct plb_vector_params {
    int32_t pixels, c, k, lanes;
    plb_act act;
} plb_vector_params;

#endif
