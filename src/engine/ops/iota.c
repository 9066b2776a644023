// SPDX-License-Identifier: Apache-2.0
// iota: 0, 1, 2, … along an axis, the same for all other positions.
#include "base/core/status.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_iota_attrs *attrs = s->attrs;
    PLB_TRY(plb_axis_check("iota", attrs->axis, attrs->type.shape.rank));
    s->out[0] = attrs->type;
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const int64_t axis = ((const plb_iota_attrs *)call->attrs)->axis;
    const plb_tensor *y = &call->out[0];
    plb_walk_fill(y, 0);
    int64_t index[PLB_MAX_RANK] = {0}, count = plb_shape_count(&y->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&y->shape, index)) {
        plb_store_i64(y->data, y->dtype, plb_tensor_offset(y, index), index[axis]);
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_iota_attrs *a = attrs;
    plb_strbuf_printf(text, "\"dtype\":\"%s\",", plb_dtype_name(a->type.dtype));
    plb_describe_list(text, "shape", a->type.shape.dim, a->type.shape.rank);
    plb_strbuf_printf(text, ",\"axis\":%lld", (long long)a->axis);
}

static const plb_iota_attrs count = {{PLB_I64, {1, {5}}}, 0}, rows = {{PLB_F32, {2, {3, 4}}}, 0},
                            columns = {{PLB_I32, {3, {2, 3, 2}}}, 1},
                            none = {{PLB_I64, {2, {2, 0}}}, 1};
static const plb_sample samples[] = {
    {"count", .attrs = &count},
    {"rows", .attrs = &rows},
    {"columns", .attrs = &columns},
    {"nothing", .attrs = &none},
};

const plb_op plb_op_iota = {
    .name = "iota",
    .flags = PLB_OP_NO_GRAD,
    .attrs_bytes = sizeof(plb_iota_attrs),
    .types_at = 1 + offsetof(plb_iota_attrs, type),
    .n_types = 1,
    .infer = infer,
    .flops = plb_no_flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_iota(plb_graph *graph, plb_dtype dtype, const plb_shape *shape, int axis) {
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_iota_attrs attrs = {{dtype, *shape}, plb_axis_of(graph, "iota", axis, shape->rank)};
    return plb_emit(graph, PLB_OP_iota, NULL, 0, &attrs);
}
