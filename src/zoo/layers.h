// SPDX-License-Identifier: Apache-2.0
// Layers: an op, the variables that it reads, and how these begin. A layer named "conv1" reads
// "scope.conv1.weight" and so on; names may hold dots; "" is the scope itself. Declaring order is
// the order of calls. After the graph has failed every layer returns PLB_NONE.
#ifndef PLB_ZOO_LAYERS_H
#define PLB_ZOO_LAYERS_H

#include "plumb/zoo.h"

// How a weight begins (He et al. 2015; Glorot, Bengio 2010). fan_in is what one output sums over,
// fan_out the number of outputs that one kernel position of an input feeds, groups not counted.
typedef enum plb_weight_rule {
    PLB_WEIGHT_FAN_IN,           // uniform within 1/sqrt(fan_in): what PyTorch's layers do
    PLB_WEIGHT_HE_NORMAL_OUT,    // deviation sqrt(2/fan_out)
    PLB_WEIGHT_HE_NORMAL_IN,     // deviation sqrt(2/fan_in)
    PLB_WEIGHT_HE_UNIFORM_IN,    // uniform within sqrt(6/fan_in)
    PLB_WEIGHT_UNIT_UNIFORM_OUT, // uniform within sqrt(3/fan_out)
    PLB_WEIGHT_INVERSE_OUT,      // uniform within 1/sqrt(fan_out)
    PLB_WEIGHT_NORMAL,           // deviation given
} plb_weight_rule;

typedef struct plb_weight_init {
    plb_weight_rule rule;
    double deviation; // of PLB_WEIGHT_NORMAL
    bool zero_bias;   // the bias begins at 0 instead of uniform within 1/sqrt(fan_in)
} plb_weight_init;

// What the layers of one model share. A family sets the rules before its first layer.
typedef struct plb_layers {
    plb_graph *graph;
    const plb_zoo_options *options;
    int64_t classes;
    plb_weight_init conv, linear;
    double norm_eps, norm_momentum;
    plb_zoo_result *result;
    char name[64]; // see plb_layer_name
} plb_layers;

// Formats a name for the next layer or scope; it lives until the next call.
const char *plb_layer_name(plb_layers *net, const char *format, ...) PLB_PRINTF(2);

typedef struct plb_conv2d {
    int64_t out, kernel, stride, pad, groups; // stride and groups: 0 is 1
    bool bias;
    int64_t kernel_h, kernel_w; // both given: instead of the square kernel; then padding is "same"
} plb_conv2d;

// Only declare the variables of a layer on `in` channels: of heads that a mode does not run.
void plb_layer_declare_conv(plb_layers *net, const char *name, int64_t in, plb_conv2d shape);
void plb_layer_declare_linear(plb_layers *net, const char *name, int64_t in, int64_t out);
void plb_layer_declare_norm(plb_layers *net, const char *name, int64_t channels);

// x[N,C,H,W] -> [N,out,H',W']
plb_value plb_layer_conv(plb_layers *net, const char *name, plb_value x, plb_conv2d shape);
// x[N,I] -> [N,out]; always with a bias.
plb_value plb_layer_linear(plb_layers *net, const char *name, plb_value x, int64_t out);
// x[N,C,H,W]. In training it normalises with the statistics of the batch and assigns the running
// ones: r' = (1 - momentum) r + momentum s, the variance divided by its count less one.
plb_value plb_layer_norm_batch(plb_layers *net, const char *name, plb_value x);

typedef plb_value (*plb_activation_fn)(plb_graph *graph, plb_value x);

// conv, batch norm and activation (NULL: none), as children `conv` and `norm` of the scope.
plb_value plb_layer_conv_norm(plb_layers *net, const char *conv, const char *norm, plb_value x,
                              plb_conv2d shape, plb_activation_fn act);

plb_value plb_layer_max_pool(plb_layers *net, plb_value x, int64_t kernel, int64_t stride,
                             int64_t pad, bool ceil_mode);
// Counts the padding, as PyTorch's default does.
plb_value plb_layer_avg_pool(plb_layers *net, plb_value x, int64_t kernel, int64_t stride,
                             int64_t pad);
// x[N,C,H,W] -> [N,C,extent,extent]
plb_value plb_layer_adaptive_pool(plb_layers *net, plb_value x, int64_t extent);
// x[N,C,H,W] -> [N,C]
plb_value plb_layer_global_pool(plb_layers *net, plb_value x);
plb_value plb_layer_dropout(plb_layers *net, plb_value x, double p);
plb_value plb_layer_dropout_channels(plb_layers *net, plb_value x, double p);
// Drops whole samples of a residual branch (Huang et al. 2016) and scales the rest by 1/(1 - p).
plb_value plb_layer_stochastic_depth(plb_layers *net, plb_value x, double p);
// Squeeze and excitation (Hu et al. 2018) with 1x1 convolutions "fc1" and "fc2".
plb_value plb_layer_squeeze_excite(plb_layers *net, const char *name, plb_value x, int64_t squeeze,
                                   plb_activation_fn act, plb_activation_fn gate);

int64_t plb_layer_channels(const plb_layers *net, plb_value x); // of x[N,C,…]

// An architecture family's function; `variant` comes from zoo.def.
typedef plb_value (*plb_zoo_family)(plb_layers *net, plb_value x, int variant);

#endif
