// SPDX-License-Identifier: Apache-2.0
// take and take_grad along axis 0, as of an embedding: whole rows. A gradient is added up in the
// order of the indices, whatever the number of threads: each owns some of the columns.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/ops/index.h"

static int64_t width_of(const plb_shape *shape, int first) {
    int64_t width = 1;
    for (int i = first; i < shape->rank; i++) width *= shape->dim[i];
    return width;
}

static plb_status run_take(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    const plb_tensor *x = &call->in[0];
    const int64_t *index = call->in[1].data, count = plb_shape_count(&call->in[1].shape);
    const size_t row = (size_t)width_of(&x->shape, 1) * plb_dtype_size(x->dtype);
    PLB_TRY(plb_index_check("take", &call->in[1], x->shape.dim[0]));
    const int threads = plb_worth_threads(plb_shape_count(&call->out[0].shape), call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        const plb_span span = plb_span_of(count, i, threads);
        for (int64_t r = span.begin; r < span.end; r++) {
            memcpy((char *)call->out[0].data + (size_t)r * row,
                   (const char *)x->data + (size_t)index[r] * row, row);
        }
    }
    return PLB_OK;
}

// Threads have columns, in whole cache lines, so that each adds its rows in their order.
static plb_status run_take_grad(void *state, const plb_call *call, plb_stream *stream) {
    (void)state, (void)stream;
    enum { LINE = PLB_CACHE_LINE / sizeof(float) };
    const plb_tensor *dy = &call->in[0], *dx = &call->out[0];
    const int64_t *index = call->in[1].data, count = plb_shape_count(&call->in[1].shape);
    const int64_t width = width_of(&dx->shape, 1), rows = dx->shape.dim[0];
    PLB_TRY(plb_index_check("take_grad", &call->in[1], rows));
    int threads = plb_worth_threads(plb_shape_count(&dy->shape) + rows * width, call->threads);
    const int64_t lines = (width + LINE - 1) / LINE;
    if (width < 4 * LINE) threads = 1;
    if (threads > lines) threads = (int)lines;
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        plb_span span = plb_span_of(lines, i, threads);
        span.begin *= LINE, span.end = span.end * LINE < width ? span.end * LINE : width;
        const int64_t n = span.end - span.begin;
        float *to = (float *)dx->data + span.begin;
        const float *from = (const float *)dy->data + span.begin;
        for (int64_t r = 0; r < rows; r++) memset(to + r * width, 0, (size_t)n * sizeof *to);
        for (int64_t r = 0; r < count; r++) {
            float *y = to + index[r] * width;
            const float *x = from + r * width;
#pragma omp simd
            for (int64_t j = 0; j < n; j++) y[j] += x[j];
        }
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    if (((const plb_index_attrs *)q->attrs)->axis != 0) return "axis 0 only";
    if (q->op == PLB_OP_take_grad && q->in[0].dtype != PLB_F32) return "f32 only";
    for (int k = 0; k < q->n_in; k++) {
        const plb_tensor *t = &q->in[k];
        if (t->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(t)) return "plain only";
    }
    return q->out[0].layout.kind != PLB_LAYOUT_PLAIN ? "plain only" : NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "take has one variant, found %s", choice);
    const bool take = q->op == PLB_OP_take;
    const plb_tensor *moved = take ? &q->out[0] : &q->in[0];
    const double count = (double)plb_shape_count(&moved->shape);
    *out = (plb_launch){.run = take ? run_take : run_take_grad,
                        .flops = take ? 0 : count,
                        .bytes = 2 * count * (double)plb_dtype_size(moved->dtype)};
    if (!take) out->bytes += (double)plb_shape_count(&q->out[0].shape) * sizeof(float);
    return PLB_OK;
}

const plb_kernel plb_cpu_take = {
    .name = "rows", .op = PLB_OP_take, .refuse = refuse, .prepare = prepare};
