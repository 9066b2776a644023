// SPDX-License-Identifier: Apache-2.0
// scatter: x with source's elements put where index says. Where two go to one place the last in
// row-major order stays; gradients are right only where none do, as in PyTorch.
#include "engine/ops/scatter.h"

#include "base/core/status.h"
#include "engine/ops/walk.h"

plb_status plb_scatter_infer(const char *op, plb_signature *s) {
    const plb_index_attrs *attrs = s->attrs;
    const plb_type *x = &s->in[0], *index = &s->in[1], *source = &s->in[2];
    PLB_TRY(plb_index_fits(op, attrs->axis, x, index));
    if (source->dtype != x->dtype || !plb_shape_equal(&source->shape, &index->shape)) {
        char a[160], b[160];
        return plb_fail(PLB_EINVAL, "%s: expected a source %s %s like the index, found %s %s", op,
                        plb_dtype_name(x->dtype), plb_shape_format(&index->shape, a, sizeof a),
                        plb_dtype_name(source->dtype),
                        plb_shape_format(&source->shape, b, sizeof b));
    }
    s->out[0] = *x;
    return PLB_OK;
}

plb_status plb_scatter_run(const char *op, const plb_call *call,
                           void (*put)(const plb_tensor *to, int64_t i, const plb_tensor *from,
                                       int64_t j)) {
    const plb_tensor *index = &call->in[1], *source = &call->in[2], *y = &call->out[0];
    const int64_t axis = ((const plb_index_attrs *)call->attrs)->axis;
    PLB_TRY(plb_index_check(op, index, y->shape.dim[axis]));
    if (y->data != call->in[0].data) PLB_TRY(plb_tensor_copy(&call->out[0], &call->in[0]));
    int64_t at[PLB_MAX_RANK] = {0}, to[PLB_MAX_RANK], count = plb_shape_count(&index->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&index->shape, at)) {
        for (int i = 0; i < index->shape.rank; i++) to[i] = at[i];
        to[axis] = plb_index_at(index, at);
        put(y, plb_tensor_offset(y, to), source, plb_tensor_offset(source, at));
    }
    return PLB_OK;
}

plb_value plb_scatter_emit(plb_graph *graph, plb_op_id op, plb_value x, plb_value index,
                           plb_value source, int axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    int rank = plb_value_shape(graph, x).rank;
    plb_index_attrs attrs = {plb_axis_of(graph, plb_op_of(op)->name, axis, rank), 0};
    return plb_emit(graph, op, (plb_value[]){x, index, source}, 3, &attrs);
}

static plb_status infer(plb_signature *s) {
    return plb_scatter_infer("scatter", s);
}

static plb_status ref(const plb_call *call) {
    return plb_scatter_run("scatter", call, plb_walk_move);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const int axis = (int)((const plb_index_attrs *)plb_node_attrs(graph, node))->axis;
    plb_value index = plb_node_in(graph, node, 1);
    if (needed[0]) {
        plb_type source = plb_value_type(graph, plb_node_in(graph, node, 2));
        plb_value zeros = plb_expand(graph, plb_scalar(graph, source.dtype, 0), &source.shape);
        din[0] = plb_scatter(graph, dout[0], index, zeros, axis);
    }
    if (needed[2]) din[2] = plb_gather(graph, dout[0], index, axis);
}

static const plb_index_attrs axis0 = {0}, axis1 = {1, 0};
#define INDICES .low = {-2, 0}, .high = {2, 4}, .distinct = 1 << 1
static const plb_sample samples[] = {
    {"vector", .in = {PLB_T(6), PLB_TI(4), PLB_T(4)}, .n_in = 3, .attrs = &axis0, INDICES},
    {"one column", .in = {PLB_T(1, 5), PLB_TI(1, 3), PLB_T(1, 3)}, .n_in = 3, .attrs = &axis1,
     INDICES},
    {"rank 3", .in = {PLB_T(5, 2, 3), PLB_TI(2, 1, 2), PLB_T(2, 1, 2)}, .n_in = 3, .attrs = &axis0,
     INDICES},
    {"no index", .in = {PLB_T(3, 5), PLB_TI(3, 0), PLB_T(3, 0)}, .n_in = 3, .attrs = &axis1,
     INDICES},
    {"integers", .in = {PLB_TI(6), PLB_TI(4), PLB_TI(4)}, .n_in = 3, .attrs = &axis0,
     .low = {-9, 0, -9}, .high = {9, 4, 9}, .distinct = 1 << 1, .no_gradient = true},
};

const plb_op plb_op_scatter = {
    .name = "scatter",
    .overwrites = {{0, 0}},
    .n_overwrites = 1,
    .attrs_bytes = sizeof(plb_index_attrs),
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = plb_index_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_scatter(plb_graph *graph, plb_value x, plb_value index, plb_value source, int axis) {
    return plb_scatter_emit(graph, PLB_OP_scatter, x, index, source, axis);
}
