// SPDX-License-Identifier: Apache-2.0
// Resizing as Pillow does it (its "convolution-based resampling"): for output x, centre
// c = (x + 1/2) in/out, and the weight of input i is the triangle max(0, 1 - |i + 1/2 - c| / s)
// with s = max(1, in/out), normalised to sum 1. Weights become integers of 22 bits of fraction;
// rows first, then columns, each pass rounded to u8. The numbers, not the speed, fix all of that:
// a float version differs from what models were trained on by 1 in some pixels.
//
// Where only a window of the result is wanted, only what it needs is read and computed.
#include "data/transform.h"

#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "data/resize_kernel.h"

// One axis: `in` places become `all`, of which [begin, begin + out) are wanted.
typedef struct axis {
    int64_t in, all, begin, out;
} axis;

// The input places that output place x is made of: [*first, *end).
static void reach(const axis *a, int64_t x, int64_t *first, int64_t *end) {
    double scale = (double)a->in / (double)a->all, s = scale < 1 ? 1 : scale;
    double center = ((double)x + 0.5) * scale;
    *first = center - s + 0.5 < 0 ? 0 : (int64_t)(center - s + 0.5);
    *end = (int64_t)(center + s + 0.5);
    if (*end > a->in) *end = a->in;
}

// The input places that all wanted places are made of.
static void reach_all(const axis *a, int64_t *first, int64_t *end) {
    int64_t unused;
    *first = a->begin, *end = a->begin + a->out;
    if (a->in == a->all) return;
    reach(a, a->begin, first, &unused);
    reach(a, a->begin + a->out - 1, &unused, end);
}

static void filter_free(plb_resize_filter *f) {
    plb_free(f->first);
    plb_free(f->count);
    plb_free(f->weights);
    plb_free(f->high);
    plb_free(f->low);
}

// Weights of wanted place k, into w[f->taps] as doubles, then as integers. Input places are counted
// from `origin` on.
static void fill_place(plb_resize_filter *f, const axis *a, int64_t k, int64_t origin, double *w) {
    int64_t x = a->begin + k, first, end;
    double scale = (double)a->in / (double)a->all, s = scale < 1 ? 1 : scale;
    double center = ((double)x + 0.5) * scale, sum = 0;
    int32_t *weight = f->weights + k * f->taps;
    reach(a, x, &first, &end);
    for (int64_t i = first; i < end; i++) {
        double distance = fabs(((double)i - center + 0.5) * (1 / s));
        w[i - first] = distance < 1 ? 1 - distance : 0;
        sum += w[i - first];
    }
    f->first[k] = first - origin, f->count[k] = end - first;
    memset(weight, 0, (size_t)f->taps * sizeof *weight);
    for (int64_t i = 0; i < end - first; i++) {
        if (sum != 0) w[i] /= sum;
        weight[i] = (int32_t)(0.5 + w[i] * (1 << PLB_RESIZE_BITS));
    }
}

static void split_weights(plb_resize_filter *f) {
    for (int64_t i = 0; i < f->out * f->taps; i++) {
        f->high[i] = (int16_t)(f->weights[i] >> PLB_RESIZE_LOW_BITS);
        f->low[i] = (int16_t)(f->weights[i] & ((1 << PLB_RESIZE_LOW_BITS) - 1));
    }
}

// The most input places that any wanted place is made of, made even.
static int64_t most_taps(const axis *a) {
    int64_t most = 0, first, end;
    for (int64_t k = 0; k < a->out; k++) {
        reach(a, a->begin + k, &first, &end);
        if (end - first > most) most = end - first;
    }
    return most + most % 2;
}

static plb_status filter_make(const axis *a, int64_t origin, bool split, plb_resize_filter *f) {
    const int64_t taps = most_taps(a);
    const size_t places = (size_t)a->out, count = places * (size_t)taps;
    *f = (plb_resize_filter){.out = a->out, .taps = taps};
    f->first = plb_alloc_array(places, sizeof *f->first);
    f->count = plb_alloc_array(places, sizeof *f->count);
    f->weights = plb_alloc_array(count, sizeof *f->weights);
    if (split) f->high = plb_alloc_array(count, sizeof *f->high);
    if (split) f->low = plb_alloc_array(count, sizeof *f->low);
    double *w = plb_alloc_array((size_t)taps, sizeof *w);
    bool complete = f->first && f->count && f->weights && w && (!split || (f->high && f->low));
    for (int64_t k = 0; complete && k < a->out; k++) fill_place(f, a, k, origin, w);
    if (complete && split) split_weights(f);
    plb_free(w);
    if (complete) return PLB_OK;
    filter_free(f);
    return plb_fail(PLB_ENOMEM, "no memory for the weights of a resize");
}

static bool has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

// Resizes rows [0, y) two at a time, as many as leave room for what is read beyond them; returns y.
static int64_t resize_pairs(const plb_image *from, int64_t top, const plb_image *to,
                            const plb_resize_filter *f) {
    int64_t y = 0;
#if defined(__x86_64__)
    const int64_t from_bytes = from->width * 3, to_bytes = to->width * 3;
    const int64_t reads = (f->first[f->out - 1] + f->taps) * 3 + 2; // of a row and what follows
    for (; has_avx2() && y + 2 <= to->height; y += 2) {
        const int64_t at = (top + y) * from_bytes;
        if (at + from_bytes + reads > from->height * from_bytes) break;
        plb_resize_rows_avx2(to->pixels + y * to_bytes, to_bytes, from->pixels + at, from_bytes, f);
    }
#else
    (void)from, (void)top, (void)to, (void)f;
#endif
    return y;
}

// A picture in the slot, or, without a scratch, of its own.
static plb_status new_image(plb_scratch *scratch, int slot, int64_t height, int64_t width,
                            plb_image *out) {
    if (!scratch) return plb_image_new(height, width, out);
    *out = (plb_image){plb_scratch_reserve(scratch, slot, (size_t)(height * width) * 3), height,
                       width};
    if (out->pixels) return PLB_OK;
    *out = (plb_image){0};
    return plb_fail(PLB_ENOMEM, "no memory for an image of %lld rows of %lld pixels",
                    (long long)height, (long long)width);
}

// Rows of `from` from `top` on, its columns counted from `left`, made `a->out` wide.
static plb_status resize_width(const plb_image *from, int64_t top, int64_t left, const axis *a,
                               const plb_image *to) {
    plb_resize_filter f;
    PLB_TRY(filter_make(a, left, has_avx2(), &f));
    for (int64_t y = resize_pairs(from, top, to, &f); y < to->height; y++)
        plb_resize_row_plain(to->pixels + y * a->out * 3,
                             from->pixels + (top + y) * from->width * 3, &f);
    filter_free(&f);
    return PLB_OK;
}

static void resize_column(uint8_t *to, const uint8_t *from, int64_t row_bytes,
                          const int32_t *weight, int64_t count, int64_t length) {
#if defined(__x86_64__)
    if (has_avx2()) {
        plb_resize_column_avx2(to, from, row_bytes, weight, count, length);
        return;
    }
#endif
    plb_resize_column_plain(to, from, row_bytes, weight, count, length);
}

// Columns of `from` from `left` on, its rows counted from `top`, made `a->out` high.
static plb_status resize_height(const plb_image *from, int64_t left, int64_t top, const axis *a,
                                const plb_image *to) {
    plb_resize_filter f;
    PLB_TRY(filter_make(a, top, false, &f));
    const int64_t from_bytes = from->width * 3, to_bytes = to->width * 3;
    for (int64_t y = 0; y < a->out; y++)
        resize_column(to->pixels + y * to_bytes, from->pixels + f.first[y] * from_bytes + left * 3,
                      from_bytes, f.weights + y * f.taps, f.count[y], to_bytes);
    filter_free(&f);
    return PLB_OK;
}

static void copy_window(const plb_image *from, int64_t top, int64_t left, const plb_image *to) {
    for (int64_t y = 0; y < to->height; y++)
        memcpy(to->pixels + y * to->width * 3, from->pixels + ((top + y) * from->width + left) * 3,
               (size_t)to->width * 3);
}

static plb_status check_extents(const plb_resize *r) {
    int64_t height = r->height, width = r->width;
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX) {
        return plb_fail(PLB_EINVAL, "resize: expected 1 or more rows and pixels, found %lld, %lld",
                        (long long)height, (long long)width);
    }
    // Narrow strips grow beyond all bounds: 1 x 1,000,000 with its shorter side at 256 is 196 GB.
    int64_t rows = height > r->from_height ? height : r->from_height; // of the picture in between
    if (width > plb_image_default_limits.max_pixels / rows) {
        return plb_fail(PLB_EINVAL, "resize: expected up to %lld pixels, found %lld rows of %lld",
                        (long long)plb_image_default_limits.max_pixels, (long long)rows,
                        (long long)width);
    }
    const plb_image_part *w = &r->window;
    if (w->top >= 0 && w->left >= 0 && w->height > 0 && w->width > 0 &&
        w->height <= height - w->top && w->width <= width - w->left)
        return PLB_OK;
    return plb_fail(PLB_EINVAL, "crop to %lld rows of %lld pixels: found %lld rows of %lld",
                    (long long)w->height, (long long)w->width, (long long)height, (long long)width);
}

static axis rows_of(const plb_resize *r) {
    return (axis){r->from_height, r->height, r->window.top, r->window.height};
}

static axis columns_of(const plb_resize *r) {
    return (axis){r->from_width, r->width, r->window.left, r->window.width};
}

plb_image_part plb_resize_needs(const plb_resize *r) {
    if (check_extents(r)) return (plb_image_part){0, 0, r->from_height, r->from_width};
    const axis rows = rows_of(r), columns = columns_of(r);
    plb_image_part part;
    reach_all(&rows, &part.top, &part.height);
    reach_all(&columns, &part.left, &part.width);
    part.height -= part.top, part.width -= part.left;
    return part;
}

plb_status plb_image_resize_part(const plb_image *from, const plb_image_part *at,
                                 const plb_resize *r, plb_scratch *scratch, plb_image *out) {
    *out = (plb_image){0};
    PLB_TRY(check_extents(r));
    const plb_image_part needs = plb_resize_needs(r);
    const axis rows = rows_of(r), columns = columns_of(r);
    const int64_t top = needs.top - at->top, left = needs.left - at->left; // within `from`
    if (top < 0 || left < 0 || needs.height > from->height - top ||
        needs.width > from->width - left)
        return plb_fail(PLB_EINVAL, "resize: expected the part at row %lld, column %lld",
                        (long long)needs.top, (long long)needs.left);
    const bool narrows = columns.in != columns.all, lowers = rows.in != rows.all;
    plb_image narrow = {0};
    plb_status status;
    PLB_TRY(new_image(scratch, 2, rows.out, columns.out, out));
    if (!narrows && !lowers) {
        copy_window(from, top, left, out);
        return PLB_OK;
    }
    if (narrows && lowers) {
        PLB_TRY_OUT(new_image(scratch, 1, needs.height, columns.out, &narrow));
        PLB_TRY_OUT(resize_width(from, top, at->left, &columns, &narrow));
        PLB_TRY_OUT(resize_height(&narrow, 0, needs.top, &rows, out));
    } else if (lowers) {
        PLB_TRY_OUT(resize_height(from, left, at->top, &rows, out));
    } else {
        PLB_TRY_OUT(resize_width(from, top, at->left, &columns, out));
    }
out:
    if (!scratch) plb_image_free(&narrow);
    if (status && !scratch) plb_image_free(out);
    if (status) *out = (plb_image){0};
    return status;
}

plb_status plb_image_resize(const plb_image *from, int64_t height, int64_t width, plb_image *out) {
    const plb_image_part whole = {0, 0, from->height, from->width};
    const plb_resize r = {from->height, from->width, height, width, {0, 0, height, width}};
    return plb_image_resize_part(from, &whole, &r, NULL, out);
}

plb_status plb_image_resize_short(const plb_image *from, int64_t size, plb_image *out) {
    *out = (plb_image){0};
    if (size < 1 || size > INT32_MAX) {
        return plb_fail(PLB_EINVAL, "resize: expected a side of 1 or more, found %lld",
                        (long long)size);
    }
    const plb_resize r = plb_resize_short(from->height, from->width, size);
    return plb_image_resize(from, r.height, r.width, out);
}

plb_resize plb_resize_short(int64_t height, int64_t width, int64_t size) {
    bool wide = width > height;
    int64_t shorter = wide ? height : width, longer = wide ? width : height;
    int64_t other = size * longer / shorter;
    plb_resize r = {height, width, wide ? size : other, wide ? other : size, {0}};
    r.window = (plb_image_part){0, 0, r.height, r.width};
    return r;
}
