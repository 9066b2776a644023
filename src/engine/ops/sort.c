// SPDX-License-Identifier: Apache-2.0
// sort and top_k along an axis: values, and i64 indices of where they stood. Equal elements keep
// their order, ascending and descending; a NaN counts as greater than every number.
//
// The reference needs no memory: an element's place is the number of elements before it.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/line.h"

static plb_status infer(plb_op_id op, plb_signature *s) {
    const plb_axis_attrs *attrs = s->attrs;
    int64_t axis = attrs->axis;
    PLB_TRY(plb_line_axis(plb_op_of(op)->name, s->in[0].shape.rank, &axis));
    plb_shape shape = s->in[0].shape;
    if (op == PLB_OP_top_k) {
        int64_t extent = shape.rank ? shape.dim[axis] : 1;
        if (attrs->k < 0 || attrs->k > extent) {
            return plb_fail(PLB_EINVAL, "top_k: expected 0 to %lld elements, found %lld",
                            (long long)extent, (long long)attrs->k);
        }
        if (!shape.rank && attrs->k != 1) return plb_fail(PLB_EINVAL, "top_k: 0 of a scalar");
        if (shape.rank) shape.dim[axis] = attrs->k;
    }
    s->out[0] = (plb_type){s->in[0].dtype, shape};
    s->out[1] = (plb_type){PLB_I64, shape};
    s->n_out = 2;
    return PLB_OK;
}

static bool greater(plb_dtype dtype, plb_number a, plb_number b) {
    if (plb_dtype_is_float(dtype)) return isnan(a.f) ? !isnan(b.f) : a.f > b.f;
    int64_t pair[3] = {a.i, b.i};
    return plb_pointwise_i64(PLB_OP_gt, pair, 0, 0, dtype);
}

// How many elements of the line come before element k.
static int64_t place(const plb_tensor *x, const plb_lines *lines, int64_t *index, int64_t k,
                     bool descending) {
    plb_number own = plb_number_load(x->data, x->dtype, plb_line_offset(x, lines, index, k));
    int64_t before = 0;
    for (int64_t i = 0; i < lines->extent; i++) {
        plb_number other = plb_number_load(x->data, x->dtype, plb_line_offset(x, lines, index, i));
        bool above = greater(x->dtype, other, own), below = greater(x->dtype, own, other);
        before += above == below ? i < k : above == descending;
    }
    return before;
}

static plb_status ref(const plb_call *call) {
    const plb_axis_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0], *values = &call->out[0], *indices = &call->out[1];
    plb_lines lines = plb_lines_of(&x->shape, attrs->axis);
    int64_t kept = values->shape.rank ? values->shape.dim[attrs->axis] : 1;
    for (int64_t i = 0; i < lines.count; i++) {
        int64_t index[PLB_MAX_RANK];
        plb_line_index(&x->shape, &lines, i, index);
        for (int64_t k = 0; k < lines.extent; k++) {
            int64_t to = place(x, &lines, index, k, attrs->descending);
            if (to >= kept) continue;
            int64_t from = plb_line_offset(x, &lines, index, k);
            plb_number_store(values->data, values->dtype,
                             plb_line_offset(values, &lines, index, to),
                             plb_number_load(x->data, x->dtype, from));
            plb_store_i64(indices->data, PLB_I64, plb_line_offset(indices, &lines, index, to), k);
        }
    }
    return PLB_OK;
}

// Each gradient goes back to where its element stood; no place gets two.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    if (!needed[0] || dout[0] == PLB_NONE) return;
    const plb_axis_attrs *attrs = plb_node_attrs(graph, node);
    plb_type type = plb_value_type(graph, plb_node_in(graph, node, 0));
    if (!type.shape.rank) {
        din[0] = dout[0];
        return;
    }
    plb_value zeros = plb_expand(graph, plb_scalar(graph, type.dtype, 0), &type.shape);
    din[0] = plb_scatter_add(graph, zeros, plb_node_out(graph, node, 1), dout[0], (int)attrs->axis);
}

static double flops(const plb_signature *s) { // comparisons of a sort by merging
    plb_lines lines = plb_lines_of(&s->in[0].shape, ((const plb_axis_attrs *)s->attrs)->axis);
    double n = (double)lines.extent;
    return n > 1 ? (double)lines.count * n * log2(n) : 0;
}

static void describe(const void *attrs_, plb_strbuf *text) {
    const plb_axis_attrs *attrs = attrs_;
    plb_describe_i64(text, "axis", attrs->axis);
    plb_describe_i64(text, "k", attrs->k);
    plb_describe_i64(text, "descending", attrs->descending);
}

static const plb_axis_attrs up = {.axis = 0, .k = 3}, down = {.axis = 1, .k = 2, .descending = 1},
                            one = {.axis = 0, .k = 1, .descending = 1}, no = {.axis = 1},
                            few = {.axis = 1, .k = 9, .descending = 1}, least = {.axis = 0, .k = 4},
                            tenth = {.axis = 1, .k = 40};

static const plb_sample samples[] = {
    {.name = "ascending", .in = {PLB_T(5, 3)}, .n_in = 1, .attrs = &up, .distinct = 1},
    {.name = "descending", .in = {PLB_T(2, 7, 3)}, .n_in = 1, .attrs = &down, .distinct = 1},
    {.name = "vector", .in = {PLB_T(13)}, .n_in = 1, .attrs = &one, .distinct = 1},
    {.name = "scalar", .in = {{.dtype = PLB_F32}}, .n_in = 1, .attrs = &one},
    {.name = "no lines", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &down},
    {.name = "empty lines", .in = {PLB_T(3, 0)}, .n_in = 1, .attrs = &no},
    {.name = "integers",
     .in = {PLB_TYPE_OF(PLB_I32, 2, 9)},
     .n_in = 1,
     .attrs = &down,
     .low = {-50},
     .high = {50},
     .distinct = 1},
    {.name = "few of many", .in = {PLB_T(2, 400)}, .n_in = 1, .attrs = &few, .distinct = 1},
    {.name = "a tenth", .in = {PLB_T(2, 450)}, .n_in = 1, .attrs = &tenth, .distinct = 1},
    {.name = "least of columns", .in = {PLB_T(90, 3)}, .n_in = 1, .attrs = &least, .distinct = 1},
};

// Equal elements: only sort promises their order everywhere (PyTorch's topk does not).
static const plb_sample sort_samples[] = {
    {.name = "ascending", .in = {PLB_T(5, 3)}, .n_in = 1, .attrs = &up, .distinct = 1},
    {.name = "descending", .in = {PLB_T(2, 7, 3)}, .n_in = 1, .attrs = &down, .distinct = 1},
    {.name = "vector", .in = {PLB_T(13)}, .n_in = 1, .attrs = &one, .distinct = 1},
    {.name = "scalar", .in = {{.dtype = PLB_F32}}, .n_in = 1, .attrs = &one},
    {.name = "empty lines", .in = {PLB_T(3, 0)}, .n_in = 1, .attrs = &no},
    {.name = "equals ascending",
     .in = {PLB_TYPE_OF(PLB_I32, 11, 2)},
     .n_in = 1,
     .attrs = &up,
     .low = {0},
     .high = {3}},
    {.name = "equals descending",
     .in = {PLB_TYPE_OF(PLB_U8, 2, 11)},
     .n_in = 1,
     .attrs = &down,
     .low = {0},
     .high = {3}},
    {.name = "long", .in = {PLB_T(2, 300)}, .n_in = 1, .attrs = &no, .distinct = 1},
    {.name = "long, of equals",
     .in = {PLB_TYPE_OF(PLB_I64, 400, 2)},
     .n_in = 1,
     .attrs = &up,
     .low = {-40},
     .high = {40}},
    {.name = "longer than a run",
     .in = {PLB_TYPE_OF(PLB_I8, 3, 70)},
     .n_in = 1,
     .attrs = &down,
     .low = {-90},
     .high = {90}},
};

#define TABLE(op, cases)                             \
    static plb_status infer_##op(plb_signature *s) { \
        return infer(PLB_OP_##op, s);                \
    }                                                \
    const plb_op plb_op_##op = {                     \
        .name = #op,                                 \
        .attrs_bytes = sizeof(plb_axis_attrs),       \
        .min_in = 1,                                 \
        .max_in = 1,                                 \
        .infer = infer_##op,                         \
        .grad = grad,                                \
        .flops = flops,                              \
        .ref = ref,                                  \
        .describe = describe,                        \
        PLB_SAMPLES(cases),                          \
    };
TABLE(top_k, samples)
TABLE(sort, sort_samples)

plb_value plb_top_k(plb_graph *graph, plb_value x, int axis, int64_t k, bool largest) {
    return plb_line_emit(graph, PLB_OP_top_k, &x, 1,
                         (plb_axis_attrs){.axis = axis, .k = k, .descending = largest});
}

plb_value plb_sort(plb_graph *graph, plb_value x, int axis, bool descending) {
    return plb_line_emit(graph, PLB_OP_sort, &x, 1,
                         (plb_axis_attrs){.axis = axis, .descending = descending});
}
