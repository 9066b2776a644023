// SPDX-License-Identifier: Apache-2.0
// EfficientNet-B0 (Tan, Le 2019): inverted residuals with squeeze and excitation, whose branches
// are dropped with a probability that grows with depth.
#include "zoo/layers.h"

typedef struct stage_config {
    int64_t expand, kernel, stride, out;
    int repeats;
} stage_config;

static const stage_config stages[] = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},  {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1},
};
enum { STAGES = sizeof stages / sizeof *stages, BLOCKS = 16 };

static plb_value unit(plb_layers *net, int index, plb_value x, plb_conv2d shape,
                      plb_activation_fn act) {
    plb_scope_push(net->graph, "%d", index);
    x = plb_layer_conv_norm(net, "0", "1", x, shape, act);
    plb_scope_pop(net->graph);
    return x;
}

static plb_value mbconv(plb_layers *net, plb_value x, const stage_config *s, int64_t stride,
                        double drop) {
    const int64_t in = plb_layer_channels(net, x), middle = in * s->expand;
    const plb_conv2d depthwise = {.out = middle,
                                  .kernel = s->kernel,
                                  .stride = stride,
                                  .pad = s->kernel / 2,
                                  .groups = middle};
    plb_value y = x;
    int index = 0;
    plb_scope_push(net->graph, "block");
    if (middle != in) {
        y = unit(net, index++, y, (plb_conv2d){.out = middle, .kernel = 1}, plb_silu);
    }
    y = unit(net, index++, y, depthwise, plb_silu);
    y = plb_layer_squeeze_excite(net, index == 1 ? "1" : "2", y, in < 4 ? 1 : in / 4, plb_silu,
                                 plb_sigmoid);
    y = unit(net, index + 1, y, (plb_conv2d){.out = s->out, .kernel = 1}, NULL);
    plb_scope_pop(net->graph);
    if (stride != 1 || in != s->out) return y;
    return plb_add(net->graph, plb_layer_stochastic_depth(net, y, drop), x);
}

// x[N,3,H,W] -> [N,classes]
plb_value plb_zoo_efficientnet(plb_layers *net, plb_value x, int variant) {
    (void)variant;
    int block = 0;
    net->conv = (plb_weight_init){.rule = PLB_WEIGHT_HE_NORMAL_OUT, .zero_bias = true};
    net->linear = (plb_weight_init){.rule = PLB_WEIGHT_INVERSE_OUT, .zero_bias = true};
    plb_scope_push(net->graph, "features");
    x = unit(net, 0, x, (plb_conv2d){.out = 32, .kernel = 3, .stride = 2, .pad = 1}, plb_silu);
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < stages[s].repeats; i++) {
            plb_scope_push(net->graph, "%d.%d", s + 1, i);
            x = mbconv(net, x, &stages[s], i ? 1 : stages[s].stride, 0.2 * block++ / BLOCKS);
            plb_scope_pop(net->graph);
        }
    }
    x = unit(net, STAGES + 1, x, (plb_conv2d){.out = 1280, .kernel = 1}, plb_silu);
    plb_scope_pop(net->graph);
    x = plb_layer_dropout(net, plb_layer_global_pool(net, x), 0.2);
    return plb_layer_linear(net, "classifier.1", x, net->classes);
}
