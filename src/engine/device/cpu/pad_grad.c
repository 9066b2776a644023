// SPDX-License-Identifier: Apache-2.0
// pad_grad of f32. A row of dy, along the axis that lies closest in memory, goes to one row of dx:
// its middle as one loop, its ends element by element. Rows meet only within one combination of
// the axes that are not padded, and those are what threads share out; the order of sums is that of
// the definition.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/ops/pad.h"

// Axes in the order in which they lie in memory, outermost first.
typedef struct pad_grad {
    int rank;
    plb_pad_mode mode;
    int64_t dx[PLB_MAX_RANK], dy[PLB_MAX_RANK], before[PLB_MAX_RANK];
    int free;               // leading axes that are not padded
    int64_t parts, rows;    // combinations of those; rows of dy in each
    int64_t dx_part, width; // elements of dx in each; of a row of dy
} pad_grad;

// Where row `row` of a part of dy goes in the part of dx: first element of that row.
static int64_t place_of(const pad_grad *s, int64_t row) {
    int64_t place = 0, step = s->dx[s->rank - 1];
    for (int i = s->rank - 2; i >= s->free; i--) {
        const int64_t at = row % s->dy[i] - s->before[i];
        place += plb_pad_source(s->mode, at, s->dx[i]) * step;
        row /= s->dy[i];
        step *= s->dx[i];
    }
    return place;
}

static void add_row(const pad_grad *s, const float *from, float *to) {
    const int last = s->rank - 1;
    const int64_t n = s->dx[last], before = s->before[last];
    for (int64_t j = 0; j < before; j++) to[plb_pad_source(s->mode, j - before, n)] += from[j];
    for (int64_t j = 0; j < n; j++) to[j] += from[before + j];
    for (int64_t j = before + n; j < s->width; j++) {
        to[plb_pad_source(s->mode, j - before, n)] += from[j];
    }
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const pad_grad *s = state;
    const int64_t count = plb_shape_count(&call->in[0].shape);
    float *dx = call->out[0].data;
    int threads = count ? plb_worth_threads(count, call->threads) : 1;
    if (threads > s->parts) threads = s->parts ? (int)s->parts : 1;
#pragma omp parallel for schedule(static) if (threads > 1)
    for (int64_t p = 0; p < s->parts; p++) {
        const float *from = (const float *)call->in[0].data + p * s->rows * s->width;
        float *to = dx + p * s->dx_part;
        if (s->dx_part) memset(to, 0, (size_t)s->dx_part * sizeof *to);
        for (int64_t r = 0; r < s->rows; r++) {
            add_row(s, from + r * s->width, to + place_of(s, r));
        }
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    const plb_tensor *dy = &q->in[0], *dx = &q->out[0];
    if (dy->dtype != PLB_F32) return "f32 only";
    if (dy->shape.rank == 0) return "no axes";
    if (((const plb_pad_attrs *)q->attrs)->mode == PLB_PAD_CONSTANT) return "no constants";
    if (dy->layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    if (!plb_layout_equal(dy->layout, dx->layout)) return "one layout only";
    return plb_tensor_is_dense(dy) && plb_tensor_is_dense(dx) ? NULL : "dense only";
}

static void place_axes(pad_grad *s, const plb_query *q) {
    const plb_pad_attrs *attrs = q->attrs;
    const plb_tensor *dy = &q->in[0], *dx = &q->out[0];
    const bool nhwc = dy->layout.kind == PLB_LAYOUT_NHWC;
    s->rank = dy->shape.rank;
    for (int i = 0; i < s->rank; i++) {
        const int last = s->rank - 1;
        const int axis = !nhwc || i == 0 ? i : i == last ? 1 : i + 1;
        s->dx[i] = dx->shape.dim[axis], s->dy[i] = dy->shape.dim[axis];
        s->before[i] = attrs->before[axis];
    }
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "pad_grad has one variant, found %s", choice);
    pad_grad *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (pad_grad){.mode = (plb_pad_mode)((const plb_pad_attrs *)q->attrs)->mode,
                    .parts = 1,
                    .rows = 1,
                    .dx_part = 1};
    place_axes(s, q);
    const int last = s->rank - 1;
    while (s->free < last && s->dx[s->free] == s->dy[s->free]) s->parts *= s->dx[s->free++];
    for (int i = s->free; i < last; i++) s->rows *= s->dy[i];
    for (int i = s->free; i < s->rank; i++) s->dx_part *= s->dx[i];
    s->width = s->dy[last];
    const double read = (double)plb_shape_count(&q->in[0].shape);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .flops = read,
                        .bytes = 4 * (read + (double)plb_shape_count(&q->out[0].shape))};
    return PLB_OK;
}

const plb_kernel plb_cpu_pad_grad = {
    .name = "rows", .op = PLB_OP_pad_grad, .refuse = refuse, .prepare = prepare};
