// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2 (CMakeLists.txt), and called only where the processor has it. A weight of 22
// bits is split into two int16, for which there is a product of pairs with their sum:
// sum w p = (sum high p << 11) + sum low p, exactly.
#include "data/resize_kernel.h"

#include <immintrin.h>
#include <string.h>

// Two pixels of a row, r0 g0 b0 r1 g1 b1, as int16 pairs r0 r1, g0 g1, b0 b1, 0 0.
static inline __m256i pairs_of(const uint8_t *row, int64_t from_bytes) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)row);
    const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(row + from_bytes));
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1), order);
}

static inline __m256i both_weights(const int16_t *weights) {
    int32_t two;
    memcpy(&two, weights, sizeof two);
    return _mm256_set1_epi32(two);
}

void plb_resize_rows_avx2(uint8_t *to, int64_t to_bytes, const uint8_t *from, int64_t from_bytes,
                          const plb_resize_filter *f) {
    const int16_t *high = f->high, *low = f->low;
    const int64_t taps = f->taps;
    for (int64_t x = 0; x < f->out; x++, to += 3, high += taps, low += taps) {
        const uint8_t *at = from + f->first[x] * 3;
        __m256i top = _mm256_setzero_si256(), sum = _mm256_set1_epi32(PLB_RESIZE_HALF);
        for (int64_t i = 0; i < taps; i += 2, at += 6) {
            const __m256i pixels = pairs_of(at, from_bytes);
            top = _mm256_add_epi32(top, _mm256_madd_epi16(pixels, both_weights(high + i)));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pixels, both_weights(low + i)));
        }
        sum = _mm256_add_epi32(sum, _mm256_slli_epi32(top, PLB_RESIZE_LOW_BITS));
        sum = _mm256_srli_epi32(sum, PLB_RESIZE_BITS);
        sum = _mm256_packus_epi32(sum, sum); // 256 becomes 255 in the next
        sum = _mm256_packus_epi16(sum, sum);
        const int32_t a = _mm256_extract_epi32(sum, 0), b = _mm256_extract_epi32(sum, 4);
        const size_t bytes = x + 1 < f->out ? sizeof a : 3; // the fourth is the next pixel's
        memcpy(to, &a, bytes);
        memcpy(to + to_bytes, &b, bytes);
    }
}

void plb_resize_column_avx2(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                            const int32_t *weight, int64_t count, int64_t length) {
    plb_resize_column_body(to, from, row_bytes, weight, count, length);
}

// Of 16 pixels, r0 g0 b0 r1 ..., in three loads the bytes of channel c: its place in each load.
static inline __m128i channel_of(const __m128i load[3], int c) {
    enum { NO = -128 };
    static const int8_t order[3][3][16] = {
        {{0, 3, 6, 9, 12, 15, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, NO, 2, 5, 8, 11, 14, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 1, 4, 7, 10, 13}},
        {{1, 4, 7, 10, 13, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, 0, 3, 6, 9, 12, 15, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 2, 5, 8, 11, 14}},
        {{2, 5, 8, 11, 14, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, 1, 4, 7, 10, 13, NO, NO, NO, NO, NO, NO},
         {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 0, 3, 6, 9, 12, 15}}};
    __m128i found = _mm_setzero_si128();
    for (int i = 0; i < 3; i++) {
        const __m128i at = _mm_loadu_si128((const __m128i *)(const void *)order[c][i]);
        found = _mm_or_si128(found, _mm_shuffle_epi8(load[i], at));
    }
    return found;
}

int64_t plb_split_planes_avx2(uint8_t *planes, const uint8_t *pixels, int64_t count) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i load[3];
        for (int k = 0; k < 3; k++)
            load[k] = _mm_loadu_si128((const __m128i *)(const void *)(pixels + 3 * i + 16 * k));
        for (int c = 0; c < 3; c++)
            _mm_storeu_si128((__m128i *)(void *)(planes + c * count + i), channel_of(load, c));
    }
    return i;
}
