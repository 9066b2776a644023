// SPDX-License-Identifier: Apache-2.0
// Numbers of the depthwise convolutions: one filter a channel, images with channels last.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_DEPTHWISE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_DEPTHWISE_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_DEPTHWISE_THREADS = 256, PLB_DEPTHWISE_FINISH = 32 };

// `from` is what is read around each element of `to`: x of the convolution, dy of its input's
// gradient. Work is cut into strips of a few neighbouring columns of `to`; `patch` rows of strips
// are neighbours in number, so that blocks cover patches and not lines.
typedef struct plb_depthwise_params {
    int32_t n, c;
    int32_t from_height, from_width, to_height, to_width;
    int32_t top, left; // padding of `from`; of the convolution where the stride is 2
    int32_t patch;     // divides to_height
    int32_t flipped;   // filters are read backwards
    int32_t splits;    // of the weight gradient: partial sums in the workspace
    int32_t zero;
    plb_act act;
} plb_depthwise_params;

#endif
