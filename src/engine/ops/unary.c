// SPDX-License-Identifier: Apache-2.0
// The pointwise ops of one operand: one row of the list OPS each. Their values are in
// pointwise.c; here are their gradients, composed of other ops so that they differentiate again.
//
// Where a gradient takes several steps and x has 16 bits, they are taken in f32 and the result is
// rounded once: what a kernel that fuses them does too, so that fusing changes no result much.
//
// A branch that `where` does not take must stay finite, since the gradient of `where` multiplies
// its derivative by zero: hence exp(min(x, 0)) in the elu family.
#include <math.h>

#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/pointwise.h"

// What a gradient is made from: y = op(x), dy.
typedef struct unary {
    plb_graph *graph;
    plb_value x, y, dy;
    double alpha, beta;
} unary;

// Short names for the formulas below; u is the unary at hand.
static plb_value mul(const unary *u, plb_value a, plb_value b) {
    return plb_mul(u->graph, a, b);
}

static plb_value affine(const unary *u, plb_value a, double scale, double shift) {
    return plb_affine(u->graph, a, scale, shift);
}

static plb_value square(const unary *u, plb_value a) {
    return plb_mul(u->graph, a, a);
}

static plb_value number(const unary *u, double value) {
    return plb_scalar(u->graph, plb_value_type(u->graph, u->x).dtype, value);
}

// dy where x > limit, otherwise `other`.
static plb_value dy_above(const unary *u, double limit, plb_value other) {
    return plb_where(u->graph, plb_gt(u->graph, u->x, number(u, limit)), u->dy, other);
}

static plb_value min_with_0(const unary *u, plb_value a) {
    return affine(u, plb_relu(u->graph, affine(u, a, -1, 0)), -1, 0);
}

static plb_value grad_neg(const unary *u) {
    return plb_neg(u->graph, u->dy);
}

static plb_value grad_abs(const unary *u) {
    return mul(u, u->dy, plb_sign(u->graph, u->x));
}

static plb_value grad_exp(const unary *u) {
    return mul(u, u->dy, u->y);
}

static plb_value grad_log(const unary *u) {
    return plb_div(u->graph, u->dy, u->x);
}

static plb_value grad_log1p(const unary *u) {
    return plb_div(u->graph, u->dy, affine(u, u->x, 1, 1));
}

static plb_value grad_expm1(const unary *u) {
    return mul(u, u->dy, affine(u, u->y, 1, 1));
}

static plb_value grad_sqrt(const unary *u) {
    return plb_div(u->graph, u->dy, affine(u, u->y, 2, 0));
}

static plb_value grad_rsqrt(const unary *u) { // -y^3 / 2
    return affine(u, mul(u, u->dy, mul(u, square(u, u->y), u->y)), -0.5, 0);
}

static plb_value grad_reciprocal(const unary *u) {
    return plb_neg(u->graph, mul(u, u->dy, square(u, u->y)));
}

static plb_value grad_sin(const unary *u) {
    return mul(u, u->dy, plb_cos(u->graph, u->x));
}

static plb_value grad_cos(const unary *u) {
    return plb_neg(u->graph, mul(u, u->dy, plb_sin(u->graph, u->x)));
}

static plb_value grad_tanh(const unary *u) { // 1 - y^2
    return mul(u, u->dy, affine(u, square(u, u->y), -1, 1));
}

static plb_value grad_tan(const unary *u) { // 1 + y^2
    return mul(u, u->dy, affine(u, square(u, u->y), 1, 1));
}

static plb_value grad_sinh(const unary *u) {
    return mul(u, u->dy, plb_cosh(u->graph, u->x));
}

static plb_value grad_cosh(const unary *u) {
    return mul(u, u->dy, plb_sinh(u->graph, u->x));
}

// dy / sqrt(scale x^2 + shift)
static plb_value over_root(const unary *u, double scale, double shift) {
    plb_value root = plb_rsqrt(u->graph, affine(u, square(u, u->x), scale, shift));
    return mul(u, u->dy, root);
}

static plb_value grad_asin(const unary *u) {
    return over_root(u, -1, 1);
}

static plb_value grad_acos(const unary *u) {
    return plb_neg(u->graph, over_root(u, -1, 1));
}

static plb_value grad_asinh(const unary *u) {
    return over_root(u, 1, 1);
}

static plb_value grad_acosh(const unary *u) {
    return over_root(u, 1, -1);
}

static plb_value grad_atan(const unary *u) {
    return plb_div(u->graph, u->dy, affine(u, square(u, u->x), 1, 1));
}

static plb_value grad_atanh(const unary *u) {
    return plb_div(u->graph, u->dy, affine(u, square(u, u->x), -1, 1));
}

static plb_value grad_sigmoid(const unary *u) { // y (1 - y)
    return mul(u, u->dy, mul(u, u->y, affine(u, u->y, -1, 1)));
}

static plb_value grad_relu(const unary *u) {
    return plb_relu_grad(u->graph, u->dy, u->y);
}

static plb_value grad_leaky_relu(const unary *u) {
    return dy_above(u, 0, affine(u, u->dy, u->alpha, 0));
}

// scale dy where x > 0, otherwise slope e^(x rate) dy.
static plb_value exponential_below_0(const unary *u, double scale, double slope, double rate) {
    plb_value e = plb_exp(u->graph, affine(u, min_with_0(u, u->x), rate, 0));
    plb_value below = affine(u, mul(u, u->dy, e), slope, 0);
    unary above = *u;
    if (scale != 1) above.dy = affine(u, u->dy, scale, 0);
    return dy_above(&above, 0, below);
}

static plb_value grad_elu(const unary *u) {
    return exponential_below_0(u, 1, u->alpha, 1);
}

static plb_value grad_selu(const unary *u) {
    return exponential_below_0(u, PLB_SELU_SCALE, PLB_SELU_SCALE * PLB_SELU_ALPHA, 1);
}

static plb_value grad_celu(const unary *u) {
    return exponential_below_0(u, 1, 1, 1 / u->alpha);
}

// With the normal distribution's Phi(x) and phi(x): Phi + x phi.
static plb_value grad_gelu(const unary *u) {
    plb_graph *g = u->graph;
    plb_value phi = plb_erf(g, affine(u, u->x, 0.70710678118654752440, 0));
    plb_value density = plb_exp(g, affine(u, square(u, u->x), -0.5, 0));
    plb_value second = affine(u, mul(u, u->x, density), 0.39894228040143267794, 0);
    return mul(u, u->dy, plb_add(g, affine(u, phi, 0.5, 0.5), second));
}

// y = x (1 + t) / 2, t = tanh(k (x + c x^3)).
static plb_value grad_gelu_tanh(const unary *u) {
    const double k = 0.79788456080286535588, c = 0.044715;
    plb_graph *g = u->graph;
    plb_value x2 = square(u, u->x);
    plb_value t = plb_tanh(g, mul(u, u->x, affine(u, x2, k * c, k)));
    plb_value slope = mul(u, affine(u, square(u, t), -0.5, 0.5), affine(u, x2, 3 * k * c, k));
    return mul(u, u->dy, plb_add(g, affine(u, t, 0.5, 0.5), mul(u, u->x, slope)));
}

static plb_value grad_silu(const unary *u) { // s (1 + x (1 - s))
    plb_value s = plb_sigmoid(u->graph, u->x);
    plb_value inner = affine(u, mul(u, u->x, affine(u, s, -1, 1)), 1, 1);
    return mul(u, u->dy, mul(u, s, inner));
}

static plb_value grad_mish(const unary *u) { // t + x s (1 - t^2), t = tanh(softplus(x))
    plb_graph *g = u->graph;
    plb_value t = plb_tanh(g, plb_softplus(g, u->x, 1, 20));
    plb_value s = mul(u, u->x, plb_sigmoid(g, u->x));
    return mul(u, u->dy, plb_add(g, t, mul(u, s, affine(u, square(u, t), -1, 1))));
}

static plb_value grad_hardswish(const unary *u) { // 0 to -3, x/3 + 1/2 between, 1 from 3
    plb_value middle = mul(u, u->dy, affine(u, u->x, 1.0 / 3, 0.5));
    plb_value above = plb_ge(u->graph, u->x, number(u, 3));
    plb_value below = plb_le(u->graph, u->x, number(u, -3));
    return plb_where(u->graph, below, number(u, 0), plb_where(u->graph, above, u->dy, middle));
}

static plb_value grad_hardsigmoid(const unary *u) {
    plb_value inside = plb_lt(u->graph, plb_abs(u->graph, u->x), number(u, 3));
    return plb_where(u->graph, inside, affine(u, u->dy, 1.0 / 6, 0), number(u, 0));
}

// Strictly between the ends, as relu6 and hardtanh have it too; y tells as well as x.
static plb_value grad_clamp(const unary *u) {
    plb_value low = plb_gt(u->graph, u->y, number(u, u->alpha));
    plb_value high = plb_lt(u->graph, u->y, number(u, u->beta));
    return plb_where(u->graph, plb_and(u->graph, low, high), u->dy, number(u, 0));
}

static plb_value grad_softplus(const unary *u) {
    plb_value scaled = affine(u, u->x, u->alpha, 0);
    plb_value curved = mul(u, u->dy, plb_sigmoid(u->graph, scaled));
    plb_value straight = plb_gt(u->graph, scaled, number(u, u->beta));
    return plb_where(u->graph, straight, u->dy, curved);
}

static plb_value grad_softsign(const unary *u) { // 1 / (1 + |x|)^2
    return plb_div(u->graph, u->dy, square(u, affine(u, plb_abs(u->graph, u->x), 1, 1)));
}

static plb_value grad_erf(const unary *u) {
    plb_value density = plb_exp(u->graph, plb_neg(u->graph, square(u, u->x)));
    return affine(u, mul(u, u->dy, density), 1.12837916709551257390, 0);
}

static plb_value grad_affine(const unary *u) {
    return affine(u, u->dy, u->alpha, 0);
}

// ---------------------------------------------------------------------------- the list
enum {
    INTS = 1,  // takes integers too
    FLAT = 2,  // has no gradient
    STEPS = 4, // the gradient of 16-bit floats is computed in f32
};

static const plb_pointwise_attrs slope = {.alpha = 0.1}, stretched = {.alpha = 1.3},
                                 range = {-0.5, 0.75}, bent = {2, 3}, line = {3, -2};

// op, kind, attributes of samples, their range, gradient. First those without attributes.
#define PLAIN(X)                                         \
    X(neg, INTS, NULL, -1, 1, grad_neg)                  \
    X(abs, INTS, NULL, -1, 1, grad_abs)                  \
    X(sign, INTS | FLAT, NULL, -1, 1, NULL)              \
    X(exp, 0, NULL, -2, 2, grad_exp)                     \
    X(log, 0, NULL, 0.125, 4, grad_log)                  \
    X(log1p, STEPS, NULL, -0.75, 3, grad_log1p)          \
    X(expm1, STEPS, NULL, -2, 2, grad_expm1)             \
    X(sqrt, STEPS, NULL, 0.125, 4, grad_sqrt)            \
    X(rsqrt, STEPS, NULL, 0.125, 4, grad_rsqrt)          \
    X(reciprocal, STEPS, NULL, 0.25, 4, grad_reciprocal) \
    X(sin, STEPS, NULL, -4, 4, grad_sin)                 \
    X(cos, STEPS, NULL, -4, 4, grad_cos)                 \
    X(tanh, STEPS, NULL, -3, 3, grad_tanh)               \
    X(tan, STEPS, NULL, -1, 1, grad_tan)                 \
    X(sinh, STEPS, NULL, -2, 2, grad_sinh)               \
    X(cosh, STEPS, NULL, -2, 2, grad_cosh)               \
    X(asin, STEPS, NULL, -0.75, 0.75, grad_asin)         \
    X(acos, STEPS, NULL, -0.75, 0.75, grad_acos)         \
    X(atan, STEPS, NULL, -3, 3, grad_atan)               \
    X(asinh, STEPS, NULL, -3, 3, grad_asinh)             \
    X(acosh, STEPS, NULL, 1.5, 4, grad_acosh)            \
    X(atanh, STEPS, NULL, -0.75, 0.75, grad_atanh)       \
    X(sigmoid, STEPS, NULL, -6, 6, grad_sigmoid)         \
    X(relu, INTS, NULL, -1, 1, grad_relu)                \
    X(selu, STEPS, NULL, -3, 2, grad_selu)               \
    X(gelu, STEPS, NULL, -3, 3, grad_gelu)               \
    X(gelu_tanh, STEPS, NULL, -3, 3, grad_gelu_tanh)     \
    X(silu, STEPS, NULL, -5, 5, grad_silu)               \
    X(mish, STEPS, NULL, -5, 5, grad_mish)               \
    X(hardswish, STEPS, NULL, -5, 5, grad_hardswish)     \
    X(hardsigmoid, 0, NULL, -5, 5, grad_hardsigmoid)     \
    X(softsign, STEPS, NULL, -3, 3, grad_softsign)       \
    X(erf, STEPS, NULL, -2, 2, grad_erf)                 \
    X(floor, INTS | FLAT, NULL, -4, 4, NULL)             \
    X(ceil, INTS | FLAT, NULL, -4, 4, NULL)              \
    X(round, INTS | FLAT, NULL, -4, 4, NULL)             \
    X(trunc, INTS | FLAT, NULL, -4, 4, NULL)             \
    X(isnan, FLAT, NULL, -1, 1, NULL)

#define PARAMETRIC(X)                                \
    X(leaky_relu, 0, &slope, -1, 1, grad_leaky_relu) \
    X(elu, STEPS, &stretched, -3, 2, grad_elu)       \
    X(celu, STEPS, &stretched, -3, 2, grad_celu)     \
    X(clamp, INTS, &range, -1, 1, grad_clamp)        \
    X(softplus, STEPS, &bent, -3, 3, grad_softplus)  \
    X(affine, INTS, &line, -1, 1, grad_affine)

typedef struct rule {
    int kind;
    plb_value (*grad)(const unary *u);
} rule;

static const rule rules[PLB_OP_COUNT] = {
#define ROW(op, kind, attrs, low, high, grad) [PLB_OP_##op] = {kind, grad},
    PLAIN(ROW) PARAMETRIC(ROW)
#undef ROW
};

static void grad_unary(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                       plb_value *din) {
    if (!needed[0]) return;
    plb_op_id op = graph->nodes[node].op;
    unary u = {.graph = graph,
               .x = plb_node_in(graph, node, 0),
               .y = plb_node_out(graph, node, 0),
               .dy = dout[0]};
    const plb_pointwise_attrs *attrs = plb_node_attrs(graph, node);
    if (attrs) u.alpha = attrs->alpha, u.beta = attrs->beta;
    plb_dtype dtype = plb_value_type(graph, u.x).dtype;
    if ((rules[op].kind & STEPS) && plb_dtype_size(dtype) == 2) {
        u.x = plb_cast(graph, u.x, PLB_F32);
        u.y = plb_cast(graph, u.y, PLB_F32);
        u.dy = plb_cast(graph, u.dy, PLB_F32);
    }
    din[0] = plb_cast(graph, rules[op].grad(&u), dtype);
}

// Samples are the same for all, five of floats; the last two are for ops that take integers.
#define SAMPLE(label, attributes, l, h, ...)                                                      \
    {                                                                                             \
        .name = label, .in = {__VA_ARGS__}, .n_in = 1, .attrs = attributes, .low = {l}, .high = { \
            h                                                                                     \
        }                                                                                         \
    }

#define SAMPLES(op, attrs, low, high)                            \
    static const plb_sample samples_##op[] = {                   \
        SAMPLE("matrix", attrs, low, high, PLB_T(3, 7)),         \
        SAMPLE("planes", attrs, low, high, PLB_T(2, 5, 3, 3)),   \
        SAMPLE("vector", attrs, low, high, PLB_T(13)),           \
        SAMPLE("scalar", attrs, low, high, {.dtype = PLB_F32}),  \
        SAMPLE("empty", attrs, low, high, PLB_T(2, 0, 3)),       \
        SAMPLE("i32", attrs, -9, 9, PLB_TYPE_OF(PLB_I32, 3, 5)), \
        SAMPLE("i8", attrs, -128, 127, PLB_TYPE_OF(PLB_I8, 11)), \
    };

#define TABLE(op, kind, ...)                                                                    \
    static plb_status infer_##op(plb_signature *s) {                                            \
        return plb_pointwise_infer(PLB_OP_##op, s);                                             \
    }                                                                                           \
    static plb_status ref_##op(const plb_call *call) {                                          \
        return plb_pointwise_ref(PLB_OP_##op, call);                                            \
    }                                                                                           \
    const plb_op plb_op_##op = {.name = #op,                                                    \
                                .flags = PLB_OP_POINTWISE | ((kind)&FLAT ? PLB_OP_NO_GRAD : 0), \
                                .min_in = 1,                                                    \
                                .max_in = 1,                                                    \
                                .infer = infer_##op,                                            \
                                .grad = (kind)&FLAT ? NULL : grad_unary,                        \
                                .ref = ref_##op,                                                \
                                .samples = samples_##op,                                        \
                                .n_samples = (kind)&INTS ? 7 : 5,                               \
                                __VA_ARGS__};

#define DEFINE_PLAIN(op, kind, attrs, low, high, grad)    \
    SAMPLES(op, attrs, low, high)                         \
    TABLE(op, kind, .describe = NULL)                     \
    plb_value plb_##op(plb_graph *graph, plb_value x) {   \
        return plb_emit(graph, PLB_OP_##op, &x, 1, NULL); \
    }
PLAIN(DEFINE_PLAIN)

#define DEFINE_PARAMETRIC(op, kind, attrs, low, high, grad) \
    SAMPLES(op, attrs, low, high)                           \
    TABLE(op, kind, .describe = plb_pointwise_describe, .attrs_bytes = sizeof(plb_pointwise_attrs))
PARAMETRIC(DEFINE_PARAMETRIC)

static const plb_sample samples_not[] = {
    SAMPLE("matrix", NULL, 0, 1, PLB_TYPE_OF(PLB_BOOL, 3, 5)),
    SAMPLE("planes", NULL, 0, 1, PLB_TYPE_OF(PLB_BOOL, 2, 5, 3, 1)),
    SAMPLE("vector", NULL, 0, 1, PLB_TYPE_OF(PLB_BOOL, 13)),
    SAMPLE("scalar", NULL, 0, 1, {.dtype = PLB_BOOL}),
    SAMPLE("empty", NULL, 0, 1, PLB_TYPE_OF(PLB_BOOL, 0)),
};
TABLE(not, FLAT, .describe = NULL)

plb_value plb_not(plb_graph *graph, plb_value x) {
    return plb_emit(graph, PLB_OP_not, &x, 1, NULL);
}

// ---------------------------------------------------------------------------- with attributes
static plb_value emit(plb_graph *graph, plb_op_id op, plb_value x, double alpha, double beta) {
    return plb_emit(graph, op, &x, 1, &(plb_pointwise_attrs){alpha, beta});
}

plb_value plb_relu6(plb_graph *graph, plb_value x) {
    return plb_clamp(graph, x, 0, 6);
}

plb_value plb_leaky_relu(plb_graph *graph, plb_value x, double negative_slope) {
    return emit(graph, PLB_OP_leaky_relu, x, negative_slope, 0);
}

plb_value plb_elu(plb_graph *graph, plb_value x, double alpha) {
    return emit(graph, PLB_OP_elu, x, alpha, 0);
}

plb_value plb_celu(plb_graph *graph, plb_value x, double alpha) {
    return emit(graph, PLB_OP_celu, x, alpha, 0);
}

plb_value plb_clamp(plb_graph *graph, plb_value x, double low, double high) {
    return emit(graph, PLB_OP_clamp, x, low, high);
}

plb_value plb_softplus(plb_graph *graph, plb_value x, double beta, double threshold) {
    return emit(graph, PLB_OP_softplus, x, beta, threshold);
}

plb_value plb_affine(plb_graph *graph, plb_value x, double scale, double shift) {
    return emit(graph, PLB_OP_affine, x, scale, shift);
}
