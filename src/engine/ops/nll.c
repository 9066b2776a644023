// SPDX-License-Identifier: Apache-2.0
// nll: the negative log-likelihood of targets: log_p[N,C,…] t[N,…] w[C] -> -w[t] log_p[t].
#include "engine/ops/class_loss.h"

static plb_status infer(plb_signature *s) {
    return plb_class_infer(s, "nll");
}

static double loss_at(const plb_class_loss *loss, const plb_tensor *log_p, const int64_t *position,
                      int64_t target) {
    const int64_t offset = plb_class_offset(log_p, position, target);
    return -plb_class_weight(loss, target) * plb_load_f64(log_p->data, log_p->dtype, offset);
}

static plb_status ref(const plb_call *call) {
    return plb_class_ref(call, "nll", loss_at);
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
