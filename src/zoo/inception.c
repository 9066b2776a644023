// SPDX-License-Identifier: Apache-2.0
// Inception v3 (Szegedy et al. 2016) with one auxiliary head that only training runs. The blocks A
// to E are torchvision's names for the paper's figures 5, 10, 6, 10 and 7.
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

static plb_conv2d row(int64_t out, int64_t width) {
    return (plb_conv2d){.out = out, .kernel_h = 1, .kernel_w = width};
}

static plb_conv2d column(int64_t out, int64_t height) {
    return (plb_conv2d){.out = out, .kernel_h = height, .kernel_w = 1};
}

static plb_conv2d reducing(int64_t out) {
    return (plb_conv2d){.out = out, .kernel = 3, .stride = 2};
}

static plb_value pooled(plb_layers *net, plb_value x, int64_t out) {
    return basic(net, "branch_pool", plb_layer_avg_pool(net, x, 3, 1, 1), same(out, 1));
}

// 1x1, 3x3 and 3x3 of stride `last.stride`, a chain of blocks A and B.
static plb_value double3x3(plb_layers *net, plb_value x, plb_conv2d last) {
    x = basic(net, "branch3x3dbl_1", x, same(64, 1));
    x = basic(net, "branch3x3dbl_2", x, same(96, 3));
    return basic(net, "branch3x3dbl_3", x, last);
}

static plb_value block_a(plb_layers *net, plb_value x, int64_t width) {
    plb_value parts[4];
    parts[0] = basic(net, "branch1x1", x, same(64, 1));
    parts[1] = basic(net, "branch5x5_1", x, same(48, 1));
    parts[1] = basic(net, "branch5x5_2", parts[1], same(64, 5));
    parts[2] = double3x3(net, x, same(96, 3));
    parts[3] = pooled(net, x, width);
    return plb_concat(net->graph, parts, 4, 1);
}

static plb_value block_b(plb_layers *net, plb_value x, int64_t width) {
    (void)width;
    plb_value parts[3];
    parts[0] = basic(net, "branch3x3", x, reducing(384));
    parts[1] = double3x3(net, x, reducing(96));
    parts[2] = plb_layer_max_pool(net, x, 3, 2, 0, false);
    return plb_concat(net->graph, parts, 3, 1);
}

static plb_value block_c(plb_layers *net, plb_value x, int64_t width) {
    plb_value parts[4];
    parts[0] = basic(net, "branch1x1", x, same(192, 1));
    parts[1] = basic(net, "branch7x7_1", x, same(width, 1));
    parts[1] = basic(net, "branch7x7_2", parts[1], row(width, 7));
    parts[1] = basic(net, "branch7x7_3", parts[1], column(192, 7));
    parts[2] = basic(net, "branch7x7dbl_1", x, same(width, 1));
    parts[2] = basic(net, "branch7x7dbl_2", parts[2], column(width, 7));
    parts[2] = basic(net, "branch7x7dbl_3", parts[2], row(width, 7));
    parts[2] = basic(net, "branch7x7dbl_4", parts[2], column(width, 7));
    parts[2] = basic(net, "branch7x7dbl_5", parts[2], row(192, 7));
    parts[3] = pooled(net, x, 192);
    return plb_concat(net->graph, parts, 4, 1);
}

static plb_value block_d(plb_layers *net, plb_value x, int64_t width) {
    (void)width;
    plb_value parts[3];
    parts[0] = basic(net, "branch3x3_1", x, same(192, 1));
    parts[0] = basic(net, "branch3x3_2", parts[0], reducing(320));
    parts[1] = basic(net, "branch7x7x3_1", x, same(192, 1));
    parts[1] = basic(net, "branch7x7x3_2", parts[1], row(192, 7));
    parts[1] = basic(net, "branch7x7x3_3", parts[1], column(192, 7));
    parts[1] = basic(net, "branch7x7x3_4", parts[1], reducing(192));
    parts[2] = plb_layer_max_pool(net, x, 3, 2, 0, false);
    return plb_concat(net->graph, parts, 3, 1);
}

// A row and a column filter side by side.
static plb_value cross(plb_layers *net, const char *a, const char *b, plb_value x) {
    plb_value parts[2];
    parts[0] = basic(net, a, x, row(384, 3));
    parts[1] = basic(net, b, x, column(384, 3));
    return plb_concat(net->graph, parts, 2, 1);
}

static plb_value block_e(plb_layers *net, plb_value x, int64_t width) {
    (void)width;
    plb_value parts[4];
    parts[0] = basic(net, "branch1x1", x, same(320, 1));
    parts[1] = basic(net, "branch3x3_1", x, same(384, 1));
    parts[1] = cross(net, "branch3x3_2a", "branch3x3_2b", parts[1]);
    parts[2] = basic(net, "branch3x3dbl_1", x, same(448, 1));
    parts[2] = basic(net, "branch3x3dbl_2", parts[2], same(384, 3));
    parts[2] = cross(net, "branch3x3dbl_3a", "branch3x3dbl_3b", parts[2]);
    parts[3] = pooled(net, x, 192);
    return plb_concat(net->graph, parts, 4, 1);
}

static void aux_head(plb_layers *net, plb_value x) {
    enum { NARROW = 128, WIDE = 768 };
    const plb_weight_init usual = net->linear;
    const plb_conv2d wide = {.out = WIDE, .kernel = 5};
    const bool runs = plb_graph_training(net->graph);
    plb_scope_push(net->graph, "AuxLogits");
    // torchvision means 0.01 for conv1 too, but sets it where its initialisation does not look.
    net->linear.deviation = 0.001;
    if (runs) {
        x = plb_layer_avg_pool(net, x, 5, 3, 0);
        x = basic(net, "conv0", x, same(NARROW, 1));
        x = plb_layer_global_pool(net, basic(net, "conv1", x, wide));
        net->result->aux[net->result->n_aux++] = plb_layer_linear(net, "fc", x, net->classes);
    } else {
        plb_layer_declare_conv(net, "conv0.conv", plb_layer_channels(net, x), same(NARROW, 1));
        plb_layer_declare_norm(net, "conv0.bn", NARROW);
        plb_layer_declare_conv(net, "conv1.conv", NARROW, wide);
        plb_layer_declare_norm(net, "conv1.bn", WIDE);
        plb_layer_declare_linear(net, "fc", WIDE, net->classes);
    }
    net->linear = usual;
    plb_scope_pop(net->graph);
}

static plb_value stem(plb_layers *net, plb_value x) {
    x = basic(net, "Conv2d_1a_3x3", x, reducing(32));
    x = basic(net, "Conv2d_2a_3x3", x, (plb_conv2d){.out = 32, .kernel = 3});
    x = basic(net, "Conv2d_2b_3x3", x, same(64, 3));
    x = plb_layer_max_pool(net, x, 3, 2, 0, false);
    x = basic(net, "Conv2d_3b_1x1", x, same(80, 1));
    x = basic(net, "Conv2d_4a_3x3", x, (plb_conv2d){.out = 192, .kernel = 3});
    return plb_layer_max_pool(net, x, 3, 2, 0, false);
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_inception(plb_layers *net, plb_value x, int variant) {
    static const struct {
        const char *name;
        plb_value (*append)(plb_layers *net, plb_value x, int64_t width);
        int64_t width;
    } blocks[] = {
        {"Mixed_5b", block_a, 32},  {"Mixed_5c", block_a, 64},  {"Mixed_5d", block_a, 64},
        {"Mixed_6a", block_b, 0},   {"Mixed_6b", block_c, 128}, {"Mixed_6c", block_c, 160},
        {"Mixed_6d", block_c, 160}, {"Mixed_6e", block_c, 192}, {"Mixed_7a", block_d, 0},
        {"Mixed_7b", block_e, 0},   {"Mixed_7c", block_e, 0}};
    const size_t aux_before = 8;
    (void)variant;
    // torchvision truncates at 2, that is at 20 deviations: never.
    net->conv = net->linear = (plb_weight_init){.rule = PLB_WEIGHT_NORMAL, .deviation = 0.1};
    net->norm_eps = 0.001;
    net->result->aux_weight = 0.4;
    x = stem(net, x);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        if (b == aux_before) aux_head(net, x);
        plb_scope_push(net->graph, "%s", blocks[b].name);
        x = blocks[b].append(net, x, blocks[b].width);
        plb_scope_pop(net->graph);
    }
    x = plb_layer_dropout(net, plb_layer_global_pool(net, x), 0.5);
    return plb_layer_linear(net, "fc", x, net->classes);
}
