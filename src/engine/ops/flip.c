// SPDX-License-Identifier: Apache-2.0
// flip: x read from the end along a set of axes.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_flip_attrs *attrs = s->attrs;
    if (attrs->axes < 0 || attrs->axes >> s->in[0].shape.rank) {
        return plb_fail(PLB_EINVAL, "flip: axes 0x%llx of a value of rank %d",
                        (unsigned long long)attrs->axes, s->in[0].shape.rank);
    }
    s->out[0] = s->in[0];
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const int64_t axes = ((const plb_flip_attrs *)call->attrs)->axes;
    const plb_shape *x = &call->in[0].shape;
    for (int i = 0; i < x->rank; i++) from[i] = axes >> i & 1 ? x->dim[i] - 1 - to[i] : to[i];
    return true;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_gather(call, map, 0);
}

static bool view(const void *attrs, const plb_tensor *in, plb_tensor *out) {
    const int64_t axes = ((const plb_flip_attrs *)attrs)->axes;
    if (!plb_view_strided(in, out)) return false;
    for (int i = 0; i < out->shape.rank; i++) {
        if (!(axes >> i & 1) || out->shape.dim[i] == 0) continue;
        plb_view_shift(out, (out->shape.dim[i] - 1) * out->stride[i]);
        out->stride[i] = -out->stride[i];
    }
    return true;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    const plb_flip_attrs *attrs = plb_node_attrs(graph, node);
    din[0] = plb_flip(graph, dout[0], attrs->axes);
}

static void describe(const void *attrs, plb_strbuf *text) {
    int64_t set = ((const plb_flip_attrs *)attrs)->axes, list[PLB_MAX_RANK];
    int n = 0;
    for (int i = 0; i < PLB_MAX_RANK; i++) {
        if (set >> i & 1) list[n++] = i;
    }
    plb_describe_list(text, "axes", list, n);
}

static const plb_flip_attrs first = {1}, two = {6}, none = {0};
static const plb_sample samples[] = {
    {"one axis", .in = {PLB_T(5)}, .n_in = 1, .attrs = &first},
    {"two axes", .in = {PLB_T(2, 3, 4)}, .n_in = 1, .attrs = &two},
    {"no axis", .in = {PLB_T(2, 3)}, .n_in = 1, .attrs = &none},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &none},
    {"nothing", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &first},
    {"integers", .in = {PLB_TI(2, 3, 4)}, .n_in = 1, .attrs = &two, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_flip = {
    .name = "flip",
    .flags = PLB_OP_VIEW,
    .attrs_bytes = sizeof(plb_flip_attrs),
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

plb_value plb_flip(plb_graph *graph, plb_value x, int64_t axes) {
    plb_flip_attrs attrs = {axes};
    return plb_emit(graph, PLB_OP_flip, &x, 1, &attrs);
}
