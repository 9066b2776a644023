// SPDX-License-Identifier: Apache-2.0
// nll: the negative log-likelihood of targets: log_p[N,C,…] t[N,…] w[C] -> -w[t] log_p[t].
#include "base/core/status.h"
#include "engine/ops/class_loss.h"
#include "engine/ops/walk.h"

static const plb_type absent = {.dtype = PLB_DTYPE_COUNT};

static plb_status infer(plb_signature *s) {
    const plb_type *weight = s->n_in > 2 ? &s->in[2] : &absent;
    PLB_TRY(plb_class_check("nll", s->attrs, &s->in[0], &s->in[1], weight));
    s->out[0] = plb_class_loss_type(s->attrs, s->in[0].dtype, &s->in[1]);
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    const bool weighted = call->n_in > 2 && call->in[2].data;
    plb_class_loss loss = {.attrs = call->attrs,
                           .target = &call->in[1],
                           .weight = weighted ? &call->in[2] : NULL,
                           .classes = x->shape.dim[1]};
    PLB_TRY(plb_class_begin("nll", &loss));
    const bool reduced = loss.attrs->reduction != PLB_REDUCE_NONE;
    const plb_shape *shape = &loss.target->shape;
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(shape), t;
    double sum = 0;
    for (int64_t n = 0; n < count; n++, plb_walk_next(shape, position)) {
        double here = 0;
        if (plb_class_at(&loss, position, &t)) {
            here = -plb_class_weight(&loss, t) *
                   plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, t));
        }
        sum += here;
        if (!reduced) plb_store_f64(y->data, y->dtype, plb_tensor_offset(y, position), here);
    }
    if (loss.attrs->reduction == PLB_REDUCE_MEAN) sum /= loss.total;
    if (reduced) plb_store_f64(y->data, y->dtype, 0, sum);
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_value weight = plb_node_in(graph, node, 2);
    if (weight != PLB_NONE && plb_class_weight_refused(graph, "nll", needed[2])) return;
    plb_loss_attrs attrs = *(const plb_loss_attrs *)plb_node_attrs(graph, node);
    attrs.classes = plb_value_shape(graph, plb_node_in(graph, node, 0)).dim[1];
    plb_value in[] = {dout[0], plb_node_in(graph, node, 1), weight};
    din[0] = plb_emit(graph, PLB_OP_nll_grad, in, 3, &attrs);
}

// A product and an addition for each target.
static double flops(const plb_signature *s) {
    return 2 * (double)plb_shape_count(&s->in[1].shape);
}

static const plb_loss_attrs mean = {PLB_REDUCE_MEAN, -100, 0, 0},
                            ignore = {PLB_REDUCE_MEAN, 2, 0, 0}, sum = {PLB_REDUCE_SUM, -100, 0, 0},
                            each = {PLB_REDUCE_NONE, 0, 0, 0};
#define SCORES .low = {-3, 0, 0.5}, .high = {0, 4, 2}
static const plb_sample samples[] = {
    {"mean", .in = {PLB_T(6, 5), PLB_TI(6)}, .n_in = 2, .attrs = &mean, SCORES},
    {"weights", .in = {PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 3, .attrs = &ignore, SCORES,
     .no_gradient_of = 1 << 2},
    {"sum", .in = {PLB_T(2, 5, 3), PLB_TI(2, 3), PLB_T(5)}, .n_in = 3, .attrs = &sum, SCORES,
     .absent = 1 << 2},
    {"planes", .in = {PLB_T(2, 5, 2, 3), PLB_TI(2, 2, 3), PLB_T(5)}, .n_in = 3, .attrs = &each,
     SCORES, .no_gradient_of = 1 << 2},
    {"nothing", .in = {PLB_T(0, 5), PLB_TI(0)}, .n_in = 2, .attrs = &sum, SCORES},
};

const plb_op plb_op_nll = {
    .name = "nll",
    .attrs_bytes = sizeof(plb_loss_attrs),
    .min_in = 2,
    .max_in = 3,
    .infer = infer,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .describe = plb_class_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_nll(plb_graph *graph, plb_value log_p, plb_value target, plb_value weight,
                  const plb_loss_attrs *attrs) {
    plb_loss_attrs plain = *attrs;
    plain.smoothing = 0; // means something to cross_entropy alone
    plb_value in[] = {log_p, target, weight};
    return plb_emit(graph, PLB_OP_nll, in, 3, &plain);
}
