// SPDX-License-Identifier: Apache-2.0
// 32 registers: 14 tiles x 2 vectors of sums, 2 of weights, 1 of input.
#include <immintrin.h>

#include "engine/device/cpu/winograd_isa.h"

enum { LANES = 16, ROWS = 14 };
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
static inline vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_fnma(vec a, vec b, vec c) {
    return _mm512_fnmadd_ps(a, b, c);
}
// NaN in b comes through: the instructions return their second operand.
static inline vec vec_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b) {
    return _mm512_min_ps(a, b);
}

typedef __m512i vec_index;
static inline vec_index vec_steps(int step) {
    return _mm512_mullo_epi32(
        _mm512_set1_epi32(step),
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline vec vec_gather(const float *a, vec_index i) {
    return _mm512_i32gather_ps(i, a, 4);
}

#define PLB_EACH_ROW_COUNT(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)

#include "engine/device/cpu/winograd_body.h"

const plb_winograd_kernels plb_winograd_kernels_avx512 = {.lanes = LANES,
                                                          .rows = ROWS,
                                                          .pack = pack,
                                                          .input = input,
                                                          .multiply = multiply,
                                                          .output = output};
