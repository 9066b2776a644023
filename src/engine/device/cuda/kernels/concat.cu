// SPDX-License-Identifier: Apache-2.0
// All parts of a concatenation in one launch: networks that join dozens of them would launch as
// many copies. A thread has one element of the row, finds its part once, and walks down the rows.
#include "engine/device/cuda/kernels/concat.h"

#include "engine/device/cuda/kernels/own.cuh"

// The part of element `column`: the last that begins at or before it.
__device__ static int part_of(const plb_concat_params &p, int column) {
    int low = 0, high = p.n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p.begin[middle] <= column) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

template <typename T> __device__ static void concat(const plb_concat_params &p) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= p.width) return;
    const int part = part_of(p, column), first = p.begin[part], own = p.begin[part + 1] - first;
    const T *from = (const T *)p.from[part] + (column - first);
    T *to = (T *)p.to + column;
    const int64_t step = (int64_t)gridDim.y * blockDim.y;
    for (int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; row < p.rows; row += step) {
        to[row * p.width] = from[row * own];
    }
}

#define PLB_CONCAT(T, bytes)                                                                \
    PLB_GLOBAL void __launch_bounds__(PLB_CONCAT_THREADS)                                   \
        plb_concat_##bytes(const __grid_constant__ plb_concat_params p) {                   \
        begin();                                                                            \
        concat<T>(p);                                                                       \
    }
PLB_CONCAT(uint8_t, 1)
PLB_CONCAT(uint16_t, 2)
PLB_CONCAT(uint32_t, 4)
PLB_CONCAT(uint2, 8)
PLB_CONCAT(uint4, 16)
