// SPDX-License-Identifier: Apache-2.0
// Few channels to many: blocks of pixels become channels, and the rest of those is zero. A thread
// makes eight channels of a pixel, which it writes at once.
#include "engine/device/cuda/kernels/stem.h"

enum { GROUP = 8 };

template <typename T> struct alignas(sizeof(T) * GROUP) group {
    T v[GROUP];
};

// t /= by, and returns the remainder; with half the digits where those are enough.
__device__ static inline int over(int64_t &t, int by) {
    const int64_t whole = t >> 31 ? t / by : (int64_t)((uint32_t)t / (uint32_t)by);
    const int rest = (int)(t - whole * by);
    t = whole;
    return rest;
}

// Where a channel of `many` lies in its block of pixels.
struct place {
    int row, column, k;
    __device__ place(const plb_stem_params &p, int channel) {
        k = channel % p.c;
        row = channel / p.c;
        column = row % p.block;
        row /= p.block;
    }
    __device__ void next(const plb_stem_params &p) {
        if (++k < p.c) return;
        k = 0;
        if (++column < p.block) return;
        column = 0;
        row++;
    }
};

// The eight channels from `first` on of pixel (n, i, j); zero where there is none.
template <typename T>
__device__ static inline group<T> channels(const plb_stem_params &p, int64_t n, int i, int j,
                                           int first) {
    const T *image = (const T *)p.from + n * p.stride[0];
    const int top = p.block * i - p.top, left = p.block * j - p.left;
    group<T> out;
    place at(p, first);
#pragma unroll
    for (int c = 0; c < GROUP; c++, at.next(p)) {
        const int row = top + at.row, column = left + at.column;
        const bool there = at.row < p.block && row >= 0 && row < p.height && column >= 0 &&
                           column < p.width;
        out.v[c] = there ? image[at.k * p.stride[1] + row * p.stride[2] + column * p.stride[3]]
                         : (T)0;
    }
    return out;
}

template <typename T> __device__ static void gather(const plb_stem_params &p) {
    const int groups = p.channels / GROUP;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, all = p.count * groups;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < all; t += step) {
        int64_t n = t;
        const int first = over(n, groups) * GROUP;
        const int j = over(n, p.columns), i = over(n, p.rows);
        ((group<T> *)p.to)[t] = channels<T>(p, n, i, j, first);
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
