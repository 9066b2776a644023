// SPDX-License-Identifier: Apache-2.0
// DenseNet-121 (Huang et al. 2017): within a block every layer reads the concatenation of all
// layers before it.
#include "zoo/layers.h"

enum { BLOCKS = 4, MAX_LAYERS = 24, GROWTH = 32, BOTTLENECK = 4 * GROWTH };

static plb_value dense_layer(plb_layers *net, const plb_value *before, int n) {
    plb_value x = n == 1 ? before[0] : plb_concat(net->graph, before, n, 1);
    x = plb_relu(net->graph, plb_layer_norm_batch(net, "norm1", x));
    x = plb_layer_conv_norm(net, "conv1", "norm2", x, (plb_conv2d){.out = BOTTLENECK, .kernel = 1},
                            plb_relu);
    return plb_layer_conv(net, "conv2", x, (plb_conv2d){.out = GROWTH, .kernel = 3, .pad = 1});
}

static plb_value dense_block(plb_layers *net, plb_value x, int layers) {
    plb_value parts[MAX_LAYERS + 1] = {x};
    for (int i = 0; i < layers; i++) {
        plb_scope_push(net->graph, "denselayer%d", i + 1);
        parts[i + 1] = dense_layer(net, parts, i + 1);
        plb_scope_pop(net->graph);
    }
    return plb_concat(net->graph, parts, layers + 1, 1);
}

static plb_value transition(plb_layers *net, plb_value x) {
    const plb_conv2d half = {.out = plb_layer_channels(net, x) / 2, .kernel = 1};
    x = plb_relu(net->graph, plb_layer_norm_batch(net, "norm", x));
    return plb_layer_avg_pool(net, plb_layer_conv(net, "conv", x, half), 2, 2, 0);
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_densenet(plb_layers *net, plb_value x, int variant) {
    static const int depth[BLOCKS] = {6, 12, MAX_LAYERS, 16};
    (void)variant;
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_IN};
    net->linear.zero_bias = true;
    const plb_conv2d stem = {.out = 64, .kernel = 7, .stride = 2, .pad = 3};
    plb_scope_push(net->graph, "features");
    x = plb_layer_conv_norm(net, "conv0", "norm0", x, stem, plb_relu);
    x = plb_layer_max_pool(net, x, 3, 2, 1, false);
    for (int b = 0; b < BLOCKS; b++) {
        plb_scope_push(net->graph, "denseblock%d", b + 1);
        x = dense_block(net, x, depth[b]);
        plb_scope_pop(net->graph);
        if (b == BLOCKS - 1) break;
        plb_scope_push(net->graph, "transition%d", b + 1);
        x = transition(net, x);
        plb_scope_pop(net->graph);
    }
    x = plb_relu(net->graph, plb_layer_norm_batch(net, "norm5", x));
    plb_scope_pop(net->graph);
    return plb_layer_linear(net, "classifier", plb_layer_global_pool(net, x), net->classes);
}
