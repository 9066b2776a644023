// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients along one axis. A line along memory is read by a warp,
// or by a block where it is long; lines across memory have one thread each, next to its neighbours.
// Two passes: the numbers of the line (for softmax the greatest element and the sum of
// exponentials, kept up to date together), then the elements, which may replace what was read.
#include "engine/device/cuda/kernels/softmax.h"

#include "engine/device/cuda/kernels/own.cuh"

// The sum of e^(x - greatest) over a line, from parts of it.
template <typename A> struct exponentials {
    A greatest, sum;
    __device__ void add(A x) {
        if (x > greatest) {
            sum = sum * exp(greatest - x) + (x < (A)INFINITY ? (A)1 : (A)NAN); // inf - inf
            greatest = x;
        } else if (x != (A)-INFINITY || greatest != x) {
            sum += exp(x - greatest); // a NaN makes the sum one
        }
    }
    __device__ void join(const exponentials &o) {
        const A high = o.greatest > greatest ? o.greatest : greatest;
        if (high == (A)-INFINITY && sum == 0 && o.sum == 0) return;
        // e^0 even of equal infinities
        const A mine = greatest == high ? (A)1 : exp(greatest - high);
        const A other = o.greatest == high ? (A)1 : exp(o.greatest - high);
        sum = sum * mine + o.sum * other;
        greatest = high;
    }
};

// Each op: its numbers from the elements of a line, and an element from them.
template <typename T> struct softmax_op {
    typedef wide<T> A;
    typedef exponentials<A> state;
    __device__ static state none() { return {(A)-INFINITY, 0}; }
    __device__ static void add(state &s, A x, A) { s.add(x); }
    __device__ static A value(const state &s, A x, A) { return exp(x - s.greatest) / s.sum; }
};
template <typename T> struct log_softmax_op : softmax_op<T> {
    typedef wide<T> A;
    typedef exponentials<A> state;
    __device__ static A value(const state &s, A x, A) { return x - s.greatest - log(s.sum); }
};

template <typename A> struct total {
    A sum;
    __device__ void join(const total &o) { sum += o.sum; }
};
template <typename T> struct softmax_grad_op { // y (dy - sum of dy y)
    typedef wide<T> A;
    typedef total<A> state;
    __device__ static state none() { return {0}; }
    __device__ static void add(state &s, A dy, A y) { s.sum += dy * y; }
    __device__ static A value(const state &s, A dy, A y) { return y * (dy - s.sum); }
};
template <typename T> struct log_softmax_grad_op { // dy - e^y sum of dy
    typedef wide<T> A;
    typedef total<A> state;
    __device__ static state none() { return {0}; }
    __device__ static void add(state &s, A dy, A) { s.sum += dy; }
    __device__ static A value(const state &s, A dy, A y) { return dy - exp(y) * s.sum; }
};

// Joins the states of a warp, so that all its lanes have the same.
template <typename State> __device__ static State join_warp(State s) {
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        State o;
        const int words = sizeof(State) / 4;
#pragma unroll
        for (int i = 0; i < words; i++) {
            ((int *)&o)[i] = __shfl_xor_sync(~0u, ((int *)&s)[i], step);
        }
        // In one order for both partners: the bits must be the same in all lanes.
        if (threadIdx.x & step) {
            o.join(s);
            s = o;
        } else {
            s.join(o);
        }
    }
    return s;
}

template <typename T, typename Op>
__device__ static typename Op::state read_line(const T *x, const T *y, int64_t first, int lane,
                                               int lanes, int extent) {
    typedef wide<T> A;
    typename Op::state s = Op::none();
#pragma unroll 4
    for (int k = lane; k < extent; k += lanes) {
        Op::add(s, widen(x[first + k]), y ? widen(y[first + k]) : (A)0);
    }
    return s;
}

template <typename T, typename Op>
__device__ static void write_line(T *out, const T *x, const T *y, int64_t first, int lane,
                                  int lanes, int extent, const typename Op::state &s) {
    typedef wide<T> A;
#pragma unroll 4
    for (int k = lane; k < extent; k += lanes) {
        const A other = y ? widen(y[first + k]) : (A)0;
        out[first + k] = narrow<T>(Op::value(s, widen(x[first + k]), other));
    }
}

// A warp a line: blocks of 32 x 8 threads.
template <typename T, typename Op>
__device__ static void by_warps(const plb_operands &at, const plb_softmax_params &p) {
    const T *x = (const T *)at.in[0], *y = (const T *)at.in[1];
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; line < p.lines;
         line += step) {
        const int64_t first = line * p.extent;
        typename Op::state s = read_line<T, Op>(x, y, first, threadIdx.x, 32, p.extent);
        s = join_warp(s);
        write_line<T, Op>((T *)at.out[0], x, y, first, threadIdx.x, 32, p.extent, s);
    }
}

// Lines of at most 32 V vectors of 16 bytes: a warp has one in its registers, so it is read once
// and each exponential is computed once. Blocks of 32 x 8 threads.
enum line_kind { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRAD, LOG_SOFTMAX_GRAD };

template <typename A> __device__ static A warp_max(A value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        const A other = __shfl_xor_sync(~0u, value, step);
        value = other > value ? other : value;
    }
    return value;
}

// Softmax and its logarithm: x becomes y.
template <int Kind, typename A, int N> __device__ static void forward_line(A (&x)[N]) {
    A greatest = (A)-INFINITY, sum = 0, e[N];
#pragma unroll
    for (int i = 0; i < N; i++) greatest = x[i] > greatest ? x[i] : greatest;
    greatest = warp_max(greatest);
#pragma unroll
    for (int i = 0; i < N; i++) e[i] = exp(x[i] - greatest), sum += e[i];
    sum = warp_sum(sum);
    const A scale = Kind == SOFTMAX ? 1 / sum : log(sum);
#pragma unroll
    for (int i = 0; i < N; i++) {
        x[i] = Kind == SOFTMAX ? e[i] * scale : x[i] - greatest - scale;
    }
}

// Their gradients: dy becomes dx. What lies past the end of the line is zero.
template <int Kind, typename A, int N>
__device__ static void backward_line(A (&dy)[N], const A (&y)[N]) {
    A sum = 0;
#pragma unroll
    for (int i = 0; i < N; i++) sum += Kind == SOFTMAX_GRAD ? dy[i] * y[i] : dy[i];
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < N; i++) {
        dy[i] = Kind == SOFTMAX_GRAD ? y[i] * (dy[i] - sum) : dy[i] - exp(y[i]) * sum;
    }
}

template <typename T, int V>
__device__ static void get_line(const T *from, int extent, wide<T> past,
                                wide<T> (&out)[V * width_of<T>::value]) {
    enum { W = width_of<T>::value };
#pragma unroll
    for (int v = 0; v < V; v++) {
        const int i = (v * 32 + (int)threadIdx.x) * W;
        wide<T> part[W];
#pragma unroll
        for (int k = 0; k < W; k++) part[k] = past;
        if (i < extent) load_wide<T, W>(from + i, part);
#pragma unroll
        for (int k = 0; k < W; k++) out[v * W + k] = part[k];
    }
}

template <typename T, int Kind, int V>
__device__ static void by_registers(const plb_operands &at, const plb_softmax_params &p) {
    typedef wide<T> A;
    enum { W = width_of<T>::value };
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; line < p.lines;
         line += step) {
        const int64_t first = line * p.extent;
        A x[V * W];
        if constexpr (Kind == SOFTMAX || Kind == LOG_SOFTMAX) {
            get_line<T, V>((const T *)at.in[0] + first, p.extent, (A)-INFINITY, x);
            forward_line<Kind>(x);
        } else {
            A y[V * W];
            get_line<T, V>((const T *)at.in[0] + first, p.extent, (A)0, x);
            get_line<T, V>((const T *)at.in[1] + first, p.extent, (A)0, y);
            backward_line<Kind>(x, y);
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            const int i = (v * 32 + (int)threadIdx.x) * W;
            A part[W];
#pragma unroll
            for (int k = 0; k < W; k++) part[k] = x[v * W + k];
            if (i < p.extent) store_narrow<T, W>((T *)at.out[0] + first + i, part);
        }
    }
}

// A block a line.
template <typename T, typename Op>
__device__ static void by_blocks(const plb_operands &at, const plb_softmax_params &p) {
    typedef typename Op::state state;
    __shared__ state of_warp[PLB_SOFTMAX_THREADS / 32];
    const T *x = (const T *)at.in[0], *y = (const T *)at.in[1];
    for (int64_t line = blockIdx.x; line < p.lines; line += gridDim.x) {
        const int64_t first = line * p.extent;
        state s = read_line<T, Op>(x, y, first, threadIdx.x, PLB_SOFTMAX_THREADS, p.extent);
        s = join_warp(s);
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
        __syncthreads();
        s = of_warp[0];
        for (int i = 1; i < PLB_SOFTMAX_THREADS / 32; i++) s.join(of_warp[i]);
        write_line<T, Op>((T *)at.out[0], x, y, first, threadIdx.x, PLB_SOFTMAX_THREADS, p.extent,
                          s);
        __syncthreads();
    }
}

// A thread a line, which runs across memory.
template <typename T, typename Op>
__device__ static void by_threads(const plb_operands &at, const plb_softmax_params &p) {
    typedef wide<T> A;
    const T *x = (const T *)at.in[0], *y = (const T *)at.in[1];
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < p.lines;
         line += step) {
        const int64_t outer = line / p.inner, first = outer * p.extent * p.inner + line % p.inner;
        typename Op::state s = Op::none();
        for (int k = 0; k < p.extent; k++) {
            const int64_t i = first + (int64_t)k * p.inner;
            Op::add(s, widen(x[i]), y ? widen(y[i]) : (A)0);
        }
        for (int k = 0; k < p.extent; k++) {
            const int64_t i = first + (int64_t)k * p.inner;
            const A other = y ? widen(y[i]) : (A)0;
            ((T *)at.out[0])[i] = narrow<T>(Op::value(s, widen(x[i]), other));
        }
    }
}

#define PLB_SOFTMAX_KERNEL(name, function, T, Op, dtype)                          \
    PLB_GLOBAL void __launch_bounds__(PLB_SOFTMAX_THREADS)                        \
        plb_##name##_##dtype(const plb_operands at, const plb_softmax_params p) { \
        begin();                                                                  \
        function<T, Op<T>>(at, p);                                                \
    }
#define PLB_SOFTMAX_OP(name, T, dtype)                                \
    PLB_SOFTMAX_KERNEL(name##_warps, by_warps, T, name##_op, dtype)   \
    PLB_SOFTMAX_KERNEL(name##_blocks, by_blocks, T, name##_op, dtype) \
    PLB_SOFTMAX_KERNEL(name##_threads, by_threads, T, name##_op, dtype)
#define PLB_SOFTMAX(T, dtype)              \
    PLB_SOFTMAX_OP(softmax, T, dtype)      \
    PLB_SOFTMAX_OP(log_softmax, T, dtype)  \
    PLB_SOFTMAX_OP(softmax_grad, T, dtype) \
    PLB_SOFTMAX_OP(log_softmax_grad, T, dtype)
PLB_EACH_FLOAT(PLB_SOFTMAX)

#define PLB_SOFTMAX_REGISTERS(name, Kind, V, T, dtype)                                           \
    PLB_GLOBAL void __launch_bounds__(PLB_SOFTMAX_THREADS)                                       \
        plb_##name##_registers##V##_##dtype(const plb_operands at, const plb_softmax_params p) { \
        begin();                                                                                 \
        by_registers<T, Kind, V>(at, p);                                                         \
    }
#define PLB_SOFTMAX_WIDE(V, T, dtype)                              \
    PLB_SOFTMAX_REGISTERS(softmax, SOFTMAX, V, T, dtype)           \
    PLB_SOFTMAX_REGISTERS(log_softmax, LOG_SOFTMAX, V, T, dtype)   \
    PLB_SOFTMAX_REGISTERS(softmax_grad, SOFTMAX_GRAD, V, T, dtype) \
    PLB_SOFTMAX_REGISTERS(log_softmax_grad, LOG_SOFTMAX_GRAD, V, T, dtype)
#define PLB_SOFTMAX_WIDTHS(T, dtype) \
    PLB_SOFTMAX_WIDE(1, T, dtype)    \
    PLB_SOFTMAX_WIDE(2, T, dtype)    \
    PLB_SOFTMAX_WIDE(4, T, dtype)
PLB_EACH_FLOAT(PLB_SOFTMAX_WIDTHS)
