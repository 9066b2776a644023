// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/spatial.h"

#include "base/core/status.h"

plb_status plb_expect_floats(const plb_signature *s, const char *op, int first, int last) {
    plb_dtype dtype = PLB_DTYPE_COUNT;
    for (int i = first; i <= last && i < s->n_in; i++) {
        if (plb_type_absent(&s->in[i])) continue;
        if (!plb_dtype_is_float(s->in[i].dtype)) {
            return plb_fail(PLB_EINVAL, "%s: input %d: expected a float dtype, found %s", op, i,
                            plb_dtype_name(s->in[i].dtype));
        }
        if (dtype == PLB_DTYPE_COUNT) dtype = s->in[i].dtype;
        if (s->in[i].dtype != dtype) {
            return plb_fail(PLB_EINVAL, "%s: input %d: expected %s as input %d, found %s", op, i,
                            plb_dtype_name(dtype), first, plb_dtype_name(s->in[i].dtype));
        }
    }
    return PLB_OK;
}

plb_status plb_expect_shape(const plb_type *type, const plb_shape *shape, const char *op,
                            const char *what) {
    if (plb_shape_equal(&type->shape, shape)) return PLB_OK;
    char expected[160], found[160];
    return plb_fail(PLB_EINVAL, "%s: %s: expected %s, found %s", op, what,
                    plb_shape_format(shape, expected, sizeof expected),
                    plb_shape_format(&type->shape, found, sizeof found));
}

plb_status plb_expect_spatial(const plb_type *x, const char *op) {
    int axes = x->shape.rank - 2;
    if (axes >= 1 && axes <= PLB_MAX_SPATIAL) return PLB_OK;
    char found[160];
    return plb_fail(PLB_EINVAL, "%s: expected [N,C] and 1 to %d spatial axes, found %s", op,
                    PLB_MAX_SPATIAL, plb_shape_format(&x->shape, found, sizeof found));
}

plb_status plb_expect_epilogue(const plb_epilogue *epilogue, const char *op) {
    switch (epilogue->activation) {
    case PLB_ACT_NONE:
    case PLB_ACT_RELU:
    case PLB_ACT_CLAMP:
    case PLB_ACT_SILU: return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "%s: there is no activation %d", op, (int)epilogue->activation);
}

void plb_describe_comma(plb_strbuf *text) {
    char last = text->length ? text->text[text->length - 1] : '{';
    if (last != '{' && last != ',') plb_strbuf_append(text, ",", 1);
}

void plb_describe_axes(plb_strbuf *text, const char *name, const int64_t *values, int n) {
    if (n == 0) return;
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        plb_strbuf_printf(text, "%s%lld", i ? "," : "", (long long)values[i]);
    }
    plb_strbuf_append(text, "]", 1);
}

void plb_describe_number(plb_strbuf *text, const char *name, double value) {
    plb_describe_comma(text);
    plb_strbuf_printf(text, "\"%s\":%.17g", name, value);
}

void plb_describe_epilogue(plb_strbuf *text, const plb_epilogue *epilogue) {
    if (epilogue->activation == PLB_ACT_NONE) return;
    plb_describe_comma(text);
    if (epilogue->activation == PLB_ACT_RELU) {
        plb_strbuf_printf(text, "\"activation\":\"relu\"");
    } else if (epilogue->activation == PLB_ACT_SILU) {
        plb_strbuf_printf(text, "\"activation\":\"silu\"");
    } else {
        plb_strbuf_printf(text, "\"activation\":\"clamp\",\"low\":%.17g,\"high\":%.17g",
                          epilogue->alpha, epilogue->beta);
    }
}

plb_value plb_as_dtype(plb_graph *graph, plb_value x, plb_dtype dtype) {
    return plb_value_type(graph, x).dtype == dtype ? x : plb_cast(graph, x, dtype);
}

plb_value plb_along_channels(plb_graph *graph, plb_value v, int rank) {
    plb_shape shape = {.rank = rank - 1};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = 1;
    shape.dim[0] = plb_value_shape(graph, v).dim[0];
    return plb_reshape(graph, v, &shape);
}
