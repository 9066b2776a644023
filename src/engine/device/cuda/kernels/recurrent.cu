// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: a block keeps the states of a few sequences in shared memory and takes them
// through all steps, so that a layer is one launch. A warp makes a row of R times the states, in
// the same order every time; R stays in the device's cache.
#include "engine/device/cuda/kernels/recurrent.h"

#include "engine/device/cuda/kernels/own.cuh"

enum { TANH, RELU, GRU, GRU_AFTER, LSTM }; // plb_recurrent_kind; recurrent.c checks it
enum { X, R, H0, C0, RB };

template <typename A> __device__ static A logistic(A x) {
    return 1 / (1 + exp(-x));
}

template <typename A> struct states {
    A *h, *c;   // [N][H]; c of an LSTM
    A *reset;   // [N][H] reset times h, of a GRU
    A *product; // [N][G H]
};

// Rows first to last of R times N vectors, and their bias.
template <typename T, int N>
__device__ static void multiply(const plb_operands &at, const plb_recurrent_params &p,
                                const wide<T> *vector, wide<T> *product, int first, int last) {
    typedef wide<T> A;
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32, rows = p.gates * p.hidden;
    for (int row = first + threadIdx.x / 32; row < last; row += warps) {
        const T *weights = (const T *)at.in[R] + (int64_t)row * p.hidden;
        A sum[N] = {};
        for (int k = lane; k < p.hidden; k += 32) {
            const A w = widen(weights[k]);
#pragma unroll
            for (int n = 0; n < N; n++) sum[n] += w * vector[n * p.hidden + k];
        }
        const A bias = at.in[RB] ? widen(((const T *)at.in[RB])[row]) : (A)0;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const A all = warp_sum(sum[n]);
            if (lane == 0) product[n * rows + row] = all + bias;
        }
    }
    __syncthreads();
}

// The next state of unit j; x and g are its gates' inputs and products, one in `hidden`.
template <typename T>
__device__ static wide<T> next_of(const plb_recurrent_params &p, const T *x, const wide<T> *g,
                                  wide<T> h, wide<T> *c) {
    typedef wide<T> A;
    const int64_t H = p.hidden;
    if (p.kind == LSTM) {
        const A i = logistic(widen(x[0]) + g[0]), o = logistic(widen(x[H]) + g[H]);
        const A f = logistic(widen(x[2 * H]) + g[2 * H]), fresh = tanh(widen(x[3 * H]) + g[3 * H]);
        *c = f * *c + i * fresh;
        return o * tanh(*c);
    }
    if (p.kind == GRU || p.kind == GRU_AFTER) {
        const A z = logistic(widen(x[0]) + g[0]), r = logistic(widen(x[H]) + g[H]);
        const A n = tanh(widen(x[2 * H]) + (p.kind == GRU ? g[2 * H] : r * g[2 * H]));
        return (1 - z) * n + z * h;
    }
    const A y = widen(x[0]) + g[0];
    return p.kind == RELU ? (y < 0 ? (A)0 : y) : tanh(y);
}

template <typename T, int N>
__device__ static void run(const plb_operands &at, const plb_recurrent_params &p) {
    typedef wide<T> A;
    extern __shared__ double memory[];
    const int H = p.hidden, rows = p.gates * H, first = blockIdx.x * N;
    const int live = min(N, p.batch - first);
    states<A> s = {(A *)memory, (A *)memory + N * H, (A *)memory + N * H, (A *)memory + 2 * N * H};
    for (int i = threadIdx.x; i < N * H; i += blockDim.x) {
        const int64_t from = (int64_t)first * H + i;
        s.h[i] = i < live * H ? widen(((const T *)at.in[H0])[from]) : (A)0;
        s.c[i] = p.kind == LSTM && i < live * H ? widen(((const T *)at.in[C0])[from]) : (A)0;
    }
    __syncthreads();
    for (int step = 0; step < p.steps; step++) {
        const int t = p.reverse ? p.steps - 1 - step : step;
        const T *x = (const T *)at.in[X] + ((int64_t)t * p.batch + first) * rows;
        T *y = (T *)at.out[0] + ((int64_t)t * p.batch + first) * H;
        multiply<T, N>(at, p, s.h, s.product, 0, p.kind == GRU ? 2 * H : rows);
        if (p.kind == GRU) {
            for (int i = threadIdx.x; i < live * H; i += blockDim.x) {
                const int n = i / H, j = i - n * H + H;
                const A r = logistic(widen(x[(int64_t)n * rows + j]) + s.product[n * rows + j]);
                s.reset[i] = r * s.h[i];
            }
            __syncthreads();
            multiply<T, N>(at, p, s.reset, s.product, 2 * H, rows);
        }
        for (int i = threadIdx.x; i < live * H; i += blockDim.x) {
            const int n = i / H, j = i - n * H;
            s.h[i] =
                next_of<T>(p, x + (int64_t)n * rows + j, s.product + n * rows + j, s.h[i], &s.c[i]);
            if (at.out[0]) y[i] = narrow<T>(s.h[i]);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < live * H; i += blockDim.x) {
        const int64_t to = (int64_t)first * H + i;
        if (at.out[1]) ((T *)at.out[1])[to] = narrow<T>(s.h[i]);
        if (p.kind == LSTM && at.out[2]) ((T *)at.out[2])[to] = narrow<T>(s.c[i]);
    }
}

#define PLB_RECURRENT_KERNEL(name, T, N)                                  \
    PLB_GLOBAL void __launch_bounds__(PLB_RECURRENT_THREADS)              \
        plb_##name(const plb_operands at, const plb_recurrent_params p) { \
        begin();                                                          \
        run<T, N>(at, p);                                                 \
    }
#define PLB_RECURRENT(T, dtype)                       \
    PLB_RECURRENT_KERNEL(recurrent_one_##dtype, T, 1) \
    PLB_RECURRENT_KERNEL(recurrent_few_##dtype, T, PLB_RECURRENT_TOGETHER)
PLB_EACH_FLOAT(PLB_RECURRENT)
