// SPDX-License-Identifier: Apache-2.0
// The inner loops of preparing pictures, as plain C and for AVX2. All arithmetic is on integers, so
// both give the same pixels.
#ifndef PLB_DATA_RESIZE_KERNEL_H
#define PLB_DATA_RESIZE_KERNEL_H

#include <stdint.h>

enum {
    PLB_RESIZE_BITS = 22, // of fraction: 8 bits of value, 22 of weight, 2 to spare in an int32
    PLB_RESIZE_HALF = 1 << (PLB_RESIZE_BITS - 1),
    PLB_RESIZE_LOW_BITS = 11, // of the lower part of a weight: both parts fit an int16
    PLB_RESIZE_STRIP = 64,    // bytes of a row, summed over the rows above each other at a time
};

// For each output place of an axis the first input place and the weights from there on. taps is
// even, and the same for all places; weights beyond a place's own are 0.
typedef struct plb_resize_filter {
    int64_t out, taps;
    int64_t *first, *count; // [out]
    int32_t *weights;       // [out, taps]
    int16_t *high, *low;    // [out, taps]: weight = (high << 11) + low; or NULL
} plb_resize_filter;

static inline uint8_t plb_resize_rounded(int32_t sum) {
    int32_t value = sum >> PLB_RESIZE_BITS; // weights are positive and sum to 1: only 255 can spill
    return (uint8_t)(value > 255 ? 255 : value);
}

// to[x, c] = sum_i weight[x, i] from[first[x] + i, c] of one row.
void plb_resize_row_plain(uint8_t *to, const uint8_t *from, const plb_resize_filter *f);
// to[j] = sum_i weight[i] from[i, j] over `count` rows of `row_bytes`, for `length` bytes.
void plb_resize_column_plain(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                             const int32_t *weight, int64_t count, int64_t length);

#if defined(__x86_64__)
// Of two rows, which follow each other: from_bytes and to_bytes apart. Reads taps pixels and 2
// bytes from every first place on, whatever lies there.
void plb_resize_rows_avx2(uint8_t *to, int64_t to_bytes, const uint8_t *from, int64_t from_bytes,
                          const plb_resize_filter *f);
void plb_resize_column_avx2(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                            const int32_t *weight, int64_t count, int64_t length);
// planes[c, i] = pixels[i, c] of the first pixels; returns how many, all but a few.
int64_t plb_split_planes_avx2(uint8_t *planes, const uint8_t *pixels, int64_t count);
#endif

// The body of both plb_resize_column.
static inline void plb_resize_column_body(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                                          const int32_t *weight, int64_t count, int64_t length) {
    int32_t sum[PLB_RESIZE_STRIP];
    for (; length >= PLB_RESIZE_STRIP; length -= PLB_RESIZE_STRIP) { // known when compiled
        const uint8_t *row = from;
        for (int j = 0; j < PLB_RESIZE_STRIP; j++) sum[j] = PLB_RESIZE_HALF;
        for (int64_t i = 0; i < count; i++, row += row_bytes)
            for (int j = 0; j < PLB_RESIZE_STRIP; j++) sum[j] += row[j] * weight[i];
        for (int j = 0; j < PLB_RESIZE_STRIP; j++) to[j] = plb_resize_rounded(sum[j]);
        to += PLB_RESIZE_STRIP, from += PLB_RESIZE_STRIP;
    }
    for (int64_t j = 0; j < length; j++) {
        int32_t one = PLB_RESIZE_HALF;
        for (int64_t i = 0; i < count; i++) one += from[i * row_bytes + j] * weight[i];
        to[j] = plb_resize_rounded(one);
    }
}

#endif
