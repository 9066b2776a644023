// SPDX-License-Identifier: Apache-2.0
// Sum of two values of 8-bit integers, quantised again:
//
//   y = clamp(round(a scale_a + b scale_b + shift) + y_zero, low, high)
//
// The scales are those of a and b over that of y; the shift takes their zero points away. One pass
// over three bytes an element, where floats would move twelve.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/int8.h"
#include "engine/ops/pointwise.h"

static plb_status infer(plb_signature *s) {
    const plb_int8_add_attrs *attrs = s->attrs;
    for (int k = 0; k < 2; k++) {
        if (plb_is_byte(s->in[k].dtype)) continue;
        return plb_fail(PLB_EINVAL, "int8_add: expected u8 or i8, found %s",
                        plb_dtype_name(s->in[k].dtype));
    }
    PLB_TRY(plb_expect_shape(&s->in[1], &s->in[0].shape, "int8_add", "b"));
    if (!plb_is_byte((plb_dtype)attrs->dtype) || !(attrs->low <= attrs->high)) {
        return plb_fail(PLB_EINVAL, "int8_add: a result of %s from %g to %g",
                        plb_dtype_name((plb_dtype)attrs->dtype), attrs->low, attrs->high);
    }
    s->out[0] = (plb_type){(plb_dtype)attrs->dtype, s->in[0].shape};
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const plb_int8_add_attrs *a = call->attrs;
    const plb_shape *shape = &call->out[0].shape;
    int64_t at[PLB_MAX_RANK] = {0};
    if (plb_shape_count(shape) == 0) return PLB_OK;
    do {
        double y = rint(plb_tensor_load(&call->in[0], at) * a->scale_a +
                        plb_tensor_load(&call->in[1], at) * a->scale_b + a->shift) +
                   (double)a->y_zero;
        plb_tensor_store(&call->out[0], at, y < a->low ? a->low : y > a->high ? a->high : y);
    } while (plb_index_next(at, shape->dim, shape->rank));
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    return 5 * (double)plb_shape_count(&s->in[0].shape);
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_int8_add_attrs *a = attrs;
    plb_describe_number(text, "scale_a", a->scale_a);
    plb_describe_number(text, "scale_b", a->scale_b);
    plb_describe_number(text, "shift", a->shift);
    plb_describe_number(text, "y_zero", (double)a->y_zero);
    plb_describe_f64(text, "low", a->low);
    plb_describe_f64(text, "high", a->high);
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"dtype\":\"%s\"", plb_dtype_name((plb_dtype)a->dtype));
}

plb_value plb_int8_add(plb_graph *graph, plb_value a, plb_value b,
                       const plb_int8_add_attrs *attrs) {
    return plb_emit(graph, PLB_OP_int8_add, (plb_value[]){a, b}, 2, attrs);
}

#define U8(...) PLB_TYPE_OF(PLB_U8, __VA_ARGS__)
#define I8(...) PLB_TYPE_OF(PLB_I8, __VA_ARGS__)
// Quarters and shifts of an eighth: sums are exact, and none lies between two integers.
static const plb_int8_add_attrs plain = {0.5, 0.25, 0.125, 0, 0, 255, PLB_U8},
                                bounded = {0.75, 0.25, -61.125, 12, 12, 200, PLB_U8},
                                mixed = {0.25, -0.5, 7.625, -3, -128, 127, PLB_I8};
static const plb_sample samples[] = {
    {.name = "u8",
     .in = {U8(2, 3, 5, 7), U8(2, 3, 5, 7)},
     .n_in = 2,
     .attrs = &plain,
     .high = {255, 255},
     .no_gradient = true},
    {.name = "zero points and bounds",
     .in = {U8(130), U8(130)},
     .n_in = 2,
     .attrs = &bounded,
     .high = {255, 255},
     .no_gradient = true},
    {.name = "i8 and u8 to i8",
     .in = {I8(3, 50), U8(3, 50)},
     .n_in = 2,
     .attrs = &mixed,
     .low = {-128, 0},
     .high = {127, 255},
     .no_gradient = true},
};

const plb_op plb_op_int8_add = {.name = "int8_add",
                                .flags = PLB_OP_FOLLOWS | PLB_OP_NO_GRAD,
                                .attrs_bytes = sizeof(plb_int8_add_attrs),
                                .min_in = 2,
                                .max_in = 2,
                                .infer = infer,
                                .flops = flops,
                                .ref = ref,
                                .describe = describe,
                                PLB_SAMPLES(samples)};
