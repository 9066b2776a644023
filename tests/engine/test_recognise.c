// SPDX-License-Identifier: Apache-2.0
// What pass_recognise.c and pass_int8.c put together again: each program here must be planned with
// so many of an op, and must compute the same at all levels, of which interp runs what is spelt.
#include <math.h>

#include "check.h"
#include "engine/device/device.h"
#include "engine/graph/pattern.h"
#include "levels.h"
#include "plumb/ops.h"

static plb_value given(plb_graph *g, const char *name, plb_shape shape) {
    return plb_input(g, name, PLB_F32, &shape);
}

static plb_value weights(plb_graph *g, const char *name, plb_shape shape) {
    return plb_param(g, name, PLB_F32, &shape, PLB_ROLE_PARAMETER,
                     (plb_init){PLB_INIT_UNIFORM, -0.5, 0.5});
}

static plb_value number(plb_graph *g, double value) {
    return plb_scalar(g, PLB_F32, value);
}

// ---------------------------------------------------------------------------- layer norm
static plb_value standardise(plb_graph *g, plb_value x, int64_t axes, bool by_power) {
    plb_value d = plb_sub(g, x, plb_mean(g, x, axes, true));
    plb_value square = by_power ? plb_pow(g, d, number(g, 2)) : plb_mul(g, d, d);
    plb_value variance = plb_mean(g, square, axes, true);
    return plb_div(g, d, plb_sqrt(g, plb_add(g, variance, number(g, 1e-5))));
}

static void norm_of_last(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(3, 4, 8));
    plb_value y = plb_mul(g, standardise(g, x, 4, true), weights(g, "gamma", plb_shape_of(8)));
    plb_output(g, "y", plb_add(g, y, weights(g, "beta", plb_shape_of(8))));
}
static void norm_of_two(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(3, 4, 8));
    plb_value gamma = weights(g, "gamma", plb_shape_of(4, 8));
    plb_value y = plb_mul(g, gamma, standardise(g, x, 6, false));
    plb_output(g, "y", plb_add(g, weights(g, "beta", plb_shape_of(4, 8)), y));
}
static void norm_of_middle(plb_graph *g, const void *context) { // none: not the last axes
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(3, 4, 8));
    plb_value y = plb_mul(g, standardise(g, x, 2, false), weights(g, "gamma", plb_shape_of(8)));
    plb_output(g, "y", plb_add(g, y, weights(g, "beta", plb_shape_of(8))));
}
static void norm_of_other(plb_graph *g, const void *context) { // none: another value's mean
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(4, 8)), z = given(g, "z", plb_shape_of(4, 8));
    plb_value d = plb_sub(g, x, plb_mean(g, z, 2, true));
    plb_value variance = plb_mean(g, plb_mul(g, d, d), 2, true);
    plb_value root = plb_sqrt(g, plb_affine(g, variance, 1, 1e-5));
    plb_value y = plb_mul(g, plb_div(g, d, root), weights(g, "gamma", plb_shape_of(8)));
    plb_output(g, "y", plb_add(g, y, weights(g, "beta", plb_shape_of(8))));
}

// ---------------------------------------------------------------------------- GELU
static void gelu_torch(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(5, 7));
    plb_value erf = plb_erf(g, plb_div(g, x, number(g, sqrt(2))));
    plb_value y = plb_mul(g, x, plb_add(g, erf, number(g, 1)));
    plb_output(g, "y", plb_mul(g, y, number(g, 0.5)));
}
static void gelu_half_first(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(5, 7));
    plb_value erf = plb_erf(g, plb_mul(g, x, number(g, M_SQRT1_2)));
    plb_value half = plb_mul(g, number(g, 0.5), x);
    plb_output(g, "y", plb_mul(g, half, plb_add(g, number(g, 1), erf)));
}
static void gelu_of_third(plb_graph *g, const void *context) { // none: another factor
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(5, 7));
    plb_value erf = plb_erf(g, plb_mul(g, x, number(g, M_SQRT1_2)));
    plb_value y = plb_mul(g, x, plb_add(g, erf, number(g, 1)));
    plb_output(g, "y", plb_mul(g, y, number(g, 1.0 / 3)));
}

// ---------------------------------------------------------------------------- products
static plb_value projected(plb_graph *g, plb_value x, const char *name) {
    return plb_matmul(g, x, weights(g, name, plb_shape_of(8, 8)), NULL);
}

static void product_bias(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(2, 3, 8));
    plb_value y = plb_add(g, projected(g, x, "w"), weights(g, "b", plb_shape_of(8)));
    plb_output(g, "y", plb_relu(g, plb_add(g, y, x)));
}
static void product_read_twice(plb_graph *g, const void *context) { // the sum stays
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(3, 8)), y = projected(g, x, "w");
    plb_output(g, "y", plb_add(g, y, weights(g, "b", plb_shape_of(8))));
    plb_output(g, "z", y);
}
static void product_of_rows(plb_graph *g, const void *context) { // one number a row is no bias
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(8, 8));
    plb_output(g, "y", plb_add(g, projected(g, x, "w"), weights(g, "b", plb_shape_of(8, 1))));
}
static void product_transposed(plb_graph *g, const void *context) {
    (void)context;
    plb_value a = given(g, "a", plb_shape_of(2, 6, 4)), b = given(g, "b", plb_shape_of(2, 5, 6));
    plb_output(g, "y", plb_matmul(g, plb_transpose(g, a, 1, 2), plb_transpose(g, b, 1, 2), NULL));
}

// ---------------------------------------------------------------------------- attention
enum { B = 2, L = 5, H = 2, D = 4, FEATURES = 8 };

static plb_value heads(plb_graph *g, plb_value x, const char *name, bool as_keys) {
    plb_value y = plb_reshape(g, projected(g, x, name), &plb_shape_of(B, L, H, D));
    return plb_permute(g, y, as_keys ? (int[]){0, 2, 3, 1} : (int[]){0, 2, 1, 3}, 4);
}

static plb_value joined(plb_graph *g, plb_value y) {
    return plb_reshape(g, plb_transpose(g, y, 1, 2), &plb_shape_of(B, L, FEATURES));
}

static void attention_eager(plb_graph *g, const void *context) { // q k^T / sqrt d + mask
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(B, L, FEATURES));
    plb_value mask = given(g, "mask", plb_shape_of(B, 1, 1, L));
    plb_value scores = plb_matmul(g, heads(g, x, "q", false), heads(g, x, "k", true), NULL);
    scores = plb_add(g, plb_div(g, scores, number(g, 2)), mask);
    plb_value p = plb_softmax(g, scores, 3);
    plb_output(g, "y", joined(g, plb_matmul(g, p, heads(g, x, "v", false), NULL)));
}
// Both factors scaled; a query that sees nothing gives zeros.
static void attention_scaled(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(B, L, FEATURES));
    plb_value row = plb_iota(g, PLB_I64, &plb_shape_of(L, L), 0);
    plb_value blind = plb_eq(g, row, plb_scalar(g, PLB_I64, 3));
    plb_value mask = plb_where(g, blind, number(g, -INFINITY), number(g, 0));
    plb_value q = plb_mul(g, heads(g, x, "q", false), number(g, 0.7));
    plb_value k = plb_mul(g, heads(g, x, "k", true), number(g, 0.7));
    plb_value p = plb_softmax(g, plb_add(g, plb_matmul(g, q, k, NULL), mask), 3);
    p = plb_where(g, plb_isnan(g, p), number(g, 0), p);
    plb_output(g, "y", joined(g, plb_matmul(g, p, heads(g, x, "v", false), NULL)));
}
static void attention_seen(plb_graph *g, const void *context) { // none: somebody else sees p
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(B, L, FEATURES));
    plb_value scores = plb_matmul(g, heads(g, x, "q", false), heads(g, x, "k", true), NULL);
    plb_value p = plb_softmax(g, scores, 3);
    plb_output(g, "p", p);
    plb_output(g, "y", joined(g, plb_matmul(g, p, heads(g, x, "v", false), NULL)));
}
static void attention_of_first_axis(plb_graph *g, const void *context) { // none: over queries
    (void)context;
    plb_value x = given(g, "x", plb_shape_of(B, L, FEATURES));
    plb_value scores = plb_matmul(g, heads(g, x, "q", false), heads(g, x, "k", true), NULL);
    plb_value p = plb_softmax(g, scores, 2);
    plb_output(g, "y", joined(g, plb_matmul(g, p, heads(g, x, "v", false), NULL)));
}

// ---------------------------------------------------------------------------- constants
static void constants_fold(plb_graph *g, const void *context) {
    (void)context;
    plb_value root = plb_sqrt(g, plb_cast(g, plb_scalar(g, PLB_I64, 64), PLB_F32));
    plb_value scale = plb_reciprocal(g, plb_mul(g, root, number(g, 0.5)));
    plb_output(g, "y", plb_mul(g, given(g, "x", plb_shape_of(3, 5)), scale));
}

// ---------------------------------------------------------------------------- integers
static plb_value quantise(plb_graph *g, plb_value x, double scale, double zero) {
    plb_value y = plb_round(g, plb_div(g, x, number(g, scale)));
    if (zero != 0) y = plb_add(g, y, plb_cast(g, plb_scalar(g, PLB_U8, zero), PLB_F32));
    return plb_cast(g, plb_clamp(g, y, 0, 255), PLB_U8);
}

static plb_value dequantise(plb_graph *g, plb_value q, double scale, double zero) {
    plb_value y = plb_cast(g, q, PLB_F32);
    if (zero != 0) y = plb_sub(g, y, plb_cast(g, plb_scalar(g, PLB_U8, zero), PLB_F32));
    return plb_mul(g, y, number(g, scale));
}

static plb_value again(plb_graph *g, plb_value x, double scale, double zero) {
    return dequantise(g, quantise(g, x, scale, zero), scale, zero);
}

// i8 weights, a scale for each of their K = 8 channels.
static plb_value byte_weights(plb_graph *g, const char *name, plb_shape shape, int axis) {
    int8_t bytes[8 * 4 * 9];
    plb_shape scales = {.rank = shape.rank};
    for (int i = 0; i < plb_shape_count(&shape); i++) bytes[i] = (int8_t)(i * 37 % 255 - 127);
    for (int i = 0; i < shape.rank; i++) scales.dim[i] = i == axis ? shape.dim[axis] : 1;
    plb_value w = plb_cast(g, plb_constant(g, PLB_I8, &shape, bytes), PLB_F32);
    plb_value scale = plb_param(g, name, PLB_F32, &plb_shape_of(8), PLB_ROLE_PARAMETER,
                                (plb_init){PLB_INIT_UNIFORM, 0.001, 0.002});
    return plb_mul(g, w, plb_reshape(g, scale, &scales));
}

static plb_value byte_conv(plb_graph *g, plb_value x, const char *name, bool biased) {
    plb_value w = byte_weights(g, name, plb_shape_of(8, 4, 3, 3), 0);
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    plb_value bias = biased ? weights(g, "bias", plb_shape_of(8)) : PLB_NONE;
    return plb_conv(g, x, w, bias, &attrs);
}

static plb_value byte_image(plb_graph *g) {
    return again(g, given(g, "x", plb_shape_of(1, 4, 6, 6)), 1.0 / 128, 128);
}

static void bytes_conv_relu(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = plb_relu(g, byte_conv(g, byte_image(g), "s", true));
    plb_output(g, "y", again(g, y, 0.01, 0));
}
static void bytes_conv_to_f32(plb_graph *g, const void *context) {
    (void)context;
    plb_output(g, "y", byte_conv(g, byte_image(g), "s", true));
}
static void bytes_sum(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = byte_image(g);
    plb_value a = again(g, byte_conv(g, x, "s", false), 0.02, 120);
    plb_value b = again(g, byte_conv(g, x, "t", true), 0.03, 130);
    plb_output(g, "y", again(g, plb_relu(g, plb_add(g, a, b)), 0.025, 0));
}
static void bytes_pool(plb_graph *g, const void *context) {
    (void)context;
    plb_pool_attrs attrs = plb_pool_uniform(2, 2, 2, 0);
    plb_output(g, "y", again(g, plb_max_pool(g, byte_image(g), &attrs), 1.0 / 128, 128));
}
static void bytes_linear(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = again(g, given(g, "x", plb_shape_of(3, 4)), 1.0 / 128, 128);
    plb_value w = byte_weights(g, "s", plb_shape_of(4, 8), 1);
    plb_value y = plb_add(g, plb_matmul(g, x, w, NULL), weights(g, "bias", plb_shape_of(8)));
    plb_output(g, "y", again(g, y, 0.01, 100));
}
// None: the product of floats is read by somebody else, too.
static void bytes_conv_seen(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = byte_conv(g, byte_image(g), "s", true);
    plb_output(g, "before", y);
    plb_output(g, "y", again(g, y, 0.01, 100));
}
// None: these weights have a zero point.
static void bytes_conv_lopsided(plb_graph *g, const void *context) {
    (void)context;
    plb_value w =
        plb_cast(g, plb_constant(g, PLB_I8, &plb_shape_of(1, 4, 1, 1), "\1\2\3\4"), PLB_F32);
    w = plb_mul(g, plb_sub(g, w, plb_cast(g, plb_scalar(g, PLB_I8, 3), PLB_F32)), number(g, 0.01));
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_value y = plb_conv(g, byte_image(g), w, PLB_NONE, &attrs);
    plb_output(g, "y", again(g, y, 0.001, 100));
}

typedef struct pattern {
    const char *name;
    void (*build)(plb_graph *g, const void *context);
    const char *op;
    int count;
} pattern;

static const pattern patterns[] = {
    {"norm of the last axis", norm_of_last, "layer_norm", 1},
    {"norm of two axes", norm_of_two, "layer_norm", 1},
    {"norm of a middle axis", norm_of_middle, "layer_norm", 0},
    {"norm by another mean", norm_of_other, "layer_norm", 0},
    {"gelu as torch exports it", gelu_torch, "gelu", 1},
    {"gelu, half first", gelu_half_first, "gelu", 1},
    {"gelu with a third", gelu_of_third, "gelu", 0},
    {"bias and residual of a product", product_bias, "add", 0},
    {"a product read twice", product_read_twice, "add", 1},
    {"a number a row", product_of_rows, "add", 1},
    {"transposed factors", product_transposed, "permute", 0},
    {"attention, eager", attention_eager, "attention", 1},
    {"attention, eager, no copies", attention_eager, "permute", 0},
    {"attention, scaled", attention_scaled, "attention", 1},
    {"attention with an audience", attention_seen, "attention", 0},
    {"softmax over queries", attention_of_first_axis, "attention", 0},
    {"constants", constants_fold, "sqrt", 0},
};

// The same with integers, where the machine multiplies them.
static const pattern byte_patterns[] = {
    {"int8 convolution and relu", bytes_conv_relu, "int8_conv", 1},
    {"int8 convolution to f32", bytes_conv_to_f32, "int8_conv", 1},
    {"int8 convolutions, added", bytes_sum, "int8_conv", 2},
    {"int8 sum", bytes_sum, "int8_add", 1},
    {"int8 sum, no floats left", bytes_sum, "add", 0},
    {"int8 product", bytes_linear, "int8_matmul", 1},
    {"int8 convolution, seen", bytes_conv_seen, "int8_conv", 0},
    {"int8 convolution, lopsided", bytes_conv_lopsided, "int8_conv", 0},
    {"int8 pooling", bytes_pool, "max_pool", 1},
};

static int planned(const pattern *p) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    plb_plan *plan = NULL;
    int n = 0;
    CHECK_OK(plb_model_program(model, "p", &g));
    p->build(g, NULL);
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.threads = 1, .no_tuning = true}, &plan));
    for (int i = 0; plan && i < plb_plan_op_count(plan); i++) {
        n += strcmp(plb_plan_op_info(plan, i).op, p->op) == 0;
    }
    plb_plan_free(plan);
    plb_model_free(model);
    return n;
}

static void patterns_are_found(void) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        int n = planned(&patterns[i]);
        CHECK_SAY(n == patterns[i].count, "%s: %d of %s planned, expected %d", patterns[i].name, n,
                  patterns[i].op, patterns[i].count);
    }
}

static void levels_agree(void) {
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        levels_program p = {.build = patterns[i].build, .runs = 2, .tolerance = 1e-4};
        char text[900];
        bool differ = levels_disagree(&p, text, sizeof text);
        CHECK_SAY(!differ, "%s: %s", patterns[i].name, text);
    }
}

// Sums may fall on other sides of a middle: within one step of y, 0.03 at most, of about 2.
static void integers_are_found(void) {
    bool able = plb_backend_cpu.has_int8 && plb_backend_cpu.has_int8();
    for (size_t i = 0; i < sizeof byte_patterns / sizeof *byte_patterns; i++) {
        const pattern *p = &byte_patterns[i];
        levels_program program = {.build = p->build, .runs = 2, .tolerance = 0.015};
        char text[900];
        bool differ = levels_disagree(&program, text, sizeof text);
        CHECK_SAY(!differ, "%s: %s", p->name, text);
        if (!able) continue;
        int n = planned(p);
        CHECK_SAY(n == p->count, "%s: %d of %s planned, expected %d", p->name, n, p->op, p->count);
    }
    if (!able) SKIP("no products of 8-bit integers here: programs compared alone");
}

// A cast on the way may change the number: f16 has 0.1 to 11 bits, an integer has none of a half.
static void numbers_are_those_behind_casts(void) {
    plb_model *model = plb_model_new();
    plb_graph *g = NULL;
    CHECK(model && plb_model_program(model, "main", &g) == PLB_OK);
    if (!g) return;
    plb_value tenth = plb_scalar(g, PLB_F32, 0.1), half = plb_scalar(g, PLB_F64, 2.5);
    plb_value row = plb_expand(g, plb_cast(g, tenth, PLB_F16), &plb_shape_of(3));
    const struct {
        plb_value value;
        double expected;
    } cases[] = {
        {tenth, (double)0.1f},
        {plb_cast(g, row, PLB_F32), 1638.0 / 16384},
        {plb_cast(g, plb_cast(g, half, PLB_I32), PLB_F32), 2},
        {plb_cast(g, plb_cast(g, half, PLB_BOOL), PLB_F32), 1},
        {plb_cast(g, plb_scalar(g, PLB_I64, 7), PLB_F32), 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double found = NAN;
        bool known = plb_pattern_number(g, cases[i].value, &found);
        CHECK_SAY(known && found == cases[i].expected, "case %zu: %.17g, expected %.17g", i, found,
                  cases[i].expected);
    }
    double found;
    CHECK(!plb_pattern_number(g, plb_cast(g, half, PLB_I32), &found));
    CHECK(!plb_pattern_number(g, plb_iota(g, PLB_F32, &plb_shape_of(2), 0), &found));
    plb_model_free(model);
}

static const check_test tests[] = {
    {"numbers are those behind casts", numbers_are_those_behind_casts},
    {"patterns are found", patterns_are_found},
    {"levels agree", levels_agree},
    {"integers are found", integers_are_found},
};
CHECK_MAIN(tests)
