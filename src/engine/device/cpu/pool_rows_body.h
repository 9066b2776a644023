// SPDX-License-Identifier: Apache-2.0
// Included once for each instruction set, with PLB_POOL_ROWS naming the table. Channels fill
// vectors of 16 or 8; a plain value has one channel, and its vectors lie along the row: a window
// is first reduced down its columns, which are contiguous, and then across.
#ifndef PLB_ENGINE_DEVICE_CPU_POOL_ROWS_BODY_H
#define PLB_ENGINE_DEVICE_CPU_POOL_ROWS_BODY_H

#include <stdbool.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "engine/device/cpu/pool.h"

#define PLB_POOL_INLINE static inline __attribute__((always_inline))

#define PLB_POOL_LANES   16
#define PLB_POOL_NAME(x) x##_16
#include "engine/device/cpu/pool_lanes.inc"
#undef PLB_POOL_LANES
#undef PLB_POOL_NAME
#define PLB_POOL_LANES   8
#define PLB_POOL_NAME(x) x##_8
#include "engine/device/cpu/pool_lanes.inc"
#undef PLB_POOL_LANES
#undef PLB_POOL_NAME
#define PLB_POOL_LANES   1
#define PLB_POOL_NAME(x) x##_1
#include "engine/device/cpu/pool_lanes.inc"
#undef PLB_POOL_LANES
#undef PLB_POOL_NAME

// ---------------------------------------------------------------------------- one channel
// Down the columns: the maximum of each and, if at all, where it first stood.
static void max_columns(const plb_pool_row *r) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_window *wd = &g->window[0][r->d], *wh = &g->window[1][r->h];
    const int64_t width = g->in[2];
    float *best = r->line;
    int32_t *at = r->line_at;
    bool begun = false;
    for (int64_t d = 0; d < wd->count; d++) {
        for (int64_t h = 0; h < wh->count; h++, begun = true) {
            int64_t row = (wd->first + d * g->dilation[0]) * g->in[1] + wh->first;
            int32_t start = (int32_t)((row + h * g->dilation[1]) * width);
            const float *x = r->from + start;
            if (!begun) {
                memcpy(best, x, (size_t)width * sizeof *x);
                for (int32_t i = 0; i < width && r->at; i++) at[i] = start + i;
            } else if (r->at) {
#pragma omp simd
                for (int32_t i = 0; i < (int32_t)width; i++) {
                    int wins = (x[i] > best[i]) | ((x[i] != x[i]) & (best[i] == best[i]));
                    best[i] = wins ? x[i] : best[i];
                    at[i] = wins ? start + i : at[i];
                }
            } else {
#pragma omp simd
                for (int32_t i = 0; i < (int32_t)width; i++) {
                    int wins = (x[i] > best[i]) | (x[i] != x[i]);
                    best[i] = wins ? x[i] : best[i];
                }
            }
        }
    }
}

// Of equals that which stands first in the plane, not in the row, wins; so it is among NaNs.
PLB_POOL_INLINE bool beats(float x, int32_t x_at, float best, int32_t best_at) {
    bool earlier = x_at < best_at;
    return (x > best) | ((x == best) & earlier) | ((x != x) & ((best == best) | earlier));
}

// Windows [begin, end) that are whole, `stride` apart.
PLB_POOL_INLINE void max_across(const plb_pool_row *r, int64_t begin, int64_t end, int64_t stride) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_window *ww = g->window[2] + begin;
    const int64_t n = end - begin, first = ww->first, count = ww->count;
    const int64_t dilation = g->dilation[2];
    float *to = r->to + begin;
    int32_t *at = r->at ? r->at + begin : NULL;
    for (int64_t o = 0; o < n; o++) to[o] = r->line[first + o * stride];
    for (int64_t o = 0; o < n && at; o++) at[o] = r->line_at[first + o * stride];
    for (int64_t t = 1; t < count; t++) {
        const float *x = r->line + first + t * dilation;
        const int32_t *x_at = r->line_at + first + t * dilation;
        if (at) {
#pragma omp simd
            for (int64_t o = 0; o < n; o++) {
                float v = x[o * stride];
                int32_t v_at = x_at[o * stride];
                bool wins = beats(v, v_at, to[o], at[o]);
                to[o] = wins ? v : to[o];
                at[o] = wins ? v_at : at[o];
            }
        } else {
#pragma omp simd
            for (int64_t o = 0; o < n; o++) {
                float v = x[o * stride];
                bool wins = (v > to[o]) | (v != v);
                to[o] = wins ? v : to[o];
            }
        }
    }
}

static void max_line(const plb_pool_row *r) {
    const plb_pool_window *ww = r->g->window[2];
    const int64_t out = r->g->out[2];
    max_columns(r);
    for (int64_t o = 0, next; o < out; o = next) { // runs of windows of one form
        int64_t stride = o + 1 < out ? ww[o + 1].first - ww[o].first : 1;
        for (next = o + 1; next < out; next++) {
            if (ww[next].count != ww[o].count) break;
            if (ww[next].first - ww[next - 1].first != stride) break;
        }
        if (stride == 1) {
            max_across(r, o, next, 1);
        } else if (stride == 2) {
            max_across(r, o, next, 2);
        } else {
            max_across(r, o, next, stride);
        }
    }
}

static float sum_of(const float *x, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

static void mean_line(const plb_pool_row *r) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_window *wd = &g->window[0][r->d], *wh = &g->window[1][r->h];
    const int64_t width = g->in[2];
    const bool single = g->out[2] == 1;
    float *sum = r->line, total = 0;
    if (!single) memset(sum, 0, (size_t)width * sizeof *sum);
    for (int64_t d = 0; d < wd->count; d++) {
        for (int64_t h = 0; h < wh->count; h++) {
            const float *x = r->from + ((wd->first + d) * g->in[1] + wh->first + h) * width;
            if (single) {
                total += sum_of(x + g->window[2]->first, g->window[2]->count);
            } else {
#pragma omp simd
                for (int64_t i = 0; i < width; i++) sum[i] += x[i];
            }
        }
    }
    float divisor = wd->divisor * wh->divisor;
    if (single) {
        r->to[0] = total / (divisor * g->window[2]->divisor);
        return;
    }
    for (int64_t o = 0; o < g->out[2]; o++) {
        const plb_pool_window *ww = &g->window[2][o];
        float part = 0;
        for (int64_t t = 0; t < ww->count; t++) part += sum[ww->first + t];
        r->to[o] = part / (divisor * ww->divisor);
    }
}

static void mean_grad_line(const plb_pool_row *r) {
    const plb_pool_geometry *g = r->g;
    const plb_pool_cover cd = g->cover[0][r->d], ch = g->cover[1][r->h];
    memset(r->to, 0, (size_t)g->in[2] * sizeof *r->to);
    for (int64_t d = cd.first; d < cd.end; d++) {
        for (int64_t h = ch.first; h < ch.end; h++) {
            float divisor = g->window[0][d].divisor * g->window[1][h].divisor;
            const float *dy = r->from + (d * g->out[1] + h) * g->out[2];
            for (int64_t o = 0; o < g->out[2]; o++) {
                const plb_pool_window *ww = &g->window[2][o];
                float share = dy[o] / (divisor * ww->divisor), *dx = r->to + ww->first;
                for (int64_t t = 0; t < ww->count; t++) dx[t] += share;
            }
        }
    }
}

// ---------------------------------------------------------------------------- by channels
// Masked vectors suit any number of channels.
#ifdef __AVX512F__
enum { LEAST_FOR_16 = 2 };
#else
enum { LEAST_FOR_16 = 16 };
#endif

static void max_row(const plb_pool_row *r) {
    int64_t n = r->end - r->begin;
    if (n >= LEAST_FOR_16) {
        max_row_16(r);
    } else if (n >= 8) {
        max_row_8(r);
    } else if (r->g->channels == 1) {
        max_line(r);
    } else {
        max_row_1(r);
    }
}

static void mean_row(const plb_pool_row *r) {
    int64_t n = r->end - r->begin;
    if (n >= LEAST_FOR_16) {
        mean_row_16(r);
    } else if (n >= 8) {
        mean_row_8(r);
    } else if (r->g->channels == 1) {
        mean_line(r);
    } else {
        mean_row_1(r);
    }
}

static void mean_grad_row(const plb_pool_row *r) {
    int64_t n = r->end - r->begin;
    if (n >= LEAST_FOR_16) {
        mean_grad_row_16(r);
    } else if (n >= 8) {
        mean_grad_row_8(r);
    } else if (r->g->channels == 1) {
        mean_grad_line(r);
    } else {
        mean_grad_row_1(r);
    }
}

static int64_t max_grad_row(const plb_pool_row *r) {
    int64_t n = r->end - r->begin;
    if (n >= LEAST_FOR_16) return max_grad_row_16(r);
    return n >= 8 ? max_grad_row_8(r) : max_grad_row_1(r);
}

const plb_pool_rows PLB_POOL_ROWS = {max_row, mean_row, mean_grad_row, max_grad_row};

#endif
