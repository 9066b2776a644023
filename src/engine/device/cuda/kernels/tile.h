// SPDX-License-Identifier: Apache-2.0
// Numbers of the kernels for convolutions of few pixels.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_TILE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_TILE_H

#include "engine/device/cuda/kernels/own.h"

// What is summed up, all taps of all channels, is taken in chunks of 128 bytes.
enum {
    PLB_TILE_THREADS = 128,
    PLB_TILE_CHUNK_BYTES = 128,
    PLB_TILE_SPLITS = 8, // at most; that many blocks of a cluster any device has
    PLB_TILE_TAPS = 32   // at most
};

// PLB_TILES(M): M(pixels, filters, chunks under way, time of a chunk) of each tile that there are
// kernels for; times are in hundredths of a microsecond of an H200.
#define PLB_TILES(M) M(32, 64, 7, 25) M(64, 32, 7, 27) M(64, 64, 5, 30)

// Of the chunks under way, and of the sums, whose rows are apart so that lanes meet all banks.
#define PLB_TILE_STAGES_BYTES(pixels, filters, stages) \
    (((pixels) + (filters)) * PLB_TILE_CHUNK_BYTES * (stages))
#define PLB_TILE_PITCH(filters) ((filters) + 8)
#define PLB_TILE_SHARED_BYTES(pixels, filters, stages) \
    (PLB_TILE_STAGES_BYTES(pixels, filters, stages) +  \
     (pixels)*PLB_TILE_PITCH(filters) * (int)sizeof(float))

typedef struct plb_tile_params {
    float low, high;         // bounds of the result
    int32_t silu;            // or x sigmoid(x) of it
    int32_t pixels, filters; // of the result
    int32_t c, depth;        // channels, and with all taps
    int32_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
    int32_t early; // filters do not change: they may be read before the kernel in front has ended
} plb_tile_params;

#endif
