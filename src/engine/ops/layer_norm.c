// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba, Kiros, Hinton 2016) over the last axes of x:
//
//   y = (x - mean) / sqrt(variance + eps) gamma + beta
//
// Inputs x, gamma and beta of the normalised extents, each of the two optional. The gradient
// computes the statistics again from x: two sums, and no more outputs to keep.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/norm.h"

static plb_status infer(plb_signature *s) {
    const plb_norm_attrs *attrs = s->attrs;
    const plb_type *x = &s->in[0];
    PLB_TRY(plb_expect_floats(s, "layer_norm", 0, 0));
    if (attrs->axes < 1 || attrs->axes > x->shape.rank) {
        char found[160];
        return plb_fail(PLB_EINVAL, "layer_norm: the last %lld axes of %s", (long long)attrs->axes,
                        plb_shape_format(&x->shape, found, sizeof found));
    }
    if (attrs->epilogue.activation != PLB_ACT_NONE) {
        return plb_fail(PLB_EUNSUPPORTED, "layer_norm takes no epilogue");
    }
    plb_shape inner = {.rank = (int)attrs->axes};
    for (int i = 0; i < inner.rank; i++) {
        inner.dim[i] = x->shape.dim[x->shape.rank - inner.rank + i];
    }
    for (int i = 1; i < s->n_in; i++) {
        if (plb_type_absent(&s->in[i])) continue;
        PLB_TRY(
            plb_norm_expect_vector(&s->in[i], x, &inner, "layer_norm", i == 1 ? "gamma" : "beta"));
    }
    s->out[0] = *x;
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_norm_attrs attrs = *(const plb_norm_attrs *)plb_node_attrs(graph, node);
    plb_value x = plb_node_in(graph, node, 0), gamma = plb_node_in(graph, node, 1);
    plb_value beta = plb_node_in(graph, node, 2);
    plb_type type = plb_value_type(graph, x);
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    int64_t outer = (INT64_C(1) << (type.shape.rank - attrs.axes)) - 1;
    int64_t inner = ((INT64_C(1) << type.shape.rank) - 1) & ~outer;
    plb_value dy = plb_as_dtype(graph, dout[0], dtype);
    if (beta != PLB_NONE && needed[2]) {
        plb_type of = plb_value_type(graph, beta);
        din[2] = plb_as_dtype(graph, plb_sum_to(graph, dy, &of.shape), of.dtype);
    }
    plb_norm_parts parts =
        plb_norm_standardise(graph, plb_as_dtype(graph, x, dtype), inner, attrs.eps);
    if (gamma != PLB_NONE && needed[1]) {
        plb_type of = plb_value_type(graph, gamma);
        plb_value products = plb_mul(graph, dy, parts.h);
        din[1] = plb_as_dtype(graph, plb_sum_to(graph, products, &of.shape), of.dtype);
    }
    if (!needed[0]) return;
    if (gamma != PLB_NONE) dy = plb_mul(graph, dy, plb_as_dtype(graph, gamma, dtype));
    din[0] = plb_as_dtype(graph, plb_norm_standardise_grad(graph, &parts, dy, inner), type.dtype);
}

static double flops(const plb_signature *s) {
    return 7.0 * (double)plb_shape_count(&s->in[0].shape);
}

// One row: `at` holds the outer indices, the inner ones run.
static void normalise_row(const plb_call *call, int64_t *at) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0];
    const plb_tensor *gamma = call->n_in > 1 && call->in[1].data ? &call->in[1] : NULL;
    const plb_tensor *beta = call->n_in > 2 && call->in[2].data ? &call->in[2] : NULL;
    int axes = (int)attrs->axes, outer = x->shape.rank - axes;
    int64_t *inner = at + outer;
    double count = 1, mean = 0, variance = 0;
    for (int i = 0; i < axes; i++) count *= (double)x->shape.dim[outer + i];
    do {
        mean += plb_tensor_load(x, at) / count;
    } while (plb_index_next(inner, x->shape.dim + outer, axes));
    do {
        double centred = plb_tensor_load(x, at) - mean;
        variance += centred * centred / count;
    } while (plb_index_next(inner, x->shape.dim + outer, axes));
    double inv_std = 1 / sqrt(variance + attrs->eps);
    do {
        double y = (plb_tensor_load(x, at) - mean) * inv_std;
        if (gamma) y *= plb_tensor_load(gamma, inner);
        if (beta) y += plb_tensor_load(beta, inner);
        plb_tensor_store(&call->out[0], at, y);
    } while (plb_index_next(inner, x->shape.dim + outer, axes));
}

static plb_status ref(const plb_call *call) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0];
    if (plb_shape_count(&x->shape) == 0) return PLB_OK;
    int64_t at[PLB_MAX_RANK] = {0};
    do {
        normalise_row(call, at);
    } while (plb_index_next(at, x->shape.dim, x->shape.rank - (int)attrs->axes));
    return PLB_OK;
}

plb_value plb_layer_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta, int axes,
                         double eps) {
    return plb_emit(graph, PLB_OP_layer_norm, (plb_value[]){x, gamma, beta}, 3,
                    &(plb_norm_attrs){.eps = eps, .axes = axes});
}

#define ATTRS(...)            \
    &(const plb_norm_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "last axis",
     .in = {PLB_T(2, 3, 8), PLB_T(8), PLB_T(8)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .axes = 1)},
    {.name = "two axes",
     .in = {PLB_T(3, 4, 5), PLB_T(4, 5), PLB_T(4, 5)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-3, .axes = 2)},
    {.name = "all axes",
     .in = {PLB_T(3, 7), PLB_T(3, 7), PLB_T(3, 7)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .axes = 2)},
    {.name = "gamma alone",
     .in = {PLB_T(4, 6), PLB_T(6), PLB_T(6)},
     .n_in = 3,
     .absent = 1 << 2,
     .attrs = ATTRS(.eps = 1e-12, .axes = 1)},
    {.name = "bare, far from zero",
     .in = {PLB_T(2, 3, 3, 4)},
     .n_in = 1,
     .low = {9},
     .high = {11},
     .attrs = ATTRS(.eps = 1e-5, .axes = 3)},
};

const plb_op plb_op_layer_norm = {.name = "layer_norm",
                                  .attrs_bytes = sizeof(plb_norm_attrs),
                                  .min_in = 1,
                                  .max_in = 3,
                                  .infer = infer,
                                  .grad = grad,
                                  .flops = flops,
                                  .ref = ref,
                                  .describe = plb_norm_describe,
                                  PLB_SAMPLES(samples)};
