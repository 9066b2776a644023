// SPDX-License-Identifier: Apache-2.0
// Few channels to many: blocks of pixels become channels, and the rest of those is zero. A thread
// makes eight channels of a pixel, which it writes at once.
#include "engine/device/cuda/kernels/stem.h"

enum { GROUP = 8 };

template <typename T> struct alignas(sizeof(T) * GROUP) group {
    T v[GROUP];
};

// The element of `few` behind a channel of pixel (n, i, j); zero where there is none.
template <typename T>
__device__ static inline T element(const plb_stem_params &p, int64_t n, int i, int j, int channel) {
    int k = channel % p.c, cell = channel / p.c;
    int row = p.block * i + cell / p.block - p.top;
    int column = p.block * j + cell % p.block - p.left;
    bool there = cell < p.block * p.block && row >= 0 && row < p.height && column >= 0 &&
                 column < p.width;
    if (!there) return (T)0;
    return ((const T *)p.from)[n * p.stride[0] + k * p.stride[1] + row * p.stride[2] +
                               column * p.stride[3]];
}

template <typename T> __device__ static void gather(const plb_stem_params &p) {
    const int groups = p.channels / GROUP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, all = p.count * groups;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < all; t += step) {
        int64_t pixel = t / groups, row = pixel / p.columns;
        int j = (int)(pixel % p.columns), i = (int)(row % p.rows);
        int first = (int)(t % groups) * GROUP;
        group<T> out;
#pragma unroll
        for (int c = 0; c < GROUP; c++) out.v[c] = element<T>(p, row / p.rows, i, j, first + c);
        ((group<T> *)p.to)[t] = out;
    }
}

// Back: `from` is `many`, `to` is `few`.
template <typename T> __device__ static void scatter(const plb_stem_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < p.count; t += step) {
        int64_t rest = t;
        int column = (int)(rest % p.width), row, k;
        rest /= p.width;
        row = (int)(rest % p.height);
        rest /= p.height;
        k = (int)(rest % p.c);
        int64_t n = rest / p.c;
        int i = (row + p.top) / p.block, a = (row + p.top) % p.block;
        int j = (column + p.left) / p.block, b = (column + p.left) % p.block;
        int64_t from = ((n * p.rows + i) * p.columns + j) * p.channels;
        from += (a * p.block + b) * p.c + k;
        ((T *)p.to)[n * p.stride[0] + k * p.stride[1] + row * p.stride[2] +
                    column * p.stride[3]] = ((const T *)p.from)[from];
    }
}

extern "C" __global__ void plb_stem_gather_2(const plb_stem_params p) { gather<uint16_t>(p); }
extern "C" __global__ void plb_stem_gather_4(const plb_stem_params p) { gather<uint32_t>(p); }
extern "C" __global__ void plb_stem_scatter_2(const plb_stem_params p) { scatter<uint16_t>(p); }
extern "C" __global__ void plb_stem_scatter_4(const plb_stem_params p) { scatter<uint32_t>(p); }
