// SPDX-License-Identifier: Apache-2.0
// Numbers of dropout and the random generators.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_RANDOM_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_RANDOM_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_RANDOM_THREADS = 256, PLB_RANDOM_RANK = 9 };

// Elements in the order in which y lies in memory; `logical` gives the number of an element in
// row-major order, which is that of the sequence of random words.
typedef struct plb_random_params {
    double p, low, high, most; // most: what a uniform number may be (plb_uniform_most)
    uint64_t mix;              // with the seed the key
    int64_t count;
    int32_t of_channel;  // dropout of channels: elements that share a word; else 1
    int32_t kind;        // random numbers: 0 uniform, 1 normal
    int32_t rank, plain; // plain: all is dense in logical order
    int64_t dim[PLB_RANDOM_RANK];
    int64_t x[PLB_RANDOM_RANK], y[PLB_RANDOM_RANK], logical[PLB_RANDOM_RANK]; // strides
} plb_random_params;

#endif
