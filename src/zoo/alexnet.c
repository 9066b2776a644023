// SPDX-License-Identifier: Apache-2.0
// AlexNet in one column, without local response normalisation (Krizhevsky: "One weird trick for
// parallelizing convolutional neural networks", 2014).
#include "zoo/layers.h"

static plb_value conv_relu(plb_layers *net, int index, plb_value x, plb_conv2d shape) {
    shape.bias = true;
    return plb_relu(net->graph, plb_layer_conv(net, plb_layer_name(net, "%d", index), x, shape));
}

static plb_value features(plb_layers *net, plb_value x) {
    plb_scope_push(net->graph, "features");
    x = conv_relu(net, 0, x, (plb_conv2d){.out = 64, .kernel = 11, .stride = 4, .pad = 2});
    x = plb_layer_max_pool(net, x, 3, 2, 0, false);
    x = conv_relu(net, 3, x, (plb_conv2d){.out = 192, .kernel = 5, .pad = 2});
    x = plb_layer_max_pool(net, x, 3, 2, 0, false);
    x = conv_relu(net, 6, x, (plb_conv2d){.out = 384, .kernel = 3, .pad = 1});
    x = conv_relu(net, 8, x, (plb_conv2d){.out = 256, .kernel = 3, .pad = 1});
    x = conv_relu(net, 10, x, (plb_conv2d){.out = 256, .kernel = 3, .pad = 1});
    x = plb_layer_max_pool(net, x, 3, 2, 0, false);
    plb_scope_pop(net->graph);
    return x;
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_alexnet(plb_layers *net, plb_value x, int variant) {
    (void)variant;
    plb_graph *graph = net->graph;
    x = plb_flatten(graph, plb_layer_adaptive_pool(net, features(net, x), 6), 1);
    plb_scope_push(graph, "classifier");
    x = plb_layer_dropout(net, x, 0.5);
    x = plb_relu(graph, plb_layer_linear(net, "1", x, 4096));
    x = plb_layer_dropout(net, x, 0.5);
    x = plb_relu(graph, plb_layer_linear(net, "4", x, 4096));
    x = plb_layer_linear(net, "6", x, net->classes);
    plb_scope_pop(graph);
    return x;
}
