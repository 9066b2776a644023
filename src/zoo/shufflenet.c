// SPDX-License-Identifier: Apache-2.0
// ShuffleNet V2 (Ma et al. 2018): half of the channels pass a unit untouched, then all are
// shuffled between the halves.
#include "zoo/layers.h"

// x[N,C,H,W]: channel g C/2 + i becomes channel 2 i + g.
static plb_value shuffle(plb_layers *net, plb_value x) {
    plb_graph *graph = net->graph;
    const plb_shape s = plb_value_shape(graph, x);
    x = plb_reshape(graph, x, &plb_shape_of(s.dim[0], 2, s.dim[1] / 2, s.dim[2], s.dim[3]));
    return plb_reshape(graph, plb_transpose(graph, x, 1, 2), &s);
}

static plb_conv2d depthwise(int64_t channels, int64_t stride) {
    return (plb_conv2d){
        .out = channels, .kernel = 3, .stride = stride, .pad = 1, .groups = channels};
}

static plb_value unit(plb_layers *net, plb_value x, int64_t out, int64_t stride) {
    plb_graph *graph = net->graph;
    const int64_t in = plb_layer_channels(net, x), half = out / 2;
    const plb_conv2d pointwise = {.out = half, .kernel = 1};
    plb_value parts[2], y = x;
    if (stride == 1) {
        parts[0] = plb_slice_axis(graph, x, 1, 0, half);
        y = plb_slice_axis(graph, x, 1, half, in);
    } else {
        plb_scope_push(graph, "branch1");
        parts[0] = plb_layer_conv_norm(net, "0", "1", x, depthwise(in, stride), NULL);
        parts[0] = plb_layer_conv_norm(net, "2", "3", parts[0], pointwise, plb_relu);
        plb_scope_pop(graph);
    }
    plb_scope_push(graph, "branch2");
    y = plb_layer_conv_norm(net, "0", "1", y, pointwise, plb_relu);
    y = plb_layer_conv_norm(net, "3", "4", y, depthwise(half, stride), NULL);
    parts[1] = plb_layer_conv_norm(net, "5", "6", y, pointwise, plb_relu);
    plb_scope_pop(graph);
    return shuffle(net, plb_concat(graph, parts, 2, 1));
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_shufflenet(plb_layers *net, plb_value x, int variant) {
    static const int64_t width[3] = {116, 232, 464};
    static const int repeats[3] = {4, 8, 4};
    (void)variant;
    const plb_conv2d stem = {.out = 24, .kernel = 3, .stride = 2, .pad = 1};
    x = plb_layer_conv_norm(net, "conv1.0", "conv1.1", x, stem, plb_relu);
    x = plb_layer_max_pool(net, x, 3, 2, 1, false);
    for (int stage = 0; stage < 3; stage++) {
        for (int i = 0; i < repeats[stage]; i++) {
            plb_scope_push(net->graph, "stage%d.%d", stage + 2, i);
            x = unit(net, x, width[stage], i ? 1 : 2);
            plb_scope_pop(net->graph);
        }
    }
    const plb_conv2d last = {.out = 1024, .kernel = 1};
    x = plb_layer_conv_norm(net, "conv5.0", "conv5.1", x, last, plb_relu);
    return plb_layer_linear(net, "fc", plb_layer_global_pool(net, x), net->classes);
}
