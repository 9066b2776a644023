// SPDX-License-Identifier: Apache-2.0
// Mean over windows that are derived from the extents, and its gradient: along an axis window i of
// `out` covers [floor(i in / out), ceil((i + 1) in / out)). The attributes' extents are those of
// what comes out.
//
//   adaptive_avg_pool: x[N,C,…] -> y;  adaptive_avg_pool_grad: dy -> dx
#include "base/core/status.h"
#include "engine/ops/pool_shape.h"

static plb_status infer_either(plb_signature *s, const char *op) {
    const plb_pool_attrs *attrs = s->attrs;
    PLB_TRY(plb_expect_floats(s, op, 0, 0));
    PLB_TRY(plb_expect_spatial(&s->in[0], op));
    s->out[0] = s->in[0];
    for (int i = 2; i < s->in[0].shape.rank; i++) {
        s->out[0].shape.dim[i] = attrs->extent[i - 2];
        if (attrs->extent[i - 2] >= 1 && s->in[0].shape.dim[i] >= 1) continue;
        return plb_fail(PLB_EINVAL, "%s: axis %d: extents %lld and %lld", op, i - 2,
                        (long long)s->in[0].shape.dim[i], (long long)attrs->extent[i - 2]);
    }
    return PLB_OK;
}

static plb_status avg_infer(plb_signature *s) {
    return infer_either(s, "adaptive_avg_pool");
}

static plb_status grad_infer(plb_signature *s) {
    return infer_either(s, "adaptive_avg_pool_grad");
}

static void grad_of_either(plb_graph *graph, int node, plb_op_id other, const plb_value *dout,
                           const bool *needed, plb_value *din) {
    if (!needed[0]) return;
    plb_pool_attrs attrs = {0};
    plb_shape shape = plb_value_shape(graph, plb_node_in(graph, node, 0));
    for (int i = 2; i < shape.rank; i++) attrs.extent[i - 2] = shape.dim[i];
    din[0] = plb_emit(graph, other, dout, 1, &attrs);
}

static void avg_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                     plb_value *din) {
    grad_of_either(graph, node, PLB_OP_adaptive_avg_pool_grad, dout, needed, din);
}

static void grad_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                      plb_value *din) {
    grad_of_either(graph, node, PLB_OP_adaptive_avg_pool, dout, needed, din);
}

// One for each element of each window.
static double flops_between(const plb_shape *x, const plb_shape *y) {
    double flops = (double)(x->dim[0] * x->dim[1]);
    for (int i = 2; i < x->rank; i++) {
        int64_t covered = 0, begin, end;
        for (int64_t o = 0; o < y->dim[i]; o++) {
            plb_pool_adaptive_window(o, x->dim[i], y->dim[i], &begin, &end);
            covered += end - begin;
        }
        flops *= (double)covered;
    }
    return flops;
}

static double avg_flops(const plb_signature *s) {
    return flops_between(&s->in[0].shape, &s->out[0].shape);
}

static double grad_flops(const plb_signature *s) {
    return flops_between(&s->out[0].shape, &s->in[0].shape);
}

// Begin and size of window `out` along the three axes; the number of its elements.
static double window_of(const int64_t *out, const int64_t *in, const int64_t *extent,
                        int64_t *begin, int64_t *size) {
    double count = 1;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t end;
        plb_pool_adaptive_window(out[i], in[i], extent[i], &begin[i], &end);
        size[i] = end - begin[i];
        count *= (double)size[i];
    }
    return count;
}

static plb_status avg_ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL];
    plb_spatial_extents(&x->shape, in);
    plb_spatial_extents(&y->shape, extent);
    for (int64_t n = 0; n < y->shape.dim[0]; n++) {
        for (int64_t c = 0; c < y->shape.dim[1]; c++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                int64_t begin[PLB_MAX_SPATIAL], size[PLB_MAX_SPATIAL], tap[PLB_MAX_SPATIAL] = {0};
                double count = window_of(out, in, extent, begin, size), sum = 0;
                do {
                    int64_t at[] = {begin[0] + tap[0], begin[1] + tap[1], begin[2] + tap[2]};
                    sum += plb_spatial_load(x, n, c, at);
                } while (plb_index_next(tap, size, PLB_MAX_SPATIAL));
                plb_spatial_store(y, n, c, out, sum / count);
            } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

static void add_plane(const void *context, int64_t n, int64_t c, double *plane) {
    const plb_call *call = context;
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL], out[PLB_MAX_SPATIAL] = {0};
    plb_spatial_extents(&call->out[0].shape, in);
    plb_spatial_extents(&call->in[0].shape, extent);
    do {
        int64_t begin[PLB_MAX_SPATIAL], size[PLB_MAX_SPATIAL], tap[PLB_MAX_SPATIAL] = {0};
        double count = window_of(out, in, extent, begin, size);
        double share = plb_spatial_load(&call->in[0], n, c, out) / count;
        do {
            int64_t row = (begin[0] + tap[0]) * in[1] + begin[1] + tap[1];
            plane[row * in[2] + begin[2] + tap[2]] += share;
        } while (plb_index_next(tap, size, PLB_MAX_SPATIAL));
    } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
}

static plb_status grad_ref(const plb_call *call) {
    return plb_pool_spread(&call->out[0], add_plane, call);
}

plb_value plb_adaptive_avg_pool(plb_graph *graph, plb_value x,
                                const int64_t extent[PLB_MAX_SPATIAL]) {
    plb_pool_attrs attrs = {0};
    int axes = plb_value_shape(graph, x).rank - 2;
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) attrs.extent[i] = extent[i];
    return plb_emit(graph, PLB_OP_adaptive_avg_pool, &x, 1, &attrs);
}

plb_value plb_global_avg_pool(plb_graph *graph, plb_value x) {
    return plb_adaptive_avg_pool(graph, x, (int64_t[PLB_MAX_SPATIAL]){1, 1, 1});
}

#define ATTRS(...)                \
    &(const plb_pool_attrs) {     \
        .extent = { __VA_ARGS__ } \
    }
static const plb_sample avg_samples[] = {
    {.name = "divisible", .in = {PLB_T(2, 3, 6, 4)}, .n_in = 1, .attrs = ATTRS(3, 2)},
    {.name = "overlapping", .in = {PLB_T(1, 2, 7, 5)}, .n_in = 1, .attrs = ATTRS(3, 4)},
    {.name = "to more elements", .in = {PLB_T(1, 2, 3, 2)}, .n_in = 1, .attrs = ATTRS(7, 4)},
    {.name = "global", .in = {PLB_T(2, 5, 4, 3)}, .n_in = 1, .attrs = ATTRS(1, 1)},
    {.name = "1-d", .in = {PLB_T(2, 3, 8)}, .n_in = 1, .attrs = ATTRS(5)},
    {.name = "3-d", .in = {PLB_T(1, 2, 4, 3, 5)}, .n_in = 1, .attrs = ATTRS(2, 2, 3)},
};

static const plb_sample grad_samples[] = {
    {.name = "divisible", .in = {PLB_T(2, 3, 3, 2)}, .n_in = 1, .attrs = ATTRS(6, 4)},
    {.name = "overlapping", .in = {PLB_T(1, 2, 3, 4)}, .n_in = 1, .attrs = ATTRS(7, 5)},
    {.name = "to fewer elements", .in = {PLB_T(1, 2, 7, 4)}, .n_in = 1, .attrs = ATTRS(3, 2)},
    {.name = "global", .in = {PLB_T(2, 5, 1, 1)}, .n_in = 1, .attrs = ATTRS(4, 3)},
    {.name = "1-d", .in = {PLB_T(2, 3, 5)}, .n_in = 1, .attrs = ATTRS(8)},
    {.name = "3-d", .in = {PLB_T(1, 2, 2, 2, 3)}, .n_in = 1, .attrs = ATTRS(4, 3, 5)},
};

const plb_op plb_op_adaptive_avg_pool = {.name = "adaptive_avg_pool",
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

const plb_op plb_op_adaptive_avg_pool_grad = {.name = "adaptive_avg_pool_grad",
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
