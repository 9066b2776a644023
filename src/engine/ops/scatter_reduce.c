// SPDX-License-Identifier: Apache-2.0
// scatter_reduce: x with its elements multiplied by source's where index says, or replaced by the
// larger or smaller of both, in row-major order.
#include "base/core/status.h"
#include "engine/ops/pointwise.h"
#include "engine/ops/scatter.h"
#include "engine/ops/walk.h"

static plb_status infer(plb_signature *s) {
    const plb_scatter_attrs *attrs = s->attrs;
    if (attrs->how < PLB_SCATTER_MUL || attrs->how > PLB_SCATTER_MIN) {
        return plb_fail(PLB_EINVAL, "scatter_reduce: expected mul, max or min");
    }
    return plb_scatter_infer("scatter_reduce", s);
}

static void combine(plb_op_id op, const plb_tensor *to, int64_t i, const plb_tensor *from,
                    int64_t j) {
    plb_dtype dtypes[PLB_POINTWISE_MAX_IN] = {to->dtype, to->dtype, to->dtype};
    plb_number in[PLB_POINTWISE_MAX_IN] = {plb_number_load(to->data, to->dtype, i),
                                           plb_number_load(from->data, from->dtype, j)};
    plb_number y = plb_pointwise_number(op, in, dtypes, 0, 0, to->dtype);
    plb_number_store(to->data, to->dtype, i, y);
}

static void put_mul(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    combine(PLB_OP_mul, to, i, from, j);
}

static void put_max(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    combine(PLB_OP_max, to, i, from, j);
}

static void put_min(const plb_tensor *to, int64_t i, const plb_tensor *from, int64_t j) {
    combine(PLB_OP_min, to, i, from, j);
}

static plb_status ref(const plb_call *call) {
    const int64_t how = ((const plb_scatter_attrs *)call->attrs)->how;
    return plb_scatter_run("scatter_reduce", call,
                           how == PLB_SCATTER_MUL   ? put_mul
                           : how == PLB_SCATTER_MAX ? put_max
                                                    : put_min);
}

// Refused: what flows where elements meet depends on which of them won, and nobody needs it yet.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    (void)node, (void)dout, (void)needed, (void)din;
    plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED, "scatter_reduce has no gradient"));
}

static double flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->in[2].shape);
}

static void describe(const void *attrs, plb_strbuf *text) {
    static const char *const words[] = {"put", "sum", "prod", "amax", "amin"};
    const plb_scatter_attrs *a = attrs;
    plb_describe_i64(text, "axis", a->index.axis);
    plb_strbuf_printf(text, ",\"how\":\"%s\"", words[a->how]);
}

static const plb_scatter_attrs mul = {{0, 0}, PLB_SCATTER_MUL}, max = {{1, 0}, PLB_SCATTER_MAX},
                               min = {{0, 0}, PLB_SCATTER_MIN};
#define INDICES .low = {-2, 0, -2}, .high = {2, 4, 2}, .no_gradient = true
static const plb_sample samples[] = {
    {"product", .in = {PLB_T(5), PLB_TI(9), PLB_T(9)}, .n_in = 3, .attrs = &mul, INDICES,
     .f32_only = true},
    {"largest", .in = {PLB_T(3, 5), PLB_TI(2, 6), PLB_T(2, 6)}, .n_in = 3, .attrs = &max, INDICES},
    {"smallest", .in = {PLB_T(5, 2), PLB_TI(4, 2), PLB_T(4, 2)}, .n_in = 3, .attrs = &min, INDICES},
    {"integers", .in = {PLB_TI(5), PLB_TI(9), PLB_TI(9)}, .n_in = 3, .attrs = &mul, INDICES},
};

const plb_op plb_op_scatter_reduce = {
    .name = "scatter_reduce",
    .overwrites = {{0, 0}},
    .n_overwrites = 1,
    .attrs_bytes = sizeof(plb_scatter_attrs),
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .grad = grad,
    .flops = flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_scatter_reduce(plb_graph *graph, plb_value x, plb_value index, plb_value source,
                             int axis, plb_scatter_how how) {
    if (plb_graph_status(graph)) return PLB_NONE;
    int rank = plb_value_shape(graph, x).rank;
    plb_scatter_attrs attrs = {{plb_axis_of(graph, "scatter_reduce", axis, rank), 0}, how};
    return plb_emit(graph, PLB_OP_scatter_reduce, (plb_value[]){x, index, source}, 3, &attrs);
}
