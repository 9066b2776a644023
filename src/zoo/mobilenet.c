// SPDX-License-Identifier: Apache-2.0
// MobileNet V2 (Sandler et al. 2018) and V3 large (Howard et al. 2019): inverted residuals, that
// is 1x1 expansion, depthwise convolution, 1x1 projection without activation.
#include "zoo/layers.h"

static plb_value pointwise(plb_layers *net, const char *conv, const char *norm, plb_value x,
                           int64_t out, plb_activation_fn act) {
    return plb_layer_conv_norm(net, conv, norm, x, (plb_conv2d){.out = out, .kernel = 1}, act);
}

static plb_value depthwise(plb_layers *net, int index, plb_value x, int64_t kernel, int64_t stride,
                           plb_activation_fn act) {
    const int64_t channels = plb_layer_channels(net, x);
    const plb_conv2d shape = {
        .out = channels, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = channels};
    plb_scope_push(net->graph, "%d", index);
    x = plb_layer_conv_norm(net, "0", "1", x, shape, act);
    plb_scope_pop(net->graph);
    return x;
}

// conv, norm and activation as children "index.0" and "index.1".
static plb_value unit(plb_layers *net, int index, plb_value x, int64_t out, plb_activation_fn act) {
    plb_scope_push(net->graph, "%d", index);
    x = pointwise(net, "0", "1", x, out, act);
    plb_scope_pop(net->graph);
    return x;
}

static plb_value stem(plb_layers *net, plb_value x, int64_t out, plb_activation_fn act) {
    const plb_conv2d shape = {.out = out, .kernel = 3, .stride = 2, .pad = 1};
    return plb_layer_conv_norm(net, "features.0.0", "features.0.1", x, shape, act);
}

// ---------------------------------------------------------------------------- V2
static plb_value block_v2(plb_layers *net, plb_value x, int64_t expand, int64_t out,
                          int64_t stride) {
    const int64_t in = plb_layer_channels(net, x);
    plb_value y = x;
    int index = 0;
    plb_scope_push(net->graph, "conv");
    if (expand != 1) y = unit(net, index++, y, in * expand, plb_relu6);
    y = depthwise(net, index, y, 3, stride, plb_relu6);
    y = pointwise(net, index ? "2" : "1", index ? "3" : "2", y, out, NULL);
    plb_scope_pop(net->graph);
    return stride == 1 && in == out ? plb_add(net->graph, x, y) : y;
}

static plb_value v2(plb_layers *net, plb_value x) {
    static const struct {
        int64_t expand, out, repeats, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int index = 1;
    x = stem(net, x, 32, plb_relu6);
    plb_scope_push(net->graph, "features");
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        for (int i = 0; i < stages[s].repeats; i++) {
            plb_scope_push(net->graph, "%d", index++);
            x = block_v2(net, x, stages[s].expand, stages[s].out, i ? 1 : stages[s].stride);
            plb_scope_pop(net->graph);
        }
    }
    x = unit(net, index, x, 1280, plb_relu6);
    plb_scope_pop(net->graph);
    x = plb_layer_dropout(net, plb_layer_global_pool(net, x), 0.2);
    return plb_layer_linear(net, "classifier.1", x, net->classes);
}

// ---------------------------------------------------------------------------- V3
typedef struct block_v3_config {
    int64_t kernel, expanded, out;
    bool squeeze, hard; // squeeze and excitation; hardswish instead of relu
    int64_t stride;
} block_v3_config;

// Channels are kept at multiples of 8, never more than a tenth below what was asked.
static int64_t divisible(int64_t channels) {
    int64_t rounded = (channels + 4) / 8 * 8;
    if (rounded < 8) rounded = 8;
    return rounded * 10 < channels * 9 ? rounded + 8 : rounded;
}

static plb_value block_v3(plb_layers *net, plb_value x, const block_v3_config *b) {
    const int64_t in = plb_layer_channels(net, x);
    plb_activation_fn act = b->hard ? plb_hardswish : plb_relu;
    plb_value y = x;
    int index = 0;
    plb_scope_push(net->graph, "block");
    if (b->expanded != in) y = unit(net, index++, y, b->expanded, act);
    y = depthwise(net, index++, y, b->kernel, b->stride, act);
    if (b->squeeze) {
        y = plb_layer_squeeze_excite(net, index == 1 ? "1" : "2", y, divisible(b->expanded / 4),
                                     plb_relu, plb_hardsigmoid);
        index++;
    }
    y = unit(net, index, y, b->out, NULL);
    plb_scope_pop(net->graph);
    return b->stride == 1 && in == b->out ? plb_add(net->graph, y, x) : y;
}

static plb_value v3_large(plb_layers *net, plb_value x) {
    static const block_v3_config blocks[] = {
        {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
        {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
        {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
        {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
        {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1},
    };
    const int count = (int)(sizeof blocks / sizeof *blocks);
    net->norm_eps = 0.001, net->norm_momentum = 0.01;
    x = stem(net, x, 16, plb_hardswish);
    plb_scope_push(net->graph, "features");
    for (int i = 0; i < count; i++) {
        plb_scope_push(net->graph, "%d", i + 1);
        x = block_v3(net, x, &blocks[i]);
        plb_scope_pop(net->graph);
    }
    x = unit(net, count + 1, x, 960, plb_hardswish);
    plb_scope_pop(net->graph);
    x = plb_layer_linear(net, "classifier.0", plb_layer_global_pool(net, x), 1280);
    x = plb_layer_dropout(net, plb_hardswish(net->graph, x), 0.2);
    return plb_layer_linear(net, "classifier.3", x, net->classes);
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_mobilenet(plb_layers *net, plb_value x, int variant) {
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_OUT, .zero_bias = true};
    net->linear =
        (plb_weight_init){.rule = PLB_WEIGHT_NORMAL, .deviation = 0.01, .zero_bias = true};
    return variant == 2 ? v2(net, x) : v3_large(net, x);
}
