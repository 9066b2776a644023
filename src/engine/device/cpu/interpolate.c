// SPDX-License-Identifier: Apache-2.0
// Resampling of f32 and its gradient, channels-last or plain (a plain value is one with a channel
// in each plane). Taps along each axis are worked out once. A row of y mixes rows of x into a line,
// all columns and channels at a time, and then mixes the line's columns; the gradient does the same
// backwards. Taps of weight 0 lie beside the grid and are dropped: an infinity there must not
// count.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/interpolate_shape.h"

typedef struct tap_list {
    int32_t count, index[PLB_MAX_TAPS];
    float weight[PLB_MAX_TAPS];
} tap_list;

typedef struct resampling {
    const plb_vec *vec;
    int64_t planes, channels;
    int64_t x[PLB_MAX_SPATIAL], y[PLB_MAX_SPATIAL]; // extents; of dx and dy in a gradient
    int threads;
    const tap_list *taps[PLB_MAX_SPATIAL]; // [y], behind this struct
} resampling;

static size_t line_floats(const resampling *r) {
    return (size_t)(r->x[2] * r->channels + 15) / 16 * 16;
}

static int64_t size_of(const int64_t *extents) {
    return extents[0] * extents[1] * extents[2];
}

// to = or += weight from
static void mix(const resampling *r, bool first, float weight, const float *from, float *to,
                int64_t n) {
    if (first) {
        r->vec->scale(to, from, weight, 0, n);
    } else {
        r->vec->add_scaled(to, from, weight, n);
    }
}

// ---------------------------------------------------------------------------- forward
// The line for row (d, h) of y: x itself where one row of it counts whole.
static const float *mixed_rows(const resampling *r, const float *x, const tap_list *d,
                               const tap_list *h, float *line) {
    const int64_t n = r->x[2] * r->channels;
    if (d->count == 1 && h->count == 1 && d->weight[0] == 1 && h->weight[0] == 1) {
        return x + (d->index[0] * r->x[1] + h->index[0]) * n;
    }
    for (int i = 0; i < d->count; i++) {
        for (int j = 0; j < h->count; j++) {
            const float *row = x + (d->index[i] * r->x[1] + h->index[j]) * n;
            mix(r, i + j == 0, d->weight[i] * h->weight[j], row, line, n);
        }
    }
    return line;
}

static void mix_columns(const resampling *r, const float *line, float *y) {
    const int64_t c = r->channels;
    for (int64_t w = 0; w < r->y[2]; w++) {
        const tap_list *t = &r->taps[2][w];
        if (c == 1) {
            float sum = 0;
            for (int k = 0; k < t->count; k++) sum += t->weight[k] * line[t->index[k]];
            y[w] = sum;
            continue;
        }
        for (int k = 0; k < t->count; k++) {
            mix(r, k == 0, t->weight[k], line + t->index[k] * c, y + w * c, c);
        }
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const resampling *r = state;
    const int64_t plane_rows = r->y[0] * r->y[1], rows = r->planes * plane_rows;
#pragma omp parallel for schedule(static, 1) if (r->threads > 1)
    for (int t = 0; t < r->threads; t++) {
        const plb_span span = plb_span_of(rows, t, r->threads);
        float *line = (float *)call->workspace + (size_t)t * line_floats(r);
        for (int64_t i = span.begin; i < span.end; i++) {
            const float *x =
                (const float *)call->in[0].data + i / plane_rows * size_of(r->x) * r->channels;
            float *y = (float *)call->out[0].data + i * r->y[2] * r->channels;
            const int64_t row = i % plane_rows;
            const tap_list *d = &r->taps[0][row / r->y[1]], *h = &r->taps[1][row % r->y[1]];
            mix_columns(r, mixed_rows(r, x, d, h, line), y);
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- gradient
static void spread_columns(const resampling *r, const float *dy, float *line) {
    const int64_t c = r->channels;
    memset(line, 0, (size_t)(r->x[2] * c) * sizeof *line);
    for (int64_t w = 0; w < r->y[2]; w++) {
        const tap_list *t = &r->taps[2][w];
        for (int k = 0; k < t->count; k++) {
            if (c == 1) {
                line[t->index[k]] += t->weight[k] * dy[w];
            } else {
                r->vec->add_scaled(line + t->index[k] * c, dy + w * c, t->weight[k], c);
            }
        }
    }
}

static void spread_plane(const resampling *r, const float *dy, float *dx, float *line) {
    const int64_t n = r->x[2] * r->channels;
    memset(dx, 0, (size_t)(size_of(r->x) * r->channels) * sizeof *dx);
    for (int64_t row = 0; row < r->y[0] * r->y[1]; row++) {
        const tap_list *d = &r->taps[0][row / r->y[1]], *h = &r->taps[1][row % r->y[1]];
        spread_columns(r, dy + row * r->y[2] * r->channels, line);
        for (int i = 0; i < d->count; i++) {
            for (int j = 0; j < h->count; j++) {
                float *to = dx + (d->index[i] * r->x[1] + h->index[j]) * n;
                r->vec->add_scaled(to, line, d->weight[i] * h->weight[j], n);
            }
        }
    }
}

static plb_status run_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const resampling *r = state;
    const int64_t dy_plane = size_of(r->y) * r->channels, dx_plane = size_of(r->x) * r->channels;
#pragma omp parallel for schedule(static, 1) if (r->threads > 1)
    for (int t = 0; t < r->threads; t++) {
        const plb_span span = plb_span_of(r->planes, t, r->threads);
        float *line = (float *)call->workspace + (size_t)t * line_floats(r);
        for (int64_t i = span.begin; i < span.end; i++) {
            spread_plane(r, (const float *)call->in[0].data + i * dy_plane,
                         (float *)call->out[0].data + i * dx_plane, line);
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the kernel
static const char *refuse(const plb_query *q) {
    const plb_tensor *operands[] = {&q->in[0], &q->out[0]};
    for (int k = 0; k < 2; k++) {
        const plb_tensor *t = operands[k];
        if (t->dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        if (t->layout.kind == PLB_LAYOUT_BLOCKED) return "plain or channels-last only";
        if (plb_shape_count(&t->shape) == 0) return "empty";
        int64_t extents[PLB_MAX_SPATIAL];
        plb_spatial_extents(&t->shape, extents);
        if (size_of(extents) > INT32_MAX) return "a plane of over 2^31";
    }
    return plb_layout_equal(q->in[0].layout, q->out[0].layout) ? NULL : "layouts differ";
}

static void list_taps(const plb_query *q, const resampling *r, int axis, tap_list *to) {
    const int first = PLB_MAX_SPATIAL - (q->in[0].shape.rank - 2);
    for (int64_t o = 0; o < r->y[axis]; o++, to++) {
        plb_taps taps = {.count = 1, .weight = {1}};
        if (axis >= first) {
            plb_interpolate_taps(q->attrs, PLB_F32, axis - first, r->x[axis], r->y[axis], o, &taps);
        }
        *to = (tap_list){0};
        for (int k = 0; k < taps.count; k++) {
            if (taps.weight[k] == 0) continue;
            to->index[to->count] = (int32_t)taps.index[k];
            to->weight[to->count++] = (float)taps.weight[k];
        }
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "interpolate has one variant");
    const bool grad = q->op == PLB_OP_interpolate_grad;
    const plb_shape *x = grad ? &q->out[0].shape : &q->in[0].shape;
    const plb_shape *y = grad ? &q->in[0].shape : &q->out[0].shape;
    int64_t extents[PLB_MAX_SPATIAL];
    plb_spatial_extents(y, extents);
    const size_t n = (size_t)(extents[0] + extents[1] + extents[2]);
    resampling *r = plb_alloc(sizeof *r + n * sizeof(tap_list));
    if (!r) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const bool last = q->in[0].layout.kind == PLB_LAYOUT_NHWC;
    r->vec = plb_vec_of(plb_cpu_isa());
    r->planes = last ? x->dim[0] : x->dim[0] * x->dim[1];
    r->channels = last ? x->dim[1] : 1;
    plb_spatial_extents(x, r->x);
    memcpy(r->y, extents, sizeof r->y);
    tap_list *list = (tap_list *)(r + 1);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        r->taps[i] = list;
        list_taps(q, r, i, list);
        list += r->y[i];
    }
    r->threads = plb_worth_threads(plb_shape_count(x) + plb_shape_count(y), q->threads);
    *out = (plb_launch){.state = r,
                        .release = plb_free,
                        .run = grad ? run_grad : run,
                        .workspace_bytes = (size_t)r->threads * line_floats(r) * sizeof(float),
                        .flops = plb_interpolate_flops(q->attrs, y)};
    return PLB_OK;
}

const plb_kernel plb_cpu_interpolate = {
    .name = "lines", .op = PLB_OP_interpolate, .refuse = refuse, .prepare = prepare};
