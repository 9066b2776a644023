// SPDX-License-Identifier: Apache-2.0
// MNASNet-B1 (Tan et al. 2019). The names are indices of a flat list in which activations count.
#include "zoo/layers.h"

// Convolution `index`, batch norm `index + 1`.
static plb_value conv_norm(plb_layers *net, int index, plb_value x, plb_conv2d shape, bool relu) {
    x = plb_layer_conv(net, plb_layer_name(net, "%d", index), x, shape);
    x = plb_layer_norm_batch(net, plb_layer_name(net, "%d", index + 1), x);
    return relu ? plb_relu(net->graph, x) : x;
}

static plb_conv2d depthwise(int64_t channels, int64_t kernel, int64_t stride) {
    return (plb_conv2d){
        .out = channels, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = channels};
}

typedef struct stack_config {
    int64_t out, kernel, stride, expand;
    int repeats;
} stack_config;

static plb_value inverted_residual(plb_layers *net, plb_value x, const stack_config *s,
                                   int64_t stride) {
    const int64_t in = plb_layer_channels(net, x), middle = in * s->expand;
    plb_scope_push(net->graph, "layers");
    plb_value y = conv_norm(net, 0, x, (plb_conv2d){.out = middle, .kernel = 1}, true);
    y = conv_norm(net, 3, y, depthwise(middle, s->kernel, stride), true);
    y = conv_norm(net, 6, y, (plb_conv2d){.out = s->out, .kernel = 1}, false);
    plb_scope_pop(net->graph);
    return in == s->out && stride == 1 ? plb_add(net->graph, y, x) : y;
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_mnasnet(plb_layers *net, plb_value x, int variant) {
    static const stack_config stacks[] = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                                          {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};
    const int count = (int)(sizeof stacks / sizeof *stacks), first = 8;
    (void)variant;
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_OUT};
    net->linear = (plb_weight_init){.rule = PLB_WEIGHT_UNIT_UNIFORM_OUT, .zero_bias = true};
    net->norm_momentum = 1 - 0.9997;
    plb_scope_push(net->graph, "layers");
    x = conv_norm(net, 0, x, (plb_conv2d){.out = 32, .kernel = 3, .stride = 2, .pad = 1}, true);
    x = conv_norm(net, 3, x, depthwise(32, 3, 1), true);
    x = conv_norm(net, 6, x, (plb_conv2d){.out = 16, .kernel = 1}, false);
    for (int s = 0; s < count; s++) {
        for (int i = 0; i < stacks[s].repeats; i++) {
            plb_scope_push(net->graph, "%d.%d", first + s, i);
            x = inverted_residual(net, x, &stacks[s], i ? 1 : stacks[s].stride);
            plb_scope_pop(net->graph);
        }
    }
    x = conv_norm(net, first + count, x, (plb_conv2d){.out = 1280, .kernel = 1}, true);
    plb_scope_pop(net->graph);
    x = plb_layer_dropout(net, plb_layer_global_pool(net, x), 0.2);
    return plb_layer_linear(net, "classifier.1", x, net->classes);
}
