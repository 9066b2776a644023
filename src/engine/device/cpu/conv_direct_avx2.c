// SPDX-License-Identifier: Apache-2.0
// 16 registers: 12 sums, the sources of 2 pixels, a weight.
#include <immintrin.h>

#include "engine/device/cpu/conv_direct.h"

enum { LANES = 8, SUMS = 12, GRAD_K = 3, GRAD_J = 4 };
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

// r[i] lane j to r[j] lane i: within pairs, within fours, then fours against each other.
static inline void vec_transpose(vec r[LANES]) {
    vec t[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 4) {
        for (int h = 0; h < 2; h++) {
            r[i + 2 * h] = _mm256_shuffle_ps(t[i + h], t[i + h + 2], 0x44);
            r[i + 2 * h + 1] = _mm256_shuffle_ps(t[i + h], t[i + h + 2], 0xee);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < LANES; i++) r[i] = t[i];
}

#define PLB_EACH_GRAD_K(X, j) X(1, j) X(2, j) X(3, j)
#define PLB_EACH_GRAD_J(X)    X(1) X(2) X(3) X(4)
#define PLB_EACH_PIXEL_BLOCK(X)                                                                \
    X(1, 1)                                                                                    \
    X(1, 2)                                                                                    \
    X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8) X(1, 9) X(1, 10) X(1, 11) X(1, 12) X(2, 1) \
        X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6) X(4, 1) X(4, 2) X(4, 3)

#include "engine/device/cpu/conv_direct_body.h"

const plb_direct_kernels plb_direct_avx2 = {LANES, GRAD_K, rows, weight_rows, weight_sum};
