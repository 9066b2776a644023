// SPDX-License-Identifier: Apache-2.0
// concat: the inputs one after the other along an axis; and roll, which is two slices swapped.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status check_part(const plb_signature *s, int part, int axis) {
    const plb_type *first = &s->in[0], *other = &s->in[part];
    bool fits = first->dtype == other->dtype && first->shape.rank == other->shape.rank;
    for (int i = 0; fits && i < first->shape.rank; i++) {
        fits = i == axis || first->shape.dim[i] == other->shape.dim[i];
    }
    if (fits) return PLB_OK;
    char a[160], b[160];
    return plb_fail(PLB_EINVAL, "concat along axis %d: input 0 is %s %s, input %d is %s %s", axis,
                    plb_dtype_name(first->dtype), plb_shape_format(&first->shape, a, sizeof a),
                    part, plb_dtype_name(other->dtype),
                    plb_shape_format(&other->shape, b, sizeof b));
}

static plb_status infer(plb_signature *s) {
    const int64_t axis = ((const plb_axis_attrs *)s->attrs)->axis;
    PLB_TRY(plb_axis_check("concat", axis, s->in[0].shape.rank));
    plb_type y = s->in[0];
    for (int part = 1; part < s->n_in; part++) {
        if (plb_type_absent(&s->in[part])) {
            return plb_fail(PLB_EINVAL, "concat: input %d is missing", part);
        }
        PLB_TRY(check_part(s, part, (int)axis));
        int64_t *sum = &y.shape.dim[axis];
        if (__builtin_add_overflow(*sum, s->in[part].shape.dim[axis], sum)) {
            return plb_fail(PLB_EINVAL, "concat: the sum of the extents is too large");
        }
    }
    s->out[0] = y;
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const int64_t axis = ((const plb_axis_attrs *)call->attrs)->axis;
    const plb_tensor *y = &call->out[0];
    plb_walk_fill(y, 0);
    int64_t begin = 0;
    for (int part = 0; part < call->n_in; part++) {
        const plb_tensor *x = &call->in[part];
        int64_t from[PLB_MAX_RANK] = {0}, count = plb_shape_count(&x->shape);
        for (int64_t n = 0; n < count; n++, plb_walk_next(&x->shape, from)) {
            int64_t offset = plb_tensor_offset(x, from);
            from[axis] += begin;
            plb_walk_move(y, plb_tensor_offset(y, from), x, offset);
            from[axis] -= begin;
        }
        begin += x->shape.dim[axis];
    }
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const int axis = (int)((const plb_axis_attrs *)plb_node_attrs(graph, node))->axis;
    int64_t begin = 0;
    for (int part = 0;; part++) {
        plb_value x = plb_node_in(graph, node, part);
        if (x == PLB_NONE) break;
        int64_t end = begin + plb_value_shape(graph, x).dim[axis];
        if (needed[part]) din[part] = plb_slice_axis(graph, dout[0], axis, begin, end);
        begin = end;
    }
}

static void describe(const void *attrs, plb_strbuf *text) {
    plb_strbuf_printf(text, "\"axis\":%lld", (long long)((const plb_axis_attrs *)attrs)->axis);
}

static const plb_axis_attrs axis0 = {.axis = 0}, axis1 = {.axis = 1}, axis2 = {.axis = 2};
static const plb_sample samples[] = {
    {"rows", .in = {PLB_T(2, 3), PLB_T(1, 3)}, .n_in = 2, .attrs = &axis0},
    {"channels", .in = {PLB_T(2, 3, 2, 2), PLB_T(2, 1, 2, 2), PLB_T(2, 4, 2, 2)}, .n_in = 3,
     .attrs = &axis1},
    {"last axis", .in = {PLB_T(2, 2, 3), PLB_T(2, 2, 1)}, .n_in = 2, .attrs = &axis2},
    {"one part", .in = {PLB_T(4)}, .n_in = 1, .attrs = &axis0},
    {"an empty part", .in = {PLB_T(2), PLB_T(0), PLB_T(3)}, .n_in = 3, .attrs = &axis0},
    {"integers", .in = {PLB_TI(2, 3), PLB_TI(2, 1)}, .n_in = 2, .attrs = &axis1, .low = {-9, -9},
     .high = {9, 9}, .no_gradient = true},
};

const plb_op plb_op_concat = {
    .name = "concat",
    .flags = PLB_OP_FOLLOWS,
    .attrs_bytes = sizeof(plb_axis_attrs),
    .min_in = 1,
    .max_in = 1024,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_concat(plb_graph *graph, const plb_value *parts, int n, int axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    if (n < 1) return plb_graph_fail(graph, plb_fail(PLB_EINVAL, "concat: of %d parts", n));
    plb_axis_attrs attrs = {
        .axis = plb_axis_of(graph, "concat", axis, plb_value_shape(graph, parts[0]).rank)};
    return plb_emit(graph, PLB_OP_concat, parts, n, &attrs);
}

plb_value plb_roll(plb_graph *graph, plb_value x, int axis, int64_t shift) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_shape shape = plb_value_shape(graph, x);
    int a = plb_axis_of(graph, "roll", axis, shape.rank);
    if (a < 0) return PLB_NONE;
    const int64_t extent = shape.dim[a];
    if (extent == 0) return x;
    const int64_t cut = (extent - shift % extent) % extent; // what becomes the first
    if (cut == 0) return x;
    plb_value parts[] = {plb_slice_axis(graph, x, a, cut, extent),
                         plb_slice_axis(graph, x, a, 0, cut)};
    return plb_concat(graph, parts, 2, a);
}
