// SPDX-License-Identifier: Apache-2.0
// 16 registers: 12 sums, the sources of 2 pixels, a weight.
#include <immintrin.h>

#include "engine/device/cpu/conv_direct.h"

enum { LANES = 8, SUMS = 12, GRAD_K = 3, GRAD_J = 6, GRAD_SUMS = 12 };
typedef __m256 vec;

static inline vec vec_zero(void) {
    return _mm256_setzero_ps();
}
static inline vec vec_all(float a) {
    return _mm256_set1_ps(a);
}
static inline vec vec_load(const float *a) {
    return _mm256_loadu_ps(a);
}
static inline void vec_store(float *to, vec a) {
    _mm256_storeu_ps(to, a);
}
static inline __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec vec_load_few(const float *a, int64_t n) {
    return _mm256_maskload_ps(a, first_lanes(n));
}
static inline void vec_store_few(float *to, vec a, int64_t n) {
    _mm256_maskstore_ps(to, first_lanes(n), a);
}
static inline vec vec_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
// NaN in b comes through: the instructions return their second operand.
static inline vec vec_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b) {
    return _mm256_min_ps(a, b);
}

// r[j] lane i = x[i stride + j]. Loads put fours where they belong, which leaves the shuffles
// within fours.
static inline void vec_transpose(const float *x, int64_t stride, vec r[LANES]) {
#pragma GCC unroll 2
    for (int q = 0; q < 2; q++) {
        vec t[4];
#pragma GCC unroll 4
        for (int m = 0; m < 4; m++) {
            const float *from = x + m * stride + 4 * q;
            t[m] = _mm256_castps128_ps256(_mm_loadu_ps(from));
            t[m] = _mm256_insertf128_ps(t[m], _mm_loadu_ps(from + 4 * stride), 1);
        }
        vec a = _mm256_unpacklo_ps(t[0], t[1]), b = _mm256_unpacklo_ps(t[2], t[3]);
        vec c = _mm256_unpackhi_ps(t[0], t[1]), d = _mm256_unpackhi_ps(t[2], t[3]);
        r[4 * q] = _mm256_shuffle_ps(a, b, 0x44);
        r[4 * q + 1] = _mm256_shuffle_ps(a, b, 0xee);
        r[4 * q + 2] = _mm256_shuffle_ps(c, d, 0x44);
        r[4 * q + 3] = _mm256_shuffle_ps(c, d, 0xee);
    }
}

// Blocks that leave no sum without a register: channels and taps, pixels and channels.
#define PLB_EACH_GRAD_BLOCK(X)  PLB_TO_6(X, 1) PLB_TO_6(X, 2) PLB_TO_4(X, 3)
#define PLB_EACH_PIXEL_BLOCK(X) PLB_TO_12(X, 1) PLB_TO_6(X, 2) PLB_TO_3(X, 4)

#include "engine/device/cpu/conv_direct_body.h"

const plb_direct_kernels plb_direct_avx2 = {LANES, GRAD_K, rows, weight_rows, weight_sum};
