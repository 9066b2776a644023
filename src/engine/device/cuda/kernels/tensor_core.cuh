// SPDX-License-Identifier: Apache-2.0
// What tensor cores multiply at once, by the instructions that all of them since compute capability
// 8.0 have.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_TENSOR_CORE_CUH
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_TENSOR_CORE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

// d += a b, sixteen rows times eight columns, of 32 bytes each; the last argument tells the type.
// f32 is cut off to TF32: who wants it rounded does that before.
__device__ static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1, __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ static inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1, float) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
