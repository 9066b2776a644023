// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the 16-bit floats, round to nearest even (IEEE 754-2019, 4.3.1).
// Portable bit arithmetic; vectorised kernels convert with SIMD instructions instead.
#ifndef PLB_ENGINE_TENSOR_CONVERT_H
#define PLB_ENGINE_TENSOR_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline uint32_t plb_bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float plb_f32_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float plb_f32_of_bf16(uint16_t half) {
    return plb_f32_of_bits((uint32_t)half << 16);
}

static inline uint16_t plb_bf16_of_f32(float value) {
    uint32_t bits = plb_bits_of_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u); // stay a NaN
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float plb_f32_of_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 31) return plb_f32_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f; // subnormal, or zero
        return plb_f32_of_bits(sign | plb_bits_of_f32(magnitude));
    }
    return plb_f32_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

static inline uint16_t plb_f16_of_f32(float value) {
    uint32_t bits = plb_bits_of_f32(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;  // NaN
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; // rounds past 65504
    if (magnitude < 0x38800000u) {                       // subnormal in f16
        // Adding 0.5 aligns the ulp of the sum with f16's smallest step, 2^-24.
        float sum = plb_f32_of_bits(magnitude) + 0.5f;
        return sign | (uint16_t)(plb_bits_of_f32(sum) - 0x3f000000u);
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return sign | (uint16_t)((rounded - 0x38000000u) >> 13);
}

#endif
