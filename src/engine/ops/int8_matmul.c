// SPDX-License-Identifier: Apache-2.0
// Product of matrices of 8-bit integers: x[M,C] w[C,K] (or w[K,C] with trans_b) multiplier[K]
// bias[K] -> y[M,K]; int8.h says what becomes of a sum.
#include "base/core/status.h"
#include "engine/ops/int8.h"

static plb_status infer(plb_signature *s) {
    const plb_int8_attrs *attrs = s->attrs;
    const plb_shape *x = &s->in[PLB_INT8_X].shape, *w = &s->in[PLB_INT8_W].shape;
    char text[160], other[160];
    bool tb = attrs->trans_b != 0;
    if (x->rank != 2 || w->rank != 2 || x->dim[1] != w->dim[tb ? 1 : 0]) {
        return plb_fail(PLB_EINVAL, "int8_matmul: %s and %s%s do not fit",
                        plb_shape_format(x, text, sizeof text),
                        plb_shape_format(w, other, sizeof other), tb ? " transposed" : "");
    }
    const int64_t k = w->dim[tb ? 0 : 1];
    PLB_TRY(plb_int8_check(s, "int8_matmul", k));
    s->out[0] = (plb_type){(plb_dtype)attrs->dtype, plb_shape_of(x->dim[0], k)};
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    const plb_shape *x = &s->in[PLB_INT8_X].shape, *w = &s->in[PLB_INT8_W].shape;
    return 2.0 * (double)x->dim[0] * (double)plb_shape_count(w);
}

static plb_status ref(const plb_call *call) {
    const plb_int8_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[PLB_INT8_X], *w = &call->in[PLB_INT8_W], *y = &call->out[0];
    for (int64_t m = 0; m < y->shape.dim[0]; m++) {
        for (int64_t k = 0; k < y->shape.dim[1]; k++) {
            double sum = 0;
            for (int64_t c = 0; c < x->shape.dim[1]; c++) {
                const int64_t at[2] = {attrs->trans_b ? k : c, attrs->trans_b ? c : k};
                double value = plb_tensor_load(x, (int64_t[]){m, c}) - (double)attrs->x_zero;
                sum += value * plb_tensor_load(w, at);
            }
            plb_tensor_store(y, (int64_t[]){m, k}, plb_int8_result(call, attrs, k, sum));
        }
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_int8_attrs *a = attrs;
    plb_describe_number(text, "trans_b", (double)a->trans_b);
    plb_int8_describe(text, a);
}

plb_value plb_int8_matmul(plb_graph *graph, plb_value x, plb_value w, plb_value multiplier,
                          plb_value bias, const plb_int8_attrs *attrs) {
    return plb_emit(graph, PLB_OP_int8_matmul, (plb_value[]){x, w, multiplier, bias}, 4, attrs);
}

#define U8(...) PLB_TYPE_OF(PLB_U8, __VA_ARGS__)
#define I8(...) PLB_TYPE_OF(PLB_I8, __VA_ARGS__)
#define RANGES(x_low, x_high)                                                                \
    .low = {x_low, -127, 1e-4, -900}, .high = {x_high, 127, 3e-4, 900}, .no_gradient = true, \
    .f32_only = true
static const plb_int8_attrs plain = {.dtype = PLB_U8, .y_zero = 100, .high = 255},
                            shifted = {.trans_b = 1,
                                       .x_zero = 131,
                                       .y_zero = -9,
                                       .dtype = PLB_I8,
                                       .low = -128,
                                       .high = 127},
                            real = {.trans_b = 1, .dtype = PLB_F32, .low = 0, .high = 1e30};
static const plb_sample samples[] = {
    {.name = "u8",
     .in = {U8(5, 24), I8(24, 16), PLB_T(16), PLB_T(16)},
     .n_in = 4,
     .attrs = &plain,
     RANGES(0, 255)},
    {.name = "zero points, w transposed",
     .in = {U8(3, 20), I8(7, 20), PLB_T(7), PLB_T(7)},
     .n_in = 4,
     .attrs = &shifted,
     RANGES(0, 255)},
    {.name = "i8 to f32, from zero on",
     .in = {I8(4, 16), I8(8, 16), PLB_T(8), PLB_T(8)},
     .n_in = 4,
     .attrs = &real,
     RANGES(-128, 127)},
};

const plb_op plb_op_int8_matmul = {.name = "int8_matmul",
                                   .flags = PLB_OP_NO_GRAD,
                                   .attrs_bytes = sizeof(plb_int8_attrs),
                                   .min_in = 4,
                                   .max_in = 4,
                                   .infer = infer,
                                   .flops = flops,
                                   .ref = ref,
                                   .describe = describe,
                                   PLB_SAMPLES(samples)};
