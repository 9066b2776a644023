// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of f32, forward and gradient, channels innermost. What counts is memory
// traffic: x is read twice forward (statistics, then apply with residual and ReLU in the same
// pass), x and dy twice backward. Rows are cut into one range a thread and ranges into blocks:
// within a block sums are f32, across blocks f64, in a fixed order, so that results depend on the
// number of threads alone. Sums are taken about the first row, which keeps the variance of data
// with a large mean.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/norm_rows.h"
#include "plumb/ops.h"

enum { BLOCK_ROWS = 64 };
enum { Y = 5, BETA = 6 }; // inputs of the gradient

typedef struct norm_state {
    const plb_norm_rows *rows_of;
    int64_t rows, channels;
    int threads;
} norm_state;

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < q->n_in; k++) {
        const plb_tensor *t = &q->in[k];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        bool rows = t->layout.kind == PLB_LAYOUT_NHWC || t->shape.rank <= 2;
        if (!rows) return "channels-last only";
    }
    const plb_norm_attrs *attrs = q->attrs;
    if (q->op == PLB_OP_batch_norm_grad && q->n_in > BETA && attrs->masked) {
        return "a masked gradient comes from y only";
    }
    if (q->op == PLB_OP_batch_norm_grad && q->n_in > BETA + 1) return "one gradient only";
    if (attrs->epilogue.activation > PLB_ACT_RELU) {
        return "ReLU is the only activation";
    }
    if (plb_shape_count(&q->in[0].shape) == 0) return "empty";
    return NULL;
}

static size_t workspace_of(const norm_state *s) {
    size_t floats = 2 * (size_t)s->channels, doubles = 2 * (size_t)s->channels;
    size_t a_thread = floats * sizeof(float) + doubles * sizeof(double);
    return (size_t)s->threads * a_thread + 4 * (size_t)s->channels * sizeof(float);
}

static plb_status prepare_state(const plb_query *q, plb_launch *out) {
    norm_state *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    int64_t count = plb_shape_count(&q->in[0].shape);
    *s = (norm_state){.rows_of = plb_norm_rows_of(plb_cpu_isa()),
                      .channels = q->in[0].shape.dim[1],
                      .threads = plb_worth_threads(2 * count, q->threads)}; // an element: two adds
    s->rows = count / s->channels;
    *out = (plb_launch){.state = s, .release = plb_free, .workspace_bytes = workspace_of(s)};
    return PLB_OK;
}

// The workspace: f64 sums of each thread, f32 sums of each, then four vectors of coefficients.
typedef struct scratch {
    double *totals;   // [threads][2][C]
    float *partials;  // [threads][2][C]
    float *vector[4]; // [C]
} scratch;

static scratch scratch_of(const norm_state *s, void *workspace) {
    size_t c = (size_t)s->channels, threads = (size_t)s->threads;
    scratch w = {.totals = workspace};
    w.partials = (float *)(w.totals + threads * 2 * c);
    for (size_t i = 0; i < 4; i++) w.vector[i] = w.partials + threads * 2 * c + i * c;
    return w;
}

// Rows [first, last) of thread t.
static void range_of(const norm_state *s, int t, int64_t *first, int64_t *last) {
    *first = s->rows * t / s->threads;
    *last = s->rows * (t + 1) / s->threads;
}

static void add_partials(const norm_state *s, double *totals, float *partials) {
    for (int64_t i = 0; i < 2 * s->channels; i++) {
        totals[i] += (double)partials[i];
        partials[i] = 0;
    }
}

// Adds the threads' totals, in order, to the first's.
static void add_threads(const norm_state *s, double *totals) {
    const int64_t n = 2 * s->channels;
    const int threads = plb_worth_threads(n * s->threads, s->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        const plb_span span = plb_span_of(n, part, threads);
        for (int t = 1; t < s->threads; t++) {
            const double *other = totals + t * n;
            for (int64_t i = span.begin; i < span.end; i++) totals[i] += other[i];
        }
    }
}

// Sums of thread t, from 0; returns its partial ones.
static float *clear(const norm_state *s, const scratch *w, int t) {
    const int64_t n = 2 * s->channels;
    memset(w->totals + t * n, 0, (size_t)n * sizeof *w->totals);
    return memset(w->partials + t * n, 0, (size_t)n * sizeof *w->partials);
}

// ---------------------------------------------------------------------------- forward
static void statistics(const norm_state *s, const scratch *w, const float *x) {
    const int64_t c = s->channels;
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        int64_t first, last;
        range_of(s, t, &first, &last);
        float *partials = clear(s, w, t);
        for (int64_t r = first; r < last; r += BLOCK_ROWS) {
            int64_t rows = last - r < BLOCK_ROWS ? last - r : BLOCK_ROWS;
            s->rows_of->sums(x + r * c, rows, c, x, partials, partials + c);
            add_partials(s, w->totals + t * 2 * c, partials);
        }
    }
    add_threads(s, w->totals);
}

static void apply(const norm_state *s, const scratch *w, const plb_call *call) {
    const float *x = call->in[0].data;
    const float *residual = call->n_in > 3 ? call->in[3].data : NULL;
    float *y = call->out[0].data;
    int relu = ((const plb_norm_attrs *)call->attrs)->epilogue.activation == PLB_ACT_RELU;
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        int64_t first, last;
        range_of(s, t, &first, &last);
        int64_t at = first * s->channels;
        s->rows_of->apply(x + at, last - first, s->channels, w->vector[0], w->vector[1],
                          residual ? residual + at : NULL, relu, y + at);
    }
}

static plb_status run_forward(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
    const plb_norm_attrs *attrs = call->attrs;
    const scratch w = scratch_of(s, call->workspace);
    const float *x = call->in[0].data, *gamma = call->in[1].data, *beta = call->in[2].data;
    float *mean = call->out[1].data, *inv_std = call->out[2].data;
    statistics(s, &w, x);
    for (int64_t i = 0; i < s->channels; i++) {
        double d = w.totals[i] / (double)s->rows; // mean - x of the first row
        double variance = w.totals[s->channels + i] / (double)s->rows - d * d;
        double r = 1 / sqrt((variance > 0 || isnan(variance) ? variance : 0) + attrs->eps);
        double center = (double)x[i] + d;
        w.vector[0][i] = (float)(gamma[i] * r);
        w.vector[1][i] = (float)(beta[i] - center * gamma[i] * r);
        mean[i] = (float)center;
        inv_std[i] = (float)r;
    }
    apply(s, &w, call);
    return PLB_OK;
}

static plb_status prepare_forward(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    PLB_TRY(prepare_state(q, out));
    out->run = run_forward;
    out->flops = 7 * (double)plb_shape_count(&q->in[0].shape);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- gradient
static const float *operand(const plb_call *call, int k) {
    return k < call->n_in ? call->in[k].data : NULL;
}

static void grad_sums(const norm_state *s, const scratch *w, const plb_call *call, float *masked) {
    const int64_t c = s->channels;
    const float *x = call->in[0].data, *dy = call->in[1].data, *mean = call->in[3].data;
    const float *y = operand(call, Y), *beta = operand(call, BETA);
    const float *coefficients[3] = {w->vector[0], mean, beta};
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        int64_t first, last;
        range_of(s, t, &first, &last);
        float *partials = clear(s, w, t);
        for (int64_t r = first; r < last; r += BLOCK_ROWS) {
            int64_t rows = last - r < BLOCK_ROWS ? last - r : BLOCK_ROWS, at = r * c;
            if (beta) {
                s->rows_of->grad_sums_signed(x + at, dy + at, rows, c, coefficients, partials,
                                             partials + c);
            } else {
                s->rows_of->grad_sums(x + at, dy + at, y ? y + at : NULL, rows, c, mean, partials,
                                      partials + c, masked ? masked + at : NULL);
            }
            add_partials(s, w->totals + t * 2 * c, partials);
        }
    }
    add_threads(s, w->totals);
}

static void grad_apply(const norm_state *s, const scratch *w, const plb_call *call,
                       const float *masked) {
    const float *x = call->in[0].data, *dy = masked ? masked : call->in[1].data;
    const float *y = masked ? NULL : operand(call, Y), *beta = operand(call, BETA);
    float *dx = call->out[0].data;
    const float *coefficients[5] = {w->vector[0], w->vector[1], call->in[3].data, w->vector[2],
                                    beta};
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        int64_t first, last;
        range_of(s, t, &first, &last);
        int64_t at = first * s->channels;
        if (beta) {
            s->rows_of->grad_apply_signed(x + at, dy + at, last - first, s->channels, coefficients,
                                          dx + at);
        } else {
            s->rows_of->grad_apply(x + at, dy + at, y ? y + at : NULL, last - first, s->channels,
                                   coefficients, dx + at);
        }
    }
}

// dx = gamma r (d - dbeta / m - (x - mean) r dgamma / m), as a d + b (x - mean) + e.
static plb_status run_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
    const scratch w = scratch_of(s, call->workspace);
    const float *gamma = call->in[2].data, *inv_std = call->in[4].data;
    float *dgamma = call->out[1].data, *dbeta = call->out[2].data;
    float *masked = call->n_out > 3 ? call->out[3].data : NULL;
    for (int64_t i = 0; i < s->channels; i++) {
        w.vector[0][i] = (float)((double)gamma[i] * (double)inv_std[i]);
    }
    grad_sums(s, &w, call, masked);
    for (int64_t i = 0; i < s->channels; i++) {
        double r = inv_std[i], a = gamma[i] * r, m = (double)s->rows;
        double beta_sum = w.totals[i], gamma_sum = w.totals[s->channels + i] * r;
        w.vector[1][i] = (float)(-a * r * gamma_sum / m);
        w.vector[2][i] = (float)(-a * beta_sum / m);
        dgamma[i] = (float)gamma_sum;
        dbeta[i] = (float)beta_sum;
    }
    grad_apply(s, &w, call, masked);
    return PLB_OK;
}

static plb_status prepare_grad(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    PLB_TRY(prepare_state(q, out));
    out->run = run_grad;
    out->flops = 11 * (double)plb_shape_count(&q->in[0].shape);
    return PLB_OK;
}

const plb_kernel plb_cpu_batch_norm = {
    .name = "rows", .op = PLB_OP_batch_norm, .refuse = refuse, .prepare = prepare_forward};
const plb_kernel plb_cpu_batch_norm_grad = {
    .name = "rows", .op = PLB_OP_batch_norm_grad, .refuse = refuse, .prepare = prepare_grad};
