// SPDX-License-Identifier: Apache-2.0
// pad_grad: the transposed pad of the modes that repeat elements of x (reflect, edge): each
// element of dy is added to the one that it was copied from.
#include "base/core/status.h"
#include "engine/ops/pad.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_pad_attrs *attrs = s->attrs;
    plb_type dx = s->in[0];
    for (int i = 0; i < dx.shape.rank; i++) {
        int64_t *extent = &dx.shape.dim[i];
        if (__builtin_sub_overflow(*extent, attrs->before[i], extent) ||
            __builtin_sub_overflow(*extent, attrs->after[i], extent)) {
            return plb_fail(PLB_EINVAL, "pad_grad: axis %d: the extent is too large", i);
        }
    }
    PLB_TRY(plb_pad_check("pad_grad", attrs, &dx.shape, &s->in[0].shape));
    s->out[0] = dx;
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_pad_attrs *attrs = call->attrs;
    const plb_shape *dx = &call->out[0].shape;
    for (int i = 0; i < dx->rank; i++) {
        from[i] = plb_pad_source((plb_pad_mode)attrs->mode, to[i] - attrs->before[i], dx->dim[i]);
        if (from[i] < 0) return false;
    }
    return true;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_scatter(call, map);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    din[0] = plb_pad(graph, dout[0], plb_node_attrs(graph, node));
}

static const plb_pad_attrs mirror = {PLB_PAD_REFLECT, {0, 0, 2, 1}, {0, 0, 1, 2}, 0},
                           repeat = {PLB_PAD_EDGE, {0, 0, 3, 0}, {0, 0, 1, 2}, 0},
                           full = {PLB_PAD_REFLECT, {3}, {3}, 0}, one = {PLB_PAD_EDGE, {2}, {2}, 0};
static const plb_sample samples[] = {
    {"reflect", .in = {PLB_T(1, 2, 6, 7)}, .n_in = 1, .attrs = &mirror},
    {"reflect, as far as it goes", .in = {PLB_T(10)}, .n_in = 1, .attrs = &full},
    {"edge", .in = {PLB_T(1, 2, 6, 5)}, .n_in = 1, .attrs = &repeat},
    {"edge of one element", .in = {PLB_T(5)}, .n_in = 1, .attrs = &one},
};

const plb_op plb_op_pad_grad = {
    .name = "pad_grad",
    .flags = PLB_OP_FOLLOWS,
    .attrs_bytes = sizeof(plb_pad_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .ref = ref,
    .describe = plb_pad_describe,
    PLB_SAMPLES(samples),
};
