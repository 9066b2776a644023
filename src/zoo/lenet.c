// SPDX-License-Identifier: Apache-2.0
// Small networks for 28x28 digits. Variant 0: the CNN of PyTorch's MNIST example, whose outputs are
// log-probabilities. Variant 5: LeNet-5 (LeCun et al. 1998) as it is mostly rebuilt today: tanh,
// average pooling, every map of the second convolution fed by all of the first.
#include "zoo/layers.h"

static plb_value conv5(plb_layers *net, const char *name, plb_value x, int64_t out, int64_t pad) {
    return plb_layer_conv(net, name, x,
                          (plb_conv2d){.out = out, .kernel = 5, .pad = pad, .bias = true});
}

// x[N,1,28,28] -> [N,classes] log-probabilities
static plb_value mnist_cnn(plb_layers *net, plb_value x) {
    plb_graph *graph = net->graph;
    x = plb_relu(graph, plb_layer_max_pool(net, conv5(net, "conv1", x, 10, 0), 2, 2, 0, false));
    x = plb_layer_dropout_channels(net, conv5(net, "conv2", x, 20, 0), 0.5);
    x = plb_flatten(graph, plb_relu(graph, plb_layer_max_pool(net, x, 2, 2, 0, false)), 1);
    x = plb_relu(graph, plb_layer_linear(net, "fc1", x, 50));
    x = plb_layer_linear(net, "fc2", plb_layer_dropout(net, x, 0.5), net->classes);
    return plb_log_softmax(graph, x, 1);
}

// x[N,1,28,28] -> [N,classes]
static plb_value lenet5(plb_layers *net, plb_value x) {
    plb_graph *graph = net->graph;
    x = plb_layer_avg_pool(net, plb_tanh(graph, conv5(net, "conv1", x, 6, 2)), 2, 2, 0);
    x = plb_layer_avg_pool(net, plb_tanh(graph, conv5(net, "conv2", x, 16, 0)), 2, 2, 0);
    x = plb_flatten(graph, x, 1);
    x = plb_tanh(graph, plb_layer_linear(net, "fc1", x, 120));
    x = plb_tanh(graph, plb_layer_linear(net, "fc2", x, 84));
    return plb_layer_linear(net, "fc3", x, net->classes);
}

plb_value plb_zoo_lenet(plb_layers *net, plb_value x, int variant) {
    return variant == 5 ? lenet5(net, x) : mnist_cnn(net, x);
}
