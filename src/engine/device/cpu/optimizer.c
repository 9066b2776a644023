// SPDX-License-Identifier: Apache-2.0
// sgd and adam of f32: one pass over weights, gradients and moments, in place where the plan says
// so. The order of operations is PyTorch's, each rounded as there.
#include <math.h>

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "plumb/ops.h"

enum { W, G, M, SGD_LR, V = 3, ADAM_LR, STEP };
enum { SGD_INPUTS = 4, ADAM_INPUTS = 6 }; // without a scaled loss

static plb_status run_sgd(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_vec *vec = state;
    const plb_sgd_attrs *a = call->attrs;
    const bool momentum = call->in[M].data;
    const plb_sgd_step s = {.w = call->in[W].data,
                            .g = call->in[G].data,
                            .m = call->in[M].data,
                            .out_w = call->out[0].data,
                            .out_m = momentum ? call->out[1].data : NULL,
                            .lr = *(const float *)call->in[SGD_LR].data,
                            .momentum = (float)a->momentum,
                            .share = (float)(1 - a->dampening),
                            .weight_decay = (float)a->weight_decay,
                            .nesterov = a->nesterov};
    const int64_t count = plb_shape_count(&call->in[W].shape);
    const int threads = plb_worth_threads(count, call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        const plb_span span = plb_span_of(count, i, threads);
        vec->sgd(&s, span.begin, span.end);
    }
    return PLB_OK;
}

static plb_status run_adam(void *state, const plb_call *call, plb_stream *stream) {
    (void)stream;
    const plb_vec *vec = state;
    const plb_adam_attrs *a = call->attrs;
    const double lr = (double)*(const float *)call->in[ADAM_LR].data;
    const double t = (double)*(const float *)call->in[STEP].data;
    const plb_adam_step s = {.w = call->in[W].data,
                             .g = call->in[G].data,
                             .m = call->in[M].data,
                             .v = call->in[V].data,
                             .out_w = call->out[0].data,
                             .out_m = call->out[1].data,
                             .out_v = call->out[2].data,
                             .decay = (float)(a->decoupled ? 1 - lr * a->weight_decay : 1),
                             .weight_decay = (float)(a->decoupled ? 0 : a->weight_decay),
                             .beta1 = (float)a->beta1,
                             .beta2 = (float)a->beta2,
                             .rest1 = (float)(1 - a->beta1),
                             .rest2 = (float)(1 - a->beta2),
                             .step_size = (float)(lr / (1 - pow(a->beta1, t))),
                             .root_scale = (float)sqrt(1 - pow(a->beta2, t)),
                             .eps = (float)a->eps};
    const int64_t count = plb_shape_count(&call->in[W].shape);
    const int threads = plb_worth_threads(count, call->threads);
#pragma omp parallel for schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        const plb_span span = plb_span_of(count, i, threads);
        vec->adam(&s, span.begin, span.end);
    }
    return PLB_OK;
}

static const char *refuse(const plb_query *q) {
    if (q->n_in > (q->op == PLB_OP_sgd ? SGD_INPUTS : ADAM_INPUTS)) return "no scaled loss";
    for (int k = 0; k < q->n_in; k++) {
        const plb_tensor *t = &q->in[k];
        if (t->dtype == PLB_DTYPE_COUNT) continue;
        if (t->dtype != PLB_F32) return "f32 only";
        if (t->layout.kind != PLB_LAYOUT_PLAIN || !plb_tensor_is_dense(t)) return "plain only";
    }
    for (int k = 0; k < q->n_out; k++) {
        if (q->out[k].layout.kind != PLB_LAYOUT_PLAIN) return "plain only";
    }
    return NULL;
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    if (*choice) return plb_fail(PLB_EUNSUPPORTED, "optimizers have one variant, found %s", choice);
    const double count = (double)plb_shape_count(&q->in[W].shape);
    const bool sgd = q->op == PLB_OP_sgd;
    *out = (plb_launch){.state = (void *)plb_vec_of(plb_cpu_isa()),
                        .run = sgd ? run_sgd : run_adam,
                        .flops = (sgd ? 6 : 14) * count,
                        .bytes = (sgd ? 1 + 2 * q->n_out : 7) * count * sizeof(float)};
    return PLB_OK;
}

const plb_kernel plb_cpu_optimizer = {
    .name = "step", .op = PLB_OP_sgd, .refuse = refuse, .prepare = prepare};
