// SPDX-License-Identifier: Apache-2.0
// Ops that work element by element.
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"
#include "onnx/dtype.h"
#include "onnx/map.h"

// ---------------------------------------------------------------------------- one operand
static const struct {
    const char *name;
    plb_value (*build)(plb_graph *graph, plb_value x);
} plain_unary[] = {
    {"Abs", plb_abs},           {"Acos", plb_acos},
    {"Acosh", plb_acosh},       {"Asin", plb_asin},
    {"Asinh", plb_asinh},       {"Atan", plb_atan},
    {"Atanh", plb_atanh},       {"Ceil", plb_ceil},
    {"Cos", plb_cos},           {"Cosh", plb_cosh},
    {"Erf", plb_erf},           {"Exp", plb_exp},
    {"Floor", plb_floor},       {"HardSwish", plb_hardswish},
    {"IsNaN", plb_isnan},       {"Log", plb_log},
    {"Mish", plb_mish},         {"Neg", plb_neg},
    {"Not", plb_not},           {"Reciprocal", plb_reciprocal},
    {"Relu", plb_relu},         {"Round", plb_round},
    {"Sigmoid", plb_sigmoid},   {"Sign", plb_sign},
    {"Sin", plb_sin},           {"Sinh", plb_sinh},
    {"Softsign", plb_softsign}, {"Sqrt", plb_sqrt},
    {"Tan", plb_tan},           {"Tanh", plb_tanh},
};

plb_status plb_onnx_map_unary(plb_onnx_node *n) {
    for (size_t i = 0; i < sizeof plain_unary / sizeof *plain_unary; i++) {
        if (strcmp(plain_unary[i].name, n->op) != 0) continue;
        n->out[0] = plain_unary[i].build(n->graph, n->in[0]);
        return PLB_OK;
    }
    return plb_fail(PLB_EBROKEN, "%s is no op of one operand", n->op);
}

plb_status plb_onnx_map_leaky_relu(plb_onnx_node *n) {
    n->out[0] = plb_leaky_relu(n->graph, n->in[0], plb_onnx_float(n, "alpha", 0.01));
    return PLB_OK;
}

plb_status plb_onnx_map_elu(plb_onnx_node *n) {
    n->out[0] = plb_elu(n->graph, n->in[0], plb_onnx_float(n, "alpha", 1));
    return PLB_OK;
}

plb_status plb_onnx_map_celu(plb_onnx_node *n) {
    n->out[0] = plb_celu(n->graph, n->in[0], plb_onnx_float(n, "alpha", 1));
    return PLB_OK;
}

plb_status plb_onnx_map_selu(plb_onnx_node *n) {
    double alpha = plb_onnx_float(n, "alpha", n->opset < 6 ? 1.6732 : 1.67326319217681884765625);
    double gamma = plb_onnx_float(n, "gamma", n->opset < 6 ? 1.0507 : 1.05070102214813232421875);
    n->out[0] = plb_affine(n->graph, plb_elu(n->graph, n->in[0], alpha), gamma, 0);
    return PLB_OK;
}

plb_status plb_onnx_map_hard_sigmoid(plb_onnx_node *n) {
    double alpha = plb_onnx_float(n, "alpha", 0.2), beta = plb_onnx_float(n, "beta", 0.5);
    if ((float)alpha == 1.0f / 6 && beta == 0.5) { // as PyTorch defines it
        n->out[0] = plb_hardsigmoid(n->graph, n->in[0]);
        return PLB_OK;
    }
    n->out[0] = plb_clamp(n->graph, plb_affine(n->graph, n->in[0], alpha, beta), 0, 1);
    return PLB_OK;
}

plb_status plb_onnx_map_thresholded_relu(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    plb_value alpha = plb_scalar(g, dtype, plb_onnx_float(n, "alpha", 1));
    n->out[0] = plb_where(g, plb_gt(g, n->in[0], alpha), n->in[0], plb_scalar(g, dtype, 0));
    return PLB_OK;
}

plb_status plb_onnx_map_softplus(plb_onnx_node *n) {
    n->out[0] = plb_softplus(n->graph, n->in[0], 1, 1000);
    return PLB_OK;
}

plb_status plb_onnx_map_gelu(plb_onnx_node *n) {
    bool tanh = plb_onnx_is(n, "approximate", "none", "tanh");
    n->out[0] = tanh ? plb_gelu_tanh(n->graph, n->in[0]) : plb_gelu(n->graph, n->in[0]);
    return PLB_OK;
}

plb_status plb_onnx_map_swish(plb_onnx_node *n) {
    double alpha = plb_onnx_float(n, "alpha", 1);
    plb_value x = n->in[0];
    plb_value gate = plb_sigmoid(n->graph, plb_affine(n->graph, x, alpha, 0));
    n->out[0] = alpha == 1 ? plb_silu(n->graph, x) : plb_mul(n->graph, x, gate);
    return PLB_OK;
}

// Integers are shrunk by half a number as reals, and then cut.
plb_status plb_onnx_map_shrink(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    double bias = plb_onnx_float(n, "bias", 0), lambda = plb_onnx_float(n, "lambd", 0.5);
    const plb_dtype own = plb_onnx_type(n, 0).dtype;
    const bool as_it_is = plb_dtype_is_float(own) || bias == trunc(bias);
    const plb_dtype dtype = as_it_is ? own : PLB_F64;
    plb_value x = as_it_is ? n->in[0] : plb_cast(g, n->in[0], dtype);
    plb_value zero = plb_scalar(g, dtype, 0);
    plb_value low = plb_lt(g, x, plb_scalar(g, dtype, -lambda));
    plb_value high = plb_gt(g, x, plb_scalar(g, dtype, lambda));
    plb_value inner = plb_where(g, high, plb_affine(g, x, 1, -bias), zero);
    plb_value y = plb_where(g, low, plb_affine(g, x, 1, bias), inner);
    n->out[0] = as_it_is ? y : plb_cast(g, y, own);
    return PLB_OK;
}

plb_status plb_onnx_map_is_inf(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_dtype dtype = plb_onnx_type(n, 0).dtype;
    bool above = plb_onnx_int(n, "detect_positive", 1) != 0;
    bool below = plb_onnx_int(n, "detect_negative", 1) != 0;
    plb_value up = plb_eq(g, n->in[0], plb_scalar(g, dtype, above ? INFINITY : NAN));
    plb_value down = plb_eq(g, n->in[0], plb_scalar(g, dtype, below ? -INFINITY : NAN));
    n->out[0] = plb_or(g, up, down);
    return PLB_OK;
}

plb_status plb_onnx_map_bitwise_not(plb_onnx_node *n) { // in two's complement: -1 - x
    n->out[0] = plb_affine(n->graph, n->in[0], -1, -1);
    return PLB_OK;
}

plb_status plb_onnx_map_identity(plb_onnx_node *n) {
    n->out[0] = n->in[0];
    if (n->in[0] == PLB_NONE) return plb_fail(PLB_EINVAL, "input 0 is missing");
    return PLB_OK;
}

static plb_status dropout_training(plb_onnx_node *n, double ratio) {
    plb_graph *g = n->graph;
    plb_type type = plb_onnx_type(n, 0);
    if (n->n_out < 2 || !*plb_onnx_string(n->proto->output[1])) {
        n->out[0] = plb_dropout(g, n->in[0], ratio);
        return PLB_OK;
    }
    plb_value ones = plb_expand(g, plb_scalar(g, type.dtype, 1), &type.shape);
    plb_value kept = plb_dropout(g, ones, ratio);
    n->out[0] = plb_mul(g, n->in[0], kept);
    n->out[1] = plb_ne(g, kept, plb_scalar(g, type.dtype, 0));
    return PLB_OK;
}

// Random in training; else it passes x on and keeps everything.
plb_status plb_onnx_map_dropout(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    double ratio = 0.5, training = 0; // before version 12 nothing said that a graph trains
    if (plb_onnx_given_in(n, 1)) PLB_TRY(plb_onnx_known_number(n, 1, &ratio));
    if (plb_onnx_given_in(n, 2)) PLB_TRY(plb_onnx_known_number(n, 2, &training));
    plb_onnx_mode mode = n->scope->b->options->mode;
    if (training != 0 && ratio != 0 && mode == PLB_ONNX_TRAIN) return dropout_training(n, ratio);
    if (training != 0 && ratio != 0 && mode == PLB_ONNX_AS_WRITTEN) {
        return plb_onnx_refuse("dropout in training draws other numbers than any other program");
    }
    n->out[0] = n->in[0];
    plb_shape shape = plb_onnx_type(n, 0).shape;
    plb_dtype mask = n->opset < 10 ? plb_onnx_type(n, 0).dtype : PLB_BOOL;
    if (n->n_out > 1) n->out[1] = plb_expand(g, plb_scalar(g, mask, 1), &shape);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- clip
// From version 6 on an attribute that is left out is the largest f32, below which infinity is cut.
static plb_value bound(plb_onnx_node *n, int i, const char *name) {
    const double missing = i == 1 ? -(double)FLT_MAX : (double)FLT_MAX;
    if (n->opset >= 11) return plb_onnx_in(n, i);
    if (n->opset < 6 && !plb_onnx_has(n, name)) return PLB_NONE;
    return plb_scalar(n->graph, plb_onnx_type(n, 0).dtype, plb_onnx_float(n, name, missing));
}

// The limits as numbers, where they are known and of a float type.
static plb_status known_limits(plb_onnx_node *n, plb_value low, plb_value high, bool *known,
                               double limits[2]) {
    plb_value bounds[2] = {low, high};
    *known = plb_dtype_is_float(plb_onnx_type(n, 0).dtype);
    limits[0] = -INFINITY, limits[1] = INFINITY;
    for (int i = 0; i < 2 && *known; i++) {
        plb_tensor t;
        if (bounds[i] == PLB_NONE) continue;
        PLB_TRY(plb_evaluate(n->scope->evaluator, bounds[i], known, &t));
        *known = *known && plb_shape_count(&t.shape) == 1; // else it is refused below
        if (*known) limits[i] = plb_load_f64(t.data, t.dtype, 0);
    }
    *known = *known && limits[0] <= limits[1];
    return PLB_OK;
}

plb_status plb_onnx_map_clip(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value low = bound(n, 1, "min"), high = bound(n, 2, "max"), x = n->in[0];
    bool known;
    double limits[2];
    PLB_TRY(plb_graph_status(g));
    PLB_TRY(known_limits(n, low, high, &known, limits));
    if (known) {
        bool relu = limits[0] == 0 && limits[1] == (double)INFINITY;
        n->out[0] = relu ? plb_relu(g, x) : plb_clamp(g, x, limits[0], limits[1]);
        return PLB_OK;
    }
    if (low != PLB_NONE) x = plb_max(g, x, plb_reshape(g, low, &plb_scalar_shape));
    if (high != PLB_NONE) x = plb_min(g, x, plb_reshape(g, high, &plb_scalar_shape));
    n->out[0] = x;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- two operands
static const struct {
    const char *name;
    plb_value (*build)(plb_graph *graph, plb_value a, plb_value b);
} plain_binary[] = {
    {"Add", plb_add},
    {"And", plb_and},
    {"BitwiseAnd", plb_bit_and},
    {"BitwiseOr", plb_bit_or},
    {"BitwiseXor", plb_bit_xor},
    {"Div", plb_div},
    {"Equal", plb_eq},
    {"Greater", plb_gt},
    {"GreaterOrEqual", plb_ge},
    {"Less", plb_lt},
    {"LessOrEqual", plb_le},
    {"Max", plb_max},
    {"Min", plb_min},
    {"Mul", plb_mul},
    {"Or", plb_or},
    {"Sub", plb_sub},
    {"Sum", plb_add},
    {"Xor", plb_xor},
};

static plb_value apply(plb_onnx_node *n, plb_value a, plb_value b) {
    for (size_t i = 0; i < sizeof plain_binary / sizeof *plain_binary; i++) {
        if (strcmp(plain_binary[i].name, n->op) == 0) return plain_binary[i].build(n->graph, a, b);
    }
    return plb_graph_fail(n->graph, plb_fail(PLB_EBROKEN, "%s: no op of two operands", n->op));
}

// Before version 7, b's axes were matched to those of a from `axis` on, and only if told to.
static plb_status old_broadcast(plb_onnx_node *n, plb_value *b) {
    plb_shape s = plb_onnx_type(n, 0).shape, t = plb_onnx_type(n, 1).shape;
    if (n->opset >= 7 || !plb_onnx_int(n, "broadcast", 0)) return PLB_OK;
    int64_t axis = plb_onnx_int(n, "axis", s.rank - t.rank);
    if (axis < 0) axis += s.rank;
    if (axis < 0 || axis > s.rank - t.rank) {
        return plb_fail(PLB_EINVAL, "broadcast from axis %lld does not fit", (long long)axis);
    }
    plb_shape wide = {.rank = (int)(s.rank - axis)};
    for (int i = 0; i < wide.rank; i++) wide.dim[i] = i < t.rank ? t.dim[i] : 1;
    *b = plb_reshape(n->graph, *b, &wide);
    return PLB_OK;
}

plb_status plb_onnx_map_binary(plb_onnx_node *n) {
    plb_value b = n->in[1];
    PLB_TRY(old_broadcast(n, &b));
    n->out[0] = apply(n, n->in[0], b);
    return PLB_OK;
}

plb_status plb_onnx_map_variadic(plb_onnx_node *n) {
    bool mean = strcmp(n->op, "Mean") == 0;
    n->out[0] = n->in[0];
    if (n->in[0] == PLB_NONE) return plb_fail(PLB_EINVAL, "input 0 is missing");
    for (int i = 1; i < n->n_in; i++) {
        n->out[0] = mean ? plb_add(n->graph, n->out[0], n->in[i]) : apply(n, n->out[0], n->in[i]);
    }
    if (mean) n->out[0] = plb_affine(n->graph, n->out[0], 1.0 / n->n_in, 0);
    return PLB_OK;
}

// The result has the base's type; integers to a power that is no integer go through f64.
plb_status plb_onnx_map_pow(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value a = n->in[0], b = n->in[1];
    plb_dtype base = plb_onnx_type(n, 0).dtype, exponent = plb_onnx_type(n, 1).dtype;
    PLB_TRY(old_broadcast(n, &b));
    bool known;
    plb_tensor t;
    PLB_TRY(plb_onnx_try_known(n, 1, &known, &t));
    bool one = known && plb_shape_count(&t.shape) == 1 && plb_dtype_is_float(base) &&
               t.shape.rank <= plb_onnx_type(n, 0).shape.rank;
    double power = one ? plb_load_f64(t.data, t.dtype, 0) : 0;
    if (one && power == 2) {
        n->out[0] = plb_mul(g, a, a);
    } else if (one && power == 0.5) {
        n->out[0] = plb_sqrt(g, a);
    } else if (base == exponent) {
        n->out[0] = plb_pow(g, a, b);
    } else if (plb_dtype_is_float(base)) {
        n->out[0] = plb_pow(g, a, plb_cast(g, b, base));
    } else if (!plb_dtype_is_float(exponent)) {
        plb_value wide = plb_pow(g, plb_cast(g, a, PLB_I64), plb_cast(g, b, PLB_I64));
        n->out[0] = plb_cast(g, wide, base);
    } else {
        plb_value wide = plb_pow(g, plb_cast(g, a, PLB_F64), plb_cast(g, b, PLB_F64));
        n->out[0] = plb_cast(g, wide, base);
    }
    return PLB_OK;
}

// fmod: the sign of a; else the sign of b.
plb_status plb_onnx_map_mod(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value a = n->in[0], b = n->in[1];
    if (!plb_onnx_int(n, "fmod", 0)) {
        n->out[0] = plb_remainder(g, a, b);
    } else if (plb_dtype_is_float(plb_onnx_type(n, 0).dtype)) {
        plb_value magnitude = plb_remainder(g, plb_abs(g, a), plb_abs(g, b)); // exact
        plb_value zero = plb_scalar(g, plb_onnx_type(n, 0).dtype, 0);
        n->out[0] = plb_where(g, plb_lt(g, a, zero), plb_neg(g, magnitude), magnitude);
    } else {
        n->out[0] = plb_sub(g, a, plb_mul(g, plb_div(g, a, b), b));
    }
    return PLB_OK;
}

plb_status plb_onnx_map_bit_shift(plb_onnx_node *n) {
    bool left = plb_onnx_is(n, "direction", "", "LEFT");
    n->out[0] = left ? plb_shift_left(n->graph, n->in[0], n->in[1])
                     : plb_shift_right(n->graph, n->in[0], n->in[1]);
    return PLB_OK;
}

plb_status plb_onnx_map_prelu(plb_onnx_node *n) {
    plb_graph *g = n->graph;
    plb_value x = n->in[0], slope = n->in[1];
    plb_shape s = plb_onnx_type(n, 0).shape, t = plb_onnx_type(n, 1).shape;
    if (n->opset < 7 && t.rank == 1 && s.rank > 1 && t.dim[0] == s.dim[1]) {
        plb_shape wide = {.rank = s.rank - 1};
        for (int i = 0; i < wide.rank; i++) wide.dim[i] = i ? 1 : t.dim[0];
        slope = plb_reshape(g, slope, &wide);
    }
    plb_value negative = plb_lt(g, x, plb_scalar(g, plb_onnx_type(n, 0).dtype, 0));
    n->out[0] = plb_where(g, negative, plb_mul(g, x, slope), x);
    return PLB_OK;
}

plb_status plb_onnx_map_where(plb_onnx_node *n) {
    n->out[0] = plb_where(n->graph, n->in[0], n->in[1], n->in[2]);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- types
plb_status plb_onnx_map_cast(plb_onnx_node *n) {
    plb_dtype to;
    PLB_TRY(plb_onnx_dtype(plb_onnx_int(n, "to", 0), &to));
    n->out[0] = plb_cast(n->graph, n->in[0], to);
    return PLB_OK;
}

plb_status plb_onnx_map_cast_like(plb_onnx_node *n) {
    if (!plb_onnx_given_in(n, 1)) return plb_fail(PLB_EINVAL, "input 1 is missing");
    n->out[0] = plb_cast(n->graph, n->in[0], plb_onnx_type(n, 1).dtype);
    return PLB_OK;
}
