// SPDX-License-Identifier: Apache-2.0
// reshape: the same elements in row-major order under other extents; flatten is a case of it.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_shape *x = &s->in[0].shape, *y = &((const plb_shape_attrs *)s->attrs)->shape;
    PLB_TRY(plb_shape_check(y));
    if (plb_shape_count(x) != plb_shape_count(y)) {
        char from[160], to[160];
        return plb_fail(PLB_EINVAL, "reshape: %s and %s have different counts",
                        plb_shape_format(x, from, sizeof from), plb_shape_format(y, to, sizeof to));
    }
    s->out[0] = (plb_type){s->in[0].dtype, *y};
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    plb_walk_fill(y, 0);
    int64_t from[PLB_MAX_RANK] = {0}, to[PLB_MAX_RANK] = {0}, count = plb_shape_count(&y->shape);
    for (int64_t n = 0; n < count; n++) {
        plb_walk_move(y, plb_tensor_offset(y, to), x, plb_tensor_offset(x, from));
        plb_walk_next(&x->shape, from);
        plb_walk_next(&y->shape, to);
    }
    return PLB_OK;
}

// Innermost first, takes runs of axes of x that lie without gaps and cuts each into axes of y.
static bool cut_runs(const plb_tensor *x, plb_tensor *y) {
    int axis = y->shape.rank - 1, i = x->shape.rank - 1;
    for (; axis >= 0 && y->shape.dim[axis] == 1; axis--) y->stride[axis] = 1;
    while (i >= 0) {
        const int64_t step = x->stride[i];
        int64_t run = x->shape.dim[i--];
        if (run == 1) continue; // strides of single elements mean nothing
        for (; i >= 0 && (x->shape.dim[i] == 1 || x->stride[i] == run * step); i--) {
            run *= x->shape.dim[i];
        }
        int64_t left = run;
        for (; axis >= 0 && (left > 1 || y->shape.dim[axis] == 1); axis--) {
            if (left % y->shape.dim[axis]) return false;
            y->stride[axis] = step * (run / left);
            left /= y->shape.dim[axis];
        }
        if (left != 1) return false;
    }
    return true;
}

static bool view(const void *attrs, const plb_tensor *in, plb_tensor *out) {
    const plb_shape *shape = &((const plb_shape_attrs *)attrs)->shape;
    plb_tensor x;
    if (!plb_view_strided(in, &x)) return false;
    *out = plb_tensor_dense(x.data, x.dtype, shape, (plb_layout){PLB_LAYOUT_PLAIN, 0});
    return plb_shape_count(shape) == 0 || cut_runs(&x, out);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    din[0] = plb_reshape(graph, dout[0], &shape);
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_shape *shape = &((const plb_shape_attrs *)attrs)->shape;
    plb_describe_list(text, "shape", shape->dim, shape->rank);
}

static const plb_shape_attrs split = {{4, {2, 1, 3, 2}}}, merged = {{1, {24}}},
                             crossed = {{2, {4, 6}}}, scalar = {{0}}, lifted = {{2, {1, 1}}},
                             empty = {{3, {5, 0, 2}}};
static const plb_sample samples[] = {
    {"split", .in = {PLB_T(6, 2)}, .n_in = 1, .attrs = &split},
    {"merge", .in = {PLB_T(2, 3, 4)}, .n_in = 1, .attrs = &merged},
    {"cross", .in = {PLB_T(3, 2, 2, 2)}, .n_in = 1, .attrs = &crossed},
    {"to scalar", .in = {PLB_T(1, 1)}, .n_in = 1, .attrs = &scalar},
    {"from scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &lifted},
    {"nothing", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &empty},
    {"integers", .in = {PLB_TI(6, 2)}, .n_in = 1, .attrs = &split, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_reshape = {
    .name = "reshape",
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

// The extent that -1 stands for, or -1 when there is none.
static int64_t left_over(const plb_shape *x, const plb_shape *y, int open) {
    int64_t known = 1, count = plb_shape_count(x);
    for (int i = 0; i < y->rank; i++) {
        if (i != open && __builtin_mul_overflow(known, y->dim[i], &known)) return -1;
    }
    return known > 0 && count % known == 0 ? count / known : -1;
}

plb_value plb_reshape(plb_graph *graph, plb_value x, const plb_shape *shape) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_shape_attrs attrs = {*shape};
    plb_shape from = plb_value_shape(graph, x);
    int open = -1;
    for (int i = 0; i < shape->rank && i < PLB_MAX_RANK && open < 0; i++) {
        if (shape->dim[i] == -1) open = i;
    }
    if (open >= 0) {
        attrs.shape.dim[open] = left_over(&from, shape, open);
        if (attrs.shape.dim[open] < 0) {
            char s[160], t[160];
            return plb_graph_fail(graph,
                                  plb_fail(PLB_EINVAL, "reshape: no extent for -1 in %s of %s",
                                           plb_shape_format(shape, s, sizeof s),
                                           plb_shape_format(&from, t, sizeof t)));
        }
    }
    return plb_emit(graph, PLB_OP_reshape, &x, 1, &attrs);
}

plb_value plb_flatten(plb_graph *graph, plb_value x, int first_axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_shape from = plb_value_shape(graph, x);
    if (from.rank == 0) return plb_reshape(graph, x, &plb_shape_of(1));
    int first = plb_axis_of(graph, "flatten", first_axis, from.rank);
    if (first < 0) return PLB_NONE;
    plb_shape to = {.rank = first + 1};
    for (int i = 0; i < first; i++) to.dim[i] = from.dim[i];
    to.dim[first] = 1;
    for (int i = first; i < from.rank; i++) to.dim[first] *= from.dim[i];
    return plb_reshape(graph, x, &to);
}
