// SPDX-License-Identifier: Apache-2.0
// Mean pools, adaptive and global ones, and their gradients.
#include "engine/device/cuda/kernels/pool.cuh"

// What the sum of a window is divided by, along one axis: see plb_pool_divisor.
__device__ static int divisor_of(const plb_pool_params &p, int axis, int out) {
    int first = out * p.step[axis] - p.pad[axis], end = first + p.kernel[axis];
    const int limit = p.in[axis] + (p.count_include_pad ? p.pad_end[axis] : 0);
    if (end > limit) end = limit;
    if (first < 0 && !p.count_include_pad) first = 0;
    return end - first;
}

// Window `out` of an adaptive pool along an axis: [begin, end).
__device__ static span adaptive_window(int out, int in_extent, int out_extent) {
    span s;
    s.first = (int)((int64_t)out * in_extent / out_extent);
    s.end = (int)(((int64_t)(out + 1) * in_extent + out_extent - 1) / out_extent);
    return s;
}

// Pixels of x that window `out` covers, and the divisor along the axis.
template <bool Adaptive>
__device__ static span mean_window(const plb_pool_params &p, int axis, int out, int *divisor) {
    if (Adaptive) {
        const span s = adaptive_window(out, p.in[axis], p.out[axis]);
        *divisor = s.end - s.first;
        return s;
    }
    *divisor = divisor_of(p, axis, out);
    const taps t = taps_of(p, axis, out);
    return {t.start + t.first, t.start + t.end};
}

template <typename T, int W, bool Adaptive>
__device__ static void mean_forward(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const item it = item_of<W>(p, p.out, i);
        const T *x = (const T *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        int divisor[PLB_POOL_AXES];
        const span d = mean_window<Adaptive>(p, 0, it.at[0], &divisor[0]),
                   h = mean_window<Adaptive>(p, 1, it.at[1], &divisor[1]),
                   w = mean_window<Adaptive>(p, 2, it.at[2], &divisor[2]);
        A sum[W] = {};
        for (int a = d.first; a < d.end; a++) {
            for (int b = h.first; b < h.end; b++) {
                for (int c = w.first; c < w.end; c++) {
                    A value[W];
                    load_wide<T, W>(x + pixel_of(p.stride[0], a, b, c), value);
#pragma unroll
                    for (int k = 0; k < W; k++) sum[k] += value[k];
                }
            }
        }
        const A by = (A)(divisor[0] * divisor[1] * divisor[2]);
#pragma unroll
        for (int k = 0; k < W; k++) sum[k] /= by;
        store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[1], it.n, it.c) +
                               pixel_of(p.stride[1], it.at[0], it.at[1], it.at[2]),
                           sum);
    }
}

// Windows that cover position `at`: of an adaptive pool they are neighbours, and the one below
// floor(at out / in) may still reach it.
template <bool Adaptive>
__device__ static span mean_windows_over(const plb_pool_params &p, int axis, int at) {
    if (!Adaptive) return windows_over(p, axis, at);
    const int in = p.in[axis], out = p.out[axis];
    span s;
    s.first = (int)((int64_t)at * out / in);
    s.end = s.first + 1;
    while (s.first > 0 && adaptive_window(s.first - 1, in, out).end > at) s.first--;
    while (s.end < out && adaptive_window(s.end, in, out).first <= at) s.end++;
    return s;
}

// dx = sum of dy / divisor over the windows that cover the pixel.
template <typename T, int W, bool Adaptive>
__device__ static void mean_backward(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const item it = item_of<W>(p, p.in, i);
        const T *dy = (const T *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        const span d = mean_windows_over<Adaptive>(p, 0, it.at[0]),
                   h = mean_windows_over<Adaptive>(p, 1, it.at[1]),
                   w = mean_windows_over<Adaptive>(p, 2, it.at[2]);
        A sum[W] = {};
        for (int a = d.first; a < d.end; a++) {
            int of_a, of_b, of_c;
            mean_window<Adaptive>(p, 0, a, &of_a);
            for (int b = h.first; b < h.end; b++) {
                mean_window<Adaptive>(p, 1, b, &of_b);
                for (int c = w.first; c < w.end; c++) {
                    mean_window<Adaptive>(p, 2, c, &of_c);
                    const A share = (A)1 / (A)(of_a * of_b * of_c);
                    A value[W];
                    load_wide<T, W>(dy + pixel_of(p.stride[0], a, b, c), value);
#pragma unroll
                    for (int k = 0; k < W; k++) sum[k] += value[k] * share;
                }
            }
        }
        store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[1], it.n, it.c) +
                               pixel_of(p.stride[1], it.at[0], it.at[1], it.at[2]),
                           sum);
    }
}

// One window for a whole plane (global pooling): a block sums W channels of each of its columns of
// threads over all pixels. Channels last; blocks: x over channels, y over samples.
template <typename T, int W>
__device__ static void mean_global(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    __shared__ A sums[PLB_POOL_THREADS * W];
    const int pixels = p.in[0] * p.in[1] * p.in[2];
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x) * W;
    A sum[W] = {};
    if (channel < p.c) {
        const T *x = (const T *)at.in[0] + blockIdx.y * p.stride[0][0] + channel;
#pragma unroll 4
        for (int i = threadIdx.y; i < pixels; i += blockDim.y) {
            A value[W];
            load_wide<T, W>(x + (int64_t)i * p.c, value);
#pragma unroll
            for (int k = 0; k < W; k++) sum[k] += value[k];
        }
    }
#pragma unroll
    for (int k = 0; k < W; k++) sums[(threadIdx.y * blockDim.x + threadIdx.x) * W + k] = sum[k];
    __syncthreads();
    // One thread for each channel of the block, over its rows.
    const int slots = blockDim.x * W, threads = blockDim.x * blockDim.y;
    T *y = (T *)at.out[0] + blockIdx.y * p.stride[1][0];
    for (int slot = threadIdx.y * blockDim.x + threadIdx.x; slot < slots; slot += threads) {
        const int to = blockIdx.x * slots + slot;
        A total = 0;
#pragma unroll 8
        for (int row = 0; row < (int)blockDim.y; row++) total += sums[row * slots + slot];
        if (to < p.c) y[to] = narrow<T>(total / (A)pixels);
    }
}

// Back from one window for a whole plane, channels last: every pixel gets dy / pixels.
template <typename T, int W>
__device__ static void mean_spread(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const uint32_t vectors = p.c / W, pixels = p.in[0] * p.in[1] * p.in[2];
    const A share = (A)1 / (A)pixels;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const uint32_t row = (uint32_t)i / vectors, column = (uint32_t)i - row * vectors;
        A value[W];
        load_wide<T, W>((const T *)at.in[0] + (int64_t)(row / pixels) * p.c + column * W, value);
#pragma unroll
        for (int k = 0; k < W; k++) value[k] *= share;
        store_narrow<T, W>((T *)at.out[0] + i * W, value);
    }
}

#define PLB_POOL_MEAN(T, dtype)                                                                 \
    PLB_POOL_KERNEL(spread_pool_wide_##dtype, (mean_spread<T, width_of<T>::value>(at, p)))      \
    PLB_POOL_KERNEL(spread_pool_##dtype, (mean_spread<T, 1>(at, p)))                            \
    PLB_POOL_KERNEL(avg_pool_wide_##dtype, (mean_forward<T, width_of<T>::value, false>(at, p))) \
    PLB_POOL_KERNEL(avg_pool_##dtype, (mean_forward<T, 1, false>(at, p)))                       \
    PLB_POOL_KERNEL(avg_pool_grad_wide_##dtype,                                                 \
                    (mean_backward<T, width_of<T>::value, false>(at, p)))                       \
    PLB_POOL_KERNEL(avg_pool_grad_##dtype, (mean_backward<T, 1, false>(at, p)))                 \
    PLB_POOL_KERNEL(adaptive_pool_wide_##dtype,                                                 \
                    (mean_forward<T, width_of<T>::value, true>(at, p)))                         \
    PLB_POOL_KERNEL(adaptive_pool_##dtype, (mean_forward<T, 1, true>(at, p)))                   \
    PLB_POOL_KERNEL(adaptive_pool_grad_wide_##dtype,                                            \
                    (mean_backward<T, width_of<T>::value, true>(at, p)))                        \
    PLB_POOL_KERNEL(adaptive_pool_grad_##dtype, (mean_backward<T, 1, true>(at, p)))             \
    PLB_POOL_KERNEL(global_pool_wide_##dtype, (mean_global<T, width_of<T>::value>(at, p)))      \
    PLB_POOL_KERNEL(global_pool_##dtype, (mean_global<T, 1>(at, p)))
PLB_EACH_FLOAT(PLB_POOL_MEAN)
