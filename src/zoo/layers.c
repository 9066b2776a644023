// SPDX-License-Identifier: Apache-2.0
// Layers out of ops and variables.
#include "zoo/layers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/core/status.h"
#include "engine/graph/graph.h"

const char *plb_layer_name(plb_layers *net, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(net->name, sizeof net->name, format, args);
    va_end(args);
    return net->name;
}

int64_t plb_layer_channels(const plb_layers *net, plb_value x) {
    plb_shape shape = plb_value_shape(net->graph, x);
    return shape.rank > 1 ? shape.dim[1] : 0;
}

// ---------------------------------------------------------------------------- variables
static void open_layer(plb_layers *net, const char *name) {
    if (*name) plb_scope_push(net->graph, "%s", name);
}

static void close_layer(plb_layers *net, const char *name) {
    if (*name) plb_scope_pop(net->graph);
}

static plb_init uniform_within(double bound) {
    return (plb_init){PLB_INIT_UNIFORM, -bound, bound};
}

static plb_init weight_init(plb_weight_init how, double fan_in, double fan_out) {
    switch (how.rule) {
    case PLB_WEIGHT_FAN_IN: return uniform_within(1 / sqrt(fan_in));
    case PLB_WEIGHT_HE_NORMAL_OUT: return (plb_init){PLB_INIT_NORMAL, 0, sqrt(2 / fan_out)};
    case PLB_WEIGHT_HE_NORMAL_IN: return (plb_init){PLB_INIT_NORMAL, 0, sqrt(2 / fan_in)};
    case PLB_WEIGHT_HE_UNIFORM_IN: return uniform_within(sqrt(6 / fan_in));
    case PLB_WEIGHT_UNIT_UNIFORM_OUT: return uniform_within(sqrt(3 / fan_out));
    case PLB_WEIGHT_INVERSE_OUT: return uniform_within(1 / sqrt(fan_out));
    case PLB_WEIGHT_NORMAL: break;
    }
    return (plb_init){PLB_INIT_NORMAL, 0, how.deviation};
}

static plb_value weight(plb_layers *net, const plb_shape *shape, plb_weight_init how) {
    double receptive = 1;
    for (int i = 2; i < shape->rank; i++) receptive *= (double)shape->dim[i];
    double fan_in = (double)shape->dim[1] * receptive, fan_out = (double)shape->dim[0] * receptive;
    return plb_param(net->graph, "weight", PLB_F32, shape, PLB_ROLE_PARAMETER,
                     weight_init(how, fan_in, fan_out));
}

static plb_value bias(plb_layers *net, const plb_shape *weight_shape, plb_weight_init how) {
    double fan_in = 1;
    for (int i = 1; i < weight_shape->rank; i++) fan_in *= (double)weight_shape->dim[i];
    plb_init init =
        how.zero_bias ? (plb_init){PLB_INIT_CONSTANT, 0, 0} : uniform_within(1 / sqrt(fan_in));
    return plb_param(net->graph, "bias", PLB_F32, &plb_shape_of(weight_shape->dim[0]),
                     PLB_ROLE_PARAMETER, init);
}

// ---------------------------------------------------------------------------- products
typedef struct product_variables {
    plb_value weight, bias;
} product_variables;

static plb_conv_attrs conv_attrs(plb_conv2d c) {
    int64_t stride = c.stride ? c.stride : 1, groups = c.groups ? c.groups : 1;
    plb_conv_attrs attrs = plb_conv_uniform(2, stride, c.pad, 1, groups);
    if (c.kernel_h && c.kernel_w) {
        const int64_t extent[2] = {c.kernel_h, c.kernel_w};
        for (int i = 0; i < 2; i++) attrs.pad_begin[i] = attrs.pad_end[i] = extent[i] / 2;
    }
    return attrs;
}

static product_variables conv_declare(plb_layers *net, int64_t in, plb_conv2d c) {
    bool square = !c.kernel_h || !c.kernel_w;
    plb_shape shape = plb_shape_of(c.out, in / (c.groups ? c.groups : 1),
                                   square ? c.kernel : c.kernel_h, square ? c.kernel : c.kernel_w);
    product_variables v = {.bias = PLB_NONE};
    v.weight = weight(net, &shape, net->conv);
    if (c.bias) v.bias = bias(net, &shape, net->conv);
    return v;
}

static product_variables linear_declare(plb_layers *net, int64_t in, int64_t out) {
    plb_shape shape = plb_shape_of(out, in);
    product_variables v;
    v.weight = weight(net, &shape, net->linear);
    v.bias = bias(net, &shape, net->linear);
    return v;
}

void plb_layer_declare_conv(plb_layers *net, const char *name, int64_t in, plb_conv2d shape) {
    open_layer(net, name);
    conv_declare(net, in, shape);
    close_layer(net, name);
}

void plb_layer_declare_linear(plb_layers *net, const char *name, int64_t in, int64_t out) {
    open_layer(net, name);
    linear_declare(net, in, out);
    close_layer(net, name);
}

plb_value plb_layer_conv(plb_layers *net, const char *name, plb_value x, plb_conv2d shape) {
    if (net->graph->status) return PLB_NONE;
    plb_conv_attrs attrs = conv_attrs(shape);
    open_layer(net, name);
    product_variables v = conv_declare(net, plb_layer_channels(net, x), shape);
    plb_value y = plb_conv(net->graph, x, v.weight, v.bias, &attrs);
    close_layer(net, name);
    return y;
}

plb_value plb_layer_linear(plb_layers *net, const char *name, plb_value x, int64_t out) {
    if (net->graph->status) return PLB_NONE;
    open_layer(net, name);
    product_variables v = linear_declare(net, plb_layer_channels(net, x), out);
    plb_value y = plb_linear(net->graph, x, v.weight, v.bias);
    close_layer(net, name);
    return y;
}

// ---------------------------------------------------------------------------- batch norm
typedef struct norm_variables {
    plb_value gamma, beta, mean, variance, count;
} norm_variables;

static norm_variables norm_declare(plb_layers *net, int64_t channels) {
    plb_graph *graph = net->graph;
    const plb_shape shape = plb_shape_of(channels);
    const plb_init zero = {PLB_INIT_CONSTANT, 0, 0}, one = {PLB_INIT_CONSTANT, 1, 0};
    norm_variables v;
    v.gamma = plb_param(graph, "weight", PLB_F32, &shape, PLB_ROLE_PARAMETER, one);
    v.beta = plb_param(graph, "bias", PLB_F32, &shape, PLB_ROLE_PARAMETER, zero);
    v.mean = plb_param(graph, "running_mean", PLB_F32, &shape, PLB_ROLE_BUFFER, zero);
    v.variance = plb_param(graph, "running_var", PLB_F32, &shape, PLB_ROLE_BUFFER, one);
    v.count =
        plb_param(graph, "num_batches_tracked", PLB_I64, &plb_scalar_shape, PLB_ROLE_BUFFER, zero);
    return v;
}

void plb_layer_declare_norm(plb_layers *net, const char *name, int64_t channels) {
    open_layer(net, name);
    norm_declare(net, channels);
    close_layer(net, name);
}

static double momentum_of(const plb_layers *net) {
    return net->options->norms_of_batch ? 1 : net->norm_momentum;
}

static void assign_running(plb_layers *net, plb_value running, plb_value now) {
    plb_graph *graph = net->graph;
    plb_value kept = plb_affine(graph, running, 1 - momentum_of(net), 0);
    plb_assign(graph, plb_value_variable(graph, running), plb_add(graph, kept, now));
}

// From the statistics of a batch of n numbers a channel. The op gives 1/sqrt(variance + eps), so
// the variance is what is left of its inverse square.
static void norm_update(plb_layers *net, const norm_variables *v, plb_value y, double n) {
    plb_graph *graph = net->graph;
    if (n < 2) {
        plb_graph_fail(graph, plb_fail(PLB_EINVAL,
                                       "batch norm in training: expected more than "
                                       "one value a channel, found %.0f",
                                       n));
        return;
    }
    plb_assign(graph, plb_value_variable(graph, v->count),
               plb_add(graph, v->count, plb_scalar(graph, PLB_I64, 1)));
    double m = momentum_of(net), unbiased = m * n / (n - 1);
    assign_running(net, v->mean, plb_affine(graph, y + 1, m, 0));
    plb_value inverse = plb_reciprocal(graph, plb_mul(graph, y + 2, y + 2));
    assign_running(net, v->variance,
                   plb_affine(graph, inverse, unbiased, -net->norm_eps * unbiased));
}

plb_value plb_layer_norm_batch(plb_layers *net, const char *name, plb_value x) {
    plb_graph *graph = net->graph;
    if (graph->status) return PLB_NONE;
    plb_shape shape = plb_value_shape(graph, x);
    int64_t channels = plb_layer_channels(net, x);
    open_layer(net, name);
    norm_variables v = norm_declare(net, channels);
    plb_value y;
    if (plb_graph_training(graph)) {
        y = plb_batch_norm(graph, x, v.gamma, v.beta, net->norm_eps);
        double n = channels ? (double)(plb_shape_count(&shape) / channels) : 0;
        if (!graph->status) norm_update(net, &v, y, n);
    } else {
        y = plb_batch_norm_infer(graph, x, v.gamma, v.beta, v.mean, v.variance, net->norm_eps);
    }
    close_layer(net, name);
    return y;
}

plb_value plb_layer_conv_norm(plb_layers *net, const char *conv, const char *norm, plb_value x,
                              plb_conv2d shape, plb_activation_fn act) {
    x = plb_layer_norm_batch(net, norm, plb_layer_conv(net, conv, x, shape));
    return act ? act(net->graph, x) : x;
}

// ---------------------------------------------------------------------------- pooling
plb_value plb_layer_max_pool(plb_layers *net, plb_value x, int64_t kernel, int64_t stride,
                             int64_t pad, bool ceil_mode) {
    plb_pool_attrs attrs = plb_pool_uniform(2, kernel, stride, pad);
    attrs.ceil_mode = ceil_mode;
    return plb_max_pool(net->graph, x, &attrs);
}

plb_value plb_layer_avg_pool(plb_layers *net, plb_value x, int64_t kernel, int64_t stride,
                             int64_t pad) {
    plb_pool_attrs attrs = plb_pool_uniform(2, kernel, stride, pad);
    attrs.count_include_pad = true;
    return plb_avg_pool(net->graph, x, &attrs);
}

plb_value plb_layer_adaptive_pool(plb_layers *net, plb_value x, int64_t extent) {
    return plb_adaptive_avg_pool(net->graph, x, (int64_t[PLB_MAX_SPATIAL]){extent, extent});
}

plb_value plb_layer_global_pool(plb_layers *net, plb_value x) {
    return plb_flatten(net->graph, plb_global_avg_pool(net->graph, x), 1);
}

// ---------------------------------------------------------------------------- regularisation
static bool dropped(const plb_layers *net, double p) {
    return p > 0 && !net->options->no_dropout && plb_graph_training(net->graph);
}

plb_value plb_layer_dropout(plb_layers *net, plb_value x, double p) {
    return dropped(net, p) ? plb_dropout(net->graph, x, p) : x;
}

plb_value plb_layer_dropout_channels(plb_layers *net, plb_value x, double p) {
    return dropped(net, p) ? plb_dropout_channels(net->graph, x, p) : x;
}

plb_value plb_layer_stochastic_depth(plb_layers *net, plb_value x, double p) {
    plb_graph *graph = net->graph;
    if (!dropped(net, p) || graph->status) return x;
    plb_shape shape = plb_value_shape(graph, x);
    for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
    plb_value u = plb_random_uniform(graph, PLB_F32, &shape, 0, 1);
    plb_value survives = plb_lt(graph, u, plb_scalar(graph, PLB_F32, 1 - p));
    plb_value scale = plb_affine(graph, plb_cast(graph, survives, PLB_F32), 1 / (1 - p), 0);
    return plb_mul(graph, x, scale);
}

plb_value plb_layer_squeeze_excite(plb_layers *net, const char *name, plb_value x, int64_t squeeze,
                                   plb_activation_fn act, plb_activation_fn gate) {
    plb_graph *graph = net->graph;
    int64_t channels = plb_layer_channels(net, x);
    open_layer(net, name);
    plb_value s = plb_global_avg_pool(graph, x);
    s = plb_layer_conv(net, "fc1", s, (plb_conv2d){.out = squeeze, .kernel = 1, .bias = true});
    s = act(graph, s);
    s = plb_layer_conv(net, "fc2", s, (plb_conv2d){.out = channels, .kernel = 1, .bias = true});
    plb_value y = plb_mul(graph, x, gate(graph, s));
    close_layer(net, name);
    return y;
}
