// SPDX-License-Identifier: Apache-2.0
// arg_max and arg_min of f32: the extreme value of a line first, then where it stands.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/lines.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

typedef struct arg_kernel {
    const plb_vec *vec;
    plb_line_set lines;
    size_t rows_bytes;
    bool max;
} arg_kernel;

enum { SHORT = 48 }; // extents below: one scalar pass

// The value first, without a branch that nobody can predict; then its place.
static int64_t place_in_short(const arg_kernel *k, const float *x) {
    const int64_t n = k->lines.extent;
    float best = x[0];
    int nan = 0;
    for (int64_t i = 0; i < n; i++) {
        const float a = x[i];
        best = k->max ? (a > best ? a : best) : (a < best ? a : best);
        nan |= a != a;
    }
    int64_t i = 0;
    while (nan ? x[i] == x[i] : x[i] != best) i++;
    return i;
}

static int64_t place_of(const arg_kernel *k, const float *x) {
    const int64_t n = k->lines.extent;
    int64_t i = 0;
    if (n < SHORT) return place_in_short(k, x);
    if (k->vec->has_nan(x, n)) {
        while (x[i] == x[i]) i++;
        return i;
    }
    const float best = k->max ? k->vec->max(x, n) : k->vec->min(x, n);
    while (x[i] != best) i++;
    return i;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const arg_kernel *k = state;
    int64_t *y = call->out[0].data;
    if (k->lines.count == 0) return PLB_OK;
    const int threads = plb_worth_threads(2 * k->lines.count * k->lines.extent, call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(k->lines.count, i, threads);
        float *rows = (float *)((char *)call->workspace + (size_t)i * k->rows_bytes);
        for (int64_t first = span.begin; first < span.end; first += k->lines.group) {
            int64_t n = span.end - first < k->lines.group ? span.end - first : k->lines.group;
            const float *x = plb_lines_get(&k->lines, 0, call->in[0].data, first, n, rows);
            for (int64_t j = 0; j < n; j++) y[first + j] = place_of(k, x + j * k->lines.extent);
        }
    }
    return PLB_OK;
}

// Lines in the order of a plain operand are in the order of the plain result.
static const char *refuse(const plb_query *q) {
    const plb_tensor *x = &q->in[0];
    if (x->dtype != PLB_F32) return "f32 only";
    if (x->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(x)) return "plain only";
    return q->out[0].layout.kind != PLB_LAYOUT_PLAIN ? "plain only" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "arg has one variant, found %s", choice);
    arg_kernel *k = plb_alloc(sizeof *k);
    if (!k) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const plb_tensor *operands[] = {&q->in[0]};
    k->vec = plb_vec_of(plb_cpu_isa());
    k->max = q->op == PLB_OP_arg_max;
    k->lines = plb_line_set_of(operands, 1, ((const plb_axis_attrs *)q->attrs)->axis);
    k->rows_bytes = plb_lines_bytes(&k->lines);
    const int64_t count = k->lines.count * k->lines.extent;
    const size_t threads = (size_t)plb_worth_threads(2 * count, q->threads);
    *out = (plb_launch){.state = k,
                        .release = plb_free,
                        .run = run,
                        .workspace_bytes = threads * k->rows_bytes,
                        .flops = (double)count,
                        .bytes = (double)count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_arg = {
    .name = "rows", .op = PLB_OP_arg_max, .refuse = refuse, .prepare = prepare};
