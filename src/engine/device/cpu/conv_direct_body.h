// SPDX-License-Identifier: Apache-2.0
// The code of the direct convolutions, over the few vector operations that the including file
// defines for its instruction set. Included once by each of them.
#ifndef PLB_ENGINE_DEVICE_CPU_CONV_DIRECT_BODY_H
#define PLB_ENGINE_DEVICE_CPU_CONV_DIRECT_BODY_H

#include <string.h>

// X(n, 1), X(n, 2) and so on.
#define PLB_TO_3(X, n)  X(n, 1) X(n, 2) X(n, 3)
#define PLB_TO_4(X, n)  PLB_TO_3(X, n) X(n, 4)
#define PLB_TO_5(X, n)  PLB_TO_4(X, n) X(n, 5)
#define PLB_TO_6(X, n)  PLB_TO_5(X, n) X(n, 6)
#define PLB_TO_8(X, n)  PLB_TO_6(X, n) X(n, 7) X(n, 8)
#define PLB_TO_12(X, n) PLB_TO_8(X, n) X(n, 9) X(n, 10) X(n, 11) X(n, 12)

#define PLB_INLINE static inline __attribute__((always_inline))

PLB_INLINE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---------------------------------------------------------------------------- transposing
// The corner of `rows` rows and `columns` columns of such a square, the rest zeros.
static void transpose_corner(const float *x, int64_t stride, int64_t n_rows, int64_t columns,
                             vec r[LANES]) {
    float square[LANES * LANES];
    for (int i = 0; i < LANES; i++) {
        vec_store(square + i * LANES,
                  i < n_rows ? vec_load_few(x + i * stride, columns) : vec_zero());
    }
    vec_transpose(square, LANES, r);
}

// to[i][lane] = x[lane stride + i] for i < count; zeros in the lanes past `images`.
static void gather_images(const float *x, int64_t stride, int64_t images, int64_t count,
                          float *to) {
    for (int64_t at = 0; at < count; at += LANES, to += LANES * LANES) {
        const int64_t n = least(LANES, count - at);
        vec r[LANES];
        if (n == LANES && images == LANES) {
            vec_transpose(x + at, stride, r);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) vec_store(to + i * LANES, r[i]);
        } else {
            transpose_corner(x + at, stride, images, n, r);
            for (int64_t i = 0; i < n; i++) vec_store(to + i * LANES, r[i]);
        }
    }
}

// y[lane stride + i] = bounded(from[i][lane] + residual[lane stride + i]) for lane < images.
static void scatter_images(const float *from, int64_t count, const plb_direct_end *end,
                           const float *residual, int64_t stride, int64_t images, float *y) {
    const vec low = vec_all(end->low), high = vec_all(end->high);
    for (int64_t at = 0; at < count; at += LANES, from += LANES * LANES) {
        const int64_t n = least(LANES, count - at);
        vec r[LANES];
        if (n == LANES && images == LANES && !residual) {
            vec_transpose(from, LANES, r);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) {
                vec_store(y + i * stride + at, vec_min(high, vec_max(low, r[i])));
            }
            continue;
        }
        transpose_corner(from, LANES, n, LANES, r);
        for (int64_t i = 0; i < images; i++) {
            const int64_t to = i * stride + at;
            if (residual) r[i] = vec_add(r[i], vec_load_few(residual + to, n));
            vec_store_few(y + to, vec_min(high, vec_max(low, r[i])), n);
        }
    }
}

// ---------------------------------------------------------------------------- conv, its input grad
// Row of the source that meets the row of the result, and the tap of depth and height.
typedef struct plb_direct_meeting {
    int64_t from, tap; // in rows
} plb_direct_meeting;

// What a row of the result is summed from.
typedef struct plb_direct_row {
    const float *source; // xt, less the rows that it does not hold
    const float *weights, *bias;
    plb_direct_meeting meetings[PLB_DIRECT_TAPS];
    int n_meetings;
    int64_t row_floats; // of xt
    int64_t c;          // channels of the source
    int64_t w_taps, step;
    int64_t pixel_floats; // from a pixel of yt to the next
} plb_direct_row;

PLB_INLINE void pixel_block(const int pixels, const int channels, const plb_direct_row *s,
                            const plb_direct_run *runs, int n_runs, float *y) {
    vec sum[SUMS];
#pragma GCC unroll 12
    for (int k = 0; k < channels; k++) {
        vec b = s->bias ? vec_all(s->bias[k]) : vec_zero();
#pragma GCC unroll 4
        for (int p = 0; p < pixels; p++) sum[p * channels + k] = b;
    }
    for (int m = 0; m < s->n_meetings; m++) {
        for (int r = 0; r < n_runs; r++) {
            const float *x =
                s->source + s->meetings[m].from * s->row_floats + runs[r].from * s->c * LANES;
            const float *w =
                s->weights + (s->meetings[m].tap * s->w_taps + runs[r].tap) * s->c * channels;
            for (int64_t n = runs[r].count * s->c; n--; x += LANES, w += channels) {
                vec from[PLB_DIRECT_PIXELS];
#pragma GCC unroll 4
                for (int p = 0; p < pixels; p++) from[p] = vec_load(x + p * s->step);
#pragma GCC unroll 12
                for (int k = 0; k < channels; k++) {
                    vec a = vec_all(w[k]);
#pragma GCC unroll 4
                    for (int p = 0; p < pixels; p++) {
                        sum[p * channels + k] = vec_fma(a, from[p], sum[p * channels + k]);
                    }
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < pixels; p++) {
#pragma GCC unroll 12
        for (int k = 0; k < channels; k++) {
            vec_store(y + p * s->pixel_floats + k * LANES, sum[p * channels + k]);
        }
    }
}

static void pixel_block_of(int64_t pixels, int64_t channels, const plb_direct_row *s,
                           const plb_direct_run *runs, int n_runs, float *y) {
    switch (pixels * 16 + channels) {
#define PLB_BLOCK(p, k) \
    case p * 16 + k: pixel_block(p, k, s, runs, n_runs, y); break;
        PLB_EACH_PIXEL_BLOCK(PLB_BLOCK)
#undef PLB_BLOCK
    }
}

// Pixels that are worth a block with so many channels: 4, 2 or 1.
static int64_t pixels_of(int64_t alike, int64_t channels) {
    int64_t pixels = PLB_DIRECT_PIXELS;
    while (pixels > 1 && (pixels > alike || pixels * channels > SUMS)) pixels /= 2;
    return pixels;
}

// One block of channels of a row, yt[W,to_c][L] from its first channel.
static void channel_block(const plb_direct_plan *plan, const plb_direct_row *s, int64_t channels,
                          float *yt) {
    const plb_direct_axis *w = &plan->axis[2];
    for (int64_t ox = 0; ox < plan->to[2];) {
        const int64_t pixels = pixels_of(plan->alike[ox], channels);
        pixel_block_of(pixels, channels, s, w->runs + w->first[ox], w->first[ox + 1] - w->first[ox],
                       yt + ox * s->pixel_floats);
        ox += pixels;
    }
}

// Sets what the row meets, in rows of the source from depth 0, height 0.
static void meet(const plb_direct_plan *plan, int64_t row, plb_direct_row *s) {
    const plb_direct_axis *d = &plan->axis[0], *h = &plan->axis[1];
    const int64_t z = row / plan->to[1], y = row % plan->to[1];
    s->n_meetings = 0;
    for (int32_t i = d->first[z]; i < d->first[z + 1]; i++) {
        for (int32_t j = h->first[y]; j < h->first[y + 1]; j++) {
            s->meetings[s->n_meetings++] =
                (plb_direct_meeting){d->runs[i].from * plan->from[1] + h->runs[j].from,
                                     d->runs[i].tap * plan->shape.kernel[1] + h->runs[j].tap};
        }
    }
}

// The rows of the source that rows of the result meet: begin and end, equal if none.
static void rows_met(const plb_direct_plan *plan, int64_t row_begin, int64_t row_end,
                     plb_direct_row *s, int64_t *begin, int64_t *end) {
    *begin = plan->from[0] * plan->from[1], *end = 0;
    for (int64_t row = row_begin; row < row_end; row++) {
        meet(plan, row, s);
        for (int i = 0; i < s->n_meetings; i++) {
            int64_t from = s->meetings[i].from;
            if (from < *begin) *begin = from;
            if (from + 1 > *end) *end = from + 1;
        }
    }
    if (*begin > *end) *begin = *end;
}

static void rows(const plb_direct_plan *plan, const float *source, const float *packed,
                 const plb_direct_end *end, int64_t first, int64_t images, int64_t row_begin,
                 int64_t row_end, float *result, float *workspace) {
    const int64_t from_row = plan->from[2] * plan->from_c, to_row = plan->to[2] * plan->to_c;
    const int64_t from_image = plan->from[0] * plan->from[1] * from_row;
    const int64_t to_image = plan->to[0] * plan->to[1] * to_row;
    const int64_t taps = plan->shape.kernel[0] * plan->shape.kernel[1] * plan->shape.kernel[2];
    float *yt = workspace + plan->source_floats;
    int64_t met_begin, met_end;
    plb_direct_row s = {.row_floats = from_row * LANES,
                        .c = plan->from_c,
                        .w_taps = plan->shape.kernel[2],
                        .step = plan->step * plan->from_c * LANES,
                        .pixel_floats = plan->to_c * LANES};
    rows_met(plan, row_begin, row_end, &s, &met_begin, &met_end);
    gather_images(source + first * from_image + met_begin * from_row, from_image, images,
                  (met_end - met_begin) * from_row, workspace);
    for (int64_t row = row_begin; row < row_end; row++) {
        meet(plan, row, &s);
        for (int i = 0; i < s.n_meetings; i++) s.meetings[i].from -= met_begin;
        s.source = workspace;
        for (int64_t k = 0; k < plan->to_c; k += plan->channel_block) {
            s.weights = packed + k * taps * plan->from_c;
            s.bias = end->bias ? end->bias + k : NULL;
            channel_block(plan, &s, least(plan->channel_block, plan->to_c - k), yt + k * LANES);
        }
        const int64_t at = first * to_image + row * to_row;
        scatter_images(yt, to_row, end, end->residual ? end->residual + at : NULL, to_image, images,
                       result + at);
    }
}

// ---------------------------------------------------------------------------- weight gradient
// Some rows of dy against the rows of x that one tap of depth and height gives them.
typedef struct plb_direct_grad {
    const float *dy, *x;
    int64_t n, pixels;             // rows, and pixels of each
    int64_t dy_row, dy_pixel;      // floats to the next
    int64_t x_pixel;               // floats from what a pixel meets to what the next does
    int64_t x_at[PLB_DIRECT_ROWS]; // of each row's partner, -1: it is padding
    int64_t total_k, total_j;      // floats from a total to the next channel's, the next tap's
    bool fresh;
} plb_direct_grad;

PLB_INLINE void grad_block(const int channels, const int taps, const plb_direct_grad *g,
                           const float *dy0, const float *x0, float *totals) {
    vec sum[GRAD_SUMS];
#pragma GCC unroll 25
    for (int i = 0; i < channels * taps; i++) sum[i] = vec_zero();
    for (int64_t r = 0; r < g->n; r++) {
        if (g->x_at[r] < 0) continue;
        const float *dy = dy0 + r * g->dy_row, *x = x0 + g->x_at[r];
        for (int64_t p = g->pixels; p--; dy += g->dy_pixel, x += g->x_pixel) {
            vec d[GRAD_K];
#pragma GCC unroll 5
            for (int k = 0; k < channels; k++) d[k] = vec_load(dy + k * LANES);
#pragma GCC unroll 12
            for (int j = 0; j < taps; j++) {
                vec a = vec_load(x + j * LANES);
#pragma GCC unroll 5
                for (int k = 0; k < channels; k++) {
                    sum[k * taps + j] = vec_fma(d[k], a, sum[k * taps + j]);
                }
            }
        }
    }
#pragma GCC unroll 5
    for (int k = 0; k < channels; k++) {
#pragma GCC unroll 12
        for (int j = 0; j < taps; j++) {
            float *to = totals + k * g->total_k + j * LANES;
            vec_store(to, g->fresh ? sum[k * taps + j] : vec_add(vec_load(to), sum[k * taps + j]));
        }
    }
}

static void grad_block_of(int64_t channels, int64_t taps, const plb_direct_grad *g, const float *dy,
                          const float *x, float *totals) {
    switch (channels * 16 + taps) {
#define PLB_BLOCK(k, j) \
    case k * 16 + j: grad_block(k, j, g, dy, x, totals); break;
        PLB_EACH_GRAD_BLOCK(PLB_BLOCK)
#undef PLB_BLOCK
    }
}

// An extent cut into equal blocks of at most `most`, the last perhaps smaller.
static int64_t even_block(int64_t extent, int64_t most) {
    const int64_t blocks = (extent + most - 1) / most;
    return (extent + blocks - 1) / blocks;
}

// Channels of dy at a time: one less than most where this leaves no rest.
static int64_t grad_channels_of(int64_t k) {
    return k % GRAD_K && k % (GRAD_K - 1) == 0 ? GRAD_K - 1 : even_block(k, GRAD_K);
}

// Channels k .. k + channels with all width taps and channels of x. Without dilation these follow
// each other in memory; with it, each tap's channels do.
static void grad_channels(const plb_direct_plan *plan, const plb_direct_grad *g, int64_t k,
                          int64_t channels, float *totals) {
    const plb_conv_shape *s = &plan->shape;
    const int64_t length = s->dilation[2] == 1 ? plan->j_count : s->c;
    const int64_t block = even_block(length, least(GRAD_J, GRAD_SUMS / channels));
    for (int64_t j = 0; j < plan->j_count; j += length) {
        const float *x = g->x + j * s->dilation[2] * LANES;
        for (int64_t i = 0; i < length; i += block) {
            grad_block_of(channels, least(block, length - i), g, g->dy + k * LANES, x + i * LANES,
                          totals + k * g->total_k + (j + i) * LANES);
        }
    }
}

// Where row r of y meets x with a tap of depth and height: a row of x, -1 in the padding.
static int64_t partner_of(const plb_direct_plan *plan, int64_t row, int64_t tap) {
    const plb_conv_shape *s = &plan->shape;
    const int64_t z =
        row / s->out[1] * s->stride[0] - s->pad[0] + tap / s->kernel[1] * s->dilation[0];
    const int64_t y =
        row % s->out[1] * s->stride[1] - s->pad[1] + tap % s->kernel[1] * s->dilation[1];
    if (z < 0 || z >= s->in[0] || y < 0 || y >= s->in[1]) return -1;
    return z * s->in[1] + y;
}

// Rows begin .. end of x to xt, each with zeros where the taps of its row leave it.
static void gather_padded(const plb_direct_plan *plan, const float *x, int64_t images,
                          int64_t begin, int64_t end, float *xt) {
    const plb_conv_shape *s = &plan->shape;
    const int64_t row = s->in[2] * s->c, image = s->in[0] * s->in[1] * row;
    const int64_t padded = plan->padded_w * s->c * LANES, left = s->pad[2] * s->c * LANES;
    const int64_t kept = least(s->in[2], plan->padded_w - s->pad[2]) * s->c;
    for (int64_t r = begin; r < end; r++, xt += padded) {
        if (kept <= 0) {
            memset(xt, 0, (size_t)padded * sizeof *xt);
            continue;
        }
        const int64_t right = padded - left - kept * LANES;
        memset(xt, 0, (size_t)left * sizeof *xt);
        gather_images(x + r * row, image, images, kept, xt + left);
        memset(xt + left + kept * LANES, 0, (size_t)right * sizeof *xt);
    }
}

// The rows of x that rows of y meet: begin and end, equal if none.
static void partners_of(const plb_direct_plan *plan, int64_t row_begin, int64_t row_end,
                        int64_t *begin, int64_t *end) {
    const int64_t taps = plan->shape.kernel[0] * plan->shape.kernel[1];
    *begin = plan->shape.in[0] * plan->shape.in[1], *end = 0;
    for (int64_t r = row_begin; r < row_end; r++) {
        for (int64_t t = 0; t < taps; t++) {
            const int64_t x = partner_of(plan, r, t);
            if (x < 0) continue;
            if (x < *begin) *begin = x;
            if (x + 1 > *end) *end = x + 1;
        }
    }
    if (*begin > *end) *begin = *end;
}

static void weight_rows(const plb_direct_plan *plan, const float *x, const float *dy, int64_t first,
                        int64_t images, int64_t row_begin, int64_t row_end, bool fresh,
                        float *workspace) {
    const plb_conv_shape *s = &plan->shape;
    const int64_t dy_row = s->out[2] * s->k, dy_image = s->out[0] * s->out[1] * dy_row;
    const int64_t x_image = s->in[0] * s->in[1] * s->in[2] * s->c;
    const int64_t x_row = plan->padded_w * s->c * LANES, taps = s->kernel[0] * s->kernel[1];
    const int64_t k_block = grad_channels_of(s->k), chunk = plan->grad_rows;
    float *dyt = workspace + plan->source_floats, *totals = dyt + plan->row_floats;
    int64_t begin, end;
    partners_of(plan, row_begin, row_end, &begin, &end);
    gather_padded(plan, x + first * x_image, images, begin, end, workspace);
    plb_direct_grad g = {.dy = dyt,
                         .x = workspace,
                         .pixels = s->out[2],
                         .dy_row = dy_row * LANES,
                         .dy_pixel = s->k * LANES,
                         .x_pixel = s->stride[2] * s->c * LANES,
                         .total_k = taps * plan->j_count * LANES,
                         .fresh = fresh};
    for (int64_t row = row_begin; row < row_end; row += chunk, g.fresh = false) {
        g.n = least(chunk, row_end - row);
        gather_images(dy + first * dy_image + row * dy_row, dy_image, images, g.n * dy_row, dyt);
        for (int64_t k = 0; k < s->k; k += k_block) {
            for (int64_t t = 0; t < taps; t++) {
                for (int64_t r = 0; r < g.n; r++) {
                    const int64_t at = partner_of(plan, row + r, t);
                    g.x_at[r] = at < 0 ? -1 : (at - begin) * x_row;
                }
                grad_channels(plan, &g, k, least(k_block, s->k - k),
                              totals + t * plan->j_count * LANES);
            }
        }
    }
}

// Sums over the lanes and over the threads, in this order whatever was ready first.
static void weight_sum(const plb_direct_plan *plan, const float *totals, int parts, size_t stride,
                       float *dw) {
    const plb_conv_shape *s = &plan->shape;
    const int64_t outer = s->kernel[0] * s->kernel[1], taps = outer * s->kernel[2];
    for (int64_t row = 0; row < s->k * outer; row++) {
        const int64_t k = row / outer, t = row % outer;
        int64_t tx = 0, c = 0;
        for (int64_t j = 0; j < plan->j_count; j += LANES) {
            const int64_t n = least(LANES, plan->j_count - j);
            vec r[LANES];
            float square[LANES * LANES] = {0}, sums[LANES];
            for (int64_t i = 0; i < n; i++) {
                const float *from = totals + (row * plan->j_count + j + i) * LANES;
                vec sum = vec_load(from);
                for (int p = 1; p < parts; p++) {
                    sum = vec_add(sum, vec_load(from + (size_t)p * stride));
                }
                vec_store(square + i * LANES, sum);
            }
            vec_transpose(square, LANES, r);
            for (int half = LANES / 2; half; half /= 2) {
                for (int i = 0; i < half; i++) r[i] = vec_add(r[i], r[i + half]);
            }
            vec_store(sums, r[0]);
            for (int64_t i = 0; i < n; i++) {
                dw[(k * s->c + c) * taps + t * s->kernel[2] + tx] = sums[i];
                if (++c == s->c) c = 0, tx++;
            }
        }
    }
}

#endif
