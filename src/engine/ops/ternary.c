// SPDX-License-Identifier: Apache-2.0
// where: a choice between two values, element by element; all three broadcast.
#include "engine/ops/pointwise.h"

static plb_status infer(plb_signature *s) {
    return plb_pointwise_infer(PLB_OP_where, s);
}

static plb_status ref(const plb_call *call) {
    return plb_pointwise_ref(PLB_OP_where, call);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_value condition = plb_node_in(graph, node, 0);
    plb_type type = plb_value_type(graph, dout[0]);
    plb_value zero = plb_scalar(graph, type.dtype, 0);
    for (int k = 1; k <= 2; k++) {
        if (!needed[k]) continue;
        plb_value a = k == 1 ? dout[0] : zero, b = k == 1 ? zero : dout[0];
        plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, k));
        din[k] = plb_sum_to(graph, plb_where(graph, condition, a, b), &shape);
    }
}

#define CONDITION(...) PLB_TYPE_OF(PLB_BOOL, __VA_ARGS__)

static const plb_sample samples[] = {
    {.name = "equal shapes",
     .in = {CONDITION(3, 5), PLB_T(3, 5), PLB_T(3, 5)},
     .n_in = 3,
     .high = {1}},
    {.name = "broadcast",
     .in = {CONDITION(4, 1), PLB_T(2, 1, 3), PLB_T(4, 3)},
     .n_in = 3,
     .high = {1}},
    {.name = "scalar condition",
     .in = {{.dtype = PLB_BOOL}, PLB_T(7), {.dtype = PLB_F32}},
     .n_in = 3,
     .high = {1}},
    {.name = "empty", .in = {CONDITION(2, 0), PLB_T(2, 1), PLB_T(2, 0)}, .n_in = 3, .high = {1}},
    {.name = "i64",
     .in = {CONDITION(9), PLB_TI(9), PLB_TI(1)},
     .n_in = 3,
     .low = {0, -9, -9},
     .high = {1, 9, 9}},
};

const plb_op plb_op_where = {
    .name = "where",
    .flags = PLB_OP_POINTWISE,
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .grad = grad,
    .ref = ref,
    PLB_SAMPLES(samples),
};

plb_value plb_where(plb_graph *graph, plb_value condition, plb_value a, plb_value b) {
    return plb_emit(graph, PLB_OP_where, (plb_value[]){condition, a, b}, 3, NULL);
}
