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

// Rows of at most 32 V vectors of 16 bytes: a warp has one in its registers, so it is read once.
// Blocks of 32 x 8 threads.
template <typename T, int V>
__device__ static void layer_norm_warps(const plb_operands &at, const plb_norm_rows_params &p) {
    typedef wide<T> A;
    enum { W = width_of<T>::value };
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    for (int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; row < p.rows; row += step) {
        const T *x = (const T *)at.in[0] + row * p.width;
        T *y = (T *)at.out[0] + row * p.width;
        A value[V][W] = {}, sum = 0, square = 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            const int i = (v * 32 + (int)threadIdx.x) * W;
            if (i < p.width) load_wide<T, W>(x + i, value[v]);
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
#pragma unroll
            for (int k = 0; k < W; k++) sum += value[v][k]; // zero past the end
        }
        const A mean = warp_sum(sum) / (A)p.width;
#pragma unroll
        for (int v = 0; v < V; v++) {
            if ((v * 32 + (int)threadIdx.x) * W >= p.width) continue;
#pragma unroll
            for (int k = 0; k < W; k++) {
                const A d = value[v][k] - mean;
                square += d * d;
            }
        }
        const A inv_std = (A)(1 / sqrt((double)warp_sum(square) / p.width + p.eps));
#pragma unroll
        for (int v = 0; v < V; v++) {
            const int i = (v * 32 + (int)threadIdx.x) * W;
            if (i >= p.width) continue;
            A gamma[W], beta[W];
            if (at.in[1]) load_vector<T, W>(at.in[1], p.gamma_type, i, gamma);
            if (at.in[2]) load_vector<T, W>(at.in[2], p.beta_type, i, beta);
#pragma unroll
            for (int k = 0; k < W; k++) {
                value[v][k] = (value[v][k] - mean) * inv_std;
                if (at.in[1]) value[v][k] *= gamma[k];
                if (at.in[2]) value[v][k] += beta[k];
            }
            store_narrow<T, W>(y + i, value[v]);
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

#define PLB_LAYER_NORM_WARPS(V, T, dtype)                                                        \
    PLB_GLOBAL void __launch_bounds__(256)                                                       \
        plb_layer_norm_warps##V##_##dtype(const plb_operands at, const plb_norm_rows_params p) { \
        begin();                                                                                 \
        layer_norm_warps<T, V>(at, p);                                                           \
    }
#define PLB_ROW_NORM(T, dtype)                                                        \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_PLANE_THREADS)                         \
        plb_layer_norm_##dtype(const plb_operands at, const plb_norm_rows_params p) { \
        begin();                                                                      \
        layer_norm<T>(at, p);                                                         \
    }                                                                                 \
    PLB_GLOBAL void __launch_bounds__(PLB_NORM_PLANE_THREADS)                         \
        plb_group_norm_##dtype(const plb_operands at, const plb_norm_params p) {      \
        begin();                                                                      \
        group_norm<T>(at, p);                                                         \
    }                                                                                 \
    PLB_LAYER_NORM_WARPS(1, T, dtype)                                                 \
    PLB_LAYER_NORM_WARPS(2, T, dtype)                                                 \
    PLB_LAYER_NORM_WARPS(4, T, dtype)                                                 \
    PLB_LAYER_NORM_WARPS(8, T, dtype)
PLB_EACH_FLOAT(PLB_ROW_NORM)
