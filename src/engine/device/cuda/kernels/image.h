// SPDX-License-Identifier: Apache-2.0
// Numbers of the kernels for the first convolution of a ResNet.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_IMAGE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_IMAGE_H

#include "engine/device/cuda/kernels/own.h"

// 64 filters of 7x7 over three channels, stride 2. A block makes tiles of 8 x 16 pixels, two rows a
// warp; filters are K = 8 pixels, with their channels, of each of their rows.
enum {
    PLB_IMAGE_TAPS = 7,
    PLB_IMAGE_CHANNELS = 3,
    PLB_IMAGE_FILTERS = 64,
    PLB_IMAGE_THREADS = 128,
    PLB_IMAGE_TILE_ROWS = 8,
    PLB_IMAGE_TILE_COLUMNS = 16,
    PLB_IMAGE_ROWS = 2 * PLB_IMAGE_TILE_ROWS + 5,       // of the image under a tile
    PLB_IMAGE_COLUMNS = 2 * PLB_IMAGE_TILE_COLUMNS + 6, // one more than taps reach
    PLB_IMAGE_K = 24
};

typedef struct plb_image_params {
    plb_act act;
    int64_t x[4], w[4]; // strides
    int32_t in[2], out[2], pad[2];
    int32_t n, tiles, down, across; // tiles: all; in an image: down x across
} plb_image_params;

#endif
