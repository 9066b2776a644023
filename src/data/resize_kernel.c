// SPDX-License-Identifier: Apache-2.0
#include "data/resize_kernel.h"

void plb_resize_row_plain(uint8_t *to, const uint8_t *from, const plb_resize_filter *f) {
    for (int64_t x = 0; x < f->out; x++, to += 3) {
        const int32_t *w = f->weights + x * f->taps;
        const uint8_t *at = from + f->first[x] * 3;
        int32_t r = PLB_RESIZE_HALF, g = PLB_RESIZE_HALF, b = PLB_RESIZE_HALF;
        for (int64_t i = 0; i < f->count[x]; i++, at += 3) {
            r += at[0] * w[i];
            g += at[1] * w[i];
            b += at[2] * w[i];
        }
        to[0] = plb_resize_rounded(r), to[1] = plb_resize_rounded(g);
        to[2] = plb_resize_rounded(b);
    }
}

void plb_resize_column_plain(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                             const int32_t *weight, int64_t count, int64_t length) {
    plb_resize_column_body(to, from, row_bytes, weight, count, length);
}
