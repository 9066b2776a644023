// SPDX-License-Identifier: Apache-2.0
// cross_entropy: with p = softmax(x) over axis 1, e = label smoothing and t the target, the
// position's loss is -(1 - e) w[t] log p[t] - e/C sum over c of w[c] log p[c]
// (Szegedy et al. 2016, section 7, for the smoothing; weights as PyTorch puts them).
#include <math.h>

#include "engine/ops/class_loss.h"

static plb_status infer(plb_signature *s) {
    return plb_class_infer(s, "cross_entropy");
}

static double log_sum_exp(const plb_tensor *x, const int64_t *position) {
    double largest = -INFINITY, sum = 0;
    const int64_t classes = x->shape.dim[1];
    for (int64_t c = 0; c < classes; c++) {
        double score = plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c));
        if (score > largest || score != score) largest = score;
    }
    for (int64_t c = 0; c < classes; c++) {
        sum += exp(plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c)) - largest);
    }
    return largest + log(sum);
}

static double loss_at(const plb_class_loss *loss, const plb_tensor *x, const int64_t *position,
                      int64_t target) {
    const double lse = log_sum_exp(x, position), e = loss->attrs->smoothing;
    const double score = plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, target));
    double hard = plb_class_weight(loss, target) * (lse - score), soft = 0;
    if (e == 0) return hard;
    for (int64_t c = 0; c < loss->classes; c++) {
        double other = plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c));
        soft += plb_class_weight(loss, c) * (lse - other);
    }
    return (1 - e) * hard + e / (double)loss->classes * soft;
}

static plb_status ref(const plb_call *call) {
    return plb_class_ref(call, "cross_entropy", loss_at);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_value weight = plb_node_in(graph, node, 2);
    if (weight != PLB_NONE && plb_class_weight_refused(graph, "cross_entropy", needed[2])) return;
    plb_value in[] = {dout[0], plb_node_in(graph, node, 0), plb_node_in(graph, node, 1), weight};
    din[0] = plb_emit(graph, PLB_OP_cross_entropy_grad, in, 4, plb_node_attrs(graph, node));
}

// A comparison, a subtraction, an exponential and an addition for each score.
static double flops(const plb_signature *s) {
    return 4 * (double)plb_shape_count(&s->in[0].shape);
}

static const plb_loss_attrs mean = {PLB_REDUCE_MEAN, -100, 0, 0},
                            ignore = {PLB_REDUCE_MEAN, 2, 0, 0},
                            smooth = {PLB_REDUCE_MEAN, 1, 0.1, 0},
                            sum = {PLB_REDUCE_SUM, -100, 0.2, 0},
                            each = {PLB_REDUCE_NONE, 0, 0.3, 0};
#define SCORES .low = {-3, 0, 0.5}, .high = {3, 4, 2}
static const plb_sample samples[] = {
    {"mean", .in = {PLB_T(6, 5), PLB_TI(6)}, .n_in = 2, .attrs = &mean, SCORES},
    {"ignored", .in = {PLB_T(6, 5), PLB_TI(6)}, .n_in = 2, .attrs = &ignore, SCORES},
    {"weights", .in = {PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 3, .attrs = &ignore, SCORES,
     .no_gradient_of = 1 << 2},
    {"absent weights", .in = {PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 3, .attrs = &sum, SCORES,
     .absent = 1 << 2},
    {"smoothed", .in = {PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 3, .attrs = &smooth, SCORES,
     .no_gradient_of = 1 << 2},
    {"planes", .in = {PLB_T(2, 5, 2, 3), PLB_TI(2, 2, 3), PLB_T(5)}, .n_in = 3, .attrs = &each,
     SCORES, .no_gradient_of = 1 << 2},
    {"a plane, one number", .in = {PLB_T(2, 5, 3), PLB_TI(2, 3)}, .n_in = 2, .attrs = &smooth,
     SCORES},
    {"nothing", .in = {PLB_T(0, 5), PLB_TI(0)}, .n_in = 2, .attrs = &sum, SCORES},
};

const plb_op plb_op_cross_entropy = {
    .name = "cross_entropy",
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

plb_loss_attrs plb_loss_default(void) {
    return (plb_loss_attrs){.reduction = PLB_REDUCE_MEAN, .ignore_index = -100};
}

plb_value plb_cross_entropy(plb_graph *graph, plb_value logits, plb_value target, plb_value weight,
                            const plb_loss_attrs *attrs) {
    plb_value in[] = {logits, target, weight};
    return plb_emit(graph, PLB_OP_cross_entropy, in, 3, attrs);
}
