// SPDX-License-Identifier: Apache-2.0
// nonzero: positions of the elements that are not zero (a NaN is not), in row-major order, and how
// many there are. Rows past the count are zero, so that a later take reads something that exists.
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/walk.h"
#include "plumb/ops.h"

static plb_status infer(plb_signature *s) {
    const plb_shape *x = &s->in[0].shape;
    s->n_out = 2;
    s->out[0] = (plb_type){PLB_I64, plb_shape_of(plb_shape_count(x), x->rank)};
    s->out[1] = (plb_type){PLB_I64, plb_scalar_shape};
    return PLB_OK;
}

static bool is_zero(const plb_tensor *x, int64_t offset) {
    if (plb_dtype_is_float(x->dtype)) return plb_load_f64(x->data, x->dtype, offset) == 0;
    return plb_load_i64(x->data, x->dtype, offset) == 0;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *rows = &call->out[0];
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(&x->shape), found = 0;
    plb_walk_fill(rows, 0);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&x->shape, position)) {
        if (is_zero(x, plb_tensor_offset(x, position))) continue;
        for (int64_t i = 0; i < x->shape.rank; i++) {
            int64_t offset = plb_tensor_offset(rows, (int64_t[]){found, i});
            plb_store_i64(rows->data, rows->dtype, offset, position[i]);
        }
        found++;
    }
    plb_store_i64(call->out[1].data, call->out[1].dtype, 0, found);
    return PLB_OK;
}

static const plb_sample samples[] = {
    {"flags", .in = {PLB_TYPE_OF(PLB_BOOL, 3, 4)}, .n_in = 1, .high = {1}},
    {"integers", .in = {PLB_TI(2, 3, 4)}, .n_in = 1, .low = {-1}, .high = {1}},
    {"rows", .in = {PLB_TYPE_OF(PLB_BOOL, 3, 70)}, .n_in = 1, .high = {1}},
    {"floats", .in = {PLB_T(5)}, .n_in = 1},
    {"scalar", .in = {{PLB_F32, {0}}}, .n_in = 1},
    {"nothing", .in = {PLB_T(0, 3)}, .n_in = 1},
};

const plb_op plb_op_nonzero = {
    .name = "nonzero",
    .flags = PLB_OP_NO_GRAD,
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .flops = plb_no_flops,
    .ref = ref,
    PLB_SAMPLES(samples),
};

plb_value plb_nonzero(plb_graph *graph, plb_value x) {
    plb_value rows = plb_emit(graph, PLB_OP_nonzero, &x, 1, NULL);
    if (rows != PLB_NONE) graph->values[rows].count = rows + 1;
    return rows;
}
