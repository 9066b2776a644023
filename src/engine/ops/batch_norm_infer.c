// SPDX-License-Identifier: Apache-2.0
// Batch normalisation with statistics that are given, as in inference:
//
//   y = act((x - mean) / sqrt(variance + eps) gamma + beta + residual)
//
// Inputs x[N,C,…], gamma[C], beta[C], mean[C], variance[C], residual like x or none.
#include <math.h>

#include "base/core/status.h"
#include "engine/ops/norm.h"

static plb_status infer(plb_signature *s) {
    static const char *const names[] = {"x", "gamma", "beta", "mean", "variance"};
    const plb_norm_attrs *attrs = s->attrs;
    const char *op = "batch_norm_infer";
    const plb_type *x = &s->in[0];
    PLB_TRY(plb_norm_expect_x(x, op));
    PLB_TRY(plb_expect_epilogue(&attrs->epilogue, op));
    plb_shape channels = plb_shape_of(x->shape.dim[1]);
    for (int i = 1; i < 5; i++) {
        PLB_TRY(plb_norm_expect_vector(&s->in[i], x, &channels, op, names[i]));
    }
    if (s->n_in > 5 && !plb_type_absent(&s->in[5])) {
        PLB_TRY(plb_expect_floats(&(plb_signature){.n_in = 2, .in = (plb_type[]){*x, s->in[5]}}, op,
                                  0, 1));
        PLB_TRY(plb_expect_shape(&s->in[5], &x->shape, op, "residual"));
    }
    s->out[0] = *x;
    return PLB_OK;
}

// With r = 1 / sqrt(variance + eps), c = x - mean and sums over a channel: dx = dy gamma r,
// dgamma = r sum dy c, dbeta = sum dy, dmean = -gamma r sum dy,
// dvariance = -gamma r^3 / 2 sum dy c.
static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_norm_attrs attrs = *(const plb_norm_attrs *)plb_node_attrs(graph, node);
    if (attrs.epilogue.activation != PLB_ACT_NONE) {
        plb_graph_fail(
            graph, plb_fail(PLB_EUNSUPPORTED, "batch_norm_infer: gradients come before fusion"));
        return;
    }
    plb_type type = plb_value_type(graph, plb_node_in(graph, node, 0));
    plb_dtype dtype = plb_statistics_dtype(type.dtype), of[5];
    plb_value in[5], dy = plb_as_dtype(graph, dout[0], dtype);
    for (int i = 0; i < 5; i++) {
        plb_value value = plb_node_in(graph, node, i);
        of[i] = plb_value_type(graph, value).dtype;
        in[i] = plb_as_dtype(graph, value, dtype);
        if (i > 0) in[i] = plb_along_channels(graph, in[i], type.shape.rank);
    }
    plb_value r = plb_rsqrt(graph, plb_affine(graph, in[4], 1, attrs.eps));
    plb_value scale = plb_mul(graph, in[1], r);
    if (needed[0]) din[0] = plb_as_dtype(graph, plb_mul(graph, dy, scale), type.dtype);
    plb_value sum = plb_norm_sum(graph, dy);
    if (needed[2]) din[2] = plb_norm_vector(graph, sum, of[2]);
    if (needed[3]) {
        din[3] = plb_norm_vector(graph, plb_neg(graph, plb_mul(graph, sum, scale)), of[3]);
    }
    if (plb_node_in(graph, node, 5) != PLB_NONE && needed[5]) din[5] = dout[0];
    if (!needed[1] && !needed[4]) return;
    plb_value centred = plb_sub(graph, in[0], in[3]);
    plb_value dot = plb_norm_sum(graph, plb_mul(graph, dy, centred));
    if (needed[1]) din[1] = plb_norm_vector(graph, plb_mul(graph, dot, r), of[1]);
    if (needed[4]) {
        plb_value cube = plb_mul(graph, scale, plb_mul(graph, r, r));
        plb_value d = plb_mul(graph, dot, plb_affine(graph, cube, -0.5, 0));
        din[4] = plb_norm_vector(graph, d, of[4]);
    }
}

static double flops(const plb_signature *s) {
    return 2.0 * (double)plb_shape_count(&s->in[0].shape); // scale and shift once a channel
}

static plb_status ref(const plb_call *call) {
    const plb_norm_attrs *attrs = call->attrs;
    const plb_tensor *x = &call->in[0];
    const plb_tensor *residual = call->n_in > 5 && call->in[5].data ? &call->in[5] : NULL;
    if (plb_shape_count(&x->shape) == 0) return PLB_OK;
    int64_t index[PLB_MAX_RANK] = {0};
    do {
        const int64_t *c = &index[1];
        double gamma = plb_tensor_load(&call->in[1], c), beta = plb_tensor_load(&call->in[2], c);
        double mean = plb_tensor_load(&call->in[3], c);
        double variance = plb_tensor_load(&call->in[4], c);
        double y = plb_tensor_load(x, index) - mean;
        y = y / sqrt(variance + attrs->eps) * gamma + beta;
        if (residual) y += plb_tensor_load(residual, index);
        plb_tensor_store(&call->out[0], index, plb_activate(&attrs->epilogue, y));
    } while (plb_index_next(index, x->shape.dim, x->shape.rank));
    return PLB_OK;
}

plb_value plb_batch_norm_infer(plb_graph *graph, plb_value x, plb_value gamma, plb_value beta,
                               plb_value mean, plb_value variance, double eps) {
    gamma = plb_norm_default(graph, gamma, x, 1);
    beta = plb_norm_default(graph, beta, x, 0);
    return plb_emit(graph, PLB_OP_batch_norm_infer, (plb_value[]){x, gamma, beta, mean, variance},
                    5, &(plb_norm_attrs){.eps = eps});
}

#define ATTRS(...)            \
    &(const plb_norm_attrs) { \
        __VA_ARGS__           \
    }
#define POSITIVE .low = {-1, -1, -1, -1, 0.5, -1}, .high = {1, 1, 1, 1, 2, 1}
static const plb_sample samples[] = {
    {.name = "2-d",
     POSITIVE,
     .n_in = 5,
     .attrs = ATTRS(.eps = 1e-5),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(3)}},
    {.name = "no spatial axes",
     POSITIVE,
     .n_in = 5,
     .attrs = ATTRS(.eps = 1e-3),
     .in = {PLB_T(6, 5), PLB_T(5), PLB_T(5), PLB_T(5), PLB_T(5)}},
    {.name = "3-d",
     POSITIVE,
     .n_in = 5,
     .attrs = ATTRS(.eps = 1e-5),
     .in = {PLB_T(1, 2, 3, 2, 4), PLB_T(2), PLB_T(2), PLB_T(2), PLB_T(2)}},
    {.name = "residual",
     POSITIVE,
     .n_in = 6,
     .attrs = ATTRS(.eps = 1e-5),
     .in = {PLB_T(2, 3, 5), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 5)}},
    {.name = "residual and relu",
     POSITIVE,
     .n_in = 6,
     .no_gradient = true,
     .attrs = ATTRS(.eps = 1e-5, .epilogue = {.activation = PLB_ACT_RELU}),
     .in = {PLB_T(2, 3, 5), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 5)}},
};

const plb_op plb_op_batch_norm_infer = {.name = "batch_norm_infer",
                                        .flags = PLB_OP_SPATIAL,
                                        .attrs_bytes = sizeof(plb_norm_attrs),
                                        .min_in = 5,
                                        .max_in = 6,
                                        .spatial_in = 1 << 0 | 1 << 5,
                                        .spatial_out = 1 << 0,
                                        .overwrites = {{0, 0}, {5, 0}},
                                        .n_overwrites = 2,
                                        .infer = infer,
                                        .grad = grad,
                                        .flops = flops,
                                        .ref = ref,
                                        .describe = plb_norm_describe,
                                        PLB_SAMPLES(samples)};
