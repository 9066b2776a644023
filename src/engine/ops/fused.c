// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/fused.h"

#include "base/core/status.h"

static plb_status check_counts(const plb_fused_attrs *a) {
    bool fits = a->n_in >= 1 && a->n_in <= PLB_FUSED_MAX_IN && a->n_instr >= 1 &&
                a->n_instr <= PLB_FUSED_MAX_INSTR && a->n_out >= 1 && a->n_out <= PLB_FUSED_MAX_OUT;
    if (!fits) {
        return plb_fail(PLB_EINVAL, "fused: %d inputs, %d instructions, %d outputs do not fit",
                        a->n_in, a->n_instr, a->n_out);
    }
    for (int k = 0; k < a->n_out; k++) {
        if (a->out[k] < a->n_in || a->out[k] >= a->n_in + a->n_instr) {
            return plb_fail(PLB_EINVAL, "fused: output %d is value %d, no instruction's result", k,
                            a->out[k]);
        }
    }
    return PLB_OK;
}

static plb_status instr_dtype(const plb_fused_attrs *a, int j, plb_dtype *dtype) {
    const plb_fused_instr *instr = &a->instr[j];
    plb_op_id op = (plb_op_id)instr->op;
    plb_dtype in[PLB_POINTWISE_MAX_IN] = {0};
    int arity = instr->op >= 0 && instr->op < PLB_OP_COUNT ? plb_pointwise_arity(op) : 0;
    if (!arity) return plb_fail(PLB_EINVAL, "fused: instruction %d is not pointwise", j);
    for (int k = 0; k < arity; k++) {
        if (instr->operand[k] < 0 || instr->operand[k] >= a->n_in + j) {
            return plb_fail(PLB_EINVAL, "fused: instruction %d reads value %d before it is there",
                            j, instr->operand[k]);
        }
        in[k] = dtype[instr->operand[k]];
    }
    plb_status status = plb_pointwise_dtype(op, in, instr->alpha, instr->beta,
                                            (plb_dtype)instr->dtype, &dtype[a->n_in + j]);
    return status ? plb_fail_context(status, "fused: instruction %d", j) : PLB_OK;
}

plb_status plb_fused_dtypes(const plb_fused_attrs *attrs, const plb_dtype *in,
                            plb_dtype out[PLB_FUSED_MAX_VALUES]) {
    PLB_TRY(check_counts(attrs));
    for (int k = 0; k < attrs->n_in; k++) out[k] = in[k];
    for (int j = 0; j < attrs->n_instr; j++) PLB_TRY(instr_dtype(attrs, j, out));
    return PLB_OK;
}

void plb_fused_element(const plb_fused_attrs *attrs, const plb_dtype *dtype,
                       plb_number value[PLB_FUSED_MAX_VALUES]) {
    for (int j = 0; j < attrs->n_instr; j++) {
        const plb_fused_instr *instr = &attrs->instr[j];
        plb_number in[PLB_POINTWISE_MAX_IN] = {0};
        plb_dtype in_dtype[PLB_POINTWISE_MAX_IN] = {0};
        for (int k = 0; k < plb_pointwise_arity((plb_op_id)instr->op); k++) {
            in[k] = value[instr->operand[k]];
            in_dtype[k] = dtype[instr->operand[k]];
        }
        int result = attrs->n_in + j;
        value[result] = plb_pointwise_number((plb_op_id)instr->op, in, in_dtype, instr->alpha,
                                             instr->beta, dtype[result]);
    }
}

static plb_status infer(plb_signature *s) {
    const plb_fused_attrs *attrs = s->attrs;
    plb_dtype in[PLB_FUSED_MAX_IN], dtype[PLB_FUSED_MAX_VALUES];
    if (s->n_in != attrs->n_in) {
        return plb_fail(PLB_EINVAL, "fused: expected %d inputs, found %d", attrs->n_in, s->n_in);
    }
    plb_shape shape = s->in[0].shape;
    for (int k = 0; k < s->n_in; k++) {
        in[k] = s->in[k].dtype;
        plb_status status = plb_shape_broadcast(&shape, &s->in[k].shape, &shape);
        if (status) return plb_fail_context(status, "fused");
    }
    PLB_TRY(plb_fused_dtypes(attrs, in, dtype));
    s->n_out = attrs->n_out;
    for (int k = 0; k < attrs->n_out; k++) s->out[k] = (plb_type){dtype[attrs->out[k]], shape};
    return PLB_OK;
}

static double flops(const plb_signature *s) {
    return (double)plb_shape_count(&s->out[0].shape) * ((const plb_fused_attrs *)s->attrs)->n_instr;
}

static plb_status ref(const plb_call *call) {
    const plb_fused_attrs *attrs = call->attrs;
    plb_dtype in[PLB_FUSED_MAX_IN], dtype[PLB_FUSED_MAX_VALUES];
    for (int k = 0; k < call->n_in; k++) in[k] = call->in[k].dtype;
    PLB_TRY(plb_fused_dtypes(attrs, in, dtype));
    const plb_shape *shape = &call->out[0].shape;
    int64_t count = plb_shape_count(shape), index[PLB_MAX_RANK];
    for (int64_t i = 0; i < count; i++) {
        plb_number value[PLB_FUSED_MAX_VALUES];
        plb_index_of(shape, i, index);
        for (int k = 0; k < call->n_in; k++) {
            int64_t at = plb_offset_broadcast(&call->in[k], shape, index);
            value[k] = plb_number_load(call->in[k].data, in[k], at);
        }
        plb_fused_element(attrs, dtype, value);
        for (int k = 0; k < call->n_out; k++) {
            const plb_tensor *out = &call->out[k];
            plb_number_store(out->data, out->dtype, plb_tensor_offset(out, index),
                             value[attrs->out[k]]);
        }
    }
    return PLB_OK;
}

// "instr":[{"op":"mul","in":[0,1]},{"op":"clamp","in":[2],"alpha":0,"beta":6}],"out":[3]
static void describe(const void *attrs_, plb_strbuf *text) {
    const plb_fused_attrs *attrs = attrs_;
    plb_strbuf_printf(text, "\"n_in\":%d,\"instr\":[", attrs->n_in);
    for (int j = 0; j < attrs->n_instr; j++) {
        const plb_fused_instr *instr = &attrs->instr[j];
        const plb_op *op = plb_op_of((plb_op_id)instr->op);
        plb_strbuf_printf(text, "%s{\"op\":\"%s\",\"in\":[", j ? "," : "", op->name);
        for (int k = 0; k < op->min_in; k++) {
            plb_strbuf_printf(text, "%s%d", k ? "," : "", instr->operand[k]);
        }
        plb_strbuf_printf(text, "]");
        if (instr->op == PLB_OP_cast) {
            plb_strbuf_printf(text, ",\"dtype\":\"%s\"", plb_dtype_name((plb_dtype)instr->dtype));
        } else if (op->attrs_bytes) {
            plb_describe_f64(text, "alpha", instr->alpha);
            plb_describe_f64(text, "beta", instr->beta);
        }
        plb_strbuf_printf(text, "}");
    }
    plb_strbuf_printf(text, "],\"out\":[");
    for (int k = 0; k < attrs->n_out; k++) {
        plb_strbuf_printf(text, "%s%d", k ? "," : "", attrs->out[k]);
    }
    plb_strbuf_printf(text, "]");
}

// relu6(x scale + shift) and the same plus a residual.
static const plb_fused_attrs scale_shift_clamp = {
    .n_in = 4,
    .n_instr = 4,
    .n_out = 2,
    .out = {6, 7},
    .instr = {{.op = PLB_OP_mul, .operand = {0, 1}},
              {.op = PLB_OP_add, .operand = {4, 2}},
              {.op = PLB_OP_clamp, .operand = {5}, .beta = 6},
              {.op = PLB_OP_add, .operand = {6, 3}}}};

// x where |x| < limit, otherwise tanh(x); and whether.
static const plb_fused_attrs choose = {.n_in = 2,
                                       .n_instr = 4,
                                       .n_out = 2,
                                       .out = {5, 3},
                                       .instr = {{.op = PLB_OP_abs, .operand = {0}},
                                                 {.op = PLB_OP_lt, .operand = {2, 1}},
                                                 {.op = PLB_OP_tanh, .operand = {0}},
                                                 {.op = PLB_OP_where, .operand = {3, 0, 4}}}};

// Through i32 and back: (f32)((i32)x * (i32)x).
static const plb_fused_attrs through_integers = {
    .n_in = 1,
    .n_instr = 3,
    .n_out = 1,
    .out = {3},
    .instr = {{.op = PLB_OP_cast, .operand = {0}, .dtype = PLB_I32},
              {.op = PLB_OP_mul, .operand = {1, 1}},
              {.op = PLB_OP_cast, .operand = {2}, .dtype = PLB_F32}}};

static const plb_fused_attrs bytes = {
    .n_in = 2,
    .n_instr = 2,
    .n_out = 1,
    .out = {3},
    .instr = {{.op = PLB_OP_mul, .operand = {0, 1}},
              {.op = PLB_OP_affine, .operand = {2}, .alpha = -1, .beta = 100}}};

static const plb_sample samples[] = {
    {.name = "scale shift clamp",
     .n_in = 4,
     .attrs = &scale_shift_clamp,
     .in = {PLB_T(2, 3, 3, 5), PLB_T(3, 1, 1), PLB_T(3, 1, 1), PLB_T(2, 3, 3, 5)},
     .low = {-4},
     .high = {4}},
    {.name = "choose",
     .n_in = 2,
     .attrs = &choose,
     .in = {PLB_T(3, 5), {.dtype = PLB_F32}},
     .low = {-3, 1},
     .high = {3, 2}},
    {.name = "scalar", .n_in = 2, .attrs = &choose, .in = {{.dtype = PLB_F32}, {.dtype = PLB_F32}}},
    {.name = "empty", .n_in = 2, .attrs = &choose, .in = {PLB_T(0, 3), PLB_T(3)}},
    {.name = "through integers",
     .n_in = 1,
     .attrs = &through_integers,
     .in = {PLB_T(11)},
     .low = {-9},
     .high = {9},
     .f32_only = true},
    {.name = "i8 wraps",
     .n_in = 2,
     .attrs = &bytes,
     .in = {PLB_TYPE_OF(PLB_I8, 3, 5), PLB_TYPE_OF(PLB_I8, 5)},
     .low = {-128, -128},
     .high = {127, 127}},
};

const plb_op plb_op_fused = {
    .name = "fused",
    .flags = PLB_OP_POINTWISE | PLB_OP_NO_GRAD, // fusion comes after autodiff
    .attrs_bytes = sizeof(plb_fused_attrs),
    .min_in = 1,
    .max_in = PLB_FUSED_MAX_IN,
    .infer = infer,
    .flops = flops,
    .ref = ref,
    .describe = describe,
    PLB_SAMPLES(samples),
};
