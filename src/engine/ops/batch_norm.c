// SPDX-License-Identifier: Apache-2.0
// Batch normalisation in training (Ioffe, Szegedy 2015):
//
//   y = act((x - mean) inv_std gamma + beta + residual)
//
// with the statistics of this batch, which are outputs too: the gradient and the running averages
// need them. Inputs x[N,C,…], gamma[C], beta[C], residual like x or none.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/norm.h"

static plb_status batch_norm_infer(plb_signature *s) {
    const plb_norm_attrs *attrs = s->attrs;
    const plb_type *x = &s->in[0];
    PLB_TRY(plb_norm_expect_x(x, "batch_norm"));
    PLB_TRY(plb_expect_epilogue(&attrs->epilogue, "batch_norm"));
    plb_shape channels = plb_shape_of(x->shape.dim[1]);
    PLB_TRY(plb_norm_expect_vector(&s->in[1], x, &channels, "batch_norm", "gamma"));
    PLB_TRY(plb_norm_expect_vector(&s->in[2], x, &channels, "batch_norm", "beta"));
    if (s->n_in > 3 && !plb_type_absent(&s->in[3])) {
        PLB_TRY(plb_expect_floats(&(plb_signature){.n_in = 2, .in = (plb_type[]){*x, s->in[3]}},
                                  "batch_norm", 0, 1));
        PLB_TRY(plb_expect_shape(&s->in[3], &x->shape, "batch_norm", "residual"));
    }
    if (plb_norm_count(&x->shape) == 0) {
        return plb_fail(PLB_EINVAL, "batch_norm: an empty batch has no statistics");
    }
    s->n_out = 3;
    s->out[0] = *x;
    s->out[1] = s->out[2] = (plb_type){plb_statistics_dtype(x->dtype), channels};
    return PLB_OK;
}

// What flows back through the statistics themselves, where something uses them:
// d mean / dx = 1 / m, d inv_std / dx = -inv_std^3 (x - mean) / m.
static plb_value through_statistics(plb_graph *graph, int node, plb_value dmean, plb_value dinv) {
    plb_value x = plb_node_in(graph, node, 0);
    plb_type type = plb_value_type(graph, x);
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    int rank = type.shape.rank;
    double m = (double)plb_norm_count(&type.shape);
    plb_value dx = PLB_NONE;
    if (dmean != PLB_NONE) {
        plb_value each = plb_along_channels(graph, plb_affine(graph, dmean, 1 / m, 0), rank);
        dx = plb_expand(graph, each, &type.shape);
    }
    if (dinv != PLB_NONE) {
        plb_value mean = plb_along_channels(graph, plb_node_out(graph, node, 1), rank);
        plb_value r = plb_node_out(graph, node, 2);
        plb_value cube = plb_mul(graph, plb_mul(graph, r, r), r);
        plb_value factor = plb_mul(graph, plb_affine(graph, cube, -1 / m, 0), dinv);
        plb_value centred = plb_sub(graph, plb_as_dtype(graph, x, dtype), mean);
        plb_value part = plb_mul(graph, centred, plb_along_channels(graph, factor, rank));
        dx = plb_norm_plus(graph, dx, part);
    }
    return dx == PLB_NONE ? dx : plb_as_dtype(graph, dx, type.dtype);
}

static void batch_norm_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                            plb_value *din) {
    const plb_norm_attrs attrs = *(const plb_norm_attrs *)plb_node_attrs(graph, node);
    bool residual = plb_node_in(graph, node, 3) != PLB_NONE && needed[3];
    if (attrs.epilogue.activation > PLB_ACT_RELU) {
        plb_graph_fail(graph,
                       plb_fail(PLB_EUNSUPPORTED, "batch_norm: gradients come before fusion"));
        return;
    }
    if (dout[0] != PLB_NONE) {
        bool relu = attrs.epilogue.activation == PLB_ACT_RELU;
        plb_norm_attrs back = {.masked = relu && residual};
        plb_value in[] = {plb_node_in(graph, node, 0),  dout[0],
                          plb_node_in(graph, node, 1),  plb_node_out(graph, node, 1),
                          plb_node_out(graph, node, 2), plb_node_out(graph, node, 0)};
        plb_value grads = plb_emit(graph, PLB_OP_batch_norm_grad, in, relu ? 6 : 5, &back);
        if (grads == PLB_NONE) return;
        plb_dtype beta = plb_value_type(graph, plb_node_in(graph, node, 2)).dtype;
        for (int i = 0; i < 3; i++) din[i] = needed[i] ? grads + i : PLB_NONE;
        if (needed[2]) din[2] = plb_as_dtype(graph, din[2], beta);
        if (residual) din[3] = relu ? grads + 3 : dout[0];
    }
    if (needed[0]) {
        plb_value more = through_statistics(graph, node, dout[1], dout[2]);
        din[0] = plb_norm_plus(graph, din[0], more);
    }
}

static double batch_norm_flops(const plb_signature *s) {
    return 7.0 * (double)plb_shape_count(&s->in[0].shape); // 3 for the statistics, 4 to apply them
}

// Mean and variance of channel c, in two passes.
static void channel_statistics(const plb_tensor *x, int64_t c, double *mean, double *variance) {
    int64_t count = plb_norm_count(&x->shape);
    plb_shape channel = x->shape;
    channel.dim[1] = 1;
    *mean = *variance = 0;
    for (int pass = 0; pass < 2; pass++) {
        int64_t index[PLB_MAX_RANK] = {0};
        double sum = 0;
        do {
            int64_t at[PLB_MAX_RANK];
            for (int i = 0; i < channel.rank; i++) at[i] = i == 1 ? c : index[i];
            double value = plb_tensor_load(x, at);
            sum += pass ? (value - *mean) * (value - *mean) : value;
        } while (plb_index_next(index, channel.dim, channel.rank));
        *(pass ? variance : mean) = sum / (double)count;
    }
}

static plb_status batch_norm_ref(const plb_call *call) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0], *gamma = &call->in[1], *beta = &call->in[2];
    const plb_tensor *residual = call->n_in > 3 && call->in[3].data ? &call->in[3] : NULL;
    const plb_tensor *y = &call->out[0];
    plb_shape channel = x->shape;
    channel.dim[1] = 1;
    for (int64_t c = 0; c < x->shape.dim[1]; c++) {
        double mean, variance;
        channel_statistics(x, c, &mean, &variance);
        double inv_std = 1 / sqrt(variance + attrs->eps);
        double scale = inv_std * plb_tensor_load(gamma, &c), shift = plb_tensor_load(beta, &c);
        int64_t index[PLB_MAX_RANK] = {0};
        do {
            int64_t at[PLB_MAX_RANK];
            for (int i = 0; i < channel.rank; i++) at[i] = i == 1 ? c : index[i];
            double value = (plb_tensor_load(x, at) - mean) * scale + shift;
            if (residual) value += plb_tensor_load(residual, at);
            plb_tensor_store(y, at, plb_activate(&attrs->epilogue, value));
        } while (plb_index_next(index, channel.dim, channel.rank));
        plb_tensor_store(&call->out[1], &c, mean);
        plb_tensor_store(&call->out[2], &c, inv_std);
    }
    return PLB_OK;
}

plb_value plb_batch_norm(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                         double eps) {
    gamma = plb_norm_default(graph, gamma, x, 1);
    beta = plb_norm_default(graph, beta, x, 0);
    return plb_emit(graph, PLB_OP_batch_norm, (plb_value[]){x, gamma, beta}, 3,
                    &(plb_norm_attrs){.eps = eps});
}

#define ATTRS(...)            \
    &(const plb_norm_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "2-d",
     .in = {PLB_T(2, 3, 4, 5), PLB_T(3), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5)},
    {.name = "no spatial axes",
     .in = {PLB_T(6, 5), PLB_T(5), PLB_T(5)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-3)},
    {.name = "1-d, far from zero",
     .in = {PLB_T(2, 4, 7), PLB_T(4), PLB_T(4)},
     .n_in = 3,
     .low = {9, -1, -1},
     .high = {11, 1, 1},
     .attrs = ATTRS(.eps = 1e-5)},
    {.name = "3-d, one sample",
     .in = {PLB_T(1, 2, 3, 4, 2), PLB_T(2), PLB_T(2)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5)},
    {.name = "residual",
     .in = {PLB_T(2, 3, 4, 2), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 2)},
     .n_in = 4,
     .attrs = ATTRS(.eps = 1e-5)},
    {.name = "residual and relu",
     .no_gradient = true,
     .in = {PLB_T(2, 3, 4, 2), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 2)},
     .n_in = 4,
     .attrs = ATTRS(.eps = 1e-5, .epilogue = {.activation = PLB_ACT_RELU})},
    {.name = "relu",
     .no_gradient = true,
     .in = {PLB_T(2, 3, 3, 3), PLB_T(3), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .epilogue = {.activation = PLB_ACT_RELU})},
    {.name = "clamp",
     .no_gradient = true,
     .in = {PLB_T(2, 3, 3, 3), PLB_T(3), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .epilogue = {PLB_ACT_CLAMP, -0.5, 0.5})},
    {.name = "silu",
     .no_gradient = true,
     .in = {PLB_T(2, 3, 3, 3), PLB_T(3), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS(.eps = 1e-5, .epilogue = {.activation = PLB_ACT_SILU})},
};

const plb_op plb_op_batch_norm = {.name = "batch_norm",
                                  .flags = PLB_OP_SPATIAL,
                                  .attrs_bytes = sizeof(plb_norm_attrs),
                                  .min_in = 3,
                                  .max_in = 4,
                                  .spatial_in = 1 << 0 | 1 << 3,
                                  .spatial_out = 1 << 0,
                                  .overwrites = {{3, 0}},
                                  .n_overwrites = 1,
                                  .infer = batch_norm_infer,
                                  .grad = batch_norm_grad,
                                  .flops = batch_norm_flops,
                                  .ref = batch_norm_ref,
                                  .describe = plb_norm_describe,
                                  PLB_SAMPLES(samples)};
