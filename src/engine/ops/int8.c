// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/int8.h"

#include "base/core/status.h"
#include "engine/ops/pointwise.h"

plb_status plb_int8_check(const plb_signature *s, const char *op, int64_t k) {
    const plb_int8_attrs *attrs = s->attrs;
    if (!plb_is_byte(s->in[PLB_INT8_X].dtype) || s->in[PLB_INT8_W].dtype != PLB_I8) {
        return plb_fail(PLB_EINVAL, "%s: expected u8 or i8 and i8, found %s and %s", op,
                        plb_dtype_name(s->in[PLB_INT8_X].dtype),
                        plb_dtype_name(s->in[PLB_INT8_W].dtype));
    }
    PLB_TRY(plb_expect_floats(s, op, PLB_INT8_MULTIPLIER, PLB_INT8_BIAS));
    for (int i = PLB_INT8_MULTIPLIER; i <= PLB_INT8_BIAS; i++) {
        PLB_TRY(plb_expect_shape(&s->in[i], &plb_shape_of(k), op,
                                 i == PLB_INT8_BIAS ? "bias" : "multiplier"));
    }
    if (!plb_is_byte((plb_dtype)attrs->dtype) && attrs->dtype != PLB_F32) {
        return plb_fail(PLB_EINVAL, "%s: a result of %s", op,
                        plb_dtype_name((plb_dtype)attrs->dtype));
    }
    if (!(attrs->low <= attrs->high)) {
        return plb_fail(PLB_EINVAL, "%s: from %g to %g", op, attrs->low, attrs->high);
    }
    return PLB_OK;
}

double plb_int8_result(const plb_call *call, const plb_int8_attrs *attrs, int64_t k, double acc) {
    double y = acc + plb_tensor_load(&call->in[PLB_INT8_BIAS], &k);
    y *= plb_tensor_load(&call->in[PLB_INT8_MULTIPLIER], &k);
    if (attrs->dtype != PLB_F32) y = rint(y) + (double)attrs->y_zero;
    return y < attrs->low ? attrs->low : y > attrs->high ? attrs->high : y;
}

void plb_int8_describe(plb_strbuf *text, const plb_int8_attrs *attrs) {
    plb_describe_number(text, "x_zero", (double)attrs->x_zero);
    plb_describe_number(text, "y_zero", (double)attrs->y_zero);
    plb_describe_f64(text, "low", attrs->low);
    plb_describe_f64(text, "high", attrs->high);
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"dtype\":\"%s\"", plb_dtype_name((plb_dtype)attrs->dtype));
}
