// SPDX-License-Identifier: Apache-2.0
// Numbers of the indexing kernels. All values are plain.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_INDEX_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_INDEX_H

#include "engine/device/cuda/kernels/own.h"

enum { PLB_INDEX_THREADS = 256, PLB_INDEX_RANK = 8, PLB_NONZERO_THREADS = 1024 };

typedef struct plb_index_params {
    int64_t count;                 // elements of what is written
    int64_t outer, extent, inner;  // x as [outer, extent, inner] around the axis
    int64_t indices;               // elements of index
    int32_t op, dtype, size_bytes; // of an element of x
    int32_t rank, axis;
    int32_t how, zero;                                        // scatter_reduce: plb_scatter_how
    int64_t index_dim[PLB_INDEX_RANK], x_dim[PLB_INDEX_RANK]; // gather, scatter; nonzero: x_dim
} plb_index_params;

#endif
