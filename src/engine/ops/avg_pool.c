// SPDX-License-Identifier: Apache-2.0
// Mean over windows, and its gradient. Zeros of the padding count as elements only with
// count_include_pad; what a window of ceil_mode covers beyond the padding never does.
//
//   avg_pool: x[N,C,…] -> y;  avg_pool_grad: dy -> dx, whose extents the attributes give
//
// Both are linear, and each is the gradient of the other.
#include <string.h>

#include "base/core/status.h"
#include "engine/ops/pool_shape.h"

static plb_status refuse_dilation(const plb_pool_shape *s, const char *op) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        if (s->dilation[i] != 1) return plb_fail(PLB_EUNSUPPORTED, "%s has no dilation", op);
    }
    return PLB_OK;
}

static plb_status avg_infer(plb_signature *s) {
    plb_pool_shape shape;
    PLB_TRY(plb_expect_floats(s, "avg_pool", 0, 0));
    PLB_TRY(plb_pool_shape_of(&s->in[0].shape, s->attrs, "avg_pool", &shape));
    PLB_TRY(refuse_dilation(&shape, "avg_pool"));
    s->out[0] = (plb_type){s->in[0].dtype, plb_pool_y_shape(&shape)};
    return PLB_OK;
}

static plb_status grad_infer(plb_signature *s) {
    plb_pool_shape shape;
    PLB_TRY(plb_expect_floats(s, "avg_pool_grad", 0, 0));
    PLB_TRY(plb_pool_shape_of_grad(&s->in[0].shape, s->attrs, "avg_pool_grad", &shape));
    PLB_TRY(refuse_dilation(&shape, "avg_pool_grad"));
    s->out[0] = (plb_type){s->in[0].dtype, plb_pool_x_shape(&shape)};
    return PLB_OK;
}

static void avg_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                     plb_value *din) {
    if (!needed[0]) return;
    plb_pool_attrs attrs = *(const plb_pool_attrs *)plb_node_attrs(graph, node);
    plb_shape x = plb_value_shape(graph, plb_node_in(graph, node, 0));
    for (int i = 2; i < x.rank; i++) attrs.extent[i - 2] = x.dim[i];
    din[0] = plb_emit(graph, PLB_OP_avg_pool_grad, dout, 1, &attrs);
}

static void grad_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                      plb_value *din) {
    if (needed[0]) din[0] = plb_avg_pool(graph, dout[0], plb_node_attrs(graph, node));
}

static double window_flops(const plb_pool_shape *s) {
    plb_shape y = plb_pool_y_shape(s);
    return (double)plb_shape_count(&y) * (double)(s->kernel[0] * s->kernel[1] * s->kernel[2]);
}

static double avg_flops(const plb_signature *s) {
    plb_pool_shape p;
    return plb_pool_shape_of(&s->in[0].shape, s->attrs, "avg_pool", &p) ? 0 : window_flops(&p);
}

static double grad_flops(const plb_signature *s) {
    plb_pool_shape p;
    bool bad = plb_pool_shape_of_grad(&s->in[0].shape, s->attrs, "avg_pool_grad", &p);
    return bad ? 0 : window_flops(&p);
}

static double window_mean(const plb_tensor *x, const plb_pool_shape *s, int64_t n, int64_t c,
                          const int64_t *out) {
    int64_t tap[PLB_MAX_SPATIAL] = {0}, at[PLB_MAX_SPATIAL];
    double sum = 0;
    do {
        int64_t position = plb_pool_position(s, out, tap);
        if (position < 0) continue;
        plb_pool_unflatten(position, s->in, at);
        sum += plb_spatial_load(x, n, c, at);
    } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    return sum / (double)plb_pool_divisor(s, out);
}

static plb_status avg_ref(const plb_call *call) {
    plb_pool_shape s;
    PLB_TRY(plb_pool_shape_of(&call->in[0].shape, call->attrs, "avg_pool", &s));
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t c = 0; c < s.c; c++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                double mean = window_mean(&call->in[0], &s, n, c, out);
                plb_spatial_store(&call->out[0], n, c, out, mean);
            } while (plb_index_next(out, s.out, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

typedef struct spread {
    const plb_tensor *dy;
    plb_pool_shape shape;
} spread;

static void add_plane(const void *context, int64_t n, int64_t c, double *plane) {
    const plb_pool_shape *s = &((const spread *)context)->shape;
    int64_t out[PLB_MAX_SPATIAL] = {0}, tap[PLB_MAX_SPATIAL] = {0};
    do {
        double share = plb_spatial_load(((const spread *)context)->dy, n, c, out) /
                       (double)plb_pool_divisor(s, out);
        do {
            int64_t position = plb_pool_position(s, out, tap);
            if (position >= 0) plane[position] += share;
        } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    } while (plb_index_next(out, s->out, PLB_MAX_SPATIAL));
}

static plb_status grad_ref(const plb_call *call) {
    spread context = {.dy = &call->in[0]};
    PLB_TRY(
        plb_pool_shape_of_grad(&call->in[0].shape, call->attrs, "avg_pool_grad", &context.shape));
    return plb_pool_spread(&call->out[0], add_plane, &context);
}

plb_value plb_avg_pool(plb_graph *graph, plb_value x, const plb_pool_attrs *attrs) {
    plb_pool_attrs final = plb_pool_attrs_final(attrs, plb_value_shape(graph, x).rank - 2);
    memset(final.extent, 0, sizeof final.extent);
    return plb_emit(graph, PLB_OP_avg_pool, &x, 1, &final);
}

#define ATTRS(...)            \
    &(const plb_pool_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample avg_samples[] = {
    {.name = "2x2",
     .in = {PLB_T(2, 3, 6, 4)},
     .n_in = 1,
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {0})},
    {.name = "3x3 padded, padding counts",
     .in = {PLB_T(2, 2, 5, 6)},
     .n_in = 1,
     .attrs = ATTRS({3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 1, {0})},
    {.name = "3x3 padded, padding does not count",
     .in = {PLB_T(2, 2, 5, 6)},
     .n_in = 1,
     .attrs = ATTRS({3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 0, {0})},
    {.name = "ceil mode, padding counts",
     .in = {PLB_T(1, 2, 6, 7)},
     .n_in = 1,
     .attrs = ATTRS({3, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, 1, {0})},
    {.name = "ceil mode, padding does not count",
     .in = {PLB_T(1, 2, 6, 7)},
     .n_in = 1,
     .attrs = ATTRS({3, 3}, {2, 3}, {0, 1}, {0, 1}, {1, 1}, 1, 0, {0})},
    {.name = "asymmetric padding",
     .in = {PLB_T(1, 2, 5, 5)},
     .n_in = 1,
     .attrs = ATTRS({2, 3}, {1, 2}, {1, 0}, {0, 2}, {1, 1}, 0, 0, {0})},
    {.name = "1-d",
     .in = {PLB_T(2, 3, 9)},
     .n_in = 1,
     .attrs = ATTRS({4}, {3}, {1}, {1}, {1}, 0, 1, {0})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 4, 5, 4)},
     .n_in = 1,
     .attrs = ATTRS({2, 3, 2}, {2, 2, 1}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}, 0, 0, {0})},
};

static const plb_sample grad_samples[] = {
    {.name = "2x2",
     .in = {PLB_T(2, 3, 3, 2)},
     .n_in = 1,
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {6, 4})},
    {.name = "2x2 that skips the last",
     .in = {PLB_T(2, 3, 3, 2)},
     .n_in = 1,
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {7, 5})},
    {.name = "3x3 padded, padding counts",
     .in = {PLB_T(2, 2, 5, 3)},
     .n_in = 1,
     .attrs = ATTRS({3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 1, {5, 6})},
    {.name = "ceil mode, padding does not count",
     .in = {PLB_T(1, 2, 4, 3)},
     .n_in = 1,
     .attrs = ATTRS({3, 3}, {2, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, {6, 7})},
    {.name = "1-d",
     .in = {PLB_T(2, 3, 3)},
     .n_in = 1,
     .attrs = ATTRS({4}, {3}, {1}, {1}, {1}, 0, 1, {9})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 2, 3, 5)},
     .n_in = 1,
     .attrs = ATTRS({2, 3, 2}, {2, 2, 1}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}, 0, 0, {4, 5, 4})},
};

const plb_op plb_op_avg_pool = {.name = "avg_pool",
                                .flags = PLB_OP_SPATIAL,
                                .attrs_bytes = sizeof(plb_pool_attrs),
                                .min_in = 1,
                                .max_in = 1,
                                .infer = avg_infer,
                                .grad = avg_grad,
                                .flops = avg_flops,
                                .ref = avg_ref,
                                .describe = plb_pool_describe,
                                PLB_SAMPLES(avg_samples)};

const plb_op plb_op_avg_pool_grad = {.name = "avg_pool_grad",
                                     .flags = PLB_OP_SPATIAL,
                                     .attrs_bytes = sizeof(plb_pool_attrs),
                                     .min_in = 1,
                                     .max_in = 1,
                                     .infer = grad_infer,
                                     .grad = grad_grad,
                                     .flops = grad_flops,
                                     .ref = grad_ref,
                                     .describe = plb_pool_describe,
                                     PLB_SAMPLES(grad_samples)};
