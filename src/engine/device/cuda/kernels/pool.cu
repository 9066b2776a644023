// SPDX-License-Identifier: Apache-2.0
// Pools and their gradients. A thread computes W neighbouring channels of one pixel: of y forward,
// of dx backward, where it gathers from the windows that cover its pixel. So nothing is added
// atomically, every element is written once, and the bits are the same in every run.
#include "engine/device/cuda/kernels/pool.h"

#include "engine/device/cuda/kernels/own.cuh"

// Sample, first channel and pixel of the i-th item of [n, channels / W, extents].
struct item {
    int n, c, at[PLB_POOL_AXES];
};
template <int W>
__device__ static item item_of(const plb_pool_params &p, const int32_t *extent, int64_t number) {
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

__device__ static int64_t offset_of(const int64_t *stride, int n, int c) {
    return n * stride[0] + c * stride[1];
}
__device__ static int64_t pixel_of(const int64_t *stride, int d, int h, int w) {
    return d * stride[2] + h * stride[3] + w * stride[4];
}

// The taps [first, end) of window `out` along an axis that lie inside of x, and where tap 0 lies.
struct taps {
    int first, end, start;
};
__device__ static taps taps_of(const plb_pool_params &p, int axis, int out) {
    taps t;
    t.start = out * p.step[axis] - p.pad[axis];
    const int d = p.dilation[axis];
    t.first = t.start < 0 ? (-t.start + d - 1) / d : 0;
    const int past = (p.in[axis] - t.start + d - 1) / d;
    t.end = past < p.kernel[axis] ? past : p.kernel[axis];
    return t;
}

// ---------------------------------------------------------------------------- maximum
// Positions of W channels, 16 bytes at a time: that is what their memory is aligned to.
template <int W> struct places {
    enum { each = W < 4 ? W : 4 };
};
template <int W> __device__ static void load_places(const int *from, int (&out)[W]) {
    enum { EACH = places<W>::each };
#pragma unroll
    for (int k = 0; k < W; k += EACH) {
        const pack<int, EACH> part = *(const pack<int, EACH> *)(from + k);
#pragma unroll
        for (int j = 0; j < EACH; j++) out[k + j] = part.v[j];
    }
}
template <int W> __device__ static void store_places(int *to, const int (&place)[W]) {
    enum { EACH = places<W>::each };
#pragma unroll
    for (int k = 0; k < W; k += EACH) {
        pack<int, EACH> part;
#pragma unroll
        for (int j = 0; j < EACH; j++) part.v[j] = place[k + j];
        *(pack<int, EACH> *)(to + k) = part;
    }
}

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

// Windows [first, end) along an axis that may cover position `at`.
struct span {
    int first, end;
};
__device__ static span windows_over(const plb_pool_params &p, int axis, int at) {
    const int reach = (p.kernel[axis] - 1) * p.dilation[axis], from = at + p.pad[axis];
    span s;
    s.first = from > reach ? (from - reach + p.step[axis] - 1) / p.step[axis] : 0;
    s.end = from / p.step[axis] + 1;
    if (s.end > p.out[axis]) s.end = p.out[axis];
    return s;
}

// The tap of window `out` that lies at `at`; -1: none.
__device__ static int tap_at(const plb_pool_params &p, int axis, int out, int at) {
    const int from = at - (out * p.step[axis] - p.pad[axis]);
    if (p.dilation[axis] == 1) return from;
    return from % p.dilation[axis] ? -1 : from / p.dilation[axis];
}

// Whether position `at`, tap `tap`, is the first of its window inside of x.
__device__ static bool is_first(const plb_pool_params &p, int axis, int tap, int at) {
    return tap == 0 || at - p.dilation[axis] < 0;
}

__device__ static bool inside(const plb_pool_params &p, const item &window, int place) {
    int position[PLB_POOL_AXES];
    for (int axis = PLB_POOL_AXES - 1; axis >= 0; axis--) {
        position[axis] = place % p.in[axis], place /= p.in[axis];
    }
    for (int axis = 0; axis < PLB_POOL_AXES; axis++) {
        const int tap = tap_at(p, axis, window.at[axis], position[axis]);
        const int start = window.at[axis] * p.step[axis] - p.pad[axis];
        if (position[axis] < start || tap < 0 || tap >= p.kernel[axis]) return false;
    }
    return true;
}

// The index operand is only asked for at windows that cover the pixel, as max_pool makes it. One
// of other making may point anywhere. So it is counted how many positions there are (each by the
// thread at the first pixel of its window) and how many of them met their pixel; where the balance
// is not zero max_strays adds what is missing.
template <typename T, int W>
__device__ static void max_backward(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int plane = p.in[0] * p.in[1] * p.in[2];
    int balance = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count / W; i += step) {
        const item it = item_of<W>(p, p.in, i);
        const int own = (it.at[0] * p.in[1] + it.at[1]) * p.in[2] + it.at[2];
        const span d = windows_over(p, 0, it.at[0]), h = windows_over(p, 1, it.at[1]),
                   w = windows_over(p, 2, it.at[2]);
        const int *index = (const int *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        const T *dy = (const T *)at.in[1] + offset_of(p.stride[1], it.n, it.c);
        A sum[W] = {};
        for (int a = d.first; a < d.end; a++) {
            const int ta = tap_at(p, 0, a, it.at[0]);
            for (int b = h.first; b < h.end; b++) {
                const int tb = tap_at(p, 1, b, it.at[1]);
                for (int c = w.first; c < w.end; c++) {
                    const int tc = tap_at(p, 2, c, it.at[2]);
                    if (ta < 0 || tb < 0 || tc < 0) continue;
                    const bool checks = is_first(p, 0, ta, it.at[0]) &&
                                        is_first(p, 1, tb, it.at[1]) &&
                                        is_first(p, 2, tc, it.at[2]);
                    int place[W];
                    load_places<W>(index + pixel_of(p.stride[0], a, b, c), place);
                    A value[W];
                    load_wide<T, W>(dy + pixel_of(p.stride[1], a, b, c), value);
#pragma unroll
                    for (int k = 0; k < W; k++) {
                        const bool met = place[k] == own;
                        sum[k] += met ? value[k] : (A)0;
                        balance += (checks && (unsigned)place[k] < (unsigned)plane) - met;
                    }
                }
            }
        }
        store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[2], it.n, it.c) +
                               pixel_of(p.stride[2], it.at[0], it.at[1], it.at[2]),
                           sum);
    }
    balance = __reduce_add_sync(~0u, balance);
    if (balance && threadIdx.x % 32 == 0) atomicAdd((int *)at.workspace, balance);
}

// The same for windows of 3x3 pixels, two apart, padded by one: a thread has 2x2 pixels, which four
// windows cover, so that it reads each of those once and all threads do the same.
template <typename T, int W>
__device__ static void max_backward_3x3(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int32_t tiles[PLB_POOL_AXES] = {1, p.out[1], p.out[2]};
    const int64_t count = (int64_t)p.n * (p.c / W) * tiles[1] * tiles[2];
    const int plane = p.in[1] * p.in[2];
    int balance = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const item it = item_of<W>(p, tiles, i);
        const int *index = (const int *)at.in[0] + offset_of(p.stride[0], it.n, it.c);
        const T *dy = (const T *)at.in[1] + offset_of(p.stride[1], it.n, it.c);
        const int first = it.at[1] * 2 * p.in[2] + it.at[2] * 2; // position of the first pixel
        A sum[4][W] = {};
#pragma unroll
        for (int window = 0; window < 4; window++) {
            const int down = window / 2, right = window % 2;
            const int h = it.at[1] + down, w = it.at[2] + right;
            if (h >= p.out[1] || w >= p.out[2]) continue;
            int place[W];
            A value[W];
            load_places<W>(index + pixel_of(p.stride[0], 0, h, w), place);
            load_wide<T, W>(dy + pixel_of(p.stride[1], 0, h, w), value);
#pragma unroll
            for (int k = 0; k < W; k++) {
                if (window == 0) balance += (unsigned)place[k] < (unsigned)plane;
                    // The window below covers the lower pixels, that to the right the right ones.
#pragma unroll
                for (int pixel = 0; pixel < 4; pixel++) {
                    const int row = pixel / 2, column = pixel % 2;
                    if (row < down || column < right) continue;
                    const bool exists =
                        it.at[1] * 2 + row < p.in[1] && it.at[2] * 2 + column < p.in[2];
                    const bool met = exists && place[k] == first + row * p.in[2] + column;
                    sum[pixel][k] += met ? value[k] : (A)0;
                    balance -= met;
                }
            }
        }
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++) {
            const int h = it.at[1] * 2 + pixel / 2, w = it.at[2] * 2 + pixel % 2;
            if (h >= p.in[1] || w >= p.in[2]) continue;
            store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[2], it.n, it.c) +
                                   pixel_of(p.stride[2], 0, h, w),
                               sum[pixel]);
        }
    }
    balance = __reduce_add_sync(~0u, balance);
    if (balance && threadIdx.x % 32 == 0) atomicAdd((int *)at.workspace, balance);
}

// The same for windows of 2x2 pixels that lie side by side and leave no pixel out: a thread has one
// window, reads it once, and writes its pixels.
template <typename T, int W>
__device__ static void max_backward_2x2(const plb_operands &at, const plb_pool_params &p) {
    typedef wide<T> A;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int64_t count = (int64_t)p.n * (p.c / W) * p.out[1] * p.out[2];
    const int plane = p.in[1] * p.in[2];
    int balance = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const item it = item_of<W>(p, p.out, i);
        int place[W];
        A value[W];
        load_places<W>((const int *)at.in[0] + offset_of(p.stride[0], it.n, it.c) +
                           pixel_of(p.stride[0], 0, it.at[1], it.at[2]),
                       place);
        load_wide<T, W>((const T *)at.in[1] + offset_of(p.stride[1], it.n, it.c) +
                            pixel_of(p.stride[1], 0, it.at[1], it.at[2]),
                        value);
#pragma unroll
        for (int k = 0; k < W; k++) balance += (unsigned)place[k] < (unsigned)plane;
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++) {
            const int h = it.at[1] * 2 + pixel / 2, w = it.at[2] * 2 + pixel % 2;
            A sum[W];
#pragma unroll
            for (int k = 0; k < W; k++) {
                const bool met = place[k] == h * p.in[2] + w;
                sum[k] = met ? value[k] : (A)0;
                balance -= met;
            }
            store_narrow<T, W>((T *)at.out[0] + offset_of(p.stride[2], it.n, it.c) +
                                   pixel_of(p.stride[2], 0, h, w),
                               sum);
        }
    }
    balance = __reduce_add_sync(~0u, balance);
    if (balance && threadIdx.x % 32 == 0) atomicAdd((int *)at.workspace, balance);
}

// Adds dy where the index of a plane points outside of its window, in order.
template <typename T>
__device__ static void add_strays(const plb_operands &at, const plb_pool_params &p,
                                  int64_t number) {
    const int plane = p.in[0] * p.in[1] * p.in[2], windows = p.out[0] * p.out[1] * p.out[2];
    item it = {(int)(number / p.c), (int)(number % p.c), {0, 0, 0}};
    const int64_t from = offset_of(p.stride[0], it.n, it.c);
    for (int window = 0; window < windows; window++) {
        it.at[2] = window % p.out[2];
        it.at[1] = window / p.out[2] % p.out[1];
        it.at[0] = window / p.out[2] / p.out[1];
        const int place =
            ((const int *)at.in[0])[from + pixel_of(p.stride[0], it.at[0], it.at[1], it.at[2])];
        if ((unsigned)place >= (unsigned)plane || inside(p, it, place)) continue;
        const int64_t to = offset_of(p.stride[2], it.n, it.c) +
                           pixel_of(p.stride[2], place / p.in[2] / p.in[1],
                                    place / p.in[2] % p.in[1], place % p.in[2]);
        const T dy = ((const T *)at.in[1])[offset_of(p.stride[1], it.n, it.c) +
                                           pixel_of(p.stride[1], it.at[0], it.at[1], it.at[2])];
        T *dx = (T *)at.out[0] + to;
        *dx = narrow<T>(widen(*dx) + widen(dy));
    }
}

// Where the balance is not zero: one thread a plane.
template <typename T>
__device__ static void max_strays(const plb_operands &at, const plb_pool_params &p) {
    if (*(const volatile int *)at.workspace == 0) return;
    const int64_t step = (int64_t)gridDim.x * blockDim.x, planes = (int64_t)p.n * p.c;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < planes; i += step) {
        add_strays<T>(at, p, i);
    }
}

// As max_backward_2x2, for small planes: a block has whole ones, so that it knows by itself whether
// an index of theirs pointed elsewhere, and one launch is all.
template <typename T>
__device__ static void max_backward_planes(const plb_operands &at, const plb_pool_params &p) {
    const int windows = p.out[1] * p.out[2], plane = p.in[1] * p.in[2];
    const int64_t planes = (int64_t)p.n * p.c, each = PLB_POOL_PLANES(windows);
    const int64_t first = blockIdx.x * each;
    const int mine = (int)(planes - first < each ? planes - first : each);
    bool stray = false;
    for (int i = threadIdx.x; i < mine * windows; i += blockDim.x) {
        const int64_t number = first + i / windows;
        const int n = (int)(number / p.c), c = (int)(number % p.c);
        const int h = i % windows / p.out[2], w = i % windows % p.out[2];
        const int place =
            ((const int *)at.in[0])[offset_of(p.stride[0], n, c) + pixel_of(p.stride[0], 0, h, w)];
        const T dy =
            ((const T *)at.in[1])[offset_of(p.stride[1], n, c) + pixel_of(p.stride[1], 0, h, w)];
        T *dx = (T *)at.out[0] + offset_of(p.stride[2], n, c);
        bool met = false;
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++) {
            const int row = 2 * h + pixel / 2, column = 2 * w + pixel % 2;
            const bool here = place == row * p.in[2] + column;
            dx[pixel_of(p.stride[2], 0, row, column)] = here ? dy : narrow<T>((wide<T>)0);
            met |= here;
        }
        stray |= (unsigned)place < (unsigned)plane && !met;
    }
    if (!__syncthreads_or(stray)) return;
    for (int i = threadIdx.x; i < mine; i += blockDim.x) add_strays<T>(at, p, first + i);
}

PLB_GLOBAL void plb_pool_clear_flag(const plb_operands at, const plb_pool_params p) {
    begin();
    *(int *)at.workspace = 0;
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

// ---------------------------------------------------------------------------- mean
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

#define PLB_POOL_KERNEL(name, body)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_POOL_THREADS)              \
        plb_##name(const plb_operands at, const plb_pool_params p) { \
        begin();                                                     \
        body;                                                        \
    }
#define PLB_POOL(T, dtype)                                                                       \
    PLB_POOL_KERNEL(max_pool_wide_##dtype, (max_forward<T, width_of<T>::value>(at, p)))          \
    PLB_POOL_KERNEL(max_pool_##dtype, (max_forward<T, 1>(at, p)))                                \
    PLB_POOL_KERNEL(max_pool_2x2_##dtype, (max_square<T, width_of<T>::value, 2>(at, p)))         \
    PLB_POOL_KERNEL(max_pool_2x2_one_##dtype, (max_square<T, 1, 2>(at, p)))                      \
    PLB_POOL_KERNEL(max_pool_3x3_##dtype, (max_square<T, width_of<T>::value, 3>(at, p)))         \
    PLB_POOL_KERNEL(spread_pool_wide_##dtype, (mean_spread<T, width_of<T>::value>(at, p)))       \
    PLB_POOL_KERNEL(spread_pool_##dtype, (mean_spread<T, 1>(at, p)))                             \
    PLB_POOL_KERNEL(max_pool_grad_wide_##dtype, (max_backward<T, width_of<T>::value>(at, p)))    \
    PLB_POOL_KERNEL(max_pool_grad_##dtype, (max_backward<T, 1>(at, p)))                          \
    PLB_POOL_KERNEL(max_pool_grad_3x3_##dtype, (max_backward_3x3<T, width_of<T>::value>(at, p))) \
    PLB_POOL_KERNEL(max_pool_grad_2x2_wide_##dtype,                                              \
                    (max_backward_2x2<T, width_of<T>::value>(at, p)))                            \
    PLB_POOL_KERNEL(max_pool_grad_2x2_##dtype, (max_backward_2x2<T, 1>(at, p)))                  \
    PLB_POOL_KERNEL(max_pool_grad_planes_##dtype, max_backward_planes<T>(at, p))                 \
    PLB_POOL_KERNEL(max_pool_strays_##dtype, max_strays<T>(at, p))                               \
    PLB_POOL_KERNEL(max_pool_take_##dtype, max_take<T>(at, p))                                   \
    PLB_POOL_KERNEL(avg_pool_wide_##dtype, (mean_forward<T, width_of<T>::value, false>(at, p)))  \
    PLB_POOL_KERNEL(avg_pool_##dtype, (mean_forward<T, 1, false>(at, p)))                        \
    PLB_POOL_KERNEL(avg_pool_grad_wide_##dtype,                                                  \
                    (mean_backward<T, width_of<T>::value, false>(at, p)))                        \
    PLB_POOL_KERNEL(avg_pool_grad_##dtype, (mean_backward<T, 1, false>(at, p)))                  \
    PLB_POOL_KERNEL(adaptive_pool_wide_##dtype,                                                  \
                    (mean_forward<T, width_of<T>::value, true>(at, p)))                          \
    PLB_POOL_KERNEL(adaptive_pool_##dtype, (mean_forward<T, 1, true>(at, p)))                    \
    PLB_POOL_KERNEL(adaptive_pool_grad_wide_##dtype,                                             \
                    (mean_backward<T, width_of<T>::value, true>(at, p)))                         \
    PLB_POOL_KERNEL(adaptive_pool_grad_##dtype, (mean_backward<T, 1, true>(at, p)))              \
    PLB_POOL_KERNEL(global_pool_wide_##dtype, (mean_global<T, width_of<T>::value>(at, p)))       \
    PLB_POOL_KERNEL(global_pool_##dtype, (mean_global<T, 1>(at, p)))
PLB_EACH_FLOAT(PLB_POOL)
