// SPDX-License-Identifier: Apache-2.0
// Resizing as Pillow does it (its "convolution-based resampling"): for output x, centre
// c = (x + 1/2) in/out, and the weight of input i is the triangle max(0, 1 - |i + 1/2 - c| / s)
// with s = max(1, in/out), normalised to sum 1. Weights become integers of 22 bits of fraction;
// rows first, then columns, each pass rounded to u8. The numbers, not the speed, fix all of that:
// a float version differs from what models were trained on by 1 in some pixels.
#include "data/transform.h"

#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

enum {
    FRACTION_BITS = 22, // 8 bits of value, 22 of weight, 2 to spare in an int32
    HALF = 1 << (FRACTION_BITS - 1),
    STRIP_BYTES = 128, // of a row, summed over the rows above each other at a time
};

// For each output place: the first input place, how many, and their weights.
typedef struct filter {
    int64_t out, taps; // weights a place, at most
    int64_t *first, *count;
    int32_t *weights; // [out, taps]
} filter;

static void filter_free(filter *f) {
    plb_free(f->first);
    plb_free(f->count);
    plb_free(f->weights);
}

// Weights of one place, into w[f->taps] as doubles, then as integers.
static void fill_place(filter *f, int64_t x, int64_t in, double *w) {
    double scale = (double)in / (double)f->out, s = scale < 1 ? 1 : scale;
    double center = ((double)x + 0.5) * scale, sum = 0;
    int64_t first = (int64_t)(center - s + 0.5), end = (int64_t)(center + s + 0.5);
    if (center - s + 0.5 < 0) first = 0;
    if (end > in) end = in;
    for (int64_t i = first; i < end; i++) {
        double distance = fabs(((double)i - center + 0.5) * (1 / s));
        w[i - first] = distance < 1 ? 1 - distance : 0;
        sum += w[i - first];
    }
    f->first[x] = first, f->count[x] = end - first;
    for (int64_t i = 0; i < end - first; i++) {
        if (sum != 0) w[i] /= sum;
        f->weights[x * f->taps + i] = (int32_t)(0.5 + w[i] * (1 << FRACTION_BITS));
    }
}

static plb_status filter_make(int64_t in, int64_t out, filter *f) {
    double scale = (double)in / (double)out;
    *f = (filter){.out = out, .taps = (int64_t)ceil(scale < 1 ? 1 : scale) * 2 + 1};
    f->first = plb_alloc_array((size_t)out, sizeof *f->first);
    f->count = plb_alloc_array((size_t)out, sizeof *f->count);
    f->weights = plb_alloc_array((size_t)out, (size_t)f->taps * sizeof *f->weights);
    double *w = plb_alloc_array((size_t)f->taps, sizeof *w);
    bool complete = f->first && f->count && f->weights && w;
    for (int64_t x = 0; complete && x < out; x++) fill_place(f, x, in, w);
    plb_free(w);
    if (complete) return PLB_OK;
    filter_free(f);
    return plb_fail(PLB_ENOMEM, "no memory for the weights of a resize");
}

static uint8_t rounded(int32_t sum) {
    int32_t value = sum >> FRACTION_BITS; // weights are positive and sum to 1: only 255 can spill
    return (uint8_t)(value > 255 ? 255 : value);
}

// to[x, c] = sum_i weight[x, i] from[first[x] + i, c]
static void resize_row(uint8_t *to, const uint8_t *from, const filter *f) {
    for (int64_t x = 0; x < f->out; x++, to += 3) {
        const int32_t *w = f->weights + x * f->taps;
        const uint8_t *at = from + f->first[x] * 3;
        int32_t r = HALF, g = HALF, b = HALF;
        for (int64_t i = 0; i < f->count[x]; i++, at += 3) {
            r += at[0] * w[i];
            g += at[1] * w[i];
            b += at[2] * w[i];
        }
        to[0] = rounded(r), to[1] = rounded(g), to[2] = rounded(b);
    }
}

// to[j] = sum_i weight[y, i] from[first[y] + i, j], a strip of bytes at a time, so that the sums
// stay in registers.
static void resize_column_strip(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                                const int32_t *w, int64_t count, int length) {
    int32_t sum[STRIP_BYTES];
    for (int j = 0; j < length; j++) sum[j] = HALF;
    for (int64_t i = 0; i < count; i++, from += row_bytes) {
        for (int j = 0; j < length; j++) sum[j] += from[j] * w[i];
    }
    for (int j = 0; j < length; j++) to[j] = rounded(sum[j]);
}

static void resize_columns(plb_image *to, const plb_image *from, const filter *f) {
    int64_t row_bytes = from->width * 3;
    for (int64_t y = 0; y < f->out; y++) {
        const uint8_t *at = from->pixels + f->first[y] * row_bytes;
        const int32_t *w = f->weights + y * f->taps;
        int64_t j = 0;
        for (; j + STRIP_BYTES <= row_bytes; j += STRIP_BYTES) { // a length known when compiled
            resize_column_strip(to->pixels + y * row_bytes + j, at + j, row_bytes, w, f->count[y],
                                STRIP_BYTES);
        }
        resize_column_strip(to->pixels + y * row_bytes + j, at + j, row_bytes, w, f->count[y],
                            (int)(row_bytes - j));
    }
}

static plb_status resize_width(const plb_image *from, int64_t width, plb_image *out) {
    filter f;
    PLB_TRY(filter_make(from->width, width, &f));
    plb_status status = plb_image_new(from->height, width, out);
    for (int64_t y = 0; !status && y < from->height; y++) {
        resize_row(out->pixels + y * width * 3, from->pixels + y * from->width * 3, &f);
    }
    filter_free(&f);
    return status;
}

static plb_status resize_height(const plb_image *from, int64_t height, plb_image *out) {
    filter f;
    PLB_TRY(filter_make(from->height, height, &f));
    plb_status status = plb_image_new(height, from->width, out);
    if (!status) resize_columns(out, from, &f);
    filter_free(&f);
    return status;
}

plb_status plb_image_resize(const plb_image *from, int64_t height, int64_t width, plb_image *out) {
    *out = (plb_image){0};
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX) {
        return plb_fail(PLB_EINVAL, "resize: expected 1 or more rows and pixels, found %lld, %lld",
                        (long long)height, (long long)width);
    }
    // Narrow strips grow beyond all bounds: 1 x 1,000,000 with its shorter side at 256 is 196 GB.
    int64_t rows = height > from->height ? height : from->height; // of the picture in between, too
    if (width > plb_image_default_limits.max_pixels / rows) {
        return plb_fail(PLB_EINVAL, "resize: expected up to %lld pixels, found %lld rows of %lld",
                        (long long)plb_image_default_limits.max_pixels, (long long)rows,
                        (long long)width);
    }
    if (height == from->height && width == from->width) { // a copy
        return plb_image_crop_center(from, height, width, out);
    }
    if (width == from->width) return resize_height(from, height, out);
    if (height == from->height) return resize_width(from, width, out);
    plb_image narrow;
    PLB_TRY(resize_width(from, width, &narrow));
    plb_status status = resize_height(&narrow, height, out);
    plb_image_free(&narrow);
    return status;
}

plb_status plb_image_resize_short(const plb_image *from, int64_t size, plb_image *out) {
    *out = (plb_image){0};
    if (size < 1 || size > INT32_MAX) {
        return plb_fail(PLB_EINVAL, "resize: expected a side of 1 or more, found %lld",
                        (long long)size);
    }
    bool wide = from->width > from->height;
    int64_t shorter = wide ? from->height : from->width, longer = wide ? from->width : from->height;
    int64_t other = size * longer / shorter;
    return plb_image_resize(from, wide ? size : other, wide ? other : size, out);
}
