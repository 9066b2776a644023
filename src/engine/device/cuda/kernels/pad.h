// SPDX-License-Identifier: Apache-2.0
// Numbers of pad and pad_grad, of the modes that repeat elements.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_PAD_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_PAD_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_PAD_THREADS = 256, PLB_PAD_RANK = 8 };

typedef struct plb_pad_params {
    int64_t count;      // elements of what is written
    int32_t rank, edge; // edge: repeat the last element; else mirror
    int64_t dim[PLB_PAD_RANK], before[PLB_PAD_RANK], after[PLB_PAD_RANK];
    int64_t from[PLB_PAD_RANK], to[PLB_PAD_RANK]; // strides of what is read and written
} plb_pad_params;

#endif
