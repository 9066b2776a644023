// SPDX-License-Identifier: Apache-2.0
// Numbers of the pooling and resampling kernels.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_POOL_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_POOL_H

#include "engine/device/cuda/kernels/own.h"

// The spatial axes are depth, height, width; missing ones have extent 1 and come first. Strides:
// of n, c, and those three.
enum { PLB_POOL_OPERANDS = 3, PLB_POOL_AXES = 3, PLB_POOL_THREADS = 256 };
// Planes of that many windows that a block has whole, of no more than PLB_POOL_SMALL.
#define PLB_POOL_PLANES(windows) ((windows) < PLB_POOL_THREADS ? PLB_POOL_THREADS / (windows) : 1)
enum { PLB_POOL_SMALL = 8 * PLB_POOL_THREADS };
typedef struct plb_pool_params {
    int32_t n, c;
    int32_t in[PLB_POOL_AXES], out[PLB_POOL_AXES]; // extents of x and y, in the gradient too
    int32_t kernel[PLB_POOL_AXES], step[PLB_POOL_AXES], dilation[PLB_POOL_AXES];
    int32_t pad[PLB_POOL_AXES], pad_end[PLB_POOL_AXES];
    int32_t count_include_pad;
    int32_t channel_inner; // threads run along the channels, else along the width
    int64_t count;         // threads with work: elements of what is written, over the width W
    int64_t stride[PLB_POOL_OPERANDS][2 + PLB_POOL_AXES];
    // Resampling.
    int32_t mode, align_corners, first_axis; // axes before it are not resampled
    int32_t wide;                            // coordinates are f64
    double scale[PLB_POOL_AXES];             // y over x; 0: from the extents
} plb_pool_params;

#endif
