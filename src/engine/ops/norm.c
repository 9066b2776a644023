// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/norm.h"

#include "base/core/status.h"

plb_status plb_norm_expect_x(const plb_type *x, const char *op) {
    if (!plb_dtype_is_float(x->dtype)) {
        return plb_fail(PLB_EINVAL, "%s: x: expected a float dtype, found %s", op,
                        plb_dtype_name(x->dtype));
    }
    if (x->shape.rank < 2) {
        char found[160];
        return plb_fail(PLB_EINVAL, "%s: x: expected [N,C,...], found %s", op,
                        plb_shape_format(&x->shape, found, sizeof found));
    }
    return PLB_OK;
}

plb_status plb_norm_expect_vector(const plb_type *vector, const plb_type *x, const plb_shape *shape,
                                  const char *op, const char *what) {
    plb_dtype statistics = plb_statistics_dtype(x->dtype);
    if (vector->dtype != x->dtype && vector->dtype != statistics) {
        return plb_fail(PLB_EINVAL, "%s: %s: expected %s or %s, found %s", op, what,
                        plb_dtype_name(x->dtype), plb_dtype_name(statistics),
                        plb_dtype_name(vector->dtype));
    }
    return plb_expect_shape(vector, shape, op, what);
}

int64_t plb_norm_count(const plb_shape *x) {
    int64_t count = 1;
    for (int i = 0; i < x->rank; i++) count *= i == 1 ? 1 : x->dim[i];
    return count;
}

plb_value plb_norm_default(plb_graph *graph, plb_value vector, plb_value x, double value) {
    plb_type type = plb_value_type(graph, x);
    if (vector != PLB_NONE || type.shape.rank < 2) return vector;
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    return plb_expand(graph, plb_scalar(graph, dtype, value), &plb_shape_of(type.shape.dim[1]));
}

plb_value plb_norm_sum(plb_graph *graph, plb_value x) {
    return plb_sum(graph, x, plb_axes_but_channels(plb_value_shape(graph, x).rank), true);
}

plb_value plb_norm_vector(plb_graph *graph, plb_value sum, plb_dtype dtype) {
    if (sum == PLB_NONE) return PLB_NONE;
    plb_shape shape = plb_value_shape(graph, sum);
    plb_value vector = plb_reshape(graph, sum, &plb_shape_of(plb_shape_count(&shape)));
    return plb_as_dtype(graph, vector, dtype);
}

plb_value plb_norm_plus(plb_graph *graph, plb_value a, plb_value b) {
    if (a == PLB_NONE) return b;
    return b == PLB_NONE ? a : plb_add(graph, a, b);
}

plb_norm_parts plb_norm_standardise(plb_graph *graph, plb_value x, int64_t axes, double eps) {
    plb_value centred = plb_sub(graph, x, plb_mean(graph, x, axes, true));
    plb_value variance = plb_mean(graph, plb_mul(graph, centred, centred), axes, true);
    plb_value r = plb_rsqrt(graph, plb_affine(graph, variance, 1, eps));
    return (plb_norm_parts){.h = plb_mul(graph, centred, r), .r = r};
}

plb_value plb_norm_standardise_grad(plb_graph *graph, const plb_norm_parts *parts, plb_value dh,
                                    int64_t axes) {
    plb_value mean = plb_mean(graph, dh, axes, true);
    plb_value along = plb_mean(graph, plb_mul(graph, dh, parts->h), axes, true);
    plb_value rest = plb_sub(graph, plb_sub(graph, dh, mean), plb_mul(graph, parts->h, along));
    return plb_mul(graph, parts->r, rest);
}

void plb_norm_describe(const void *attrs, plb_strbuf *text) {
    const plb_norm_attrs *a = attrs;
    plb_describe_number(text, "eps", a->eps);
    if (a->groups) plb_describe_number(text, "groups", (double)a->groups);
    if (a->axes) plb_describe_number(text, "axes", (double)a->axes);
    if (a->masked) plb_describe_number(text, "masked", 1);
    plb_describe_epilogue(text, &a->epilogue);
}
