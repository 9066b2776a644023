// SPDX-License-Identifier: Apache-2.0
// Gradients of maximum pools: a pixel gathers from the windows whose positions name it.
#include "engine/device/cuda/kernels/pool.cuh"

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

#define PLB_POOL_MAX_GRAD(T, dtype)                                                              \
    PLB_POOL_KERNEL(max_pool_grad_wide_##dtype, (max_backward<T, width_of<T>::value>(at, p)))    \
    PLB_POOL_KERNEL(max_pool_grad_##dtype, (max_backward<T, 1>(at, p)))                          \
    PLB_POOL_KERNEL(max_pool_grad_3x3_##dtype, (max_backward_3x3<T, width_of<T>::value>(at, p))) \
    PLB_POOL_KERNEL(max_pool_grad_2x2_wide_##dtype,                                              \
                    (max_backward_2x2<T, width_of<T>::value>(at, p)))                            \
    PLB_POOL_KERNEL(max_pool_grad_2x2_##dtype, (max_backward_2x2<T, 1>(at, p)))                  \
    PLB_POOL_KERNEL(max_pool_grad_planes_##dtype, max_backward_planes<T>(at, p))                 \
    PLB_POOL_KERNEL(max_pool_strays_##dtype, max_strays<T>(at, p))
PLB_EACH_FLOAT(PLB_POOL_MAX_GRAD)
