// SPDX-License-Identifier: Apache-2.0
// VGG (Simonyan, Zisserman 2015): stages of 3x3 convolutions, each closed by a pooling. The
// variant is the number of layers with weights, negative for the one with batch norm.
#include "zoo/layers.h"

enum { STAGES = 5 };

static const int *depths(int layers) {
    static const int vgg11[STAGES] = {1, 1, 2, 2, 2}, vgg13[STAGES] = {2, 2, 2, 2, 2};
    static const int vgg16[STAGES] = {2, 2, 3, 3, 3}, vgg19[STAGES] = {2, 2, 4, 4, 4};
    return layers == 11 ? vgg11 : layers == 13 ? vgg13 : layers == 16 ? vgg16 : vgg19;
}

static plb_value features(plb_layers *net, plb_value x, const int *depth, bool norm) {
    static const int64_t width[STAGES] = {64, 128, 256, 512, 512};
    int index = 0; // of the layer, activations and poolings counted
    plb_scope_push(net->graph, "features");
    for (int stage = 0; stage < STAGES; stage++) {
        const plb_conv2d shape = {.out = width[stage], .kernel = 3, .pad = 1, .bias = true};
        for (int i = 0; i < depth[stage]; i++) {
            x = plb_layer_conv(net, plb_layer_name(net, "%d", index++), x, shape);
            if (norm) x = plb_layer_norm_batch(net, plb_layer_name(net, "%d", index++), x);
            x = plb_relu(net->graph, x);
            index++;
        }
        x = plb_layer_max_pool(net, x, 2, 2, 0, false);
        index++;
    }
    plb_scope_pop(net->graph);
    return x;
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_vgg(plb_layers *net, plb_value x, int variant) {
    plb_graph *graph = net->graph;
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_OUT, .zero_bias = true};
    net->linear =
        (plb_weight_init){.rule = PLB_WEIGHT_NORMAL, .deviation = 0.01, .zero_bias = true};
    x = features(net, x, depths(variant < 0 ? -variant : variant), variant < 0);
    x = plb_flatten(graph, plb_layer_adaptive_pool(net, x, 7), 1);
    plb_scope_push(graph, "classifier");
    x = plb_relu(graph, plb_layer_linear(net, "0", x, 4096));
    x = plb_layer_dropout(net, x, 0.5);
    x = plb_relu(graph, plb_layer_linear(net, "3", x, 4096));
    x = plb_layer_dropout(net, x, 0.5);
    x = plb_layer_linear(net, "6", x, net->classes);
    plb_scope_pop(graph);
    return x;
}
