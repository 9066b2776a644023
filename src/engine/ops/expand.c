// SPDX-License-Identifier: Apache-2.0
// expand: x repeated along axes of extent 1 and along new leading ones, as numpy broadcasts.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_shape *shape = &((const plb_shape_attrs *)s->attrs)->shape;
    plb_shape both;
    plb_status status = plb_shape_check(shape);
    if (status) return plb_fail_context(status, "expand");
    status = plb_shape_broadcast(&s->in[0].shape, shape, &both);
    if (status || !plb_shape_equal(&both, shape)) {
        char from[160], to[160];
        return plb_fail(PLB_EINVAL, "expand: %s does not broadcast to %s",
                        plb_shape_format(&s->in[0].shape, from, sizeof from),
                        plb_shape_format(shape, to, sizeof to));
    }
    s->out[0] = (plb_type){s->in[0].dtype, *shape};
    return PLB_OK;
}

static bool map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_shape *x = &call->in[0].shape;
    const int lead = call->out[0].shape.rank - x->rank;
    for (int i = 0; i < x->rank; i++) from[i] = x->dim[i] == 1 ? 0 : to[lead + i];
    return true;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_gather(call, map, 0);
}

static bool view(const void *attrs, const plb_tensor *in, plb_tensor *out) {
    const plb_shape *shape = &((const plb_shape_attrs *)attrs)->shape;
    plb_tensor x;
    if (!plb_view_strided(in, &x)) return false;
    *out = x;
    out->shape = *shape;
    const int lead = shape->rank - x.shape.rank;
    for (int i = 0; i < shape->rank; i++) {
        bool repeats = i < lead || x.shape.dim[i - lead] != shape->dim[i];
        out->stride[i] = repeats ? 0 : x.stride[i - lead];
    }
    return true;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    din[0] = plb_sum_to(graph, dout[0], &shape);
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_shape *shape = &((const plb_shape_attrs *)attrs)->shape;
    plb_describe_list(text, "shape", shape->dim, shape->rank);
}

static const plb_shape_attrs wider = {{3, {4, 3, 5}}}, scalar = {{2, {2, 3}}}, same = {{1, {4}}},
                             empty = {{2, {0, 3}}}, still_scalar = {{0}};
static const plb_sample samples[] = {
    {"middle and lead", .in = {PLB_T(3, 1)}, .n_in = 1, .attrs = &wider},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &scalar},
    {"scalar to scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &still_scalar},
    {"nothing to do", .in = {PLB_T(4)}, .n_in = 1, .attrs = &same},
    {"to nothing", .in = {PLB_T(1, 3)}, .n_in = 1, .attrs = &empty},
    {"integers", .in = {PLB_TI(3, 1)}, .n_in = 1, .attrs = &wider, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_expand = {
    .name = "expand",
    .flags = PLB_OP_VIEW,
    .attrs_bytes = sizeof(plb_shape_attrs),
    .shape_at = 1 + offsetof(plb_shape_attrs, shape),
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

plb_value plb_expand(plb_graph *graph, plb_value x, const plb_shape *shape) {
    plb_shape_attrs attrs = {*shape};
    return plb_emit(graph, PLB_OP_expand, &x, 1, &attrs);
}
