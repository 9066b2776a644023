// SPDX-License-Identifier: Apache-2.0
// GoogLeNet (Szegedy et al. 2015) as torchvision has it: with batch norm, 3x3 for the 5x5
// convolutions, and two auxiliary heads that only training runs.
#include "zoo/layers.h"

static plb_value basic(plb_layers *net, const char *name, plb_value x, plb_conv2d shape) {
    plb_scope_push(net->graph, "%s", name);
    x = plb_layer_conv_norm(net, "conv", "bn", x, shape, plb_relu);
    plb_scope_pop(net->graph);
    return x;
}

static plb_conv2d same(int64_t out, int64_t kernel) {
    return (plb_conv2d){.out = out, .kernel = kernel, .pad = kernel / 2};
}

typedef struct inception_config {
    const char *name;
    int64_t c1, reduce3, c3, reduce5, c5, pooled;
    bool pool_first; // a pooling closes the stage before
} inception_config;

static const inception_config blocks[] = {
    {"inception3a", 64, 96, 128, 16, 32, 32, true},
    {"inception3b", 128, 128, 192, 32, 96, 64, false},
    {"inception4a", 192, 96, 208, 16, 48, 64, true},
    {"inception4b", 160, 112, 224, 24, 64, 64, false},
    {"inception4c", 128, 128, 256, 24, 64, 64, false},
    {"inception4d", 112, 144, 288, 32, 64, 64, false},
    {"inception4e", 256, 160, 320, 32, 128, 128, false},
    {"inception5a", 256, 160, 320, 32, 128, 128, true},
    {"inception5b", 384, 192, 384, 48, 128, 128, false},
};
enum { BLOCKS = sizeof blocks / sizeof *blocks, AFTER_4A = 2, AFTER_4D = 5, STAGE_5 = 7 };

static plb_value inception(plb_layers *net, plb_value x, const inception_config *c) {
    plb_value parts[4];
    plb_scope_push(net->graph, "%s", c->name);
    parts[0] = basic(net, "branch1", x, same(c->c1, 1));
    parts[1] = basic(net, "branch2.0", x, same(c->reduce3, 1));
    parts[1] = basic(net, "branch2.1", parts[1], same(c->c3, 3));
    parts[2] = basic(net, "branch3.0", x, same(c->reduce5, 1));
    parts[2] = basic(net, "branch3.1", parts[2], same(c->c5, 3));
    parts[3] = plb_layer_max_pool(net, x, 3, 1, 1, true);
    parts[3] = basic(net, "branch4.1", parts[3], same(c->pooled, 1));
    x = plb_concat(net->graph, parts, 4, 1);
    plb_scope_pop(net->graph);
    return x;
}

enum { AUX_WIDTH = 128, AUX_EXTENT = 4, AUX_HIDDEN = 1024 };

static void aux_head(plb_layers *net, const char *name, plb_value x) {
    plb_graph *graph = net->graph;
    plb_scope_push(graph, "%s", name);
    if (plb_graph_training(graph)) {
        x = plb_layer_adaptive_pool(net, x, AUX_EXTENT);
        x = plb_flatten(graph, basic(net, "conv", x, same(AUX_WIDTH, 1)), 1);
        x = plb_relu(graph, plb_layer_linear(net, "fc1", x, AUX_HIDDEN));
        x = plb_layer_dropout(net, x, 0.7);
        net->result->aux[net->result->n_aux++] = plb_layer_linear(net, "fc2", x, net->classes);
    } else {
        plb_layer_declare_conv(net, "conv.conv", plb_layer_channels(net, x), same(AUX_WIDTH, 1));
        plb_layer_declare_norm(net, "conv.bn", AUX_WIDTH);
        plb_layer_declare_linear(net, "fc1", AUX_WIDTH * AUX_EXTENT * AUX_EXTENT, AUX_HIDDEN);
        plb_layer_declare_linear(net, "fc2", AUX_HIDDEN, net->classes);
    }
    plb_scope_pop(graph);
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_googlenet(plb_layers *net, plb_value x, int variant) {
    (void)variant;
    // torchvision truncates at 2, that is at 200 deviations: never.
    net->conv = net->linear = (plb_weight_init){.rule = PLB_WEIGHT_NORMAL, .deviation = 0.01};
    net->norm_eps = 0.001;
    net->result->aux_weight = 0.3;
    x = basic(net, "conv1", x, (plb_conv2d){.out = 64, .kernel = 7, .stride = 2, .pad = 3});
    x = plb_layer_max_pool(net, x, 3, 2, 0, true);
    x = basic(net, "conv2", x, same(64, 1));
    x = basic(net, "conv3", x, same(192, 3));
    plb_value after[BLOCKS];
    for (int b = 0; b < BLOCKS; b++) {
        const int64_t kernel = b == STAGE_5 ? 2 : 3;
        if (blocks[b].pool_first) x = plb_layer_max_pool(net, x, kernel, 2, 0, true);
        after[b] = x = inception(net, x, &blocks[b]);
    }
    // The heads come last because their variables do.
    aux_head(net, "aux1", after[AFTER_4A]);
    aux_head(net, "aux2", after[AFTER_4D]);
    x = plb_layer_dropout(net, plb_layer_global_pool(net, x), 0.2);
    return plb_layer_linear(net, "fc", x, net->classes);
}
