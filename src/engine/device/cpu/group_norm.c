// SPDX-License-Identifier: Apache-2.0
// Layer and group normalisation of f32, forward. Both take the mean and then the variance about it,
// in f64 across short f32 chains, and apply (x - mean) scale + offset: three passes over a part of
// x that mostly stays in a cache. A layer's part is a row; a group's is contiguous in a plain
// value, and in a channels-last one a band of columns, whose sums are taken channel by channel.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/norm_rows.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

enum { X, GAMMA, BETA };

typedef struct norm_state {
    const plb_norm_rows *rows_of;
    const plb_vec *vec;
    int64_t outer, channels, inner; // layer: rows of `channels`, inner 1; group: x[outer,C,inner]
    int64_t groups;
    double eps;
    int threads;
} norm_state;

static const char *refuse(const plb_query *q) {
    const plb_layout_kind kind = q->in[X].layout.kind;
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].dtype == PLB_DTYPE_COUNT) continue;
        if (q->in[k].dtype != PLB_F32) return "f32 only";
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
    }
    if (!plb_tensor_is_dense(&q->out[0])) return "the result has gaps";
    if (!plb_layout_equal(q->out[0].layout, q->in[X].layout)) return "layouts differ";
    bool last = kind == PLB_LAYOUT_NHWC && q->op == PLB_OP_group_norm;
    if (kind != PLB_LAYOUT_PLAIN && !last) return "plain only";
    if (plb_shape_count(&q->in[X].shape) == 0) return "empty";
    return NULL;
}

static float inverse_std(double squares, double count, double eps) {
    return (float)(1 / sqrt(squares / count + eps));
}

// gamma and beta, or ones and zeros in `filler`, which holds 2 n.
static void vectors_of(const plb_call *call, int64_t n, float *filler, const float **gamma,
                       const float **beta) {
    *gamma = call->n_in > GAMMA ? call->in[GAMMA].data : NULL;
    *beta = call->n_in > BETA ? call->in[BETA].data : NULL;
    for (int64_t i = 0; i < n; i++) filler[i] = 1, filler[n + i] = 0;
    if (!*gamma) *gamma = filler;
    if (!*beta) *beta = filler + n;
}

// ---------------------------------------------------------------------------- layers
static plb_status run_layer(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
    const int64_t n = s->channels;
    const float *x = call->in[X].data, *gamma, *beta;
    float *y = call->out[0].data;
    vectors_of(call, n, call->workspace, &gamma, &beta);
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t r = 0; r < s->outer; r++) {
        double mean = s->vec->sum(x + r * n, n) / (double)n;
        double squares = s->vec->sum_squares(x + r * n, mean, n);
        float scale = inverse_std(squares, (double)n, s->eps);
        s->rows_of->standardise(x + r * n, n, (float)mean, scale, gamma, beta, y + r * n);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- groups
static plb_status run_plain(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
    const int64_t each = s->channels / s->groups, n = each * s->inner;
    const float *x = call->in[X].data, *gamma, *beta;
    float *y = call->out[0].data;
    vectors_of(call, s->channels, call->workspace, &gamma, &beta);
#pragma omp parallel for schedule(static) if (s->threads > 1)
    for (int64_t g = 0; g < s->outer * s->groups; g++) {
        double mean = s->vec->sum(x + g * n, n) / (double)n;
        double squares = s->vec->sum_squares(x + g * n, mean, n);
        float scale = inverse_std(squares, (double)n, s->eps);
        for (int64_t i = 0; i < each; i++) {
            int64_t c = g % s->groups * each + i, at = g * n + i * s->inner;
            s->rows_of->centre_line(x + at, s->inner, (float)mean, scale * gamma[c], beta[c],
                                    y + at);
        }
    }
    return PLB_OK;
}

// Of a sample: sums of each channel become those of its group, spread to its channels again.
static void gather_groups(double *sums, int64_t groups, int64_t each, double count) {
    for (int64_t g = 0; g < groups; g++, sums += each) {
        double total = 0;
        for (int64_t i = 0; i < each; i++) total += sums[i];
        for (int64_t i = 0; i < each; i++) sums[i] = total / count;
    }
}

static void normalise_sample(const norm_state *s, const float *x, const float *gamma,
                             const float *beta, double *scratch, float *y) {
    const int64_t c = s->channels, each = c / s->groups;
    const double count = (double)(each * s->inner);
    double *mean = scratch, *variance = mean + c;
    float *centre = (float *)(variance + c), *scale = centre + c;
    memset(scratch, 0, 2 * (size_t)c * sizeof *scratch);
    s->vec->columns_sum(mean, x, s->inner, c, c);
    gather_groups(mean, s->groups, each, count);
    s->vec->columns_squares(variance, mean, x, s->inner, c, c);
    gather_groups(variance, s->groups, each, count);
    for (int64_t i = 0; i < c; i++) {
        centre[i] = (float)mean[i];
        scale[i] = inverse_std(variance[i], 1, s->eps) * gamma[i];
    }
    s->rows_of->centre(x, s->inner, c, centre, scale, beta, y);
}

static size_t scratch_doubles(const norm_state *s) {
    return 3 * (size_t)s->channels; // two of f64, two of f32
}

static plb_status run_last(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const norm_state *s = state;
    const int64_t sample = s->channels * s->inner;
    double *scratch = call->workspace;
    const float *x = call->in[X].data, *gamma, *beta;
    float *y = call->out[0].data;
    float *filler = (float *)(scratch + (size_t)s->threads * scratch_doubles(s));
    vectors_of(call, s->channels, filler, &gamma, &beta);
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        plb_span span = plb_span_of(s->outer, t, s->threads);
        for (int64_t n = span.begin; n < span.end; n++) {
            normalise_sample(s, x + n * sample, gamma, beta,
                             scratch + (size_t)t * scratch_doubles(s), y + n * sample);
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- kernels
static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    (void)choice;
    const plb_norm_attrs *attrs = q->attrs;
    const plb_shape *x = &q->in[X].shape;
    norm_state *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    *s = (norm_state){.rows_of = plb_norm_rows_of(plb_cpu_isa()),
                      .vec = plb_vec_of(plb_cpu_isa()),
                      .eps = attrs->eps};
    const int64_t count = plb_shape_count(x);
    s->threads = plb_worth_threads(count, q->threads);
    *out = (plb_launch){.state = s, .release = plb_free, .flops = 7 * (double)count};
    size_t scratch = 0;
    if (q->op == PLB_OP_layer_norm) {
        s->channels = 1;
        for (int i = 0; i < attrs->axes; i++) s->channels *= x->dim[x->rank - 1 - i];
        s->outer = count / s->channels, s->inner = 1;
        out->run = run_layer;
    } else {
        s->outer = x->dim[0], s->channels = x->dim[1], s->groups = attrs->groups;
        s->inner = count / s->outer / s->channels;
        bool last = q->in[X].layout.kind == PLB_LAYOUT_NHWC;
        out->run = last ? run_last : run_plain;
        if (last) scratch = (size_t)s->threads * scratch_doubles(s) * sizeof(double);
    }
    out->workspace_bytes = scratch + 2 * (size_t)s->channels * sizeof(float);
    return PLB_OK;
}

const plb_kernel plb_cpu_layer_norm = {
    .name = "rows", .op = PLB_OP_layer_norm, .refuse = refuse, .prepare = prepare};
const plb_kernel plb_cpu_group_norm = {
    .name = "rows", .op = PLB_OP_group_norm, .refuse = refuse, .prepare = prepare};
