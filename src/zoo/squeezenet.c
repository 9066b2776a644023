// SPDX-License-Identifier: Apache-2.0
// SqueezeNet 1.1 (Iandola et al. 2016): a 1x1 convolution squeezes, a 1x1 and a 3x3 one expand.
#include "zoo/layers.h"

static plb_value conv_relu(plb_layers *net, const char *name, plb_value x, int64_t out,
                           int64_t kernel) {
    const plb_conv2d shape = {.out = out, .kernel = kernel, .pad = kernel / 2, .bias = true};
    return plb_relu(net->graph, plb_layer_conv(net, name, x, shape));
}

static plb_value fire(plb_layers *net, int index, plb_value x, int64_t squeeze, int64_t expand) {
    plb_scope_push(net->graph, "%d", index);
    x = conv_relu(net, "squeeze", x, squeeze, 1);
    plb_value parts[2];
    parts[0] = conv_relu(net, "expand1x1", x, expand, 1);
    parts[1] = conv_relu(net, "expand3x3", x, expand, 3);
    x = plb_concat(net->graph, parts, 2, 1);
    plb_scope_pop(net->graph);
    return x;
}

static plb_value features(plb_layers *net, plb_value x) {
    static const struct {
        int index;
        int64_t squeeze, expand;
        bool pooled; // first
    } fires[] = {{3, 16, 64, true},    {4, 16, 64, false},  {6, 32, 128, true},
                 {7, 32, 128, false},  {9, 48, 192, true},  {10, 48, 192, false},
                 {11, 64, 256, false}, {12, 64, 256, false}};
    const plb_conv2d stem = {.out = 64, .kernel = 3, .stride = 2, .bias = true};
    plb_scope_push(net->graph, "features");
    x = plb_relu(net->graph, plb_layer_conv(net, "0", x, stem));
    for (size_t i = 0; i < sizeof fires / sizeof *fires; i++) {
        if (fires[i].pooled) x = plb_layer_max_pool(net, x, 3, 2, 0, true);
        x = fire(net, fires[i].index, x, fires[i].squeeze, fires[i].expand);
    }
    plb_scope_pop(net->graph);
    return x;
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_squeezenet(plb_layers *net, plb_value x, int variant) {
    (void)variant;
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_UNIFORM_IN, .zero_bias = true};
    x = plb_layer_dropout(net, features(net, x), 0.5);
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_NORMAL, .deviation = 0.01, .zero_bias = true};
    x = conv_relu(net, "classifier.1", x, net->classes, 1);
    return plb_layer_global_pool(net, x);
}
