// SPDX-License-Identifier: Apache-2.0
// take: x[…,D,…] index[I…] -> y[… I… …], y[… i… …] = x[…, index[i…], …]; an embedding is axis 0.
#include "engine/ops/take.h"

#include "base/core/status.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_index_attrs *attrs = s->attrs;
    const plb_shape *x = &s->in[0].shape, *index = &s->in[1].shape;
    PLB_TRY(plb_axis_check("take", attrs->axis, x->rank));
    if (s->in[1].dtype != PLB_I64 || x->rank - 1 + index->rank > PLB_MAX_RANK) {
        return plb_fail(PLB_EINVAL, "take: expected an i64 index, ranks below %d in all, found %s",
                        PLB_MAX_RANK + 2, plb_dtype_name(s->in[1].dtype));
    }
    const int axis = (int)attrs->axis;
    plb_type y = {s->in[0].dtype, {.rank = x->rank - 1 + index->rank}};
    for (int i = 0; i < axis; i++) y.shape.dim[i] = x->dim[i];
    for (int i = 0; i < index->rank; i++) y.shape.dim[axis + i] = index->dim[i];
    for (int i = axis + 1; i < x->rank; i++) y.shape.dim[i - 1 + index->rank] = x->dim[i];
    s->out[0] = y;
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_index_attrs *attrs = call->attrs;
    plb_take_source((int)attrs->axis, &call->in[1], to, call->out[0].shape.rank, from);
    return true;
}

static plb_status ref(const plb_call *call) {
    const plb_index_attrs *attrs = call->attrs;
    PLB_TRY(plb_index_check("take", &call->in[1], call->in[0].shape.dim[attrs->axis]));
    return plb_walk_gather(call, map, 0);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_index_attrs attrs = *(const plb_index_attrs *)plb_node_attrs(graph, node);
    attrs.extent = plb_value_shape(graph, plb_node_in(graph, node, 0)).dim[attrs.axis];
    plb_value in[] = {dout[0], plb_node_in(graph, node, 1)};
    din[0] = plb_emit(graph, PLB_OP_take_grad, in, 2, &attrs);
}

static const plb_index_attrs axis0 = {0}, axis1 = {1, 0}, axis2 = {2, 0};
#define INDICES .low = {-2, 0}, .high = {2, 4}
static const plb_sample samples[] = {
    {"embedding", .in = {PLB_T(5, 3), PLB_TI(2, 4)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"middle", .in = {PLB_T(2, 5, 3), PLB_TI(4)}, .n_in = 2, .attrs = &axis1, INDICES},
    {"last, a matrix", .in = {PLB_T(2, 1, 5), PLB_TI(2, 3)}, .n_in = 2, .attrs = &axis2, INDICES},
    {"one index", .in = {PLB_T(5, 3), {PLB_I64, {0}}}, .n_in = 2, .attrs = &axis0, INDICES},
    {"of a vector", .in = {PLB_T(5), PLB_TI(7)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"no index", .in = {PLB_T(5, 3), PLB_TI(0)}, .n_in = 2, .attrs = &axis0, INDICES},
    {"integers", .in = {PLB_TI(2, 5), PLB_TI(4)}, .n_in = 2, .attrs = &axis1, INDICES,
     .no_gradient = true},
};

const plb_op plb_op_take = {
    .name = "take",
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

plb_value plb_take(plb_graph *graph, plb_value x, plb_value index, int axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_index_attrs attrs = {plb_axis_of(graph, "take", axis, plb_value_shape(graph, x).rank), 0};
    return plb_emit(graph, PLB_OP_take, (plb_value[]){x, index}, 2, &attrs);
}

plb_value plb_embedding(plb_graph *graph, plb_value weight, plb_value index) {
    return plb_take(graph, weight, index, 0);
}
