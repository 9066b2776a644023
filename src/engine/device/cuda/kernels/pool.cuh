// SPDX-License-Identifier: Apache-2.0
// Pools and their gradients. A thread computes W neighbouring channels of one pixel: of y forward,
// of dx backward, where it gathers from the windows that cover its pixel. So nothing is added
// atomically, every element is written once, and the bits are the same in every run.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_POOL_CUH
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_POOL_CUH

#include "engine/device/cuda/kernels/own.cuh"
#include "engine/device/cuda/kernels/pool.h"

// Sample, first channel and pixel of the i-th item of [n, channels / W, extents].
struct item {
    int n, c, at[PLB_POOL_AXES];
};
template <int W>
__device__ static inline item item_of(const plb_pool_params &p, const int32_t *extent,
                                      int64_t number) {
    uint32_t i = (uint32_t)number;
    const uint32_t channels = p.c / W;
    item it;
    if (p.channel_inner) it.c = (int)(i % channels) * W, i /= channels;
#pragma unroll
    for (int axis = PLB_POOL_AXES - 1; axis >= 0; axis--) {
        it.at[axis] = (int)(i % (uint32_t)extent[axis]), i /= (uint32_t)extent[axis];
    }
    if (!p.channel_inner) it.c = (int)(i % channels) * W, i /= channels;
    it.n = (int)i;
    return it;
}

__device__ static inline int64_t offset_of(const int64_t *stride, int n, int c) {
    return n * stride[0] + c * stride[1];
}
__device__ static inline int64_t pixel_of(const int64_t *stride, int d, int h, int w) {
    return d * stride[2] + h * stride[3] + w * stride[4];
}

// The taps [first, end) of window `out` along an axis that lie inside of x, and where tap 0 lies.
struct taps {
    int first, end, start;
};
__device__ static inline taps taps_of(const plb_pool_params &p, int axis, int out) {
    taps t;
    t.start = out * p.step[axis] - p.pad[axis];
    const int d = p.dilation[axis];
    t.first = t.start < 0 ? (-t.start + d - 1) / d : 0;
    const int past = (p.in[axis] - t.start + d - 1) / d;
    t.end = past < p.kernel[axis] ? past : p.kernel[axis];
    return t;
}

// Windows [first, end) along an axis that may cover position `at`.
struct span {
    int first, end;
};
__device__ static inline span windows_over(const plb_pool_params &p, int axis, int at) {
    const int reach = (p.kernel[axis] - 1) * p.dilation[axis], from = at + p.pad[axis];
    span s;
    s.first = from > reach ? (from - reach + p.step[axis] - 1) / p.step[axis] : 0;
    s.end = from / p.step[axis] + 1;
    if (s.end > p.out[axis]) s.end = p.out[axis];
    return s;
}

// Positions of W channels, 16 bytes at a time: that is what their memory is aligned to.
template <int W> struct places {
    enum { each = W < 4 ? W : 4 };
};
template <int W> __device__ static inline void load_places(const int *from, int (&out)[W]) {
    enum { EACH = places<W>::each };
#pragma unroll
    for (int k = 0; k < W; k += EACH) {
        const pack<int, EACH> part = *(const pack<int, EACH> *)(from + k);
#pragma unroll
        for (int j = 0; j < EACH; j++) out[k + j] = part.v[j];
    }
}
template <int W> __device__ static inline void store_places(int *to, const int (&place)[W]) {
    enum { EACH = places<W>::each };
#pragma unroll
    for (int k = 0; k < W; k += EACH) {
        pack<int, EACH> part;
#pragma unroll
        for (int j = 0; j < EACH; j++) part.v[j] = place[k + j];
        *(pack<int, EACH> *)(to + k) = part;
    }
}

#define PLB_POOL_KERNEL(name, body)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_POOL_THREADS)              \
        plb_##name(const plb_operands at, const plb_pool_params p) { \
        begin();                                                     \
        body;                                                        \
    }

#endif
