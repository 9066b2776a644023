// SPDX-License-Identifier: Apache-2.0
// sgd and adam, one pass over weights, gradients and moments, in place where the plan says so. The
// order of operations is PyTorch's. The learning rate and the step are read on the device, so that
// a captured step follows them.
#include "engine/device/cuda/kernels/optimizer.h"

#include "engine/device/cuda/kernels/own.cuh"

// W elements from i on.
template <typename T, int W>
__device__ static void get(const void *from, int64_t i, wide<T> (&out)[W]) {
    load_wide<T, W>((const T *)from + i, out);
}
template <typename T, int W>
__device__ static void put(void *to, int64_t i, const wide<T> (&value)[W]) {
    store_narrow<T, W>((T *)to + i, value);
}

// What gradients are multiplied by; 0: nothing changes.
__device__ static double unscale_of(const plb_operands &at, const plb_optimizer_params &p, int k) {
    return at.in[k] ? load_float(at.in[k], p.scale_type, 0) : 1;
}

template <typename T, int W>
__device__ static void sgd(const plb_operands &at, const plb_optimizer_params &p, int block,
                           int blocks) {
    typedef wide<T> A;
    enum { WEIGHT, GRAD, MOMENT, LR, UNSCALE };
    const A lr = (A)load_float(at.in[LR], p.lr_type, 0), momentum = (A)p.momentum;
    const A decay = (A)p.weight_decay, share = (A)p.share, unscale = (A)unscale_of(at, p, UNSCALE);
    const int64_t step = (int64_t)blocks * blockDim.x * W;
    for (int64_t i = ((int64_t)block * blockDim.x + threadIdx.x) * W; i < p.count; i += step) {
        A w[W], g[W], m[W] = {};
        get<T, W>(at.in[WEIGHT], i, w);
        get<T, W>(at.in[GRAD], i, g);
        if (at.in[MOMENT]) get<T, W>(at.in[MOMENT], i, m);
#pragma unroll
        for (int k = 0; k < W && unscale != 0; k++) {
            A d = unscale * g[k] + decay * w[k];
            if (at.in[MOMENT]) {
                m[k] = momentum * m[k] + share * d;
                d = p.nesterov ? d + momentum * m[k] : m[k];
            }
            w[k] -= lr * d;
        }
        put<T, W>(at.out[0], i, w);
        if (at.in[MOMENT]) put<T, W>(at.out[1], i, m);
    }
}

template <typename T, int W>
__device__ static void adam(const plb_operands &at, const plb_optimizer_params &p, int block,
                            int blocks) {
    typedef wide<T> A;
    enum { WEIGHT, GRAD, MEAN, SQUARE, LR, STEP, UNSCALE };
    const double lr = load_float(at.in[LR], p.lr_type, 0);
    const double t = load_float(at.in[STEP], p.step_type, 0);
    const A unscale = (A)unscale_of(at, p, UNSCALE);
    const A keep = (A)(p.decoupled ? 1 - lr * p.weight_decay : 1);
    const A decay = (A)(p.decoupled ? 0 : p.weight_decay);
    const A size = (A)(lr / (1 - pow(p.beta1, t))), root = (A)sqrt(1 - pow(p.beta2, t));
    const A rest1 = (A)(1 - p.beta1), beta2 = (A)p.beta2, rest2 = (A)(1 - p.beta2), eps = (A)p.eps;
    const int64_t step = (int64_t)blocks * blockDim.x * W;
    for (int64_t i = ((int64_t)block * blockDim.x + threadIdx.x) * W; i < p.count; i += step) {
        A w[W], g[W], m[W], v[W];
        get<T, W>(at.in[WEIGHT], i, w);
        get<T, W>(at.in[GRAD], i, g);
        get<T, W>(at.in[MEAN], i, m);
        get<T, W>(at.in[SQUARE], i, v);
#pragma unroll
        for (int k = 0; k < W && unscale != 0; k++) {
            const A d = unscale * g[k] + decay * w[k];
            m[k] += rest1 * (d - m[k]);
            v[k] = beta2 * v[k] + rest2 * d * d;
            w[k] = w[k] * keep - size * (m[k] / (sqrt(v[k]) / root + eps));
        }
        put<T, W>(at.out[0], i, w);
        put<T, W>(at.out[1], i, m);
        put<T, W>(at.out[2], i, v);
    }
}

// Many variables at once: what a block updates is in a table.
template <typename T, bool Adam> __device__ static void many(const plb_optimizer_piece *pieces) {
    const plb_optimizer_piece &piece = pieces[blockIdx.x];
    const bool fits = piece.aligned && piece.p.count % width_of<T>::value == 0;
    if (Adam && fits) adam<T, width_of<T>::value>(piece.at, piece.p, 0, 1);
    if (Adam && !fits) adam<T, 1>(piece.at, piece.p, 0, 1);
    if (!Adam && fits) sgd<T, width_of<T>::value>(piece.at, piece.p, 0, 1);
    if (!Adam && !fits) sgd<T, 1>(piece.at, piece.p, 0, 1);
}

#define PLB_OPTIMIZER_KERNEL(name, function)                              \
    PLB_GLOBAL void __launch_bounds__(PLB_OPTIMIZER_THREADS)              \
        plb_##name(const plb_operands at, const plb_optimizer_params p) { \
        begin();                                                          \
        function(at, p, blockIdx.x, gridDim.x);                           \
    }
#define PLB_OPTIMIZER_MANY(name, T, adam)                    \
    PLB_GLOBAL void __launch_bounds__(PLB_OPTIMIZER_THREADS) \
        plb_##name(const plb_optimizer_piece *pieces) {      \
        begin();                                             \
        many<T, adam>(pieces);                               \
    }
#define PLB_OPTIMIZER(T, dtype)                                            \
    PLB_OPTIMIZER_KERNEL(sgd_wide_##dtype, (sgd<T, width_of<T>::value>))   \
    PLB_OPTIMIZER_KERNEL(sgd_##dtype, (sgd<T, 1>))                         \
    PLB_OPTIMIZER_KERNEL(adam_wide_##dtype, (adam<T, width_of<T>::value>)) \
    PLB_OPTIMIZER_KERNEL(adam_##dtype, (adam<T, 1>))                       \
    PLB_OPTIMIZER_MANY(sgd_many_##dtype, T, false)                         \
    PLB_OPTIMIZER_MANY(adam_many_##dtype, T, true)
PLB_EACH_FLOAT(PLB_OPTIMIZER)
