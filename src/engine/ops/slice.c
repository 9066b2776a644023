// SPDX-License-Identifier: Apache-2.0
// slice: y[i…] = x[begin + step i…]; a step may be negative. plb_slice_axis and plb_split are
// cases of it.
#include "engine/ops/slice.h"
#include "base/core/status.h"
#include "engine/ops/walk.h"

plb_status plb_slice_check(const char *op, const plb_slice_attrs *attrs, const plb_shape *part,
                           const plb_shape *whole) {
    if (part->rank != whole->rank) {
        return plb_fail(PLB_EINVAL, "%s: rank %d of a value of rank %d", op, part->rank,
                        whole->rank);
    }
    for (int i = 0; i < part->rank; i++) {
        if (part->dim[i] == 0) continue;
        int64_t first = attrs->begin[i], last;
        bool wraps = part->dim[i] < 0 ||
                     __builtin_mul_overflow(part->dim[i] - 1, plb_slice_step(attrs, i), &last) ||
                     __builtin_add_overflow(last, first, &last);
        if (wraps || first < 0 || first >= whole->dim[i] || last < 0 || last >= whole->dim[i]) {
            return plb_fail(PLB_EINVAL,
                            "%s: axis %d: %lld elements from %lld by %lld, the extent is %lld", op,
                            i, (long long)part->dim[i], (long long)first,
                            (long long)plb_slice_step(attrs, i), (long long)whole->dim[i]);
        }
    }
    return PLB_OK;
}

void plb_slice_describe(const void *attrs, plb_strbuf *text) {
    const plb_slice_attrs *a = attrs;
    int64_t step[PLB_MAX_RANK];
    for (int i = 0; i < a->shape.rank; i++) step[i] = plb_slice_step(a, i);
    plb_describe_list(text, "begin", a->begin, a->shape.rank);
    plb_strbuf_printf(text, ",");
    plb_describe_list(text, "step", step, a->shape.rank);
    plb_strbuf_printf(text, ",");
    plb_describe_list(text, "shape", a->shape.dim, a->shape.rank);
}

bool plb_slice_map(const plb_call *call, const int64_t *to, int64_t *from) {
    const plb_slice_attrs *attrs = call->attrs;
    for (int i = 0; i < attrs->shape.rank; i++) {
        from[i] = attrs->begin[i] + plb_slice_step(attrs, i) * to[i];
    }
    return true;
}

static plb_status infer(plb_signature *s) {
    const plb_slice_attrs *attrs = s->attrs;
    PLB_TRY(plb_slice_check("slice", attrs, &attrs->shape, &s->in[0].shape));
    s->out[0] = (plb_type){s->in[0].dtype, attrs->shape};
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    return plb_walk_gather(call, plb_slice_map, 0);
}

static bool view(const void *attrs, const plb_tensor *in, plb_tensor *out) {
    const plb_slice_attrs *a = attrs;
    if (!plb_view_strided(in, out)) return false;
    out->shape = a->shape;
    const bool empty = plb_shape_count(&a->shape) == 0; // its begin may be anywhere
    for (int i = 0; i < out->shape.rank && !empty; i++) {
        plb_view_shift(out, a->begin[i] * out->stride[i]);
        out->stride[i] *= plb_slice_step(a, i);
    }
    return true;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)needed;
    plb_slice_attrs attrs = *(const plb_slice_attrs *)plb_node_attrs(graph, node);
    attrs.shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    din[0] = plb_emit(graph, PLB_OP_slice_grad, &dout[0], 1, &attrs);
}

static const plb_slice_attrs middle = {{1, 0}, {1, 1}, {2, {2, 3}}},
                             steps = {{0, 4, 1}, {1, -2, 3}, {3, {2, 3, 2}}},
                             nothing = {{3, 0}, {0}, {2, {0, 3}}}, scalar = {{0}, {0}, {0}},
                             one = {{6}, {-3}, {1, {3}}};
static const plb_sample samples[] = {
    {"middle", .in = {PLB_T(4, 3)}, .n_in = 1, .attrs = &middle},
    {"steps", .in = {PLB_T(2, 5, 6)}, .n_in = 1, .attrs = &steps},
    {"backwards", .in = {PLB_T(7)}, .n_in = 1, .attrs = &one},
    {"nothing", .in = {PLB_T(3, 3)}, .n_in = 1, .attrs = &nothing},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1, .attrs = &scalar},
    {"integers", .in = {PLB_TI(2, 5, 6)}, .n_in = 1, .attrs = &steps, .low = {-9}, .high = {9},
     .no_gradient = true},
};

const plb_op plb_op_slice = {
    .name = "slice",
    .flags = PLB_OP_VIEW | PLB_OP_FOLLOWS,
    .attrs_bytes = sizeof(plb_slice_attrs),
    .shape_at = 1 + offsetof(plb_slice_attrs, shape),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .flops = plb_no_flops,
    .ref = ref,
    .view = view,
    .describe = plb_slice_describe,
    PLB_SAMPLES(samples),
};

plb_value plb_slice(plb_graph *graph, plb_value x, const plb_slice_attrs *attrs) {
    plb_slice_attrs resolved = *attrs;
    plb_shape from = plb_value_shape(graph, x);
    for (int i = 0; i < from.rank; i++) {
        if (!attrs->step[i]) resolved.step[i] = 1;
        if (attrs->begin[i] < 0) resolved.begin[i] += from.dim[i];
    }
    for (int i = from.rank; i < PLB_MAX_RANK; i++) resolved.begin[i] = resolved.step[i] = 0;
    return plb_emit(graph, PLB_OP_slice, &x, 1, &resolved);
}

// An end of a range as Python takes it: from the end where negative, cut to [0, extent].
static int64_t clip(int64_t position, int64_t extent) {
    if (position < 0) position += extent;
    return position < 0 ? 0 : position > extent ? extent : position;
}

plb_value plb_slice_axis(plb_graph *graph, plb_value x, int axis, int64_t begin, int64_t end) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_slice_attrs attrs = {.shape = plb_value_shape(graph, x)};
    int a = plb_axis_of(graph, "slice", axis, attrs.shape.rank);
    if (a < 0) return PLB_NONE;
    const int64_t extent = attrs.shape.dim[a];
    attrs.begin[a] = clip(begin, extent);
    end = clip(end, extent);
    attrs.shape.dim[a] = end > attrs.begin[a] ? end - attrs.begin[a] : 0;
    return plb_slice(graph, x, &attrs);
}

void plb_split(plb_graph *graph, plb_value x, int axis, int n, const int64_t *extents,
               plb_value *out) {
    for (int i = 0; i < n; i++) out[i] = PLB_NONE;
    if (plb_graph_status(graph)) return;
    plb_shape shape = plb_value_shape(graph, x);
    int a = plb_axis_of(graph, "split", axis, shape.rank);
    if (a < 0) return;
    // Each part against what is left: a sum of hostile extents would overflow.
    int64_t left = shape.dim[a];
    for (int i = 0; i < n; i++) {
        int64_t part = extents ? extents[i] : shape.dim[a] / n;
        if (part < 0 || part > left) {
            plb_graph_fail(graph,
                           plb_fail(PLB_EINVAL,
                                    "split: part %d is %lld, of the extent %lld "
                                    "%lld are left",
                                    i, (long long)part, (long long)shape.dim[a], (long long)left));
            return;
        }
        left -= part;
    }
    if (left) {
        plb_graph_fail(graph, plb_fail(PLB_EINVAL, "split: %d parts leave %lld of the extent %lld",
                                       n, (long long)left, (long long)shape.dim[a]));
        return;
    }
    int64_t begin = 0;
    for (int i = 0; i < n; i++) {
        int64_t end = begin + (extents ? extents[i] : shape.dim[a] / n);
        out[i] = plb_slice_axis(graph, x, a, begin, end);
        begin = end;
    }
}
