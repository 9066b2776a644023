// SPDX-License-Identifier: Apache-2.0
// Maximum over windows: x[N,C,…] -> y and, i32, where in the flattened spatial plane of x each
// maximum stood: the first of equals, and a NaN wins over all. The positions are all that the
// gradient needs.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "engine/ops/pool_shape.h"

static plb_status infer(plb_signature *s) {
    plb_pool_shape shape;
    PLB_TRY(plb_expect_floats(s, "max_pool", 0, 0));
    PLB_TRY(plb_pool_shape_of(&s->in[0].shape, s->attrs, "max_pool", &shape));
    plb_shape y = plb_pool_y_shape(&shape);
    if (shape.in[0] * shape.in[1] * shape.in[2] > INT32_MAX) {
        return plb_fail(PLB_EUNSUPPORTED, "max_pool: a plane of over 2^31 elements");
    }
    s->n_out = 2;
    s->out[0] = (plb_type){s->in[0].dtype, y};
    s->out[1] = (plb_type){PLB_I32, y};
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    if (!needed[0] || dout[0] == PLB_NONE) return;
    plb_pool_attrs attrs = *(const plb_pool_attrs *)plb_node_attrs(graph, node);
    plb_shape x = plb_value_shape(graph, plb_node_in(graph, node, 0));
    for (int i = 2; i < x.rank; i++) attrs.extent[i - 2] = x.dim[i];
    plb_value in[] = {plb_node_out(graph, node, 1), dout[0]};
    din[0] = plb_emit(graph, PLB_OP_max_pool_grad, in, 2, &attrs);
}

static double flops(const plb_signature *s) {
    plb_pool_shape p;
    if (plb_pool_shape_of(&s->in[0].shape, s->attrs, "max_pool", &p)) return 0;
    plb_shape y = plb_pool_y_shape(&p);
    return (double)plb_shape_count(&y) * (double)(p.kernel[0] * p.kernel[1] * p.kernel[2]);
}

static void window_max(const plb_call *call, const plb_pool_shape *s, int64_t n, int64_t c,
                       const int64_t *out) {
    int64_t tap[PLB_MAX_SPATIAL] = {0}, at[PLB_MAX_SPATIAL], best_position = -1;
    double best = -INFINITY;
    do {
        int64_t position = plb_pool_position(s, out, tap);
        if (position < 0) continue;
        plb_pool_unflatten(position, s->in, at);
        double value = plb_spatial_load(&call->in[0], n, c, at);
        bool wins = value > best || (isnan(value) && !isnan(best)) || best_position < 0;
        if (wins) best = value, best_position = position;
    } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    plb_spatial_store(&call->out[0], n, c, out, best);
    int64_t offset = plb_spatial_offset(&call->out[1], n, c, out);
    plb_store_i64(call->out[1].data, call->out[1].dtype, offset, best_position);
}

static plb_status ref(const plb_call *call) {
    plb_pool_shape s;
    PLB_TRY(plb_pool_shape_of(&call->in[0].shape, call->attrs, "max_pool", &s));
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t c = 0; c < s.c; c++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                window_max(call, &s, n, c, out);
            } while (plb_index_next(out, s.out, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

plb_pool_attrs plb_pool_uniform(int axes, int64_t kernel, int64_t stride, int64_t pad) {
    plb_pool_attrs attrs = {0};
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        attrs.kernel[i] = kernel, attrs.stride[i] = stride;
        attrs.pad_begin[i] = attrs.pad_end[i] = pad;
    }
    return plb_pool_attrs_final(&attrs, axes);
}

plb_value plb_max_pool(plb_graph *graph, plb_value x, const plb_pool_attrs *attrs) {
    plb_pool_attrs final = plb_pool_attrs_final(attrs, plb_value_shape(graph, x).rank - 2);
    memset(final.extent, 0, sizeof final.extent);
    return plb_emit(graph, PLB_OP_max_pool, &x, 1, &final);
}

// The windows of an adaptive pooling are all alike only when the extents divide.
plb_value plb_adaptive_max_pool(plb_graph *graph, plb_value x,
                                const int64_t extent[PLB_MAX_SPATIAL]) {
    plb_shape shape = plb_value_shape(graph, x);
    plb_pool_attrs attrs = {0};
    for (int i = 0; i < shape.rank - 2 && i < PLB_MAX_SPATIAL; i++) {
        int64_t in = shape.dim[2 + i];
        if (extent[i] < 1 || in % extent[i]) {
            return plb_graph_fail(
                graph, plb_fail(PLB_EUNSUPPORTED,
                                "adaptive_max_pool: axis %d: extent %lld is no multiple of %lld", i,
                                (long long)in, (long long)extent[i]));
        }
        attrs.kernel[i] = in / extent[i];
    }
    return plb_max_pool(graph, x, &attrs);
}

#define ATTRS(...)            \
    &(const plb_pool_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "2x2",
     .in = {PLB_T(2, 3, 6, 4)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {0})},
    {.name = "3x3 stride 2 padded, overlapping",
     .in = {PLB_T(2, 2, 7, 6)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0, {0})},
    {.name = "ceil mode",
     .in = {PLB_T(1, 2, 6, 8)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({3, 3}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, 0, {0})},
    {.name = "ceil mode, last window left out",
     .in = {PLB_T(1, 2, 5, 5)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({2, 2}, {4, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, {0})},
    {.name = "dilation, asymmetric padding",
     .in = {PLB_T(1, 2, 7, 8)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({3, 2}, {1, 2}, {1, 0}, {2, 1}, {2, 3}, 0, 0, {0})},
    {.name = "equal elements",
     .in = {PLB_T(1, 2, 6, 6)},
     .n_in = 1,
     .no_gradient = true,
     .low = {0.5},
     .high = {0.5},
     .attrs = ATTRS({3, 3}, {3, 3}, {0, 0}, {0, 0}, {1, 1}, 0, 0, {0})},
    {.name = "1-d",
     .in = {PLB_T(2, 3, 9)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({4}, {3}, {1}, {2}, {1}, 0, 0, {0})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 4, 5, 4)},
     .n_in = 1,
     .distinct = 1,
     .attrs = ATTRS({2, 3, 2}, {2, 2, 1}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, 0, 0, {0})},
};

const plb_op plb_op_max_pool = {.name = "max_pool",
                                .flags = PLB_OP_SPATIAL,
                                .attrs_bytes = sizeof(plb_pool_attrs),
                                .min_in = 1,
                                .max_in = 1,
                                .infer = infer,
                                .grad = grad,
                                .flops = flops,
                                .ref = ref,
                                .describe = plb_pool_describe,
                                PLB_SAMPLES(samples)};
