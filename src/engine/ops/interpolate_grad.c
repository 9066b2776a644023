// SPDX-License-Identifier: Apache-2.0
// The gradient of interpolate, its transpose: dy[N,C,…] -> dx with the spatial extents that the
// attributes give. The taps are those of the forward op; interpolate is its gradient in turn.
#include "base/core/status.h"
#include "engine/ops/interpolate_shape.h"
#include "engine/ops/pool_shape.h"

static plb_status infer(plb_signature *s) {
    return plb_interpolate_infer(s, "interpolate_grad");
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    if (needed[0]) din[0] = plb_interpolate_back(graph, node, PLB_OP_interpolate, dout[0]);
}

static double flops(const plb_signature *s) {
    return plb_interpolate_flops(s->attrs, &s->in[0].shape);
}

static void spread(const plb_taps *taps, const int64_t *in, double value, double *plane) {
    for (int d = 0; d < taps[0].count; d++) {
        for (int h = 0; h < taps[1].count; h++) {
            for (int w = 0; w < taps[2].count; w++) {
                double weight = taps[0].weight[d] * taps[1].weight[h] * taps[2].weight[w];
                int64_t row = taps[0].index[d] * in[1] + taps[1].index[h];
                if (weight != 0) plane[row * in[2] + taps[2].index[w]] += weight * value;
            }
        }
    }
}

static void add_plane(const void *context, int64_t n, int64_t c, double *plane) {
    const plb_call *call = context;
    const plb_tensor *dy = &call->in[0];
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL], out[PLB_MAX_SPATIAL] = {0};
    plb_spatial_extents(&call->out[0].shape, in);
    plb_spatial_extents(&dy->shape, extent);
    const plb_type type = {dy->dtype, dy->shape};
    do {
        plb_taps taps[PLB_MAX_SPATIAL];
        plb_interpolate_all_taps(call->attrs, &type, in, extent, out, taps);
        spread(taps, in, plb_spatial_load(dy, n, c, out), plane);
    } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
}

static plb_status ref(const plb_call *call) {
    return plb_pool_spread(&call->out[0], add_plane, call);
}

#define ATTRS(...)                   \
    &(const plb_interpolate_attrs) { \
        __VA_ARGS__                  \
    }
static const plb_sample samples[] = {
    {.name = "nearest",
     .in = {PLB_T(2, 3, 6, 8)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {3, 4}, {0})},
    {.name = "nearest, odd ratios",
     .in = {PLB_T(1, 2, 5, 9)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {7, 5}, {0})},
    {.name = "linear",
     .in = {PLB_T(2, 2, 7, 10)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {4, 5}, {0})},
    {.name = "linear, corners",
     .in = {PLB_T(2, 2, 7, 9)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 1, {4, 5}, {0})},
    {.name = "linear, given scale",
     .in = {PLB_T(1, 2, 8, 6)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {5, 4}, {1.7, 1.6})},
    {.name = "linear, 1-d",
     .in = {PLB_T(2, 3, 13)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {6}, {0})},
    {.name = "linear, 3-d",
     .in = {PLB_T(1, 2, 4, 5, 2)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 1, {2, 3, 3}, {0})},
    {.name = "cubic",
     .in = {PLB_T(1, 2, 7, 9)},
     .n_in = 1,
     .attrs = ATTRS(PLB_CUBIC, 0, {4, 5}, {0})},
};

const plb_op plb_op_interpolate_grad = {.name = "interpolate_grad",
                                        .flags = PLB_OP_SPATIAL,
                                        .attrs_bytes = sizeof(plb_interpolate_attrs),
                                        .min_in = 1,
                                        .max_in = 1,
                                        .infer = infer,
                                        .grad = grad,
                                        .flops = flops,
                                        .ref = ref,
                                        .describe = plb_interpolate_describe,
                                        PLB_SAMPLES(samples)};
