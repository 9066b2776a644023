// SPDX-License-Identifier: Apache-2.0
// Convolutions with 1x1 filters of a few pixels, as squeeze-excitation has them: each filter is
// read once, by lanes of a warp that add their parts of the sum.
#include "engine/device/cuda/kernels/vector.h"

#include "engine/device/cuda/kernels/own.cuh"

// All threads come to the shuffles: those past the last channel compute nothing.
template <typename T, int W>
__device__ static void product(const plb_operands &at, const plb_vector_params &p) {
    typedef wide<T> A;
    const int lane = threadIdx.x % p.lanes;
    const int k = (int)(blockIdx.x * blockDim.x + threadIdx.x) / p.lanes;
    const T *w = (const T *)at.in[1] + (int64_t)k * p.c;
    A sum[PLB_VECTOR_PIXELS] = {};
    for (int c = lane * W; k < p.k && c < p.c; c += p.lanes * W) {
        A filter[W], value[W];
        load_wide<T, W>(w + c, filter);
#pragma unroll
        for (int i = 0; i < PLB_VECTOR_PIXELS; i++) {
            if (i >= p.pixels) break;
            load_wide<T, W>((const T *)at.in[0] + (int64_t)i * p.c + c, value);
#pragma unroll
            for (int j = 0; j < W; j++) sum[i] += filter[j] * value[j];
        }
    }
    const A bias = at.in[2] && k < p.k ? (A)widen(((const T *)at.in[2])[k]) : (A)0;
#pragma unroll
    for (int i = 0; i < PLB_VECTOR_PIXELS; i++) {
        if (i >= p.pixels) break;
        A all = sum[i];
        for (int step = p.lanes / 2; step; step /= 2) all += __shfl_xor_sync(~0u, all, step);
        if (lane || k >= p.k) continue;
        const int64_t o = (int64_t)i * p.k + k;
        all += bias;
        if (at.in[3]) all += (A)widen(((const T *)at.in[3])[o]);
        ((T *)at.out[0])[o] = narrow<T>(activated(p.act, all));
    }
}

#define PLB_VECTOR(T, dtype)                                                               \
    PLB_GLOBAL void __launch_bounds__(PLB_VECTOR_THREADS)                                  \
        plb_vector_wide_##dtype(const plb_operands at, const plb_vector_params p) {        \
        begin();                                                                           \
        product<T, width_of<T>::value>(at, p);                                             \
    }                                                                                      \
    PLB_GLOBAL void __launch_bounds__(PLB_VECTOR_THREADS)                                  \
        plb_vector_one_##dtype(const plb_operands at, const plb_vector_params p) {         \
        begin();                                                                           \
        product<T, 1>(at, p);                                                              \
    }
PLB_EACH_FLOAT(PLB_VECTOR)
