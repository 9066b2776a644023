// SPDX-License-Identifier: Apache-2.0
// What the convolutions of small images are told. All operands are plain and dense f32.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_SMALL_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_SMALL_H

#include "engine/device/cuda/kernels/own.h"

enum {
    PLB_SMALL_THREADS = 512,      // of a block of an image
    PLB_SMALL_GRAD_THREADS = 256, // of a block of a weight gradient
    PLB_SMALL_OUT = 4,            // output channels of a thread
    PLB_SMALL_GRAD_OUT = 2,       // the same of a weight gradient
    PLB_SMALL_FOLD_THREADS = 128
};

// An image: from[n,in,height,width] to to[n,out,rows,columns]. `turned`: the gradient of the input,
// which is the convolution with filters turned round and with channels that change places. A weight
// gradient has x as `from` and dy as `to`.
typedef struct plb_small_params {
    int32_t n, in, out;
    int32_t height, width, rows, columns;
    int32_t top, left; // padding
    int32_t turned;
    int32_t slices; // groups of threads that share the input channels of an image
    int32_t chunks; // of the images, whose sums a weight gradient adds at last
    int32_t clamps; // the result is kept between low and high
    float low, high;
} plb_small_params;

#endif
