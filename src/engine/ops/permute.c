// SPDX-License-Identifier: Apache-2.0
// permute: axis i of the output is axis axes[i] of x; transpose swaps two.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_permute_attrs *attrs = s->attrs;
    const plb_shape *x = &s->in[0].shape;
    plb_type y = {s->in[0].dtype, {.rank = x->rank}};
    unsigned seen = 0;
    for (int i = 0; i < x->rank; i++) {
        PLB_TRY(plb_axis_check("permute", attrs->axes[i], x->rank));
        if (seen >> attrs->axes[i] & 1) {
            return plb_fail(PLB_EINVAL, "permute: axis %lld stands twice",
                            (long long)attrs->axes[i]);
        }
        seen |= 1u << attrs->axes[i];
        y.shape.dim[i] = x->dim[attrs->axes[i]];
    }
    s->out[0] = y;
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_permute_attrs *attrs = call->attrs;
    for (int i = 0; i < call->in[0].shape.rank; i++) from[attrs->axes[i]] = to[i];
    return true;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_gather(call, map, 0);
}

static bool view(const void *attrs, const plb_tensor *in, plb_tensor *out) {
    const int64_t *axes = ((const plb_permute_attrs *)attrs)->axes;
    plb_tensor x;
    if (!plb_view_strided(in, &x)) return false;
    *out = x;
    for (int i = 0; i < x.shape.rank; i++) {
        out->shape.dim[i] = x.shape.dim[axes[i]];
        out->stride[i] = x.stride[axes[i]];
    }
    return true;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    const plb_permute_attrs *attrs = plb_node_attrs(graph, node);
    int inverse[PLB_MAX_RANK] = {0}, rank = plb_value_shape(graph, dout[0]).rank;
    for (int i = 0; i < rank; i++) inverse[attrs->axes[i]] = i;
    din[0] = plb_permute(graph, dout[0], inverse, rank);
}

// The attributes do not say the rank; axis 0 stands once among those in use, and zeros follow.
static void describe(const void *attrs, plb_strbuf *text) {
    const int64_t *axes = ((const plb_permute_attrs *)attrs)->axes;
    int n = 0;
    for (bool zero = false; n < PLB_MAX_RANK && (axes[n] || !zero); n++) zero |= axes[n] == 0;
    plb_describe_list(text, "axes", axes, n);
}

static const plb_permute_attrs swap = {{1, 0}}, last = {{0, 2, 3, 1}}, turn = {{2, 0, 1}},
                               none = {{0}};
static const plb_sample samples[] = {
    {"transpose", .in = {PLB_T(3, 5)}, .n_in = 1, .attrs = &swap},
    {"channels last", .in = {PLB_T(2, 3, 4, 2)}, .n_in = 1, .attrs = &last},
    {"turn", .in = {PLB_T(2, 3, 4)}, .n_in = 1, .attrs = &turn},
    {"one axis", .in = {PLB_T(4)}, .n_in = 1, .attrs = &none},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &none},
    {"nothing", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &swap},
    {"integers", .in = {PLB_TI(2, 3, 4)}, .n_in = 1, .attrs = &turn, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_permute = {
    .name = "permute",
    .flags = PLB_OP_VIEW,
    .attrs_bytes = sizeof(plb_permute_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .view = view,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_permute(plb_graph *graph, plb_value x, const int *axes, int n) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_permute_attrs attrs = {0};
    int rank = plb_value_shape(graph, x).rank;
    if (n != rank) {
        return plb_graph_fail(
            graph, plb_fail(PLB_EINVAL, "permute: %d axes for a value of rank %d", n, rank));
    }
    for (int i = 0; i < n; i++) {
        attrs.axes[i] = plb_axis_of(graph, "permute", axes[i], n);
    }
    return plb_emit(graph, PLB_OP_permute, &x, 1, &attrs);
}

plb_value plb_transpose(plb_graph *graph, plb_value x, int axis_a, int axis_b) {
    if (plb_graph_status(graph)) return PLB_NONE;
    int axes[PLB_MAX_RANK], rank = plb_value_shape(graph, x).rank;
    int a = plb_axis_of(graph, "transpose", axis_a, rank);
    int b = plb_axis_of(graph, "transpose", axis_b, rank);
    if (a < 0 || b < 0) return PLB_NONE;
    for (int i = 0; i < rank; i++) axes[i] = i == a ? b : i == b ? a : i;
    return plb_permute(graph, x, axes, rank);
}
