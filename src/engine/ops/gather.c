// SPDX-License-Identifier: Apache-2.0
// gather: y has the index's shape; along the axis y[…, i, …] = x[…, index[…, i, …], …], all other
// positions being the same in x and y (torch.gather).
#include "base/core/status.h"
#include "engine/ops/index.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_index_attrs *attrs = s->attrs;
    PLB_TRY(plb_index_fits("gather", attrs->axis, &s->in[0], &s->in[1]));
    s->out[0] = (plb_type){s->in[0].dtype, s->in[1].shape};
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_tensor *index = &call->in[1];
    for (int i = 0; i < index->shape.rank; i++) from[i] = to[i];
    from[((const plb_index_attrs *)call->attrs)->axis] = plb_index_at(index, to);
    return true;
}

static plb_status ref(const plb_call *call) {
    const plb_index_attrs *attrs = call->attrs;
    PLB_TRY(plb_index_check("gather", &call->in[1], call->in[0].shape.dim[attrs->axis]));
    return plb_walk_gather(call, map, 0);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    const plb_index_attrs *attrs = plb_node_attrs(graph, node);
    plb_type x = plb_value_type(graph, plb_node_in(graph, node, 0));
    plb_value zeros = plb_expand(graph, plb_scalar(graph, x.dtype, 0), &x.shape);
    din[0] = plb_scatter_add(graph, zeros, plb_node_in(graph, node, 1), dout[0], (int)attrs->axis);
}

static const plb_index_attrs axis0 = {0}, axis1 = {1, 0}, axis2 = {2, 0};
#define INDICES .low = {-2, 0}, .high = {2, 4}
static const plb_sample samples[] = {
    {"vector", .in = {PLB_T(5), PLB_TI(7)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"columns", .in = {PLB_T(3, 5), PLB_TI(3, 2)}, .n_in = 2, .attrs = &axis1, INDICES},
    {"part of the rows", .in = {PLB_T(5, 4), PLB_TI(6, 2)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"rank 4", .in = {PLB_T(2, 2, 5, 2), PLB_TI(2, 2, 3, 2)}, .n_in = 2, .attrs = &axis2, INDICES},
    {"no index", .in = {PLB_T(3, 5), PLB_TI(3, 0)}, .n_in = 2, .attrs = &axis1, INDICES},
    {"integers", .in = {PLB_TI(3, 5), PLB_TI(3, 2)}, .n_in = 2, .attrs = &axis1, INDICES,
     .no_gradient = true},
};

const plb_op plb_op_gather = {
    .name = "gather",
    .attrs_bytes = sizeof(plb_index_attrs),
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = plb_index_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_gather(plb_graph *graph, plb_value x, plb_value index, int axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_index_attrs attrs = {plb_axis_of(graph, "gather", axis, plb_value_shape(graph, x).rank), 0};
    return plb_emit(graph, PLB_OP_gather, (plb_value[]){x, index}, 2, &attrs);
}
