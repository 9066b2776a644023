// SPDX-License-Identifier: Apache-2.0
// Layer and group normalisation: a block normalises one row (the last axes of x) or one group (some
// channels of one sample). It reads its elements three times, of which the second and third come
// from a cache: for the mean, for the variance about it, and to write y.
#include "engine/device/cuda/kernels/norm.h"

#include "engine/device/cuda/kernels/own.cuh"

// 1 / sqrt(variance + eps), all threads the same.
template <typename A> struct moments { A mean, inv_std; };

template <typename T, typename Offset>
__device__ static moments<wide<T>> moments_of(const T *x, int count, double eps, Offset offset) {
    typedef wide<T> A;
    A sum = 0, square = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += widen(x[offset(i)]);
    const A mean = block_sum(sum) / (A)count;
#pragma unroll 4
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const A d = widen(x[offset(i)]) - mean;
        square += d * d;
    }
    const double variance = (double)block_sum(square) / count;
    return {mean, (A)(1 / sqrt(variance + eps))};
}

template <typename T>
__device__ static void layer_norm(const plb_operands &at, const plb_norm_rows_params &p) {
    typedef wide<T> A;
    for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T *x = (const T *)at.in[0] + row * p.width;
        T *y = (T *)at.out[0] + row * p.width;
        const moments<A> m = moments_of(x, p.width, p.eps, [](int i) { return i; });
#pragma unroll 4
        for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
            A value = (widen(x[i]) - m.mean) * m.inv_std;
            if (at.in[1]) value *= (A)load_float(at.in[1], p.gamma_type, i);
            if (at.in[2]) value += (A)load_float(at.in[2], p.beta_type, i);
            y[i] = narrow<T>(value);
        }
    }
}

// Element i of a group of `channels` channels, in the order in which x lies in memory.
struct group_walk {
    int channels, pixels, channel_inner;
    __device__ int channel(int i) const { return channel_inner ? i % channels : i / pixels; }
    __device__ int pixel(int i) const { return channel_inner ? i / channels : i % pixels; }
};

template <typename T>
__device__ static void group_norm(const plb_operands &at, const plb_norm_params &p) {
    typedef wide<T> A;
    const group_walk walk = {p.c / p.groups, p.s, p.channel_inner};
    const int64_t *from = p.stride[0], *to = p.stride[1];
    for (int64_t row = blockIdx.x; row < (int64_t)p.n * p.groups; row += gridDim.x) {
        const int n = (int)(row / p.groups), first = (int)(row % p.groups) * walk.channels;
        const T *x = (const T *)at.in[0] + n * from[0] + first * from[1];
        T *y = (T *)at.out[0] + n * to[0] + first * to[1];
        const int count = walk.channels * walk.pixels;
        const moments<A> m = moments_of(x, count, p.eps, [&](int i) {
            return walk.channel(i) * from[1] + walk.pixel(i) * from[2];
        });
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            const int channel = walk.channel(i), pixel = walk.pixel(i);
            A value = (widen(x[channel * from[1] + pixel * from[2]]) - m.mean) * m.inv_std;
            if (at.in[1]) value *= (A)load_float(at.in[1], p.gamma_type, first + channel);
            if (at.in[2]) value += (A)load_float(at.in[2], p.beta_type, first + channel);
            y[channel * to[1] + pixel * to[2]] = narrow<T>(value);
        }
    }
}

#define PLB_ROW_NORM(T, dtype)                                                        \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_PLANE_THREADS)                         \
        plb_layer_norm_##dtype(const plb_operands at, const plb_norm_rows_params p) { \
        layer_norm<T>(at, p);                                                         \
    }                                                                                 \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_PLANE_THREADS)                         \
        plb_group_norm_##dtype(const plb_operands at, const plb_norm_params p) {      \
        group_norm<T>(at, p);                                                         \
    }
PLB_EACH_FLOAT(PLB_ROW_NORM)
