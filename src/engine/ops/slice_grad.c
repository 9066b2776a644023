// SPDX-License-Identifier: Apache-2.0
// slice_grad: zeros of the whole's shape with dy where the slice was; the transposed slice.
#include "base/core/status.h"
#include "engine/ops/slice.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_slice_attrs *attrs = s->attrs;
    PLB_TRY(plb_slice_check("slice_grad", attrs, &s->in[0].shape, &attrs->shape));
    s->out[0] = (plb_type){s->in[0].dtype, attrs->shape};
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_scatter(call, plb_slice_map);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_slice_attrs attrs = *(const plb_slice_attrs *)plb_node_attrs(graph, node);
    attrs.shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    din[0] = plb_slice(graph, dout[0], &attrs);
}

static const plb_slice_attrs middle = {{1, 0}, {1, 1}, {2, {4, 3}}},
                             steps = {{0, 4, 1}, {1, -2, 3}, {3, {2, 5, 6}}},
                             nothing = {{3, 0}, {0}, {2, {3, 3}}}, scalar = {{0}, {0}, {0}};
static const plb_sample samples[] = {
    {"middle", .in = {PLB_T(2, 3)}, .n_in = 1, .attrs = &middle},
    {"steps", .in = {PLB_T(2, 3, 2)}, .n_in = 1, .attrs = &steps},
    {"nothing", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &nothing},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &scalar},
};

const plb_op plb_op_slice_grad = {
    .name = "slice_grad",
    .flags = PLB_OP_FOLLOWS,
    .attrs_bytes = sizeof(plb_slice_attrs),
    .shape_at = 1 + offsetof(plb_slice_attrs, shape),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = plb_slice_describe,
    PLB_SAMPLES(samples),
};
