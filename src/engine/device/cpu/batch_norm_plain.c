// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of f32 in plain layout, x[N,C,inner], forward and gradient, as level interp
// has it: nothing is fused. A channel is N stretches of contiguous elements and belongs to one
// thread, so that its sums have one order whatever the threads.
#include <math.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/norm_rows.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

typedef struct norm_state {
    const plb_norm_rows *lines_of;
    const plb_vec *vec;
    int64_t samples, channels, inner;
    int threads;
} norm_state;

static const char *refuse(const plb_query *q) {
    const plb_norm_attrs *attrs = q->attrs;
    if (q->n_in > (q->op == PLB_OP_batch_norm ? 3 : 5)) return "nothing fused";
    if (attrs->epilogue.activation != PLB_ACT_NONE) return "nothing fused";
    for (int k = 0; k < q->n_in + q->n_out; k++) {
        const plb_tensor *t = k < q->n_in ? &q->in[k] : &q->out[k - q->n_in];
        if (t->dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(t)) return "an operand has gaps";
        if (t->layout.kind != PLB_LAYOUT_PLAIN) return "plain only";
    }
    return plb_shape_count(&q->in[0].shape) == 0 ? "empty" : NULL;
}

static int64_t offset_of(const norm_state *s, int64_t sample, int64_t channel) {
    return (sample * s->channels + channel) * s->inner;
}

// ---------------------------------------------------------------------------- forward
static void normalise(const norm_state *s, const plb_call *call, int64_t c) {
    const double count = (double)(s->samples * s->inner);
    const double eps = ((const plb_norm_attrs *)call->attrs)->eps;
    const float *x = call->in[0].data, *gamma = call->in[1].data, *beta = call->in[2].data;
    float *y = call->out[0].data, *means = call->out[1].data, *inv_stds = call->out[2].data;
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < s->samples; n++) sum += s->vec->sum(x + offset_of(s, n, c), s->inner);
    const double mean = sum / count;
    for (int64_t n = 0; n < s->samples; n++) {
        squares += s->vec->sum_squares(x + offset_of(s, n, c), mean, s->inner);
    }
    const double inv_std = 1 / sqrt(squares / count + eps);
    for (int64_t n = 0; n < s->samples; n++) {
        s->lines_of->centre_line(x + offset_of(s, n, c), s->inner, (float)mean,
                                 (float)(gamma[c] * inv_std), beta[c], y + offset_of(s, n, c));
    }
    means[c] = (float)mean;
    inv_stds[c] = (float)inv_std;
}

static plb_status run_forward(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t c = 0; c < s->channels; c++) normalise(s, call, c);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- gradient
// dx = gamma r (dy - dbeta / m - (x - mean) r dgamma / m), as a dy + b (x - mean) + e.
static void differentiate(const norm_state *s, const plb_call *call, int64_t c) {
    const float *x = call->in[0].data, *dy = call->in[1].data, *gamma = call->in[2].data;
    const float mean = ((const float *)call->in[3].data)[c];
    const double r = ((const float *)call->in[4].data)[c], a = gamma[c] * r;
    const double count = (double)(s->samples * s->inner);
    float *dx = call->out[0].data, *dgamma = call->out[1].data, *dbeta = call->out[2].data;
    double sum = 0, product = 0;
    for (int64_t n = 0; n < s->samples; n++) {
        const int64_t at = offset_of(s, n, c);
        sum += s->vec->sum(dy + at, s->inner);
        product += s->lines_of->product_line(x + at, dy + at, s->inner, mean);
    }
    const float b = (float)(-a * r * r * product / count), e = (float)(-a * sum / count);
    for (int64_t n = 0; n < s->samples; n++) {
        const int64_t at = offset_of(s, n, c);
        s->lines_of->grad_line(x + at, dy + at, s->inner, (float)a, b, mean, e, dx + at);
    }
    dgamma[c] = (float)(product * r);
    dbeta[c] = (float)sum;
}

static plb_status run_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t c = 0; c < s->channels; c++) differentiate(s, call, c);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- kernels
static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    const plb_shape *x = &q->in[0].shape;
    const int64_t count = plb_shape_count(x);
    const bool forward = q->op == PLB_OP_batch_norm;
    norm_state *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (norm_state){.lines_of = plb_norm_rows_of(plb_cpu_isa()),
                      .vec = plb_vec_of(plb_cpu_isa()),
                      .samples = x->dim[0],
                      .channels = x->dim[1],
                      .inner = count / x->dim[0] / x->dim[1],
                      .threads = plb_worth_threads(count, q->threads)};
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = forward ? run_forward : run_grad,
                        .flops = (forward ? 7 : 11) * (double)count};
    return PLB_OK;
}

const plb_kernel plb_cpu_batch_norm_plain = {
    .name = "planes", .op = PLB_OP_batch_norm, .refuse = refuse, .prepare = prepare};
const plb_kernel plb_cpu_batch_norm_grad_plain = {
    .name = "planes", .op = PLB_OP_batch_norm_grad, .refuse = refuse, .prepare = prepare};
