// SPDX-License-Identifier: Apache-2.0
// 32 registers: 24 sums, the sources of 4 pixels, a weight.
#include <immintrin.h>

#include "engine/device/cpu/conv_direct.h"

enum { LANES = 16, SUMS = 24, GRAD_K = 5, GRAD_J = 8, GRAD_SUMS = 25 };
typedef __m512 vec;

static inline vec vec_zero(void) {
    return _mm512_setzero_ps();
}
static inline vec vec_all(float a) {
    return _mm512_set1_ps(a);
}
static inline vec vec_load(const float *a) {
    return _mm512_loadu_ps(a);
}
static inline void vec_store(float *to, vec a) {
    _mm512_storeu_ps(to, a);
}
static inline vec vec_load_few(const float *a, int64_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), a);
}
static inline void vec_store_few(float *to, vec a, int64_t n) {
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), a);
}
static inline vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
// NaN in b comes through: the instructions return their second operand.
static inline vec vec_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b) {
    return _mm512_min_ps(a, b);
}

// r[j] lane i = x[i stride + j]. Loads put fours where they belong, which leaves the shuffles
// within fours.
static inline void vec_transpose(const float *x, int64_t stride, vec r[LANES]) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        vec t[4];
#pragma GCC unroll 4
        for (int m = 0; m < 4; m++) {
            const float *from = x + m * stride + 4 * q;
            t[m] = _mm512_castps128_ps512(_mm_loadu_ps(from));
            t[m] = _mm512_insertf32x4(t[m], _mm_loadu_ps(from + 4 * stride), 1);
            t[m] = _mm512_insertf32x4(t[m], _mm_loadu_ps(from + 8 * stride), 2);
            t[m] = _mm512_insertf32x4(t[m], _mm_loadu_ps(from + 12 * stride), 3);
        }
        __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(t[0], t[1]));
        __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(t[2], t[3]));
        __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(t[0], t[1]));
        __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(t[2], t[3]));
        r[4 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[4 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        r[4 * q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        r[4 * q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
}

// Blocks that leave no sum without a register: channels and taps, pixels and channels.
#define PLB_EACH_GRAD_BLOCK(X) \
    PLB_TO_8(X, 1) PLB_TO_8(X, 2) PLB_TO_8(X, 3) PLB_TO_6(X, 4) PLB_TO_5(X, 5)
#define PLB_EACH_PIXEL_BLOCK(X) PLB_TO_12(X, 1) PLB_TO_12(X, 2) PLB_TO_6(X, 4)

#include "engine/device/cpu/conv_direct_body.h"

const plb_direct_kernels plb_direct_avx512 = {LANES, GRAD_K, rows, weight_rows, weight_sum};
