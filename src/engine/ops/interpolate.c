// SPDX-License-Identifier: Apache-2.0
// Resampling of x[N,C,…] to given spatial extents: nearest, linear along one to three axes, cubic
// along two. Each element of y is a sum over the product of the axes' taps.
#include "base/core/status.h"
#include "engine/ops/interpolate_shape.h"

static plb_status infer(plb_signature *s) {
    return plb_interpolate_infer(s, "interpolate");
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    if (needed[0]) din[0] = plb_interpolate_back(graph, node, PLB_OP_interpolate_grad, dout[0]);
}

static double flops(const plb_signature *s) {
    return plb_interpolate_flops(s->attrs, &s->out[0].shape);
}

static double mixed(const plb_tensor *x, int64_t n, int64_t c, const plb_taps *taps) {
    double sum = 0;
    for (int d = 0; d < taps[0].count; d++) {
        for (int h = 0; h < taps[1].count; h++) {
            for (int w = 0; w < taps[2].count; w++) {
                double weight = taps[0].weight[d] * taps[1].weight[h] * taps[2].weight[w];
                int64_t at[] = {taps[0].index[d], taps[1].index[h], taps[2].index[w]};
                // A tap of weight 0 lies beside the grid; an infinity there must not count.
                if (weight != 0) sum += weight * plb_spatial_load(x, n, c, at);
            }
        }
    }
    return sum;
}

static plb_status ref(const plb_call *call) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    int64_t in[PLB_MAX_SPATIAL], extent[PLB_MAX_SPATIAL];
    plb_spatial_extents(&x->shape, in);
    plb_spatial_extents(&y->shape, extent);
    const plb_type type = {x->dtype, x->shape};
    int64_t out[PLB_MAX_SPATIAL] = {0};
    do {
        plb_taps taps[PLB_MAX_SPATIAL];
        plb_interpolate_all_taps(call->attrs, &type, in, extent, out, taps);
        for (int64_t n = 0; n < y->shape.dim[0]; n++) {
            for (int64_t c = 0; c < y->shape.dim[1]; c++) {
                plb_spatial_store(y, n, c, out, mixed(x, n, c, taps));
            }
        }
    } while (plb_index_next(out, extent, PLB_MAX_SPATIAL));
    return PLB_OK;
}

plb_value plb_interpolate(plb_graph *graph, plb_value x, const plb_interpolate_attrs *attrs) {
    plb_interpolate_attrs final = {.mode = attrs->mode, .align_corners = attrs->align_corners != 0};
    int axes = plb_value_shape(graph, x).rank - 2;
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        final.extent[i] = attrs->extent[i], final.scale[i] = attrs->scale[i];
    }
    return plb_emit(graph, PLB_OP_interpolate, &x, 1, &final);
}

#define ATTRS(...)                   \
    &(const plb_interpolate_attrs) { \
        __VA_ARGS__                  \
    }
static const plb_sample samples[] = {
    {.name = "nearest, twice as large",
     .in = {PLB_T(2, 3, 3, 4)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {6, 8}, {0})},
    {.name = "nearest, odd ratios",
     .in = {PLB_T(1, 2, 7, 5)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {5, 9}, {0})},
    {.name = "nearest, 1-d",
     .in = {PLB_T(2, 3, 7)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {11}, {0})},
    {.name = "nearest, 3-d",
     .in = {PLB_T(1, 2, 2, 3, 3)},
     .n_in = 1,
     .attrs = ATTRS(PLB_NEAREST, 0, {4, 5, 2}, {0})},
    {.name = "linear",
     .in = {PLB_T(2, 2, 4, 5)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {7, 10}, {0})},
    {.name = "linear, corners",
     .in = {PLB_T(2, 2, 4, 5)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 1, {7, 9}, {0})},
    {.name = "linear, smaller",
     .in = {PLB_T(1, 2, 9, 8)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {4, 3}, {0})},
    {.name = "linear, corners, to one",
     .in = {PLB_T(1, 2, 4, 5)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 1, {1, 5}, {0})},
    {.name = "linear, given scale",
     .in = {PLB_T(1, 2, 5, 4)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {8, 6}, {1.7, 1.6})},
    {.name = "linear, 1-d",
     .in = {PLB_T(2, 3, 6)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 0, {13}, {0})},
    {.name = "linear, 3-d",
     .in = {PLB_T(1, 2, 2, 3, 3)},
     .n_in = 1,
     .attrs = ATTRS(PLB_LINEAR, 1, {4, 5, 2}, {0})},
    {.name = "cubic",
     .in = {PLB_T(1, 2, 4, 5)},
     .n_in = 1,
     .attrs = ATTRS(PLB_CUBIC, 0, {7, 9}, {0})},
    {.name = "cubic, corners",
     .in = {PLB_T(2, 1, 5, 4)},
     .n_in = 1,
     .attrs = ATTRS(PLB_CUBIC, 1, {3, 9}, {0})},
};

const plb_op plb_op_interpolate = {.name = "interpolate",
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
