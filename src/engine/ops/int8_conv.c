// SPDX-License-Identifier: Apache-2.0
// Convolution of 8-bit integers: x[N,C,…] w[K,C/groups,…] multiplier[K] bias[K] -> y[N,K,…];
// int8.h says what becomes of a sum. Outside of x lie zeros of what it stands for: x_zero.
#include "base/core/status.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/int8.h"

static plb_status shape_of(const plb_shape *x, const plb_shape *w, const plb_int8_attrs *attrs,
                           plb_conv_shape *out) {
    return plb_conv_shape_of(PLB_OP_conv, x, w, &attrs->conv, out);
}

static plb_status infer(plb_signature *s) {
    const plb_int8_attrs *attrs = s->attrs;
    plb_conv_shape shape;
    PLB_TRY(shape_of(&s->in[PLB_INT8_X].shape, &s->in[PLB_INT8_W].shape, attrs, &shape));
    PLB_TRY(plb_int8_check(s, "int8_conv", shape.k));
    s->out[0] = (plb_type){(plb_dtype)attrs->dtype, plb_conv_y_shape(&shape)};
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    plb_conv_shape shape;
    if (shape_of(&s->in[PLB_INT8_X].shape, &s->in[PLB_INT8_W].shape, s->attrs, &shape)) return 0;
    return plb_conv_flops(&shape);
}

static double window_sum(const plb_call *call, const plb_conv_shape *s, int64_t n, int64_t k,
                         const int64_t *out) {
    const double zero = (double)((const plb_int8_attrs *)call->attrs)->x_zero;
    int64_t c_group = s->c / s->groups, first = k / (s->k / s->groups) * c_group;
    double sum = 0;
    for (int64_t c = 0; c < c_group; c++) {
        int64_t tap[PLB_MAX_SPATIAL] = {0}, in[PLB_MAX_SPATIAL];
        do {
            if (!plb_conv_in_at(s, out, tap, in)) continue;
            sum += (plb_spatial_load(&call->in[PLB_INT8_X], n, first + c, in) - zero) *
                   plb_spatial_load(&call->in[PLB_INT8_W], k, c, tap);
        } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    }
    return sum;
}

static plb_status ref(const plb_call *call) {
    const plb_int8_attrs *attrs = call->attrs;
    plb_conv_shape s;
    PLB_TRY(shape_of(&call->in[PLB_INT8_X].shape, &call->in[PLB_INT8_W].shape, attrs, &s));
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t k = 0; k < s.k; k++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                double y = plb_int8_result(call, attrs, k, window_sum(call, &s, n, k, out));
                plb_spatial_store(&call->out[0], n, k, out, y);
            } while (plb_index_next(out, s.out, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_int8_attrs *a = attrs;
    plb_conv_describe(&a->conv, text);
    plb_int8_describe(text, a);
}

plb_value plb_int8_conv(plb_graph *graph, plb_value x, plb_value w, plb_value multiplier,
                        plb_value bias, const plb_int8_attrs *attrs) {
    plb_int8_attrs final = *attrs;
    final.conv = plb_conv_attrs_final(&attrs->conv, plb_value_shape(graph, x).rank - 2);
    return plb_emit(graph, PLB_OP_int8_conv, (plb_value[]){x, w, multiplier, bias}, 4, &final);
}

#define U8(...) PLB_TYPE_OF(PLB_U8, __VA_ARGS__)
#define I8(...) PLB_TYPE_OF(PLB_I8, __VA_ARGS__)
#define CONV(stride, pad, groups)                                        \
    {                                                                    \
        {stride, stride}, {pad, pad}, {pad, pad}, {1, 1}, groups, {0}, { \
            0                                                            \
        }                                                                \
    }
// Sums stay under 2^24 here, multipliers make them fill the range of the result.
#define RANGES(x_low, x_high)                                                                \
    .low = {x_low, -127, 1e-4, -900}, .high = {x_high, 127, 3e-4, 900}, .no_gradient = true, \
    .f32_only = true
static const plb_int8_attrs
    plain = {.conv = CONV(1, 1, 1), .dtype = PLB_U8, .high = 255},
    shifted = {.conv = CONV(2, 1, 1), .x_zero = 117, .y_zero = 93, .dtype = PLB_U8, .high = 255},
    signed_ = {.conv = CONV(1, 0, 1),
               .x_zero = -7,
               .y_zero = 5,
               .dtype = PLB_I8,
               .low = -128,
               .high = 127},
    bounded = {.conv = CONV(1, 1, 1), .y_zero = 10, .dtype = PLB_U8, .low = 10, .high = 90},
    depthwise = {.conv = CONV(1, 1, 16), .dtype = PLB_U8, .high = 255},
    real = {.conv = CONV(1, 1, 1), .x_zero = 3, .dtype = PLB_F32, .low = -1e30, .high = 1e30};
static const plb_sample samples[] = {
    {.name = "u8",
     .in = {U8(1, 8, 4, 4), I8(16, 8, 3, 3), PLB_T(16), PLB_T(16)},
     .n_in = 4,
     .attrs = &plain,
     RANGES(0, 255)},
    {.name = "zero points, stride 2",
     .in = {U8(1, 3, 8, 8), I8(16, 3, 3, 3), PLB_T(16), PLB_T(16)},
     .n_in = 4,
     .attrs = &shifted,
     RANGES(0, 255)},
    {.name = "i8, 1x1",
     .in = {I8(1, 16, 4, 4), I8(16, 16, 1, 1), PLB_T(16), PLB_T(16)},
     .n_in = 4,
     .attrs = &signed_,
     RANGES(-128, 127)},
    {.name = "bounds",
     .in = {U8(1, 4, 4, 4), I8(8, 4, 3, 3), PLB_T(8), PLB_T(8)},
     .n_in = 4,
     .attrs = &bounded,
     RANGES(0, 255)},
    {.name = "depthwise",
     .in = {U8(1, 16, 6, 6), I8(16, 1, 3, 3), PLB_T(16), PLB_T(16)},
     .n_in = 4,
     .attrs = &depthwise,
     RANGES(0, 255)},
    {.name = "to f32",
     .in = {U8(1, 8, 4, 4), I8(8, 8, 3, 3), PLB_T(8), PLB_T(8)},
     .n_in = 4,
     .attrs = &real,
     RANGES(0, 255)},
};

const plb_op plb_op_int8_conv = {.name = "int8_conv",
                                 .flags = PLB_OP_SPATIAL | PLB_OP_NO_GRAD,
                                 .spatial_in = 1 << 0,
                                 .spatial_out = 1 << 0,
                                 .attrs_bytes = sizeof(plb_int8_attrs),
                                 .min_in = 4,
                                 .max_in = 4,
                                 .infer = infer,
                                 .flops = flops,
                                 .ref = ref,
                                 .describe = describe,
                                 PLB_SAMPLES(samples)};
