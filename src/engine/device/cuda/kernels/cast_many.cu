// SPDX-License-Identifier: Apache-2.0
// Casts of many values in one launch: all weights of a network, for a step of mixed precision.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "engine/device/cuda/kernels/cast_many.h"

__device__ static float read(float x) { return x; }
__device__ static float read(__half x) { return __half2float(x); }
__device__ static float read(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ static void write(float *to, float x) { *to = x; }
__device__ static void write(__half *to, float x) { *to = __float2half_rn(x); }
__device__ static void write(__nv_bfloat16 *to, float x) { *to = __float2bfloat16_rn(x); }

template <typename E>
struct alignas(4 * sizeof(E)) four {
    E e[4];
};

template <typename From, typename To>
__device__ static void cast_piece(const plb_cast_piece *pieces) {
    const plb_cast_piece p = pieces[blockIdx.x];
    const From *from = (const From *)p.from;
    To *to = (To *)p.to;
    bool fits = p.count % 4 == 0 && (uintptr_t)from % sizeof(four<From>) == 0 &&
                (uintptr_t)to % sizeof(four<To>) == 0;
    if (fits) {
        for (int64_t i = threadIdx.x; i < p.count / 4; i += PLB_CAST_THREADS) {
            four<From> x = ((const four<From> *)from)[i];
            four<To> y;
            for (int k = 0; k < 4; k++) write(&y.e[k], read(x.e[k]));
            ((four<To> *)to)[i] = y;
        }
        return;
    }
    for (int64_t i = threadIdx.x; i < p.count; i += PLB_CAST_THREADS) write(&to[i], read(from[i]));
}

#define PLB_CASTS(name, from, to)                                                            \
    extern "C" __global__ void __launch_bounds__(PLB_CAST_THREADS)                           \
        plb_cast_many_##name(const plb_cast_piece *pieces) {                                 \
        cast_piece<from, to>(pieces);                                                        \
    }
PLB_CASTS(f32_bf16, float, __nv_bfloat16)
PLB_CASTS(f32_f16, float, __half)
PLB_CASTS(bf16_f32, __nv_bfloat16, float)
PLB_CASTS(f16_f32, __half, float)
