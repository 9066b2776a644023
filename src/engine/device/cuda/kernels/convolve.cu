// SPDX-License-Identifier: Apache-2.0
// Convolutions and products as they are defined, one thread an element, for what no library takes;
// and the epilogue of those that a library computes bare.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "engine/device/cuda/kernels/convolve.h"

template <typename T> struct sum_of { typedef float type; };
template <> struct sum_of<double> { typedef double type; };

__device__ static inline float load(const float *p, int64_t i) { return p[i]; }
__device__ static inline double load(const double *p, int64_t i) { return p[i]; }
__device__ static inline float load(const __half *p, int64_t i) { return __half2float(p[i]); }
__device__ static inline float load(const __nv_bfloat16 *p, int64_t i) {
    return __bfloat162float(p[i]);
}
__device__ static inline void store(float *p, int64_t i, float v) { p[i] = v; }
__device__ static inline void store(double *p, int64_t i, double v) { p[i] = v; }
__device__ static inline void store(__half *p, int64_t i, float v) { p[i] = __float2half_rn(v); }
__device__ static inline void store(__nv_bfloat16 *p, int64_t i, float v) {
    p[i] = __float2bfloat16_rn(v);
}

// NaN stays NaN.
template <typename S> __device__ static inline S activate(const plb_epilogue_params &e, S v) {
    if (e.activation == PLB_ACTIVATE_NONE) return v;
    if (e.activation == PLB_ACTIVATE_SILU) return v / (1 + exp(-v));
    if (v < (S)e.low) v = (S)e.low;
    if (v > (S)e.high) v = (S)e.high;
    return v;
}

__device__ static inline int64_t first_thread() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline int64_t all_threads() { return (int64_t)gridDim.x * blockDim.x; }

// Takes i apart into the indices of three axes; returns what is left for the axes before.
__device__ static inline int64_t split(int64_t i, const int32_t dim[3], int32_t index[3]) {
    for (int a = 2; a >= 0; a--) {
        index[a] = (int32_t)(i % dim[a]);
        i /= dim[a];
    }
    return i;
}

__device__ static inline int64_t at(const int64_t stride[5], int64_t a, int64_t b,
                                    const int32_t index[3]) {
    return a * stride[0] + b * stride[1] + index[0] * stride[2] + index[1] * stride[3] +
           index[2] * stride[4];
}

// The input under tap t of output o; false in the padding.
__device__ static inline bool input_at(const plb_convolve_params &p, const int32_t *o,
                                       const int32_t *t, int32_t *in) {
    bool inside = true;
    for (int a = 0; a < 3; a++) {
        in[a] = o[a] * p.stride[a] - p.pad[a] + t[a] * p.dilation[a];
        inside = inside && in[a] >= 0 && in[a] < p.in[a];
    }
    return inside;
}

// The output that meets input `in` with tap t; false where none does.
__device__ static inline bool output_at(const plb_convolve_params &p, const int32_t *in,
                                        const int32_t *t, int32_t *o) {
    bool inside = true;
    for (int a = 0; a < 3; a++) {
        int32_t start = in[a] + p.pad[a] - t[a] * p.dilation[a];
        o[a] = start / p.stride[a];
        inside = inside && start >= 0 && start % p.stride[a] == 0 && o[a] < p.out[a];
    }
    return inside;
}

template <typename T> __device__ static void convolve(const plb_convolve_params &p) {
    typedef typename sum_of<T>::type S;
    const T *x = (const T *)p.first, *w = (const T *)p.second;
    const int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        int32_t o[3], t[3], in[3];
        int64_t rest = split(i, p.out, o), channels = (int64_t)p.k * p.groups;
        int64_t k = rest % channels, n = rest / channels, first = k / p.k * p.c;
        S sum = 0;
        for (int tap = 0; tap < taps; tap++) {
            split(tap, p.kernel, t);
            if (!input_at(p, o, t, in)) continue;
            for (int c = 0; c < p.c; c++) {
                sum += (S)load(x, at(p.x, n, first + c, in)) * (S)load(w, at(p.w, k, c, t));
            }
        }
        if (p.epilogue.bias) sum += load((const T *)p.epilogue.bias, k);
        if (p.epilogue.residual) sum += load((const T *)p.epilogue.residual, at(p.z, n, k, o));
        store((T *)p.to, at(p.y, n, k, o), activate(p.epilogue, sum));
    }
}

template <typename T> __device__ static void convolve_input_grad(const plb_convolve_params &p) {
    typedef typename sum_of<T>::type S;
    const T *dy = (const T *)p.first, *w = (const T *)p.second;
    const int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        int32_t in[3], t[3], o[3];
        int64_t rest = split(i, p.in, in), channels = (int64_t)p.c * p.groups;
        int64_t c = rest % channels, n = rest / channels, first = c / p.c * p.k;
        S sum = 0;
        for (int tap = 0; tap < taps; tap++) {
            split(tap, p.kernel, t);
            if (!output_at(p, in, t, o)) continue;
            for (int k = 0; k < p.k; k++) {
                sum += (S)load(dy, at(p.y, n, first + k, o)) *
                       (S)load(w, at(p.w, first + k, c % p.c, t));
            }
        }
        store((T *)p.to, at(p.x, n, c, in), sum);
    }
}

template <typename T> __device__ static void convolve_weight_grad(const plb_convolve_params &p) {
    typedef typename sum_of<T>::type S;
    const T *x = (const T *)p.first, *dy = (const T *)p.second;
    const int64_t outs = (int64_t)p.out[0] * p.out[1] * p.out[2];
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        int32_t t[3], o[3], in[3];
        int64_t rest = split(i, p.kernel, t), c = rest % p.c, k = rest / p.c;
        int64_t channel = k / p.k * p.c + c;
        S sum = 0;
        for (int64_t n = 0; n < p.n; n++) {
            for (int64_t j = 0; j < outs; j++) {
                split(j, p.out, o);
                if (!input_at(p, o, t, in)) continue;
                sum += (S)load(x, at(p.x, n, channel, in)) * (S)load(dy, at(p.y, n, k, o));
            }
        }
        store((T *)p.to, at(p.w, k, c, t), sum);
    }
}

template <typename T> __device__ static void product(const plb_product_params &p) {
    typedef typename sum_of<T>::type S;
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        int64_t rest = i, a = 0, b = 0;
        for (int axis = p.rank - 1; axis >= 0; axis--) {
            int64_t index = rest % p.dim[axis];
            rest /= p.dim[axis];
            a += index * p.a_stride[axis];
            b += index * p.b_stride[axis];
        }
        S sum = 0;
        for (int64_t j = 0; j < p.inner; j++) {
            sum += (S)load((const T *)p.a, a + j * p.a_inner) *
                   (S)load((const T *)p.b, b + j * p.b_inner);
        }
        if (p.epilogue.bias) sum += load((const T *)p.epilogue.bias, i % p.dim[p.rank - 1]);
        if (p.epilogue.residual) sum += load((const T *)p.epilogue.residual, i);
        store((T *)p.to, i, activate(p.epilogue, sum));
    }
}

// Sixteen bytes of channels at a time.
template <typename T> __device__ static void finish_wide(const plb_finish_params &p) {
    typedef typename sum_of<T>::type S;
    enum { W = 16 / (int)sizeof(T) };
    struct alignas(16) pack { T v[W]; };
    const int64_t groups = p.count / W, across = p.channels / W;
    for (int64_t i = first_thread(); i < groups; i += all_threads()) {
        pack v = ((const pack *)p.from)[i], bias = {}, more = {};
        if (p.epilogue.bias) bias = ((const pack *)p.epilogue.bias)[i % across];
        if (p.epilogue.residual) more = ((const pack *)p.epilogue.residual)[i];
#pragma unroll
        for (int k = 0; k < W; k++) {
            const S sum = load(v.v, k) + load(bias.v, k) + load(more.v, k);
            store(v.v, k, activate(p.epilogue, sum));
        }
        ((pack *)p.to)[i] = v;
    }
}

template <typename T> __device__ static void finish(const plb_finish_params &p) {
    typedef typename sum_of<T>::type S;
    const uint64_t at = (uint64_t)p.from | (uint64_t)p.to | (uint64_t)p.epilogue.bias |
                        (uint64_t)p.epilogue.residual;
    if (p.inner == 1 && p.channels % (16 / (int)sizeof(T)) == 0 && at % 16 == 0) {
        finish_wide<T>(p);
        return;
    }
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        S v = load((const T *)p.from, i);
        if (p.epilogue.bias) v += load((const T *)p.epilogue.bias, i / p.inner % p.channels);
        if (p.epilogue.residual) v += load((const T *)p.epilogue.residual, i);
        store((T *)p.to, i, activate(p.epilogue, v));
    }
}

template <typename T> __device__ static void widen(const plb_widen_params &p) {
    for (int64_t i = first_thread(); i < p.count; i += all_threads()) {
        p.to[i] = (float)load((const T *)p.from, i);
    }
}

#define PLB_CONVOLVE(name, type)                                                               \
    extern "C" __global__ void plb_convolve_##name(const plb_convolve_params p) {              \
        convolve<type>(p);                                                                     \
    }                                                                                          \
    extern "C" __global__ void plb_convolve_input_grad_##name(const plb_convolve_params p) {   \
        convolve_input_grad<type>(p);                                                          \
    }                                                                                          \
    extern "C" __global__ void plb_convolve_weight_grad_##name(const plb_convolve_params p) {  \
        convolve_weight_grad<type>(p);                                                         \
    }                                                                                          \
    extern "C" __global__ void plb_product_##name(const plb_product_params p) {                \
        product<type>(p);                                                                      \
    }                                                                                          \
    extern "C" __global__ void plb_finish_##name(const plb_finish_params p) {                  \
        finish<type>(p);                                                                       \
    }
PLB_CONVOLVE(f32, float)
PLB_CONVOLVE(f64, double)
PLB_CONVOLVE(f16, __half)
PLB_CONVOLVE(bf16, __nv_bfloat16)

extern "C" __global__ void plb_widen_f16(const plb_widen_params p) { widen<__half>(p); }
extern "C" __global__ void plb_widen_bf16(const plb_widen_params p) { widen<__nv_bfloat16>(p); }
