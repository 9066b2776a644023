// SPDX-License-Identifier: Apache-2.0
// Convolution, as deep learning calls it (a cross-correlation): y = act(x * w + bias + residual).
// Inputs x[N,C,…], w[K,C/groups,…], bias[K] or none, residual[N,K,…] or none. Layers give the
// first three; the rest of the epilogue is put there by passes, after differentiation.
#include <string.h>

#include "base/core/status.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/window.h"

static plb_status conv_infer(plb_signature *s) {
    const plb_conv_attrs *attrs = s->attrs;
    plb_conv_shape shape;
    PLB_TRY(plb_expect_floats(s, "conv", 0, 3));
    PLB_TRY(plb_expect_epilogue(&attrs->epilogue, "conv"));
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv, &s->in[0].shape, &s->in[1].shape, attrs, &shape));
    plb_shape y = plb_conv_y_shape(&shape);
    if (s->n_in > 2 && !plb_type_absent(&s->in[2])) {
        PLB_TRY(plb_expect_shape(&s->in[2], &plb_shape_of(shape.k), "conv", "bias"));
    }
    if (s->n_in > 3 && !plb_type_absent(&s->in[3])) {
        PLB_TRY(plb_expect_shape(&s->in[3], &y, "conv", "residual"));
    }
    s->out[0] = (plb_type){s->in[0].dtype, y};
    return PLB_OK;
}

static void conv_grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                      plb_value *din) {
    plb_conv_attrs attrs = *(const plb_conv_attrs *)plb_node_attrs(graph, node);
    plb_value x = plb_node_in(graph, node, 0), w = plb_node_in(graph, node, 1), dy = dout[0];
    if (attrs.epilogue.activation != PLB_ACT_NONE) {
        plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED, "conv: gradients come before fusion"));
        return;
    }
    plb_shape x_shape = plb_value_shape(graph, x), w_shape = plb_value_shape(graph, w);
    if (needed[0]) {
        for (int i = 2; i < x_shape.rank; i++) attrs.extent[i - 2] = x_shape.dim[i];
        din[0] = plb_conv_input_grad(graph, dy, w, &attrs);
    }
    if (needed[1]) {
        for (int i = 2; i < w_shape.rank; i++) attrs.extent[i - 2] = w_shape.dim[i];
        din[1] = plb_conv_weight_grad(graph, x, dy, &attrs);
    }
    if (plb_node_in(graph, node, 2) != PLB_NONE && needed[2]) {
        din[2] = plb_sum(graph, dy, plb_axes_but_channels(x_shape.rank), false);
    }
    if (plb_node_in(graph, node, 3) != PLB_NONE && needed[3]) din[3] = dy;
}

static double conv_flops(const plb_signature *s) {
    plb_conv_shape shape;
    if (plb_conv_shape_of(PLB_OP_conv, &s->in[0].shape, &s->in[1].shape, s->attrs, &shape)) {
        return 0;
    }
    return plb_conv_flops(&shape);
}

// The sum over the window of one element of y.
static double window_sum(const plb_call *call, const plb_conv_shape *s, int64_t n, int64_t k,
                         const int64_t *out) {
    int64_t c_group = s->c / s->groups, first = k / (s->k / s->groups) * c_group;
    double sum = 0;
    for (int64_t c = 0; c < c_group; c++) {
        int64_t tap[PLB_MAX_SPATIAL] = {0}, in[PLB_MAX_SPATIAL];
        do {
            if (!plb_conv_in_at(s, out, tap, in)) continue;
            sum += plb_spatial_load(&call->in[0], n, first + c, in) *
                   plb_spatial_load(&call->in[1], k, c, tap);
        } while (plb_index_next(tap, s->kernel, PLB_MAX_SPATIAL));
    }
    return sum;
}

static plb_status conv_ref(const plb_call *call) {
    const plb_conv_attrs *attrs = call->attrs;
    plb_conv_shape s;
    PLB_TRY(plb_conv_shape_of(PLB_OP_conv, &call->in[0].shape, &call->in[1].shape, attrs, &s));
    const plb_tensor *bias = call->n_in > 2 && call->in[2].data ? &call->in[2] : NULL;
    const plb_tensor *residual = call->n_in > 3 && call->in[3].data ? &call->in[3] : NULL;
    for (int64_t n = 0; n < s.n; n++) {
        for (int64_t k = 0; k < s.k; k++) {
            int64_t out[PLB_MAX_SPATIAL] = {0};
            do {
                double y = window_sum(call, &s, n, k, out);
                if (bias) y += plb_tensor_load(bias, &k);
                if (residual) y += plb_spatial_load(residual, n, k, out);
                plb_spatial_store(&call->out[0], n, k, out, plb_activate(&attrs->epilogue, y));
            } while (plb_index_next(out, s.out, PLB_MAX_SPATIAL));
        }
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- builders
plb_conv_attrs plb_conv_uniform(int axes, int64_t stride, int64_t pad, int64_t dilation,
                                int64_t groups) {
    plb_conv_attrs attrs = {.groups = groups};
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        attrs.stride[i] = stride, attrs.dilation[i] = dilation;
        attrs.pad_begin[i] = attrs.pad_end[i] = pad;
    }
    return plb_conv_attrs_final(&attrs, axes);
}

plb_value plb_conv(plb_graph *graph, plb_value x, plb_value w, plb_value bias,
                   const plb_conv_attrs *attrs) {
    plb_conv_attrs final = plb_conv_attrs_final(attrs, plb_value_shape(graph, x).rank - 2);
    memset(final.extent, 0, sizeof final.extent);
    return plb_emit(graph, PLB_OP_conv, (plb_value[]){x, w, bias}, bias == PLB_NONE ? 2 : 3,
                    &final);
}

// Padding behind that `output_pad` uncovers is taken away first, so that each element that a tap
// reaches is computed; zeros stand only where none does and no output of the convolution that
// this transposes would start either.
static int64_t transposed_extent(plb_conv_attrs *attrs, int i, int64_t x, int64_t w, int64_t more,
                                 int64_t *zeros) {
    int64_t uncovered = more >= attrs->stride[i] ? more : 0;
    if (uncovered > attrs->pad_end[i]) uncovered = attrs->pad_end[i];
    attrs->pad_end[i] -= uncovered;
    more -= uncovered;
    *zeros = more >= attrs->stride[i] ? more : 0;
    return plb_window_reach(x, attrs->stride[i]) - 1 - attrs->pad_begin[i] - attrs->pad_end[i] +
           plb_window_reach(w, attrs->dilation[i]) + more - *zeros;
}

static plb_status check_transposed(const plb_conv_attrs *attrs, const int64_t *output_pad,
                                   int axes) {
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL; i++) {
        PLB_TRY(plb_conv_check_axis(attrs, "conv_transpose", i));
        if (!output_pad) continue;
        PLB_TRY(plb_window_expect("conv_transpose", i, "output padding", output_pad[i], 0,
                                  PLB_WINDOW_MOST));
    }
    return PLB_OK;
}

plb_value plb_conv_transpose(plb_graph *graph, plb_value x, plb_value w, plb_value bias,
                             const plb_conv_attrs *attrs,
                             const int64_t output_pad[PLB_MAX_SPATIAL]) {
    plb_shape x_shape = plb_value_shape(graph, x), w_shape = plb_value_shape(graph, w);
    int axes = x_shape.rank - 2;
    plb_conv_attrs final = plb_conv_attrs_final(attrs, axes);
    if (plb_graph_status(graph)) return PLB_NONE;
    plb_status status = check_transposed(&final, output_pad, axes);
    if (status) return plb_graph_fail(graph, status);
    plb_pad_attrs pad = {.mode = PLB_PAD_CONSTANT};
    bool padded = false;
    for (int i = 0; i < axes && i < PLB_MAX_SPATIAL && w_shape.rank == x_shape.rank; i++) {
        int64_t more = output_pad ? output_pad[i] : 0;
        final.extent[i] = transposed_extent(&final, i, x_shape.dim[2 + i], w_shape.dim[2 + i], more,
                                            &pad.after[2 + i]);
        padded |= pad.after[2 + i] > 0;
    }
    plb_value y = plb_conv_input_grad(graph, x, w, &final);
    if (padded) y = plb_pad(graph, y, &pad);
    if (bias == PLB_NONE || y == PLB_NONE) return y;
    return plb_add(graph, y, plb_along_channels(graph, bias, x_shape.rank));
}

// ---------------------------------------------------------------------------- samples
#define ATTRS(...)            \
    &(const plb_conv_attrs) { \
        __VA_ARGS__           \
    }
static const plb_sample samples[] = {
    {.name = "3x3, 16 channels", // wide enough for kernels that work on whole vectors of channels
     .in = {PLB_T(2, 16, 5, 6), PLB_T(16, 16, 3, 3), PLB_T(16)},
     .n_in = 3,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {0}, {0}),
     .no_gradient = true},
    {.name = "few channels of many images", // for kernels whose vectors hold images
     .in = {PLB_T(9, 2, 6, 5), PLB_T(3, 2, 3, 2), PLB_T(3), PLB_T(9, 3, 6, 3)},
     .n_in = 4,
     .attrs = ATTRS({1, 2}, {1, 1}, {1, 0}, {1, 1}, 1, {PLB_ACT_RELU, 0, 0}, {0}),
     .no_gradient = true},
    {.name = "3x3",
     .in = {PLB_T(2, 3, 5, 4), PLB_T(4, 3, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {0}, {0})},
    {.name = "1x1 with bias",
     .in = {PLB_T(2, 5, 3, 4), PLB_T(3, 5, 1, 1), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {0})},
    {.name = "stride 2, asymmetric padding",
     .in = {PLB_T(1, 2, 7, 6), PLB_T(3, 2, 3, 2), PLB_T(3)},
     .n_in = 3,
     .attrs = ATTRS({2, 2}, {1, 0}, {2, 1}, {1, 1}, 1, {0}, {0})},
    {.name = "1x1 stride 2 that skips the last",
     .in = {PLB_T(1, 3, 6, 6), PLB_T(2, 3, 1, 1)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {0})},
    {.name = "dilation, strides that differ",
     .in = {PLB_T(2, 2, 7, 8), PLB_T(2, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 3}, {2, 1}, {2, 1}, {2, 3}, 1, {0}, {0})},
    {.name = "groups",
     .in = {PLB_T(1, 4, 4, 5), PLB_T(6, 2, 3, 3), PLB_T(6)},
     .n_in = 3,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, {0}, {0})},
    {.name = "depthwise, stride 2",
     .in = {PLB_T(2, 5, 5, 5), PLB_T(5, 1, 3, 3)},
     .n_in = 2,
     .attrs = ATTRS({2, 2}, {1, 1}, {1, 1}, {1, 1}, 5, {0}, {0})},
    {.name = "depthwise, two outputs a channel",
     .in = {PLB_T(1, 3, 4, 4), PLB_T(6, 1, 2, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 3, {0}, {0})},
    {.name = "kernel larger than x",
     .in = {PLB_T(1, 2, 3, 2), PLB_T(2, 2, 5, 4)},
     .n_in = 2,
     .attrs = ATTRS({1, 1}, {2, 2}, {2, 1}, {1, 1}, 1, {0}, {0})},
    {.name = "1-d",
     .in = {PLB_T(2, 3, 9), PLB_T(4, 3, 4), PLB_T(4)},
     .n_in = 3,
     .attrs = ATTRS({2}, {1}, {2}, {1}, 1, {0}, {0})},
    {.name = "3-d",
     .in = {PLB_T(1, 2, 4, 3, 4), PLB_T(2, 2, 2, 3, 2)},
     .n_in = 2,
     .attrs = ATTRS({1, 1, 2}, {1, 1, 0}, {0, 1, 1}, {1, 1, 1}, 1, {0}, {0})},
    {.name = "residual and relu",
     .no_gradient = true,
     .in = {PLB_T(2, 3, 4, 4), PLB_T(4, 3, 3, 3), PLB_T(4), PLB_T(2, 4, 4, 4)},
     .n_in = 4,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {PLB_ACT_RELU, 0, 0}, {0})},
    {.name = "residual without bias",
     .in = {PLB_T(1, 3, 4, 4), PLB_T(2, 3, 3, 3), PLB_T(2), PLB_T(1, 2, 2, 2)},
     .n_in = 4,
     .absent = 1 << 2,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {0}, {0})},
    {.name = "clamp",
     .in = {PLB_T(1, 3, 4, 4), PLB_T(2, 3, 3, 3), PLB_T(2)},
     .n_in = 3,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {PLB_ACT_CLAMP, 0, 0.5}, {0})},
    {.name = "silu",
     .in = {PLB_T(2, 8, 4, 5), PLB_T(16, 8, 3, 3), PLB_T(16)},
     .n_in = 3,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, {PLB_ACT_SILU, 0, 0}, {0})},
    {.name = "depthwise and silu",
     .in = {PLB_T(2, 8, 5, 5), PLB_T(8, 1, 3, 3), PLB_T(8)},
     .n_in = 3,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {1, 1}, {1, 1}, {1, 1}, 8, {PLB_ACT_SILU, 0, 0}, {0})},
    {.name = "1x1, residual and silu",
     .in = {PLB_T(2, 8, 4, 5), PLB_T(16, 8, 1, 1), PLB_T(16), PLB_T(2, 16, 4, 5)},
     .n_in = 4,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {PLB_ACT_SILU, 0, 0}, {0})},
    {.name = "1x1 of one pixel", // for kernels of a few
     .in = {PLB_T(2, 48, 1, 1), PLB_T(9, 48, 1, 1), PLB_T(9), PLB_T(2, 9, 1, 1)},
     .n_in = 4,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {PLB_ACT_SILU, 0, 0}, {0})},
    {.name = "1x1 of one pixel, channels that fill no vector",
     .in = {PLB_T(1, 13, 1, 1), PLB_T(70, 13, 1, 1), PLB_T(70)},
     .n_in = 3,
     .no_gradient = true,
     .attrs = ATTRS({1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {PLB_ACT_NONE, 0, 0}, {0})},
};

const plb_op plb_op_conv = {.name = "conv",
                            .flags = PLB_OP_SPATIAL,
                            .spatial_in = 1 << 0 | 1 << 3,
                            .spatial_out = 1 << 0,
                            .overwrites = {{3, 0}},
                            .n_overwrites = 1,
                            .attrs_bytes = sizeof(plb_conv_attrs),
                            .min_in = 2,
                            .max_in = 4,
                            .infer = conv_infer,
                            .grad = conv_grad,
                            .flops = conv_flops,
                            .ref = conv_ref,
                            .describe = plb_conv_describe,
                            PLB_SAMPLES(samples)};
