// SPDX-License-Identifier: Apache-2.0
// arg_max, arg_min: where along an axis the extreme element is; the first of equals, and a NaN
// before all others.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/line.h"

static plb_status infer(plb_op_id op, plb_signature *s) {
    const plb_axis_attrs *attrs = s->attrs;
    const char *name = plb_op_of(op)->name;
    int64_t axis = attrs->axis;
    PLB_TRY(plb_line_axis(name, s->in[0].shape.rank, &axis));
    plb_shape in = s->in[0].shape, out = {0};
    for (int i = 0; i < in.rank; i++) {
        if (i != axis || attrs->keep) out.dim[out.rank++] = i == axis ? 1 : in.dim[i];
    }
    s->out[0] = (plb_type){PLB_I64, out};
    s->n_out = 1;
    if (in.rank && !in.dim[axis] && plb_shape_count(&out)) {
        return plb_fail(PLB_EINVAL, "%s: no elements to choose from along axis %lld", name,
                        (long long)axis);
    }
    return PLB_OK;
}

// Whether a goes before b. One dtype; u64 compares as unsigned.
static bool wins(bool max, plb_dtype dtype, plb_number a, plb_number b) {
    if (plb_dtype_is_float(dtype)) {
        if (isnan(b.f)) return false;
        return isnan(a.f) || (max ? a.f > b.f : a.f < b.f);
    }
    int64_t pair[3] = {a.i, b.i};
    return plb_pointwise_i64(max ? PLB_OP_gt : PLB_OP_lt, pair, 0, 0, dtype);
}

static plb_status ref(bool max, const plb_call *call) {
    const plb_axis_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    plb_lines lines = plb_lines_of(&x->shape, attrs->axis);
    for (int64_t i = 0; i < lines.count; i++) {
        int64_t index[PLB_MAX_RANK], best = 0;
        plb_line_index(&x->shape, &lines, i, index);
        plb_number top = plb_number_load(x->data, x->dtype, plb_line_offset(x, &lines, index, 0));
        for (int64_t k = 1; k < lines.extent; k++) {
            int64_t at = plb_line_offset(x, &lines, index, k);
            plb_number value = plb_number_load(x->data, x->dtype, at);
            if (wins(max, x->dtype, value, top)) top = value, best = k;
        }
        plb_store_i64(y->data, PLB_I64, plb_tensor_offset_linear(y, i), best);
    }
    return PLB_OK;
}

static void describe(const void *attrs_, plb_strbuf *text) {
    const plb_axis_attrs *attrs = attrs_;
    plb_describe_i64(text, "axis", attrs->axis);
    plb_describe_i64(text, "keep", attrs->keep);
}

static const plb_axis_attrs first = {.axis = 0}, second_kept = {.axis = 1, .keep = 1},
                            last = {.axis = 2};

static const plb_sample samples[] = {
    {.name = "first axis", .in = {PLB_T(5, 3)}, .n_in = 1, .attrs = &first, .distinct = 1},
    {.name = "middle axis, kept",
     .in = {PLB_T(2, 7, 3)},
     .n_in = 1,
     .attrs = &second_kept,
     .distinct = 1},
    {.name = "last axis", .in = {PLB_T(3, 2, 5)}, .n_in = 1, .attrs = &last, .distinct = 1},
    {.name = "scalar", .in = {{.dtype = PLB_F32}}, .n_in = 1, .attrs = &first},
    {.name = "nothing left", .in = {PLB_T(3, 0)}, .n_in = 1, .attrs = &first},
    {.name = "equals",
     .in = {PLB_TYPE_OF(PLB_I32, 9, 4)},
     .n_in = 1,
     .attrs = &first,
     .low = {0},
     .high = {2}},
};

#define TABLE(op, max)                                 \
    static plb_status infer_##op(plb_signature *s) {   \
        return infer(PLB_OP_##op, s);                  \
    }                                                  \
    static plb_status ref_##op(const plb_call *call) { \
        return ref(max, call);                         \
    }                                                  \
    const plb_op plb_op_##op = {                       \
        .name = #op,                                   \
        .flags = PLB_OP_NO_GRAD,                       \
        .attrs_bytes = sizeof(plb_axis_attrs),         \
        .min_in = 1,                                   \
        .max_in = 1,                                   \
        .infer = infer_##op,                           \
        .ref = ref_##op,                               \
        .describe = describe,                          \
        PLB_SAMPLES(samples),                          \
    };
TABLE(arg_max, true)
TABLE(arg_min, false)

plb_value plb_arg_max(plb_graph *graph, plb_value x, int axis, bool keep) {
    return plb_line_emit(graph, PLB_OP_arg_max, &x, 1,
                         (plb_axis_attrs){.axis = axis, .keep = keep});
}

plb_value plb_arg_min(plb_graph *graph, plb_value x, int axis, bool keep) {
    return plb_line_emit(graph, PLB_OP_arg_min, &x, 1,
                         (plb_axis_attrs){.axis = axis, .keep = keep});
}
