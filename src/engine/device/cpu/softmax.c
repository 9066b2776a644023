// SPDX-License-Identifier: Apache-2.0
// softmax, log_softmax and their gradients. Lines are taken in groups that stay in the first-level
// cache; short ones (ten classes) share one vector loop for their exponentials.
#include <math.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/lines.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

typedef struct softmax {
    plb_op_id op;
    const plb_vec *vec;
    plb_line_set lines; // operands: output, inputs
    size_t rows_bytes;  // of a group
    int n_in;
} softmax;

enum { SHORT = 48 }; // extents below: rows of a group are exponentiated in one loop

static float max_of(const softmax *s, const float *x) {
    const int64_t n = s->lines.extent;
    if (n >= SHORT) return s->vec->max(x, n);
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

// y = x - max of each row.
static void shift_rows(const softmax *s, float *y, const float *x, int64_t rows) {
    const int64_t n = s->lines.extent;
    for (int64_t r = 0; r < rows; r++) {
        const float max = max_of(s, x + r * n);
        for (int64_t i = r * n; i < (r + 1) * n; i++) y[i] = x[i] - max;
    }
}

static float sum_row(const float *y, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += y[i];
    return sum;
}

static void softmax_short(const softmax *s, float *y, const float *x, int64_t rows) {
    const int64_t n = s->lines.extent;
    shift_rows(s, y, x, rows);
    s->vec->exp_shifted(y, y, 0, rows * n);
    for (int64_t r = 0; r < rows; r++) {
        const float scale = 1 / sum_row(y + r * n, n);
        for (int64_t i = r * n; i < (r + 1) * n; i++) y[i] *= scale;
    }
}

static void softmax_rows(const softmax *s, float *y, const float *x, int64_t rows) {
    const int64_t n = s->lines.extent;
    if (n < SHORT) {
        softmax_short(s, y, x, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        const float sum = s->vec->exp_shifted(y, x, s->vec->max(x, n), n);
        s->vec->scale(y, y, 1 / sum, 0, n);
    }
}

// x - max - log(sum of e^(x - max)); `scratch` takes the exponentials.
static void log_softmax_rows(const softmax *s, float *y, const float *x, float *scratch,
                             int64_t rows) {
    const int64_t n = s->lines.extent;
    if (n < SHORT) {
        shift_rows(s, y, x, rows);
        s->vec->exp_shifted(scratch, y, 0, rows * n);
        for (int64_t r = 0; r < rows; r++) {
            const float log_sum = logf(sum_row(scratch + r * n, n));
            for (int64_t i = r * n; i < (r + 1) * n; i++) y[i] -= log_sum;
        }
        return;
    }
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        const float max = s->vec->max(x, n);
        const float log_sum = logf(s->vec->exp_shifted(scratch, x, max, n));
        for (int64_t i = 0; i < n; i++) y[i] = x[i] - max - log_sum;
    }
}

static void softmax_grad_rows(const softmax *s, float *z, const float *dy, const float *y,
                              int64_t rows) {
    const int64_t n = s->lines.extent;
    for (int64_t r = 0; r < rows; r++, dy += n, y += n, z += n) {
        const float sum = (float)s->vec->dot(dy, y, n);
        s->vec->scale_shifted(z, dy, y, sum, n);
    }
}

static void log_softmax_grad_rows(const softmax *s, float *z, const float *dy, const float *y,
                                  float *scratch, int64_t rows) {
    const int64_t n = s->lines.extent;
    s->vec->exp_shifted(scratch, y, 0, rows * n);
    for (int64_t r = 0; r < rows; r++, dy += n, scratch += n, z += n) {
        const float sum = (float)s->vec->sum(dy, n);
        for (int64_t i = 0; i < n; i++) z[i] = dy[i] - scratch[i] * sum;
    }
}

// Buffers: rows of the inputs, of the output, and scratch.
static void run_group(const softmax *s, const plb_call *call, char *buffers, int64_t first,
                      int64_t n) {
    const size_t step = s->rows_bytes;
    const float *x = plb_lines_get(&s->lines, 1, call->in[0].data, first, n, (float *)buffers);
    float *y = plb_lines_place(&s->lines, call->out[0].data, first, (float *)(buffers + step));
    float *scratch = (float *)(buffers + 2 * step);
    const float *second = NULL;
    if (s->n_in == 2) {
        second =
            plb_lines_get(&s->lines, 2, call->in[1].data, first, n, (float *)(buffers + 3 * step));
    }
    switch (s->op) {
    case PLB_OP_softmax: softmax_rows(s, y, x, n); break;
    case PLB_OP_log_softmax: log_softmax_rows(s, y, x, scratch, n); break;
    case PLB_OP_softmax_grad: softmax_grad_rows(s, y, x, second, n); break;
    default: log_softmax_grad_rows(s, y, x, second, scratch, n); break;
    }
    plb_lines_put(&s->lines, 0, call->out[0].data, first, n, y);
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const softmax *s = state;
    if (s->lines.count * s->lines.extent == 0) return PLB_OK;
    const int threads = plb_worth_threads(4 * s->lines.count * s->lines.extent, call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(s->lines.count, i, threads);
        char *buffers = (char *)call->workspace + (size_t)i * 4 * s->rows_bytes;
        for (int64_t first = span.begin; first < span.end; first += s->lines.group) {
            int64_t n = span.end - first < s->lines.group ? span.end - first : s->lines.group;
            run_group(s, call, buffers, first, n);
        }
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (q->in[k].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    }
    return q->out[0].layout.kind == PLB_LAYOUT_BLOCKED ? "no blocked layouts" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "softmax has one variant, found %s", choice);
    softmax *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    s->op = q->op, s->n_in = q->n_in;
    s->vec = plb_vec_of(plb_cpu_isa());
    const plb_tensor *operands[3] = {&q->out[0], &q->in[0], &q->in[q->n_in - 1]};
    s->lines = plb_line_set_of(operands, q->n_in + 1, ((const plb_axis_attrs *)q->attrs)->axis);
    s->rows_bytes = plb_lines_bytes(&s->lines);
    const double count = (double)(s->lines.count * s->lines.extent);
    const int threads = plb_worth_threads(4 * s->lines.count * s->lines.extent, q->threads);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = (size_t)threads * 4 * s->rows_bytes,
                        .flops = 5 * count,
                        .bytes = (q->n_in + 1) * count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_softmax = {
    .name = "softmax", .op = PLB_OP_softmax, .refuse = refuse, .prepare = prepare};
