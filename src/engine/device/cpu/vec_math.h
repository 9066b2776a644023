// SPDX-License-Identifier: Apache-2.0
// Elementary functions of f32 without branches and calls, so that loops over them become vector
// code. Each reduces its argument exactly and evaluates a polynomial; the coefficients are
// least-maximum fits of the stated function on the stated interval.
#ifndef PLB_ENGINE_DEVICE_CPU_VEC_MATH_H
#define PLB_ENGINE_DEVICE_CPU_VEC_MATH_H

#include <math.h>

#include "engine/tensor/convert.h"

#define PLB_INLINE static inline __attribute__((always_inline))

// a b + c, rounded once where the instruction set can.
PLB_INLINE float fma_f32(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

#define PLB_LN2_HIGH    0x1.62e4p-1f // with few bits: products with exponents are exact
#define PLB_LN2_LOW     1.42860682e-6f
#define PLB_LOG2_E      1.44269504f
#define PLB_ROUND_MAGIC 12582912.0f // 1.5 2^23: adding it rounds to an integer in the low bits

// 2^n for -126 <= n <= 127.
PLB_INLINE float power_of_two(int32_t n) {
    return plb_f32_of_bits((uint32_t)(n + 127) << 23);
}

// x = n log 2 + r with |r| <= log(2) / 2. A NaN goes through r; n is some small number then.
PLB_INLINE float split_exponent(float x, int32_t *n) {
    float t = fma_f32(x, PLB_LOG2_E, PLB_ROUND_MAGIC), rounded = t - PLB_ROUND_MAGIC;
    *n = (int32_t)(plb_bits_of_f32(t) - plb_bits_of_f32(PLB_ROUND_MAGIC));
    return fma_f32(rounded, -PLB_LN2_LOW, fma_f32(rounded, -PLB_LN2_HIGH, x));
}

// e^r - 1 for |r| <= log(2) / 2.
PLB_INLINE float expm1_reduced(float r) {
    float p = fma_f32(r, 0.0013811657f, 0.00837013498f);
    p = fma_f32(r, p, 0.0416685268f);
    p = fma_f32(r, p, 0.166665092f);
    p = fma_f32(r, p, 0.49999994f);
    return fma_f32(r * r, p, r);
}

PLB_INLINE float exp_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = y < -104.0f ? -104.0f : y;
    int32_t n;
    float e = 1.0f + expm1_reduced(split_exponent(y, &n));
    int32_t half = n >> 1, other = n - half; // 2^n alone may overflow
    return e * power_of_two(half) * power_of_two(other);
}

// 2^n (e^r - 1) + (2^n - 1), halved meanwhile so that 2^128 does not overflow.
PLB_INLINE float expm1_f32(float x) {
    float y = x > 89.0f ? 89.0f : x;
    y = y < -20.0f ? -20.0f : y;
    int32_t n;
    float p = expm1_reduced(split_exponent(y, &n));
    float half = power_of_two(n - 1);
    return 2.0f * fma_f32(half, p, half - 0.5f);
}

// log(1 + f) for 1 / sqrt(2) <= 1 + f <= sqrt(2), without the leading f.
PLB_INLINE float log1p_rest(float f) {
    float p = fma_f32(f, 0.067574814f, -0.116943114f);
    p = fma_f32(f, p, 0.118935406f);
    p = fma_f32(f, p, -0.124030896f);
    p = fma_f32(f, p, 0.142185509f);
    p = fma_f32(f, p, -0.166680902f);
    p = fma_f32(f, p, 0.200021669f);
    p = fma_f32(f, p, -0.250000089f);
    p = fma_f32(f, p, 0.333333105f);
    return f * f * fma_f32(f, p, -0.5f);
}

PLB_INLINE float log_f32(float x) {
    bool tiny = x < 0x1p-126f;
    uint32_t bits = plb_bits_of_f32(tiny ? x * 0x1p23f : x);
    uint32_t steps = bits - 0x3f3504f3u; // from 1 / sqrt(2)
    float n = (float)((int32_t)steps >> 23) - (tiny ? 23.0f : 0.0f);
    float f = plb_f32_of_bits((steps & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float y = fma_f32(n, PLB_LN2_HIGH, f + fma_f32(n, PLB_LN2_LOW, log1p_rest(f)));
    y = x == INFINITY ? INFINITY : y;
    y = x == 0 ? -INFINITY : y;
    return x >= 0 ? y : NAN;
}

// log(u) with u = 1 + x rounded, and what rounding lost.
PLB_INLINE float log1p_f32(float x) {
    float u = 1.0f + x, lost = (x - (u - 1.0f)) / u;
    float y = log_f32(u) + lost;
    y = u == INFINITY ? u : y;
    return x == -1.0f ? -INFINITY : y;
}

PLB_INLINE float tanh_f32(float x) { // t / (t + 2), t = e^2x - 1
    float z = fabsf(x), limited = z > 10.0f ? 10.0f : z;
    float t = expm1_f32(2.0f * limited);
    return copysignf(t / (t + 2.0f), x);
}

PLB_INLINE float sigmoid_f32(float x) {
    float e = exp_f32(-fabsf(x));
    return (x >= 0 ? 1.0f : e) / (1.0f + e);
}

PLB_INLINE float softplus_f32(float x) {
    return (x > 0 ? x : 0.0f) + log1p_f32(exp_f32(-fabsf(x)));
}

PLB_INLINE float erf_small(float x) { // |x| <= 1
    float s = x * x;
    float p = fma_f32(s, 7.85385346e-05f, -0.000801019138f);
    p = fma_f32(s, p, 0.00518832728f);
    p = fma_f32(s, p, -0.026853811f);
    p = fma_f32(s, p, 0.112835854f);
    p = fma_f32(s, p, -0.37612626f);
    p = fma_f32(s, p, 0.128379166f);
    return fma_f32(x, p, x);
}

// e^-a^2 t p(t), t = 1 / (1 + 0.35 a), for a >= 1.
PLB_INLINE float erfc_large(float a) {
    float t = 1.0f / fma_f32(a, 0.35f, 1.0f), s = a * a, low = fma_f32(a, a, -s);
    float p = fma_f32(t, -0.00491514849f, -0.0845294595f);
    p = fma_f32(t, p, 0.230905354f);
    p = fma_f32(t, p, -0.0682019666f);
    p = fma_f32(t, p, 0.205299065f);
    p = fma_f32(t, p, 0.136930853f);
    p = fma_f32(t, p, 0.189955667f);
    p = fma_f32(t, p, 0.196982026f);
    p = fma_f32(t, p, 0.197488278f);
    float e = exp_f32(-s);
    return fma_f32(-low, e, e) * t * p;
}

PLB_INLINE float erf_f32(float x) {
    float a = fabsf(x), limited = a > 12.0f ? 12.0f : a;
    float large = 1.0f - erfc_large(limited);
    return a < 1.0f ? erf_small(x) : copysignf(large, x);
}

PLB_INLINE float gelu_f32(float x) { // x (1 + erf z) / 2; the tail below from erfc, uncancelled
    float z = x * 0.707106781f, a = fabsf(z), limited = a > 12.0f ? 12.0f : a;
    float tail = erfc_large(limited);
    float sum = a < 1.0f ? 1.0f + erf_small(z) : z < 0 ? tail : 2.0f - tail;
    return 0.5f * x * sum;
}

PLB_INLINE float gelu_tanh_f32(float x) { // (1 + tanh u) / 2 = sigmoid(2 u)
    float u = 1.59576912f * fma_f32(0.044715f * x * x, x, x);
    return x * sigmoid_f32(u);
}

PLB_INLINE float mish_f32(float x) { // tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2)
    float e = exp_f32(x > 20.0f ? 20.0f : x), s = fma_f32(e, e, 2.0f * e);
    return x * (s / (s + 2.0f));
}

// Quarter turns n and the rest r of a moderate angle, |x| < 2^16.
PLB_INLINE float quarter_turns(float x, uint32_t *n) {
    double t = (double)x * 0.63661977236758134308 + 0x1.8p52;
    double rounded = t - 0x1.8p52;
    *n = (uint32_t)(int32_t)rounded;
    return (float)(((double)x - rounded * 0x1.921fb544p0) - rounded * 0x1.0b4611a6p-34);
}

PLB_INLINE float sine_at(float r, uint32_t n) {
    float s = r * r;
    float p = fma_f32(s, 2.71736644e-06f, -0.000198392328f);
    p = fma_f32(s, p, 0.00833332911f);
    p = fma_f32(s, p, -0.166666672f);
    float sine = fma_f32(r * s, p, r);
    float q = fma_f32(s, -2.71986238e-07f, 2.47993721e-05f);
    q = fma_f32(s, q, -0.00138888834f);
    q = fma_f32(s, q, 0.0416666679f);
    float cosine = fma_f32(s * s, q, fma_f32(s, -0.5f, 1.0f));
    float y = n & 1u ? cosine : sine;
    return plb_f32_of_bits(plb_bits_of_f32(y) ^ (n & 2u) << 30);
}

#endif
