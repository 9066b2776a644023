// SPDX-License-Identifier: Apache-2.0
// The gradient of batch_norm: x, dy, gamma, mean, inv_std and, where a relu was fused behind the
// normalisation, its y -> dx, dgamma, dbeta and, if asked for, the masked dy (it is the gradient
// of a fused residual). In place of y the seventh input may be beta, which tells the sign of y
// where there was no residual. Where the attributes name another activation than ReLU, beta must be
// given: dy is multiplied by the activation's slope at h gamma + beta. An eighth input is added to
// dy before the mask: the gradient of a residual that comes from two sides. With
// h = (x - mean) inv_std, m elements a channel and sums over a channel:
//
//   dbeta = sum dy,  dgamma = sum dy h,  dx = gamma inv_std (dy - dbeta / m - h dgamma / m)
#include "base/core/status.h"
#include "engine/ops/norm.h"

enum { Y = 5, BETA = 6, MORE = 7 };

static plb_status infer(plb_signature *s) {
    const plb_norm_attrs *attrs = s->attrs;
    const char *op = "batch_norm_grad";
    const plb_type *x = &s->in[0];
    PLB_TRY(plb_norm_expect_x(x, op));
    bool mask = s->n_in > Y && !plb_type_absent(&s->in[Y]);
    bool beta = s->n_in > BETA && !plb_type_absent(&s->in[BETA]);
    plb_type like_x[] = {*x, s->in[1], mask ? s->in[Y] : *x};
    PLB_TRY(plb_expect_floats(&(plb_signature){.n_in = 3, .in = like_x}, op, 0, 2));
    PLB_TRY(plb_expect_shape(&like_x[1], &x->shape, op, "dy"));
    PLB_TRY(plb_expect_shape(&like_x[2], &x->shape, op, "y"));
    plb_shape channels = plb_shape_of(x->shape.dim[1]);
    PLB_TRY(plb_norm_expect_vector(&s->in[2], x, &channels, op, "gamma"));
    PLB_TRY(plb_norm_expect_vector(&s->in[3], x, &channels, op, "mean"));
    PLB_TRY(plb_norm_expect_vector(&s->in[4], x, &channels, op, "inv_std"));
    if (beta) PLB_TRY(plb_norm_expect_vector(&s->in[BETA], x, &channels, op, "beta"));
    PLB_TRY(plb_expect_epilogue(&attrs->epilogue, op));
    if (attrs->epilogue.activation > PLB_ACT_RELU && (!beta || attrs->masked)) {
        return plb_fail(PLB_EINVAL, "%s: an activation other than relu needs beta, no mask", op);
    }
    if (s->n_in > MORE && !plb_type_absent(&s->in[MORE])) {
        if (!attrs->masked) return plb_fail(PLB_EINVAL, "%s: two dy need a masked one", op);
        like_x[1] = s->in[MORE];
        PLB_TRY(plb_expect_floats(&(plb_signature){.n_in = 2, .in = like_x}, op, 0, 1));
        PLB_TRY(plb_expect_shape(&like_x[1], &x->shape, op, "the second dy"));
    }
    if (mask && beta) return plb_fail(PLB_EINVAL, "%s: expected y or beta, found both", op);
    if (attrs->masked && !mask && !beta) {
        return plb_fail(PLB_EINVAL, "%s: a masked dy needs y or beta", op);
    }
    s->n_out = attrs->masked ? 4 : 3;
    s->out[0] = *x;
    s->out[1] = s->out[2] = s->in[2];
    if (attrs->masked) s->out[3] = *x;
    return PLB_OK;
}

// The parts of the second derivative, [1,C,1,…] or like x, in the dtype of statistics.
typedef struct parts {
    plb_graph *graph;
    double m;
    plb_value y;              // or what has its sign, PLB_NONE: no relu
    plb_value centred, h, dy; // x - mean, times inv_std, masked
    plb_value gamma, r;       // [C,1,…]
    plb_value d_dy, d_h;      // gradients so far, PLB_NONE: none
    plb_value d_gamma, d_r;   // [1,C,1,…]
} parts;

// From u, the gradient of dx: with J = sum u dy - sum u sum dy / m - sum u h sum dy h / m the loss
// has the part gamma inv_std J.
static void through_dx(parts *p, plb_value u) {
    plb_graph *g = p->graph;
    plb_value gr = plb_mul(g, p->gamma, p->r);
    plb_value sum_u = plb_norm_sum(g, u), sum_uh = plb_norm_sum(g, plb_mul(g, u, p->h));
    plb_value sum_dy = plb_norm_sum(g, p->dy), sum_dyh = plb_norm_sum(g, plb_mul(g, p->dy, p->h));
    plb_value means = plb_add(g, sum_u, plb_mul(g, p->h, sum_uh));
    plb_value inner = plb_sub(g, u, plb_affine(g, means, 1 / p->m, 0));
    p->d_dy = plb_norm_plus(g, p->d_dy, plb_mul(g, gr, inner));

    plb_value cross = plb_add(g, plb_mul(g, u, sum_dyh), plb_mul(g, p->dy, sum_uh));
    p->d_h = plb_norm_plus(g, p->d_h, plb_mul(g, plb_affine(g, gr, -1 / p->m, 0), cross));

    plb_value products = plb_add(g, plb_mul(g, sum_u, sum_dy), plb_mul(g, sum_uh, sum_dyh));
    plb_value j =
        plb_sub(g, plb_norm_sum(g, plb_mul(g, u, p->dy)), plb_affine(g, products, 1 / p->m, 0));
    p->d_gamma = plb_mul(g, p->r, j);
    p->d_r = plb_mul(g, p->gamma, j);
}

static void through_dgamma(parts *p, plb_value v) {
    p->d_dy = plb_norm_plus(p->graph, p->d_dy, plb_mul(p->graph, p->h, v));
    p->d_h = plb_norm_plus(p->graph, p->d_h, plb_mul(p->graph, p->dy, v));
}

// y, or what has its sign; PLB_NONE where there was no relu.
static plb_value sign_of_y(plb_graph *graph, int node) {
    plb_value x = plb_node_in(graph, node, 0), beta = plb_node_in(graph, node, BETA);
    if (beta == PLB_NONE) return plb_node_in(graph, node, Y);
    const int rank = plb_value_shape(graph, x).rank;
    plb_value vector[5];
    for (int i = 2; i < 5; i++) {
        vector[i] = plb_along_channels(graph, plb_node_in(graph, node, i), rank);
    }
    plb_value h = plb_mul(graph, plb_sub(graph, x, vector[3]), vector[4]);
    return plb_add(graph, plb_mul(graph, h, vector[2]), plb_along_channels(graph, beta, rank));
}

static parts parts_of(plb_graph *graph, int node) {
    plb_type type = plb_value_type(graph, plb_node_in(graph, node, 0));
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    plb_value in[5], y = sign_of_y(graph, node);
    for (int i = 0; i < 5; i++) {
        in[i] = plb_node_in(graph, node, i);
        if (i == 1 && y != PLB_NONE) in[i] = plb_relu_grad(graph, in[i], y);
        in[i] = plb_as_dtype(graph, in[i], dtype);
        if (i >= 2) in[i] = plb_along_channels(graph, in[i], type.shape.rank);
    }
    parts p = {.graph = graph, .y = y, .dy = in[1], .gamma = in[2], .r = in[4]};
    p.m = (double)plb_norm_count(&type.shape);
    p.centred = plb_sub(graph, in[0], in[3]);
    p.h = plb_mul(graph, p.centred, p.r);
    p.d_dy = p.d_h = p.d_gamma = p.d_r = PLB_NONE;
    return p;
}

// The gradient of dy. It lacks extents when only dbeta's flowed back.
static plb_value finish_dy(parts *p, int node) {
    if (p->d_dy == PLB_NONE) return PLB_NONE;
    plb_value dy = plb_node_in(p->graph, node, 1), y = p->y;
    plb_type type = plb_value_type(p->graph, dy);
    plb_shape shape = plb_value_shape(p->graph, p->d_dy);
    plb_value d = p->d_dy;
    if (!plb_shape_equal(&shape, &type.shape)) d = plb_expand(p->graph, d, &type.shape);
    d = plb_as_dtype(p->graph, d, type.dtype);
    return y == PLB_NONE ? d : plb_relu_grad(p->graph, d, y);
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    const plb_norm_attrs *attrs = plb_node_attrs(graph, node);
    const bool two = plb_node_in(graph, node, MORE) != PLB_NONE;
    if (two || attrs->epilogue.activation > PLB_ACT_RELU) {
        plb_graph_fail(graph,
                       plb_fail(PLB_EUNSUPPORTED, "batch_norm_grad: gradients come before fusion"));
        return;
    }
    parts p = parts_of(graph, node);
    plb_type type = plb_value_type(graph, plb_node_in(graph, node, 0));
    plb_dtype dtype = plb_statistics_dtype(type.dtype);
    if (dout[0] != PLB_NONE) through_dx(&p, plb_as_dtype(graph, dout[0], dtype));
    for (int i = 1; i <= 2; i++) {
        if (dout[i] == PLB_NONE) continue;
        plb_value v = plb_as_dtype(graph, dout[i], dtype);
        v = plb_along_channels(graph, v, type.shape.rank);
        if (i == 1) {
            through_dgamma(&p, v);
        } else {
            p.d_dy = plb_norm_plus(graph, p.d_dy, v);
        }
    }
    if (attrs->masked && dout[3] != PLB_NONE) {
        p.d_dy = plb_norm_plus(graph, p.d_dy, plb_as_dtype(graph, dout[3], dtype));
    }
    if (needed[1]) din[1] = finish_dy(&p, node);
    plb_dtype of[5];
    for (int i = 0; i < 5; i++) of[i] = plb_value_type(graph, plb_node_in(graph, node, i)).dtype;
    if (needed[2]) din[2] = plb_norm_vector(graph, p.d_gamma, of[2]);
    if (p.d_h == PLB_NONE) return;
    plb_value d_centred = plb_mul(graph, p.d_h, p.r);
    plb_value d_r = plb_norm_sum(graph, plb_mul(graph, p.d_h, p.centred));
    if (needed[0]) din[0] = plb_as_dtype(graph, d_centred, type.dtype);
    if (needed[3]) {
        din[3] = plb_norm_vector(graph, plb_neg(graph, plb_norm_sum(graph, d_centred)), of[3]);
    }
    if (needed[4]) din[4] = plb_norm_vector(graph, plb_norm_plus(graph, p.d_r, d_r), of[4]);
}

static double flops(const plb_signature *s) {
    return 11.0 * (double)plb_shape_count(&s->in[0].shape); // 5 for the sums, 6 for dx
}

// Of the activation, which is ReLU where none is named.
static double slope_at(const plb_norm_attrs *attrs, double u) {
    const bool named = attrs->epilogue.activation != PLB_ACT_NONE;
    return named ? plb_activate_slope(&attrs->epilogue, u) : u > 0;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *dy = &call->in[1];
    const plb_tensor *y = call->n_in > Y && call->in[Y].data ? &call->in[Y] : NULL;
    const plb_tensor *betas = call->n_in > BETA && call->in[BETA].data ? &call->in[BETA] : NULL;
    const plb_tensor *more = call->n_in > MORE && call->in[MORE].data ? &call->in[MORE] : NULL;
    plb_shape channel = x->shape;
    channel.dim[1] = 1;
    double m = (double)plb_norm_count(&x->shape);
    for (int64_t c = 0; c < x->shape.dim[1]; c++) {
        double gamma = plb_tensor_load(&call->in[2], &c), mean = plb_tensor_load(&call->in[3], &c);
        double inv_std = plb_tensor_load(&call->in[4], &c), dgamma = 0, dbeta = 0;
        double beta = betas ? plb_tensor_load(betas, &c) : 0;
        for (int pass = 0; pass < 2; pass++) {
            int64_t index[PLB_MAX_RANK] = {0};
            do {
                int64_t at[PLB_MAX_RANK];
                for (int i = 0; i < channel.rank; i++) at[i] = i == 1 ? c : index[i];
                double h = (plb_tensor_load(x, at) - mean) * inv_std;
                double d = plb_tensor_load(dy, at) + (more ? plb_tensor_load(more, at) : 0);
                if (betas) d *= slope_at(call->attrs, h * gamma + beta);
                if (y && !(plb_tensor_load(y, at) > 0)) d = 0;
                if (pass == 0) {
                    dbeta += d, dgamma += d * h;
                } else {
                    double dx = gamma * inv_std * (d - dbeta / m - h * dgamma / m);
                    plb_tensor_store(&call->out[0], at, dx);
                    if (call->n_out > 3) plb_tensor_store(&call->out[3], at, d);
                }
            } while (plb_index_next(index, channel.dim, channel.rank));
        }
        plb_tensor_store(&call->out[1], &c, dgamma);
        plb_tensor_store(&call->out[2], &c, dbeta);
    }
    return PLB_OK;
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
     .attrs = ATTRS(0),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3)}},
    {.name = "no spatial axes",
     POSITIVE,
     .n_in = 5,
     .attrs = ATTRS(0),
     .in = {PLB_T(6, 5), PLB_T(6, 5), PLB_T(5), PLB_T(5), PLB_T(5)}},
    {.name = "3-d, one sample",
     POSITIVE,
     .n_in = 5,
     .attrs = ATTRS(0),
     .in = {PLB_T(1, 2, 3, 2, 2), PLB_T(1, 2, 3, 2, 2), PLB_T(2), PLB_T(2), PLB_T(2)}},
    {.name = "relu",
     POSITIVE,
     .n_in = 6,
     .attrs = ATTRS(0),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3)}},
    {.name = "relu, known by beta",
     POSITIVE,
     .n_in = 7,
     .absent = 1 << Y,
     .attrs = ATTRS(0),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3),
            PLB_T(3)}},
    {.name = "clamp",
     POSITIVE,
     .n_in = 7,
     .absent = 1 << Y,
     .no_gradient = true,
     .attrs = ATTRS(.epilogue = {PLB_ACT_CLAMP, -0.5, 0.75}),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3),
            PLB_T(3)}},
    {.name = "silu",
     POSITIVE,
     .n_in = 7,
     .absent = 1 << Y,
     .no_gradient = true,
     .attrs = ATTRS(.epilogue = {.activation = PLB_ACT_SILU}),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3),
            PLB_T(3)}},
    {.name = "relu and residual",
     POSITIVE,
     .n_in = 6,
     .attrs = ATTRS(.masked = 1),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3)}},
    {.name = "relu and residual, two gradients",
     POSITIVE,
     .n_in = 8,
     .absent = 1 << BETA,
     .no_gradient = true,
     .attrs = ATTRS(.masked = 1),
     .in = {PLB_T(2, 3, 4, 3), PLB_T(2, 3, 4, 3), PLB_T(3), PLB_T(3), PLB_T(3), PLB_T(2, 3, 4, 3),
            PLB_T(3), PLB_T(2, 3, 4, 3)}},
};

const plb_op plb_op_batch_norm_grad = {.name = "batch_norm_grad",
                                       .flags = PLB_OP_SPATIAL,
                                       .attrs_bytes = sizeof(plb_norm_attrs),
                                       .min_in = 5,
                                       .max_in = 8,
                                       .spatial_in = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 7,
                                       .spatial_out = 1 << 0 | 1 << 3,
                                       .infer = infer,
                                       .grad = grad,
                                       .flops = flops,
                                       .ref = ref,
                                       .describe = plb_norm_describe,
                                       PLB_SAMPLES(samples)};
