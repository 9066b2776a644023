// SPDX-License-Identifier: Apache-2.0
// scatter_add: x with source's elements added where index says, in row-major order.
#include "base/core/status.h"
#include "engine/ops/scatter.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    return plb_scatter_infer("scatter_add", s);
}

static plb_status ref(const plb_call *call) {
    return plb_scatter_run("scatter_add", call, plb_walk_add);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const int axis = (int)((const plb_index_attrs *)plb_node_attrs(graph, node))->axis;
    if (needed[0]) din[0] = dout[0];
    if (needed[2]) din[2] = plb_gather(graph, dout[0], plb_node_in(graph, node, 1), axis);
}

// An addition for each element of source.
static double flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->in[2].shape);
}

static const plb_index_attrs axis0 = {0}, axis1 = {1, 0};
#define INDICES .low = {-2, 0}, .high = {2, 4}
static const plb_sample samples[] = {
    {"vector", .in = {PLB_T(5), PLB_TI(9), PLB_T(9)}, .n_in = 3, .attrs = &axis0, INDICES},
    {"columns", .in = {PLB_T(3, 5), PLB_TI(2, 6), PLB_T(2, 6)}, .n_in = 3, .attrs = &axis1,
     INDICES},
    {"rank 4", .in = {PLB_T(5, 2, 3, 2), PLB_TI(3, 2, 3, 1), PLB_T(3, 2, 3, 1)}, .n_in = 3,
     .attrs = &axis0, INDICES},
    {"no index", .in = {PLB_T(3, 5), PLB_TI(3, 0), PLB_T(3, 0)}, .n_in = 3, .attrs = &axis1,
     INDICES},
    {"integers", .in = {PLB_TI(5), PLB_TI(9), PLB_TI(9)}, .n_in = 3, .attrs = &axis0,
     .low = {-9, 0, -9}, .high = {9, 4, 9}, .no_gradient = true},
};

const plb_op plb_op_scatter_add = {
    .name = "scatter_add",
    .overwrites = {{0, 0}},
    .n_overwrites = 1,
    .attrs_bytes = sizeof(plb_index_attrs),
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .describe = plb_index_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_scatter_add(plb_graph *graph, plb_value x, plb_value index, plb_value source,
                          int axis) {
    return plb_scatter_emit(graph, PLB_OP_scatter_add, x, index, source, axis);
}
