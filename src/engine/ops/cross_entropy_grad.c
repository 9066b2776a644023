// SPDX-License-Identifier: Apache-2.0
// cross_entropy_grad: dy, x[N,C,…], t[N,…], w[C] -> dx. With g the gradient of the position's
// contribution and S = (1 - e) w[t] + e/C sum of w,
// dx[c] = g (S p[c] - (1 - e) w[t] [c = t] - e/C w[c]); zero where the position is ignored.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/class_loss.h"
#include "engine/ops/walk.h"

static const plb_type absent = {.dtype = PLB_DTYPE_COUNT};

static plb_status infer(plb_signature *s) {
    const plb_type *weight = s->n_in > 3 ? &s->in[3] : &absent;
    PLB_TRY(plb_class_check("cross_entropy_grad", s->attrs, &s->in[1], &s->in[2], weight));
    plb_type dy = plb_class_loss_type(s->attrs, s->in[1].dtype, &s->in[2]);
    if (s->in[0].dtype != dy.dtype || !plb_shape_equal(&s->in[0].shape, &dy.shape)) {
        return plb_fail(PLB_EINVAL, "cross_entropy_grad: dy does not have the type of the loss");
    }
    s->out[0] = s->in[1];
    return PLB_OK;
}

static void grad_at(const plb_class_loss *loss, const plb_call *call, const int64_t *position,
                    int64_t target) {
    const plb_tensor *x = &call->in[1], *dx = &call->out[0];
    const double g = plb_class_scale(loss, &call->in[0], position), e = loss->attrs->smoothing;
    const double each = e / (double)loss->classes, hard = (1 - e) * plb_class_weight(loss, target);
    double largest = -INFINITY, sum = 0, weights = 0;
    for (int64_t c = 0; c < loss->classes; c++) {
        double score = plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c));
        if (score > largest || score != score) largest = score;
        weights += plb_class_weight(loss, c);
    }
    for (int64_t c = 0; c < loss->classes; c++) {
        sum += exp(plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c)) - largest);
    }
    for (int64_t c = 0; c < loss->classes; c++) {
        double score = plb_load_f64(x->data, x->dtype, plb_class_offset(x, position, c));
        double d = (hard + each * weights) * (exp(score - largest) / sum);
        d -= each * plb_class_weight(loss, c) + (c == target ? hard : 0);
        plb_store_f64(dx->data, dx->dtype, plb_class_offset(dx, position, c), g * d);
    }
}

static plb_status ref(const plb_call *call) {
    const bool weighted = call->n_in > 3 && call->in[3].data;
    plb_class_loss loss = {.attrs = call->attrs,
                           .target = &call->in[2],
                           .weight = weighted ? &call->in[3] : NULL,
                           .classes = call->in[1].shape.dim[1]};
    PLB_TRY(plb_class_begin("cross_entropy_grad", &loss));
    plb_walk_fill(&call->out[0], 0);
    const plb_shape *shape = &loss.target->shape;
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(shape), target;
    for (int64_t n = 0; n < count; n++, plb_walk_next(shape, position)) {
        if (plb_class_at(&loss, position, &target)) grad_at(&loss, call, position, target);
    }
    return PLB_OK;
}

// The weight of each position's target, 0 where it is ignored: the loss of log p = -1.
static plb_value position_weights(plb_graph *graph, plb_value logits, plb_value target,
                                  plb_value weight, const plb_loss_attrs *attrs) {
    plb_type type = plb_value_type(graph, logits);
    plb_loss_attrs each = {PLB_REDUCE_NONE, attrs->ignore_index, 0, 0};
    plb_value minus_one = plb_expand(graph, plb_scalar(graph, type.dtype, -1), &type.shape);
    return plb_nll(graph, minus_one, target, weight, &each);
}

// g S as a tensor [N,1,…]; built of ops, so that it differentiates with respect to dy.
static plb_value position_scale(plb_graph *graph, int node) {
    const plb_loss_attrs *attrs = plb_node_attrs(graph, node);
    plb_value dy = plb_node_in(graph, node, 0), logits = plb_node_in(graph, node, 1);
    plb_value target = plb_node_in(graph, node, 2), weight = plb_node_in(graph, node, 3);
    plb_type type = plb_value_type(graph, logits);
    plb_value own = position_weights(graph, logits, target, weight, attrs);
    plb_value scale = own;
    if (attrs->smoothing != 0) {
        plb_value counted = position_weights(graph, logits, target, PLB_NONE, attrs);
        double each = attrs->smoothing / (double)type.shape.dim[1];
        plb_value soft = weight == PLB_NONE ? plb_affine(graph, counted, attrs->smoothing, 0)
                                            : plb_mul(graph, plb_affine(graph, counted, each, 0),
                                                      plb_sum(graph, weight, 0, false));
        scale = plb_add(graph, plb_affine(graph, own, 1 - attrs->smoothing, 0), soft);
    }
    if (attrs->reduction == PLB_REDUCE_MEAN) { // where all is ignored, 0/1 instead of 0/0
        plb_value total = plb_sum(graph, own, 0, false);
        plb_value none = plb_eq(graph, total, plb_scalar(graph, type.dtype, 0));
        scale = plb_div(graph, scale, plb_add(graph, total, plb_cast(graph, none, type.dtype)));
    }
    type.shape.dim[1] = 1;
    return plb_reshape(graph, plb_mul(graph, scale, dy), &type.shape);
}

// dx is linear in dy, so with respect to dy it is dd against dx for dy = 1. With respect to x only
// g S p varies: with q = p g S dd, it is q - p sum of q.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_loss_attrs *attrs = plb_node_attrs(graph, node);
    plb_value weight = plb_node_in(graph, node, 3), dy = plb_node_in(graph, node, 0);
    plb_value x = plb_node_in(graph, node, 1);
    plb_type dy_type = plb_value_type(graph, dy), x_type = plb_value_type(graph, x);
    if (weight != PLB_NONE && plb_class_weight_refused(graph, "cross_entropy_grad", needed[3])) {
        return;
    }
    if (needed[0]) {
        plb_value one = plb_expand(graph, plb_scalar(graph, dy_type.dtype, 1), &dy_type.shape);
        plb_value in[] = {one, x, plb_node_in(graph, node, 2), weight};
        plb_value unit = plb_emit(graph, PLB_OP_cross_entropy_grad, in, 4, attrs);
        const bool each = attrs->reduction == PLB_REDUCE_NONE;
        int64_t axes = each ? plb_axes(x_type.shape.rank, 1, (int[]){1}) : 0;
        din[0] = plb_sum(graph, plb_mul(graph, dout[0], unit), axes, false);
    }
    if (needed[1]) {
        plb_value p = plb_softmax(graph, x, 1);
        plb_value q = plb_mul(graph, p, plb_mul(graph, dout[0], position_scale(graph, node)));
        int64_t axes = plb_axes(x_type.shape.rank, 1, (int[]){1});
        plb_value sum = plb_sum(graph, q, axes, true);
        din[1] = plb_sub(graph, q, plb_mul(graph, p, sum));
    }
}

// As cross_entropy, and a division, a product and a subtraction.
static double flops(const plb_signature *s) {
    return 7 * (double)plb_shape_count(&s->in[1].shape);
}

static const plb_loss_attrs mean = {PLB_REDUCE_MEAN, -100, 0, 0},
                            ignore = {PLB_REDUCE_MEAN, 2, 0, 0},
                            smooth = {PLB_REDUCE_MEAN, 1, 0.1, 0},
                            sum = {PLB_REDUCE_SUM, -100, 0.2, 0},
                            each = {PLB_REDUCE_NONE, 0, 0.3, 0};
#define SCORES .low = {0.5, -3, 0, 0.5}, .high = {2, 3, 4, 2}
#define SCALAR     \
    {              \
        PLB_F32, { \
            0      \
        }          \
    }
static const plb_sample samples[] = {
    {"mean", .in = {SCALAR, PLB_T(6, 5), PLB_TI(6)}, .n_in = 3, .attrs = &mean, SCORES},
    {"weights", .in = {SCALAR, PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 4, .attrs = &ignore,
     SCORES, .no_gradient_of = 1 << 3},
    {"smoothed", .in = {SCALAR, PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 4, .attrs = &smooth,
     SCORES, .no_gradient_of = 1 << 3},
    {"sum", .in = {SCALAR, PLB_T(6, 5), PLB_TI(6), PLB_T(5)}, .n_in = 4, .attrs = &sum, SCORES,
     .absent = 1 << 3},
    {"planes", .in = {PLB_T(2, 2, 3), PLB_T(2, 5, 2, 3), PLB_TI(2, 2, 3), PLB_T(5)}, .n_in = 4,
     .attrs = &each, SCORES, .no_gradient_of = 1 << 3},
    {"nothing", .in = {SCALAR, PLB_T(0, 5), PLB_TI(0)}, .n_in = 3, .attrs = &sum, SCORES},
};

const plb_op plb_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .attrs_bytes = sizeof(plb_loss_attrs),
    .min_in = 3,
    .max_in = 4,
    .infer = infer,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .describe = plb_class_describe,
    PLB_SAMPLES(samples),
};
