// SPDX-License-Identifier: Apache-2.0
// Group normalisation (Wu, He 2018): x[N,C,…] is normalised for each sample and each group of
// C/groups channels, then scaled by gamma[C] and shifted by beta[C], both optional. One channel a
// group is instance normalisation.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/norm.h"

static plb_status infer(plb_signature *s) {
    const plb_norm_attrs *attrs = s->attrs;
    const plb_type *x = &s->in[0];
    PLB_TRY(plb_norm_expect_x(x, "group_norm"));
    int64_t channels = x->shape.dim[1];
    if (attrs->groups < 1 || channels % attrs->groups) {
        return plb_fail(PLB_EINVAL, "group_norm: %lld channels do not split into %lld groups",
                        (long long)channels, (long long)attrs->groups);
    }
    if (attrs->epilogue.activation != PLB_ACT_NONE) {
        return plb_fail(PLB_EUNSUPPORTED, "group_norm takes no epilogue");
    }
    for (int i = 1; i < s->n_in; i++) {
        if (plb_type_absent(&s->in[i])) continue;
        PLB_TRY(plb_norm_expect_vector(&s->in[i], x, &plb_shape_of(channels), "group_norm",
                                       i == 1 ? "gamma" : "beta"));
    }
    s->out[0] = *x;
    return PLB_OK;
}

// x as [N, groups, the rest] and back.
static plb_value grouped(plb_graph *graph, plb_value x, int64_t groups) {
    plb_shape shape = plb_value_shape(graph, x);
    int64_t rest = shape.dim[0] ? plb_shape_count(&shape) / shape.dim[0] / groups : 0;
    return plb_reshape(graph, x, &plb_shape_of(shape.dim[0], groups, rest));
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const int64_t groups = ((const plb_norm_attrs *)plb_node_attrs(graph, node))->groups;
    const double eps = ((const plb_norm_attrs *)plb_node_attrs(graph, node))->eps;
    const int64_t inner = 1 << 2;
    plb_value x = plb_node_in(graph, node, 0), gamma = plb_node_in(graph, node, 1);
    plb_value beta = plb_node_in(graph, node, 2);
    plb_type type = plb_value_type(graph, x);
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    plb_value dy = plb_as_dtype(graph, dout[0], dtype);
    if (beta != PLB_NONE && needed[2]) {
        din[2] = plb_norm_vector(graph, plb_norm_sum(graph, dy), plb_value_type(graph, beta).dtype);
    }
    plb_value wide = plb_as_dtype(graph, x, dtype);
    plb_norm_parts parts = plb_norm_standardise(graph, grouped(graph, wide, groups), inner, eps);
    if (gamma != PLB_NONE && needed[1]) {
        plb_value h = plb_reshape(graph, parts.h, &type.shape);
        din[1] = plb_norm_vector(graph, plb_norm_sum(graph, plb_mul(graph, dy, h)),
                                 plb_value_type(graph, gamma).dtype);
    }
    if (!needed[0]) return;
    if (gamma != PLB_NONE) {
        plb_value scale = plb_as_dtype(graph, gamma, dtype);
        dy = plb_mul(graph, dy, plb_along_channels(graph, scale, type.shape.rank));
    }
    plb_value dx = plb_norm_standardise_grad(graph, &parts, grouped(graph, dy, groups), inner);
    din[0] = plb_as_dtype(graph, plb_reshape(graph, dx, &type.shape), type.dtype);
}

static double flops(const plb_signature *s) {
    return 7.0 * (double)plb_shape_count(&s->in[0].shape);
}

static void normalise_group(const plb_call *call, int64_t n, int64_t first, int64_t channels) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0];
    const plb_tensor *gamma = call->n_in > 1 && call->in[1].data ? &call->in[1] : NULL;
    const plb_tensor *beta = call->n_in > 2 && call->in[2].data ? &call->in[2] : NULL;
    plb_shape group = x->shape;
    group.dim[0] = 1, group.dim[1] = channels;
    double count = (double)plb_shape_count(&group), sum = 0, mean = 0, variance = 0, inv_std = 0;
    for (int pass = 0; pass < 3; pass++) {
        int64_t index[PLB_MAX_RANK] = {0};
        do {
            int64_t at[PLB_MAX_RANK];
            for (int i = 2; i < group.rank; i++) at[i] = index[i];
            at[0] = n, at[1] = first + index[1];
            double value = plb_tensor_load(x, at) - mean; // mean is 0 in the first pass
            if (pass == 0) sum += value;
            if (pass == 1) variance += value * value / count;
            if (pass < 2) continue;
            double y = value * inv_std;
            if (gamma) y *= plb_tensor_load(gamma, &at[1]);
            if (beta) y += plb_tensor_load(beta, &at[1]);
            plb_tensor_store(&call->out[0], at, y);
        } while (plb_index_next(index, group.dim, group.rank));
        if (pass == 0) mean = sum / count;
        if (pass == 1) inv_std = 1 / sqrt(variance + attrs->eps);
    }
}

static plb_status ref(const plb_call *call) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0];
    if (plb_shape_count(&x->shape) == 0) return PLB_OK;
    int64_t channels = x->shape.dim[1] / attrs->groups;
    for (int64_t n = 0; n < x->shape.dim[0]; n++) {
        for (int64_t g = 0; g < attrs->groups; g++) {
            normalise_group(call, n, g * channels, channels);
        }
    }
    return PLB_OK;
}

plb_value plb_group_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                         int64_t groups, double eps) {
    return plb_emit(graph, PLB_OP_group_norm, (plb_value[]){x, gamma, beta}, 3,
                    &(plb_norm_attrs){.eps = eps, .groups = groups});
}

plb_value plb_instance_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                            double eps) {
    plb_shape shape = plb_value_shape(graph, x);
    return plb_group_norm(graph, x, gamma, beta, shape.rank > 1 ? shape.dim[1] : 1, eps);
}

#define ATTRS(...)            \
    &(const plb_norm_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "2-d",
     .in = {PLB_T(2, 6, 3, 4), PLB_T(6), PLB_T(6)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .groups = 3)},
    {.name = "one group",
     .in = {PLB_T(2, 4, 5), PLB_T(4), PLB_T(4)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-3, .groups = 1)},
    {.name = "instance",
     .in = {PLB_T(2, 3, 4, 4), PLB_T(3), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .groups = 3)},
    {.name = "instance, bare",
     .in = {PLB_T(2, 3, 4, 4)},
     .n_in = 1,
     .attrs = ATTRS(.eps = 1e-5, .groups = 3)},
    {.name = "no spatial axes",
     .in = {PLB_T(3, 8), PLB_T(8), PLB_T(8)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .groups = 2)},
    {.name = "3-d, beta alone",
     .in = {PLB_T(1, 4, 2, 3, 2), PLB_T(4), PLB_T(4)},
     .n_in = 3,
     .absent = 1 << 1,
     .attrs = ATTRS(.eps = 1e-5, .groups = 2)},
};

const plb_op plb_op_group_norm = {.name = "group_norm",
                                  .flags = PLB_OP_SPATIAL,
                                  .attrs_bytes = sizeof(plb_norm_attrs),
                                  .min_in = 1,
                                  .max_in = 3,
                                  .infer = infer,
                                  .grad = grad,
                                  .flops = flops,
                                  .ref = ref,
                                  .describe = plb_norm_describe,
                                  PLB_SAMPLES(samples)};
