// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2016), with the stride of a bottleneck at its 3x3 convolution, as
// torchvision has it; ResNeXt (Xie et al. 2017) and wide ones (Zagoruyko, Komodakis 2016) differ in
// the bottleneck's groups and width.
#include "zoo/layers.h"

enum { STAGES = 4 };

typedef struct resnet_config {
    int variant;
    int depth[STAGES];
    bool bottleneck;
    int64_t groups, width; // of a group, where the stage's planes are 64
} resnet_config;

static const resnet_config configs[] = {
    {18, {2, 2, 2, 2}, false, 1, 64},  {34, {3, 4, 6, 3}, false, 1, 64},
    {50, {3, 4, 6, 3}, true, 1, 64},   {101, {3, 4, 23, 3}, true, 1, 64},
    {152, {3, 8, 36, 3}, true, 1, 64}, {5032, {3, 4, 6, 3}, true, 32, 4},
    {502, {3, 4, 6, 3}, true, 1, 128},
};

static const resnet_config *find(int variant) {
    const resnet_config *config = configs;
    while (config->variant != variant) config++;
    return config;
}

static plb_value basic(plb_layers *net, plb_value x, int64_t planes, int64_t stride) {
    const plb_conv2d first = {.out = planes, .kernel = 3, .stride = stride, .pad = 1};
    const plb_conv2d second = {.out = planes, .kernel = 3, .pad = 1};
    x = plb_layer_conv_norm(net, "conv1", "bn1", x, first, plb_relu);
    return plb_layer_conv_norm(net, "conv2", "bn2", x, second, NULL);
}

static plb_value bottleneck(plb_layers *net, plb_value x, const resnet_config *config,
                            int64_t planes, int64_t stride) {
    const int64_t width = planes * config->width / 64 * config->groups;
    const plb_conv2d narrow = {.out = width, .kernel = 1};
    const plb_conv2d middle = {
        .out = width, .kernel = 3, .stride = stride, .pad = 1, .groups = config->groups};
    const plb_conv2d widen = {.out = planes * 4, .kernel = 1};
    x = plb_layer_conv_norm(net, "conv1", "bn1", x, narrow, plb_relu);
    x = plb_layer_conv_norm(net, "conv2", "bn2", x, middle, plb_relu);
    return plb_layer_conv_norm(net, "conv3", "bn3", x, widen, NULL);
}

static plb_value block(plb_layers *net, plb_value x, const resnet_config *config, int64_t planes,
                       int64_t stride) {
    const int64_t out = config->bottleneck ? planes * 4 : planes;
    plb_value identity = x;
    x = config->bottleneck ? bottleneck(net, x, config, planes, stride)
                           : basic(net, x, planes, stride);
    if (stride != 1 || plb_layer_channels(net, identity) != out) {
        const plb_conv2d project = {.out = out, .kernel = 1, .stride = stride};
        identity =
            plb_layer_conv_norm(net, "downsample.0", "downsample.1", identity, project, NULL);
    }
    return plb_relu(net->graph, plb_add(net->graph, x, identity));
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_resnet(plb_layers *net, plb_value x, int variant) {
    const resnet_config *config = find(variant);
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_OUT};
    const plb_conv2d stem = {.out = 64, .kernel = 7, .stride = 2, .pad = 3};
    x = plb_layer_conv_norm(net, "conv1", "bn1", x, stem, plb_relu);
    x = plb_layer_max_pool(net, x, 3, 2, 1, false);
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < config->depth[stage]; i++) {
            plb_scope_push(net->graph, "layer%d.%d", stage + 1, i);
            x = block(net, x, config, (int64_t)64 << stage, stage && !i ? 2 : 1);
            plb_scope_pop(net->graph);
        }
    }
    return plb_layer_linear(net, "fc", plb_layer_global_pool(net, x), net->classes);
}
