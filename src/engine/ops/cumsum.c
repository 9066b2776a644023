// SPDX-License-Identifier: Apache-2.0
// cumsum: running sums along an axis; reverse: from the end; exclusive: without the element
// itself. Floats are summed in f64, integers wrap in their own dtype.
#include "base/core/status.h"
#include "engine/ops/line.h"

static plb_status infer(plb_signature *s) {
    int64_t axis = ((const plb_axis_attrs *)s->attrs)->axis;
    PLB_TRY(plb_line_axis("cumsum", s->in[0].shape.rank, &axis));
    if (s->in[0].dtype == PLB_BOOL) return plb_fail(PLB_EINVAL, "cumsum: found bool");
    s->out[0] = s->in[0];
    s->n_out = 1;
    return PLB_OK;
}

static plb_number sum(plb_dtype dtype, plb_number a, plb_number b) {
    if (plb_dtype_is_float(dtype)) return (plb_number){.f = a.f + b.f};
    int64_t pair[3] = {a.i, b.i};
    return (plb_number){.i = plb_pointwise_i64(PLB_OP_add, pair, 0, 0, dtype)};
}

static plb_status ref(const plb_call *call) {
    const plb_axis_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    plb_lines lines = plb_lines_of(&x->shape, attrs->axis);
    for (int64_t i = 0; i < lines.count; i++) {
        int64_t index[PLB_MAX_RANK];
        plb_line_index(&x->shape, &lines, i, index);
        plb_number before = plb_number_cast((plb_number){.i = 0}, PLB_I64, x->dtype);
        for (int64_t n = 0; n < lines.extent; n++) {
            int64_t k = attrs->reverse ? lines.extent - 1 - n : n;
            int64_t at = plb_line_offset(x, &lines, index, k);
            plb_number after = sum(x->dtype, before, plb_number_load(x->data, x->dtype, at));
            plb_number_store(y->data, y->dtype, plb_line_offset(y, &lines, index, k),
                             attrs->exclusive ? before : after);
            before = after;
        }
    }
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_axis_attrs attrs = *(const plb_axis_attrs *)plb_node_attrs(graph, node);
    attrs.reverse = !attrs.reverse;
    if (needed[0]) din[0] = plb_emit(graph, PLB_OP_cumsum, &dout[0], 1, &attrs);
}

static void describe(const void *attrs_, plb_strbuf *text) {
    const plb_axis_attrs *attrs = attrs_;
    plb_describe_i64(text, "axis", attrs->axis);
    plb_describe_i64(text, "reverse", attrs->reverse);
    plb_describe_i64(text, "exclusive", attrs->exclusive);
}

static const plb_axis_attrs first = {.axis = 0}, reversed = {.axis = 1, .reverse = 1},
                            exclusive = {.axis = 1, .exclusive = 1},
                            both = {.axis = 0, .reverse = 1, .exclusive = 1};

static const plb_sample samples[] = {
    {.name = "rows", .in = {PLB_T(5, 3)}, .n_in = 1, .attrs = &first},
    {.name = "reversed", .in = {PLB_T(2, 7, 3)}, .n_in = 1, .attrs = &reversed},
    {.name = "exclusive", .in = {PLB_T(3, 5)}, .n_in = 1, .attrs = &exclusive},
    {.name = "reversed, exclusive", .in = {PLB_T(7)}, .n_in = 1, .attrs = &both},
    {.name = "many columns", .in = {PLB_T(2, 3, 300)}, .n_in = 1, .attrs = &exclusive},
    {.name = "many lines", .in = {PLB_T(6, 9)}, .n_in = 1, .attrs = &reversed},
    {.name = "i32 columns",
     .in = {PLB_TYPE_OF(PLB_I32, 3, 5, 2)},
     .n_in = 1,
     .attrs = &reversed,
     .low = {-50},
     .high = {50}},
    {.name = "scalar", .in = {{.dtype = PLB_F32}}, .n_in = 1, .attrs = &first},
    {.name = "empty", .in = {PLB_T(3, 0)}, .n_in = 1, .attrs = &exclusive},
    {.name = "i8 wraps",
     .in = {PLB_TYPE_OF(PLB_I8, 9, 2)},
     .n_in = 1,
     .attrs = &first,
     .low = {-128},
     .high = {127}},
};

const plb_op plb_op_cumsum = {
    .name = "cumsum",
    .attrs_bytes = sizeof(plb_axis_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_cumsum(plb_graph *graph, plb_value x, int axis, bool reverse, bool exclusive_) {
    return plb_line_emit(
        graph, PLB_OP_cumsum, &x, 1,
        (plb_axis_attrs){.axis = axis, .reverse = reverse, .exclusive = exclusive_});
}
