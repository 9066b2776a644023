// SPDX-License-Identifier: Apache-2.0
// Pooling of f32, channels-last or plain: tables of the windows are made in `prepare`, rows of the
// result are shared out among threads, and pool_rows_*.c makes one.
//
// The gradient of max_pool looks, for each element of dx, at the few windows around it and takes
// dy where the maximum is that element: every byte of dx is written once, in order, and the sums
// have one order whatever the threads. Positions may lie outside of their windows, though, where
// something else than max_pool made them; then fewer are met than there are, and the plane is
// filled again by scattering.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/pool.h"
#include "engine/ops/pool_shape.h"

enum { WIDE = 16, MANY_WINDOWS = 16 };

typedef struct pool_state {
    const plb_pool_rows *rows;
    plb_pool_geometry g;
    bool scatters;       // max_pool_grad: straight away
    int threads, chunks; // chunks of channels that are worked on apart
    plb_pool_window *windows;
    plb_pool_cover *covers;
} pool_state;

static const plb_pool_rows *table(void) {
    switch (plb_cpu_isa()) {
    case PLB_ISA_AVX512: return &plb_pool_rows_avx512;
    case PLB_ISA_AVX2: return &plb_pool_rows_avx2;
    default: return &plb_pool_rows_portable;
    }
}

static const char *refuse(const plb_query *q) {
    const bool positions_in = q->op == PLB_OP_max_pool_grad || q->op == PLB_OP_max_pool_take;
    const plb_layout layout = q->in[0].layout;
    for (int k = 0; k < q->n_in + q->n_out; k++) {
        const plb_tensor *t = k < q->n_in ? &q->in[k] : &q->out[k - q->n_in];
        bool positions = (k == 0 && positions_in) || k - q->n_in == 1;
        if (t->dtype != (positions ? PLB_I32 : PLB_F32)) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        if (t->layout.kind == PLB_LAYOUT_BLOCKED) return "plain or channels-last only";
        if (!plb_layout_equal(t->layout, layout)) return "layouts differ";
        if (plb_shape_count(&t->shape) == 0) return "empty";
        int64_t extents[PLB_MAX_SPATIAL];
        plb_spatial_extents(&t->shape, extents);
        if (extents[0] * extents[1] * extents[2] > INT32_MAX) return "a plane of over 2^31";
    }
    return NULL;
}

// ---------------------------------------------------------------------------- tables
// Shapes of what is pooled and of what comes of it.
static void shapes_of(const plb_query *q, const plb_shape **x, const plb_shape **y) {
    switch (q->op) {
    case PLB_OP_max_pool_grad:
    case PLB_OP_avg_pool_grad:
    case PLB_OP_adaptive_avg_pool_grad: *x = &q->out[0].shape, *y = &q->in[0].shape; break;
    case PLB_OP_max_pool_take: *x = &q->in[1].shape, *y = &q->out[0].shape; break;
    default: *x = &q->in[0].shape, *y = &q->out[0].shape; break;
    }
}

static bool is_adaptive(plb_op_id op) {
    return op == PLB_OP_adaptive_avg_pool || op == PLB_OP_adaptive_avg_pool_grad;
}

static plb_pool_window adaptive_window(int64_t o, int64_t in, int64_t out) {
    int64_t begin, end;
    plb_pool_adaptive_window(o, in, out, &begin, &end);
    return (plb_pool_window){begin, end - begin, (float)(end - begin)};
}

// Window o along axis i without its padding, and what a mean divides by: see plb_pool_divisor.
static plb_pool_window fixed_window(const plb_pool_shape *s, int i, int64_t o) {
    int64_t start = o * s->stride[i] - s->pad[i], end = start + s->kernel[i];
    int64_t limit = s->in[i] + (s->count_include_pad ? s->pad_end[i] : 0);
    int64_t counted = start < 0 && !s->count_include_pad ? 0 : start;
    plb_pool_window w = {.divisor = (float)((end < limit ? end : limit) - counted)};
    int64_t dilation = s->dilation[i], skipped = start < 0 ? (dilation - 1 - start) / dilation : 0;
    w.first = start + skipped * dilation;
    int64_t room = s->in[i] - w.first;
    w.count = room > 0 ? (room + dilation - 1) / dilation : 0;
    if (w.count > s->kernel[i] - skipped) w.count = s->kernel[i] - skipped;
    return w;
}

// Which windows hold each position; first and last positions of windows never decrease.
static void fill_covers(const plb_pool_window *windows, int64_t out, plb_pool_cover *covers,
                        int64_t in) {
    int64_t first = 0, end = 0;
    for (int64_t i = 0; i < in; i++) {
        while (first < out && windows[first].first + windows[first].count <= i) first++;
        while (end < out && windows[end].first <= i) end++;
        covers[i] = (plb_pool_cover){first, end};
    }
}

static plb_status shape_of(const plb_query *q, const plb_shape *x, plb_pool_shape *s) {
    const plb_pool_attrs attrs = plb_pool_attrs_final(q->attrs, x->rank - 2);
    if (!is_adaptive(q->op)) return plb_pool_shape_of(x, &attrs, "pool", s);
    *s = (plb_pool_shape){.axes = x->rank - 2, .n = x->dim[0], .c = x->dim[1]};
    plb_spatial_extents(x, s->in);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) s->kernel[i] = s->stride[i] = s->dilation[i] = 1;
    return PLB_OK;
}

static plb_status fill_tables(pool_state *s, const plb_pool_shape *shape, plb_op_id op) {
    plb_pool_window *windows = s->windows;
    plb_pool_cover *covers = s->covers;
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        const int64_t in = s->g.in[i], out = s->g.out[i];
        for (int64_t o = 0; o < out; o++) {
            windows[o] = is_adaptive(op) ? adaptive_window(o, in, out) : fixed_window(shape, i, o);
            if (windows[o].count < 1) {
                return plb_fail(PLB_EUNSUPPORTED, "a window lies in the padding alone");
            }
        }
        fill_covers(windows, out, covers, in);
        s->g.window[i] = windows, s->g.cover[i] = covers;
        windows += out, covers += in;
    }
    return PLB_OK;
}

// Enough threads for the work, and where there are fewer rows than threads, parts of the channels.
static void share_out(pool_state *s, const plb_query *q, const plb_shape *x) {
    const plb_pool_geometry *g = &s->g;
    const bool backward = plb_shape_equal(&q->out[0].shape, x);
    const int64_t *result = backward ? g->in : g->out;
    int64_t rows = g->planes * result[0] * result[1], parts = g->channels / WIDE;
    s->threads = plb_worth_threads(plb_shape_count(x), q->threads);
    s->chunks = 1;
    if (rows < s->threads && parts > 1) s->chunks = parts < s->threads ? (int)parts : s->threads;
}

// Whether gradients go by windows, by pixels or by scattering.
static void choose_gradient(pool_state *s) {
    plb_pool_geometry *g = &s->g;
    int64_t around = 1;
    g->disjoint = true;
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        s->scatters |= g->dilation[i] != 1;
        plb_pool_cover middle = g->cover[i][g->in[i] / 2];
        around *= middle.end - middle.first;
        for (int64_t at = 0; at < g->in[i]; at++) {
            g->disjoint &= g->cover[i][at].end - g->cover[i][at].first <= 1;
        }
    }
    const int64_t least = plb_cpu_isa() == PLB_ISA_AVX512 ? 2 : WIDE / 2;
    s->scatters |= around > MANY_WINDOWS || g->channels < least;
}

static void release(void *state) {
    pool_state *s = state;
    if (!s) return;
    plb_free(s->windows);
    plb_free(s->covers);
    plb_free(s);
}

static plb_status state_new(const plb_query *q, pool_state **out) {
    const plb_shape *x, *y;
    plb_pool_shape shape;
    shapes_of(q, &x, &y);
    PLB_TRY(shape_of(q, x, &shape));
    pool_state *s = *out = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    s->rows = table();
    plb_pool_geometry *g = &s->g;
    plb_spatial_extents(x, g->in);
    plb_spatial_extents(y, g->out);
    const bool last = q->in[0].layout.kind == PLB_LAYOUT_NHWC;
    g->planes = last ? x->dim[0] : x->dim[0] * x->dim[1];
    g->channels = last ? x->dim[1] : 1;
    memcpy(g->dilation, shape.dilation, sizeof g->dilation);
    size_t n_windows = 0, n_covers = 0;
    for (int i = 0; i < PLB_POOL_AXES; i++) {
        n_windows += (size_t)g->out[i], n_covers += (size_t)g->in[i];
    }
    s->windows = plb_alloc_array(n_windows, sizeof *s->windows);
    s->covers = plb_alloc_array(n_covers, sizeof *s->covers);
    if (!s->windows || !s->covers) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    PLB_TRY(fill_tables(s, &shape, q->op));
    share_out(s, q, x);
    choose_gradient(s);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- rows
typedef struct operands {
    const float *from;    // x, or dy
    const int32_t *index; // positions that are read, or NULL
    float *to;
    int32_t *at; // positions that are made, or NULL
    char *workspace;
} operands;

static size_t line_bytes(const pool_state *s) {
    size_t size = (size_t)s->g.in[2] * (sizeof(float) + sizeof(int32_t));
    return s->g.channels > 1 ? 0 : (size + PLB_CACHE_LINE - 1) / PLB_CACHE_LINE * PLB_CACHE_LINE;
}

static int64_t product(const int64_t *extents) {
    return extents[0] * extents[1] * extents[2];
}

// Calls the loop for row `item` of the result; returns how many maxima it met.
static int64_t make_row(const pool_state *s, const operands *o, bool backward, plb_pool_row *r,
                        int64_t item) {
    const plb_pool_geometry *g = &s->g;
    const int64_t *result = backward ? g->in : g->out, *operand = backward ? g->out : g->in;
    plb_span part = plb_span_of(g->channels / WIDE, (int)(item % s->chunks), s->chunks);
    r->begin = 0, r->end = g->channels;
    if (s->chunks > 1) {
        r->begin = part.begin * WIDE;
        if (item % s->chunks < s->chunks - 1) r->end = part.end * WIDE;
    }
    int64_t row = item / s->chunks, plane = row / (result[0] * result[1]);
    r->h = row % result[1], r->d = row / result[1] % result[0];
    int64_t from = plane * product(operand) * g->channels, to = row * result[2] * g->channels;
    r->from = o->from + from;
    r->to = o->to + to;
    if (o->at) r->at = o->at + to;
    if (o->index) {
        r->index = o->index + from;
        return s->rows->max_grad(r);
    }
    return 0;
}

static int64_t run_rows(const pool_state *s, const operands *o, bool backward,
                        void (*make)(const plb_pool_row *r)) {
    const int64_t *result = backward ? s->g.in : s->g.out;
    const int64_t items = s->g.planes * result[0] * result[1] * s->chunks;
    int64_t met = 0;
#pragma omp parallel for schedule(static, 1) reduction(+ : met) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        plb_span span = plb_span_of(items, t, s->threads);
        plb_pool_row r = {.g = &s->g};
        if (o->workspace) {
            r.line = (float *)(o->workspace + (size_t)t * line_bytes(s));
            r.line_at = (int32_t *)(r.line + s->g.in[2]);
        }
        for (int64_t i = span.begin; i < span.end; i++) {
            met += make_row(s, o, backward, &r, i);
            if (make) make(&r);
        }
    }
    return met;
}

// ---------------------------------------------------------------------------- each op
static plb_status run_max(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pool_state *s = state;
    operands o = {.from = call->in[0].data,
                  .to = call->out[0].data,
                  .at = call->out[1].data,
                  .workspace = call->workspace};
    run_rows(s, &o, false, s->rows->max);
    return PLB_OK;
}

static plb_status run_mean(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pool_state *s = state;
    operands o = {.from = call->in[0].data, .to = call->out[0].data, .workspace = call->workspace};
    run_rows(s, &o, false, s->rows->mean);
    return PLB_OK;
}

static plb_status run_mean_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pool_state *s = state;
    operands o = {.from = call->in[0].data, .to = call->out[0].data};
    run_rows(s, &o, true, s->rows->mean_grad);
    return PLB_OK;
}

// Channels [begin, end) of a plane. A position outside of the plane, which no max_pool makes, is
// left out.
static void scatter(const plb_pool_geometry *g, const int32_t *index, const float *dy, float *dx,
                    plb_span part) {
    const int64_t in = product(g->in), out = product(g->out), channels = g->channels;
    const int64_t width = part.end - part.begin, stretches = width == channels ? 1 : in;
    for (int64_t i = 0; i < stretches; i++) {
        memset(dx + i * channels + part.begin, 0, (size_t)(width * in / stretches) * sizeof *dx);
    }
    for (int64_t i = 0; i < out; i++) {
        for (int64_t c = part.begin; c < part.end; c++) {
            int64_t position = index[i * channels + c];
            bool inside = position >= 0 && position < in;
            if (inside) dx[position * channels + c] += dy[i * channels + c];
        }
    }
}

static plb_status run_max_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pool_state *s = state;
    const plb_pool_geometry *g = &s->g;
    operands o = {.index = call->in[0].data, .from = call->in[1].data, .to = call->out[0].data};
    int64_t in = product(g->in) * g->channels, out = product(g->out) * g->channels;
    if (!s->scatters && run_rows(s, &o, true, NULL) == g->planes * out) return PLB_OK;
    int chunks = g->planes < s->threads && g->channels >= s->threads ? s->threads : 1;
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t i = 0; i < g->planes * chunks; i++) {
        int64_t plane = i / chunks;
        plb_span part = plb_span_of(g->channels, (int)(i % chunks), chunks);
        scatter(g, o.index + plane * out, o.from + plane * out, o.to + plane * in, part);
    }
    return PLB_OK;
}

static plb_status run_take(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pool_state *s = state;
    const plb_pool_geometry *g = &s->g;
    const int32_t *index = call->in[0].data;
    const float *v = call->in[1].data;
    float *y = call->out[0].data;
    const int64_t in = product(g->in), out = product(g->out);
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t row = 0; row < g->planes * out; row++) {
        const float *plane = v + row / out * in * g->channels;
        for (int64_t c = 0; c < g->channels; c++) {
            int64_t position = index[row * g->channels + c];
            bool inside = position >= 0 && position < in;
            y[row * g->channels + c] = inside ? plane[position * g->channels + c] : 0;
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- kernels
static double flops_of(const plb_query *q) {
    plb_type in[2], out[2];
    for (int k = 0; k < q->n_in; k++) in[k] = (plb_type){q->in[k].dtype, q->in[k].shape};
    for (int k = 0; k < q->n_out; k++) out[k] = (plb_type){q->out[k].dtype, q->out[k].shape};
    plb_signature s = {.attrs = q->attrs, .n_in = q->n_in, .n_out = q->n_out, .in = in, .out = out};
    return plb_op_of(q->op)->flops(&s);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    pool_state *s = NULL;
    plb_status status = state_new(q, &s);
    if (status) {
        release(s);
        return status;
    }
    *out = (plb_launch){.state = s, .release = release, .flops = flops_of(q)};
    switch (q->op) {
    case PLB_OP_max_pool: out->run = run_max, out->optional_outputs = 1u << 1; break;
    case PLB_OP_max_pool_grad: out->run = run_max_grad; break;
    case PLB_OP_max_pool_take: out->run = run_take; break;
    case PLB_OP_avg_pool:
    case PLB_OP_adaptive_avg_pool: out->run = run_mean; break;
    default: out->run = run_mean_grad; break;
    }
    bool lines = out->run == run_max || out->run == run_mean;
    if (lines) out->workspace_bytes = (size_t)s->threads * line_bytes(s);
    return PLB_OK;
}

// What `prepare` would refuse, it is asked here.
static const char *refuse_all(const plb_query *q) {
    const char *reason = refuse(q);
    if (reason) return reason;
    const plb_shape *x, *y;
    plb_pool_shape shape;
    shapes_of(q, &x, &y);
    if (is_adaptive(q->op)) return NULL;
    if (shape_of(q, x, &shape)) return "no such windows";
    int64_t extents[PLB_MAX_SPATIAL];
    plb_spatial_extents(y, extents);
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        for (int64_t o = 0; o < extents[i]; o++) {
            if (fixed_window(&shape, i, o).count < 1) return "a window lies in the padding alone";
        }
    }
    return NULL;
}

const plb_kernel plb_cpu_pool = {
    .name = "rows", .op = PLB_OP_max_pool, .refuse = refuse_all, .prepare = prepare};
