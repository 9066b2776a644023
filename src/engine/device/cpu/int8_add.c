// SPDX-License-Identifier: Apache-2.0
// Sums of quantised values, operands lying alike. Signed bytes are read as unsigned ones with the
// uppermost bit turned over, which adds 128: one loop serves every mixture.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

typedef struct sum_state {
    const plb_vec *vec;
    plb_byte_sum sum; // without pointers
    int64_t count;
    int threads;
} sum_state;

static const char *refuse(const plb_query *q) {
    for (int k = 0; k < 2; k++) {
        if (!plb_tensor_is_dense(&q->in[k])) return "an operand has gaps";
        if (!plb_layout_equal(q->in[k].layout, q->out[0].layout)) return "layouts differ";
    }
    if (q->out[0].layout.kind == PLB_LAYOUT_BLOCKED) return "no blocked layouts";
    return plb_tensor_is_dense(&q->out[0]) ? NULL : "the result has gaps";
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const sum_state *s = state;
#pragma omp parallel for schedule(static, 1) if (s->threads > 1)
    for (int t = 0; t < s->threads; t++) {
        const plb_span span = plb_span_of(s->count, t, s->threads);
        plb_byte_sum sum = s->sum;
        sum.a = (const uint8_t *)call->in[0].data + span.begin;
        sum.b = (const uint8_t *)call->in[1].data + span.begin;
        sum.y = (uint8_t *)call->out[0].data + span.begin;
        s->vec->add_bytes(&sum, span.end - span.begin);
    }
    return PLB_OK;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "bytes has one variant, found %s", choice);
    const plb_int8_add_attrs *a = q->attrs;
    sum_state *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
    const bool signed_a = q->in[0].dtype == PLB_I8, signed_b = q->in[1].dtype == PLB_I8;
    const bool signed_y = q->out[0].dtype == PLB_I8;
    const double lifted = (signed_a ? 128 * a->scale_a : 0) + (signed_b ? 128 * a->scale_b : 0);
    const double up = signed_y ? 128 : 0;
    *s = (sum_state){.vec = plb_vec_of(plb_cpu_isa()), .count = plb_shape_count(&q->out[0].shape)};
    s->sum = (plb_byte_sum){.turn_a = signed_a ? 128 : 0,
                            .turn_b = signed_b ? 128 : 0,
                            .turn_y = signed_y ? 128 : 0,
                            .scale_a = (float)a->scale_a,
                            .scale_b = (float)a->scale_b,
                            .shift = (float)(a->shift - lifted),
                            .zero = (float)((double)a->y_zero + up),
                            .low = (float)(a->low + up),
                            .high = (float)(a->high + up)};
    s->threads = plb_worth_threads(s->count / 4, q->threads);
    *out = (plb_launch){.state = s,
                        .release = plb_free,
                        .run = run,
                        .flops = 5 * (double)s->count,
                        .bytes = 3 * (double)s->count};
    return PLB_OK;
}

const plb_kernel plb_cpu_int8_add = {
    .name = "bytes", .op = PLB_OP_int8_add, .refuse = refuse, .prepare = prepare};
