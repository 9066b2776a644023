// SPDX-License-Identifier: Apache-2.0
// nll_grad: dy, t[N,…], w[C] -> the gradient of nll with respect to log_p[N,C,…]: -g w[t] at the
// target, zero elsewhere. nll is linear, so that this is its transpose and nll is that of this.
#include "base/core/status.h"
#include "engine/ops/class_loss.h"
#include "engine/ops/walk.h"

static const plb_type absent = {.dtype = PLB_DTYPE_COUNT};

static plb_status infer(plb_signature *s) {
    const plb_loss_attrs *attrs = s->attrs;
    const plb_type *weight = s->n_in > 2 ? &s->in[2] : &absent, *target = &s->in[1];
    if (target->shape.rank < 1 || target->shape.rank >= PLB_MAX_RANK) {
        return plb_fail(PLB_EINVAL, "nll_grad: targets of rank %d", target->shape.rank);
    }
    plb_type scores = {s->in[0].dtype, {.rank = target->shape.rank + 1}};
    scores.shape.dim[0] = target->shape.dim[0];
    scores.shape.dim[1] = attrs->classes;
    for (int i = 2; i < scores.shape.rank; i++) scores.shape.dim[i] = target->shape.dim[i - 1];
    PLB_TRY(plb_class_check("nll_grad", attrs, &scores, target, weight));
    plb_type dy = plb_class_loss_type(attrs, scores.dtype, target);
    if (!plb_shape_equal(&s->in[0].shape, &dy.shape)) {
        return plb_fail(PLB_EINVAL, "nll_grad: dy does not have the shape of the loss");
    }
    s->out[0] = scores;
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *dx = &call->out[0];
    const bool weighted = call->n_in > 2 && call->in[2].data;
    plb_class_loss loss = {.attrs = call->attrs,
                           .target = &call->in[1],
                           .weight = weighted ? &call->in[2] : NULL,
                           .classes = dx->shape.dim[1]};
    PLB_TRY(plb_class_begin("nll_grad", &loss));
    plb_walk_fill(dx, 0);
    const plb_shape *shape = &loss.target->shape;
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(shape), t;
    for (int64_t n = 0; n < count; n++, plb_walk_next(shape, position)) {
        if (!plb_class_at(&loss, position, &t)) continue;
        double g = plb_class_scale(&loss, &call->in[0], position);
        plb_store_f64(dx->data, dx->dtype, plb_class_offset(dx, position, t),
                      -g * plb_class_weight(&loss, t));
    }
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_value weight = plb_node_in(graph, node, 2);
    if (weight != PLB_NONE && plb_class_weight_refused(graph, "nll_grad", needed[2])) return;
    plb_loss_attrs attrs = *(const plb_loss_attrs *)plb_node_attrs(graph, node);
    attrs.classes = 0;
    din[0] = plb_nll(graph, dout[0], plb_node_in(graph, node, 1), weight, &attrs);
}

static double flops(const plb_signature *s) {
    return 2 * (double)plb_shape_count(&s->in[1].shape);
}

static const plb_loss_attrs mean = {PLB_REDUCE_MEAN, -100, 0, 5},
                            ignore = {PLB_REDUCE_MEAN, 2, 0, 5}, each = {PLB_REDUCE_NONE, 0, 0, 5};
#define SCORES .low = {0.5, 0, 0.5}, .high = {2, 4, 2}
static const plb_sample samples[] = {
    {"mean", .in = {{PLB_F32, {0}}, PLB_TI(6)}, .n_in = 2, .attrs = &mean, SCORES},
    {"weights", .in = {{PLB_F32, {0}}, PLB_TI(6), PLB_T(5)}, .n_in = 3, .attrs = &ignore, SCORES,
     .no_gradient_of = 1 << 2},
    {"planes", .in = {PLB_T(2, 2, 3), PLB_TI(2, 2, 3), PLB_T(5)}, .n_in = 3, .attrs = &each, SCORES,
     .no_gradient_of = 1 << 2},
};

const plb_op plb_op_nll_grad = {
    .name = "nll_grad",
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
