// SPDX-License-Identifier: Apache-2.0
// Maximum pools, and what their positions name.
#include "engine/device/cuda/kernels/pool.cuh"

template <typename A> __device__ static bool beats(A value, A best) {
    return value > best || (value != value && best == best);
}

template <typename T, int W>
__device__ static void max_forward(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const item it = item_of<W>(p, p.out, i);
        const taps d = taps_of(p, 0, it.at[0]), h = taps_of(p, 1, it.at[1]),
                   w = taps_of(p, 2, it.at[2]);
        const T *x = (const T *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        A best[W];
        int place[W];
#pragma unroll
        for (int k = 0; k < W; k++) best[k] = (A)-INFINITY, place[k] = -1;
        for (int a = d.first; a < d.end; a++) {
            const int z = d.start + a * p.dilation[0];
            for (int b = h.first; b < h.end; b++) {
                const int y = h.start + b * p.dilation[1];
                for (int c = w.first; c < w.end; c++) {
                    const int column = w.start + c * p.dilation[2];
                    const int position = (z * p.in[1] + y) * p.in[2] + column;
                    A value[W];
                    load_wide<T, W>(x + pixel_of(p.stride[0], z, y, column), value);
#pragma unroll
                    for (int k = 0; k < W; k++) {
                        if (!beats(value[k], best[k]) && place[k] >= 0) continue;
                        best[k] = value[k], place[k] = position;
                    }
                }
            }
        }
        const int64_t pixel = pixel_of(p.stride[1], it.at[0], it.at[1], it.at[2]);
        if (at.out[0]) {
            store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[1], it.n, it.c) + pixel, best);
        }
        if (!at.out[1]) continue;
        int *index = (int *)at.out[1] + offset_of(p.stride[2], it.n, it.c) +
                     pixel_of(p.stride[2], it.at[0], it.at[1], it.at[2]);
        store_places<W>(index, place);
    }
}

// Square windows of K pixels without dilation, unrolled: all loads of a window are under way at
// once.
template <typename T, int W, int K>
__device__ static void max_square(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const item it = item_of<W>(p, p.out, i);
        const T *x = (const T *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        const int row = it.at[1] * p.step[1] - p.pad[1], column = it.at[2] * p.step[2] - p.pad[2];
        pack<T, W> value[K * K];
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            const int h = row + tap / K, w = column + tap % K;
            const bool inside = (unsigned)h < (unsigned)p.in[1] && (unsigned)w < (unsigned)p.in[2];
            if (inside) value[tap] = *(const pack<T, W> *)(x + pixel_of(p.stride[0], 0, h, w));
        }
        A best[W];
        int place[W];
        const int first = (row < 0 ? -row : 0) * K + (column < 0 ? -column : 0);
#pragma unroll
        for (int k = 0; k < W; k++) best[k] = (A)-INFINITY, place[k] = first;
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            const int h = row + tap / K, w = column + tap % K;
            if ((unsigned)h >= (unsigned)p.in[1] || (unsigned)w >= (unsigned)p.in[2]) continue;
#pragma unroll
            for (int k = 0; k < W; k++) {
                const A v = widen(value[tap].v[k]);
                const bool wins = !(v <= best[k]) && best[k] == best[k]; // a NaN too, and for good
                best[k] = wins ? v : best[k];
                place[k] = wins ? tap : place[k];
            }
        }
        const int64_t pixel = pixel_of(p.stride[1], 0, it.at[1], it.at[2]);
        if (at.out[0]) {
            store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[1], it.n, it.c) + pixel, best);
        }
        if (!at.out[1]) continue;
#pragma unroll
        for (int k = 0; k < W; k++) {
            place[k] = (row + place[k] / K) * p.in[2] + column + place[k] % K;
        }
        store_places<W>((int *)at.out[1] + offset_of(p.stride[2], it.n, it.c) +
                            pixel_of(p.stride[2], 0, it.at[1], it.at[2]),
                        place);
    }
}

// y[out] = x[index[out]], of each plane; 0 where the index is outside of it.
template <typename T>
__device__ static void max_take(const plb_operands &at, const plb_pool_params &p) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const unsigned plane = (unsigned)(p.in[0] * p.in[1] * p.in[2]);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
        const item it = item_of<1>(p, p.out, i);
        const int place =
            ((const int *)at.in[0])[offset_of(p.stride[0], it.n, it.c) +
                                    pixel_of(p.stride[0], it.at[0], it.at[1], it.at[2])];
        T value = narrow<T>((wide<T>)0);
        if ((unsigned)place < plane) {
            value = ((const T *)at.in[1])[offset_of(p.stride[1], it.n, it.c) +
                                          pixel_of(p.stride[1], place / p.in[2] / p.in[1],
                                                   place / p.in[2] % p.in[1], place % p.in[2])];
        }
        ((T *)at.out[0])[offset_of(p.stride[2], it.n, it.c) +
                         pixel_of(p.stride[2], it.at[0], it.at[1], it.at[2])] = value;
    }
}

#define PLB_POOL_MAX(T, dtype)                                                           \
    PLB_POOL_KERNEL(max_pool_wide_##dtype, (max_forward<T, width_of<T>::value>(at, p)))  \
    PLB_POOL_KERNEL(max_pool_##dtype, (max_forward<T, 1>(at, p)))                        \
    PLB_POOL_KERNEL(max_pool_2x2_##dtype, (max_square<T, width_of<T>::value, 2>(at, p))) \
    PLB_POOL_KERNEL(max_pool_2x2_one_##dtype, (max_square<T, 1, 2>(at, p)))              \
    PLB_POOL_KERNEL(max_pool_3x3_##dtype, (max_square<T, width_of<T>::value, 3>(at, p))) \
    PLB_POOL_KERNEL(max_pool_take_##dtype, max_take<T>(at, p))
PLB_EACH_FLOAT(PLB_POOL_MAX)
