// SPDX-License-Identifier: Apache-2.0
// Cast: another dtype, the same shape. plb_number_cast states the conversions.
#include "base/core/status.h"
#include "engine/ops/pointwise.h"

static plb_status infer(plb_signature *s) {
    int64_t dtype = ((const plb_cast_attrs *)s->attrs)->dtype;
    if (dtype < 0 || dtype >= PLB_DTYPE_COUNT) {
        return plb_fail(PLB_EINVAL, "cast: %lld is no dtype", (long long)dtype);
    }
    return plb_pointwise_infer(PLB_OP_cast, s);
}

static plb_status ref(const plb_call *call) {
    return plb_pointwise_ref(PLB_OP_cast, call);
}

// Integers on either side: autodiff does not come here, for it follows floats only.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_type type = plb_value_type(graph, plb_node_in(graph, node, 0));
    if (needed[0]) din[0] = plb_cast(graph, dout[0], type.dtype);
}

static void describe(const void *attrs, plb_strbuf *text) {
    plb_strbuf_printf(text, "\"dtype\":\"%s\"",
                      plb_dtype_name((plb_dtype)((const plb_cast_attrs *)attrs)->dtype));
}

static const plb_cast_attrs to[PLB_DTYPE_COUNT] = {
    [PLB_F64] = {PLB_F64}, [PLB_F32] = {PLB_F32}, [PLB_F16] = {PLB_F16}, [PLB_I32] = {PLB_I32},
    [PLB_I8] = {PLB_I8},   [PLB_U8] = {PLB_U8},   [PLB_I64] = {PLB_I64}, [PLB_BOOL] = {PLB_BOOL}};

static const plb_sample samples[] = {
    {.name = "f64", .in = {PLB_T(3, 5)}, .n_in = 1, .attrs = &to[PLB_F64]},
    {.name = "f16", .in = {PLB_T(3, 5)}, .n_in = 1, .attrs = &to[PLB_F16], .no_gradient = true},
    {.name = "i32",
     .in = {PLB_T(2, 1, 4)},
     .n_in = 1,
     .attrs = &to[PLB_I32],
     .low = {-9},
     .high = {9}},
    {.name = "bool", .in = {PLB_T(6)}, .n_in = 1, .attrs = &to[PLB_BOOL]},
    {.name = "scalar", .in = {{.dtype = PLB_F32}}, .n_in = 1, .attrs = &to[PLB_F64]},
    {.name = "empty", .in = {PLB_T(0, 3)}, .n_in = 1, .attrs = &to[PLB_I8]},
    {.name = "i64 to i8",
     .in = {PLB_TI(11)},
     .n_in = 1,
     .attrs = &to[PLB_I8],
     .low = {-1000},
     .high = {1000}},
    {.name = "i8 to u8",
     .in = {PLB_TYPE_OF(PLB_I8, 11)},
     .n_in = 1,
     .attrs = &to[PLB_U8],
     .low = {-128},
     .high = {127}},
    {.name = "i64 to f32",
     .in = {PLB_TI(4, 2)},
     .n_in = 1,
     .attrs = &to[PLB_F32],
     .low = {-1e9},
     .high = {1e9}},
    {.name = "bool to i64",
     .in = {PLB_TYPE_OF(PLB_BOOL, 9)},
     .n_in = 1,
     .attrs = &to[PLB_I64],
     .low = {0},
     .high = {1}},
};

const plb_op plb_op_cast = {
    .name = "cast",
    .flags = PLB_OP_POINTWISE,
    .attrs_bytes = sizeof(plb_cast_attrs),
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .grad = grad,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};

plb_value plb_cast(plb_graph *graph, plb_value x, plb_dtype dtype) {
    plb_type type = plb_value_type(graph, x);
    if (x != PLB_NONE && type.dtype == dtype) return x;
    return plb_emit(graph, PLB_OP_cast, &x, 1, &(plb_cast_attrs){dtype});
}
