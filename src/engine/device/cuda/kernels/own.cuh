// SPDX-License-Identifier: Apache-2.0
// Pieces of own kernels: element types and the type they are computed in, whole vectors at a time,
// sums over warps and blocks in a fixed order.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_OWN_CUH
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_OWN_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

#include "engine/device/cuda/kernels/own.h"

#define PLB_GLOBAL        extern "C" __global__
#define PLB_EACH_FLOAT(M) M(float, f32) M(double, f64) M(__half, f16) M(__nv_bfloat16, bf16)

// An own kernel may have been launched while the one before it in its stream still ran, so that
// their ends and beginnings overlap (own.c). It lets the next one in the same way, and waits until
// all that was written before can be read.
__device__ static inline void let_next_in() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ static inline void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The first thing that most own kernels do.
__device__ static inline void begin() {
    let_next_in();
    wait_for_last();
}

// f32 for all but f64.
template <typename T> struct wide_of { typedef float type; };
template <> struct wide_of<double> { typedef double type; };
template <typename T> using wide = typename wide_of<T>::type;

__device__ static inline float widen(float x) {
    return x;
}
__device__ static inline double widen(double x) {
    return x;
}
__device__ static inline float widen(__half x) {
    return __half2float(x);
}
__device__ static inline float widen(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

template <typename T> __device__ inline T narrow(wide<T> x) {
    return x;
}
template <> __device__ inline __half narrow<__half>(float x) {
    return __float2half_rn(x);
}
template <> __device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

// W elements that are loaded and stored at once.
template <typename T, int W> struct alignas(sizeof(T) * W) pack { T v[W]; };
template <typename T> struct width_of {
    enum { value = 16 / (int)sizeof(T) };
};

template <typename T, int W> __device__ inline void load_wide(const T *from, wide<T> (&out)[W]) {
    const pack<T, W> p = *(const pack<T, W> *)from;
#pragma unroll
    for (int i = 0; i < W; i++) out[i] = widen(p.v[i]);
}

template <typename T, int W> __device__ inline void store_narrow(T *to, const wide<T> (&value)[W]) {
    pack<T, W> p;
#pragma unroll
    for (int i = 0; i < W; i++) p.v[i] = narrow<T>(value[i]);
    *(pack<T, W> *)to = p;
}

// An element of any float dtype, or of any integer one: exact in i64 but for u64, whose bits stay.
__device__ static inline double load_float(const void *data, int dtype, int64_t i) {
    switch (dtype) {
    case PLB_CODE_F64: return ((const double *)data)[i];
    case PLB_CODE_F32: return ((const float *)data)[i];
    case PLB_CODE_F16: return __half2float(((const __half *)data)[i]);
    default: return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    }
}

// To 16 bits in two steps, as no single instruction rounds from f64 everywhere.
__device__ static inline void store_float(void *data, int dtype, int64_t i, double value) {
    switch (dtype) {
    case PLB_CODE_F64: ((double *)data)[i] = value; break;
    case PLB_CODE_F32: ((float *)data)[i] = (float)value; break;
    case PLB_CODE_F16: ((__half *)data)[i] = __float2half_rn((float)value); break;
    default: ((__nv_bfloat16 *)data)[i] = __float2bfloat16_rn((float)value); break;
    }
}

__device__ static inline int64_t load_integer(const void *data, int dtype, int64_t i) {
    switch (dtype) {
    case PLB_CODE_I8: return ((const int8_t *)data)[i];
    case PLB_CODE_I16: return ((const int16_t *)data)[i];
    case PLB_CODE_I32: return ((const int32_t *)data)[i];
    case PLB_CODE_U16: return ((const uint16_t *)data)[i];
    case PLB_CODE_U32: return ((const uint32_t *)data)[i];
    case PLB_CODE_U8:
    case PLB_CODE_BOOL: return ((const uint8_t *)data)[i];
    default: return ((const int64_t *)data)[i];
    }
}

// Wraps to the dtype; bool is 0 or 1.
__device__ static inline void store_integer(void *data, int dtype, int64_t i, int64_t value) {
    switch (dtype) {
    case PLB_CODE_I8:
    case PLB_CODE_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case PLB_CODE_I16:
    case PLB_CODE_U16: ((uint16_t *)data)[i] = (uint16_t)value; break;
    case PLB_CODE_I32:
    case PLB_CODE_U32: ((uint32_t *)data)[i] = (uint32_t)value; break;
    case PLB_CODE_BOOL: ((uint8_t *)data)[i] = value != 0; break;
    default: ((int64_t *)data)[i] = value; break;
    }
}

// W numbers of a vector [C] from i on, a multiple of W; it is of dtype T or of the wide one, and
// begins on 16 bytes.
template <typename T, int W>
__device__ inline void load_vector(const void *data, int dtype, int i, wide<T> (&out)[W]) {
    if (dtype <= PLB_CODE_F32) {
        typedef wide<T> A;
        enum { EACH = W < 16 / (int)sizeof(A) ? W : 16 / (int)sizeof(A) };
#pragma unroll
        for (int k = 0; k < W; k += EACH) {
            const pack<A, EACH> part = *(const pack<A, EACH> *)((const A *)data + i + k);
#pragma unroll
            for (int j = 0; j < EACH; j++) out[k + j] = part.v[j];
        }
    } else {
        load_wide<T, W>((const T *)data + i, out);
    }
}

__device__ static inline bool is_float(int dtype) {
    return dtype <= PLB_CODE_BF16;
}

__device__ static inline float sigmoid(float x) {
    return __fdividef(1, 1 + __expf(-x));
}
__device__ static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

template <typename A> __device__ inline A activated(const plb_act &act, A value) {
    if (act.kind == 1) return value < 0 ? (A)0 : value;
    if (act.kind == 2) {
        const A low = (A)act.alpha, high = (A)act.beta;
        return value < low ? low : value > high ? high : value;
    }
    if (act.kind == 3) return value * sigmoid(value);
    return value;
}

// The sum over the lanes of a warp, in all of them.
template <typename A> __device__ inline A warp_sum(A value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The sum over a block of whole warps, one-dimensional or flattened, in all its threads.
template <typename A> __device__ inline A block_sum(A value) {
    __shared__ A of_warp[32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int warps = (blockDim.x * blockDim.y + 31) / 32;
    value = warp_sum(value);
    __syncthreads(); // an earlier sum may still be read
    if ((thread & 31) == 0) of_warp[thread / 32] = value;
    __syncthreads();
    A sum = 0;
    for (int i = 0; i < warps; i++) sum += of_warp[i];
    return sum;
}

// Notes bad data once; later notes of the same run are dropped.
__device__ static inline void note_fault(plb_fault_box *box, int op, int64_t place, int64_t found,
                                         int64_t limit) {
    if (atomicCAS(&box->lock, 0, 1)) return;
    volatile plb_fault *note = box->note;
    note->op = op;
    note->place = place;
    note->found = found;
    note->limit = limit;
    __threadfence_system();
    note->happened = 1;
}

#endif
