// SPDX-License-Identifier: Apache-2.0
// What is fused: epilogues of products and norms, and chains of pointwise ops.
#include "pass_cases.h"

static void conv_relu(plb_graph *g, const void *context) {
    (void)context;
    plb_output(g, "y", plb_relu(g, conv(g, image(g), "w")));
}

static void conv_clamp(plb_graph *g, const void *context) {
    (void)context;
    plb_output(g, "y", plb_relu6(g, conv(g, image(g), "w")));
}

static void matmul_add_relu(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(4, 4));
    plb_output(g, "y", plb_relu(g, plb_add(g, plb_matmul(g, x, x, NULL), x)));
}

static void conv_residual_relu(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g);
    plb_output(g, "y", plb_relu(g, plb_add(g, conv(g, x, "w"), x)));
}

static void conv_second_reader(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w");
    plb_output(g, "y", plb_add(g, plb_relu(g, y), plb_tanh(g, y)));
}

static void conv_is_output(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w");
    plb_output(g, "before", y);
    plb_output(g, "y", plb_relu(g, y));
}

static void sum_is_output(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), sum = plb_add(g, conv(g, x, "w"), x);
    plb_output(g, "before", sum);
    plb_output(g, "y", plb_relu(g, sum));
}

static void residual_comes_later(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = conv(g, x, "w");
    plb_value residual = plb_softmax(g, x, 1);
    plb_output(g, "y", plb_relu(g, plb_add(g, y, residual)));
}

static void residual_is_broadcast(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = conv(g, x, "w");
    plb_output(g, "y", plb_add(g, y, plb_mean(g, x, 0xc, true)));
}

static void two_convs(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), a = conv(g, x, "w"), b = conv(g, x, "v");
    plb_output(g, "y", plb_relu(g, plb_add(g, b, a)));
}

static void sum_with_itself(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w");
    plb_output(g, "y", plb_add(g, y, y));
}

static void norm_relu(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = norm(g, image(g));
    plb_output(g, "y", plb_relu(g, y));
    plb_output(g, "mean", y + 1);
}

static void norm_clamp(plb_graph *g, const void *context) {
    (void)context;
    plb_output(g, "y", plb_relu6(g, norm(g, image(g))));
}

static void norm_residual_later(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = norm(g, x);
    plb_value residual = plb_softmax(g, x, 1); // nobody reads the statistics: the norm waits
    plb_output(g, "y", plb_relu(g, plb_add(g, y, residual)));
}

// The residual needs the statistics, which the fused norm would make after it.
static void norm_residual_from_statistics(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = norm(g, x);
    plb_value mean = plb_reshape(g, y + 1, &plb_shape_of(4, 1, 1));
    plb_output(g, "y", plb_relu(g, plb_add(g, y, plb_mul(g, x, mean))));
}

// The convolution moves behind the assign of its weights; it must still see the old ones.
static void conv_moves_behind_assign(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = conv(g, x, "w");
    int w = plb_value_variable(g, plb_node_in(g, g->n_nodes - 1, 1));
    plb_assign(g, w, plb_affine(g, plb_read(g, w), 0.5, 0.1));
    plb_value residual = plb_softmax(g, x, 1);
    plb_output(g, "y", plb_relu(g, plb_add(g, y, residual)));
}

static void chain_of_four(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_exp(g, plb_neg(g, image(g)));
    plb_output(g, "y", plb_tanh(g, plb_sub(g, x, plb_scalar(g, PLB_F32, 0.25))));
}

static void chain_second_reader(plb_graph *g, const void *context) {
    (void)context;
    plb_value a = plb_exp(g, plb_neg(g, image(g)));
    plb_output(g, "y", plb_mul(g, plb_tanh(g, a), plb_sum(g, a, 2, true)));
}

static void chain_output_within(plb_graph *g, const void *context) {
    (void)context;
    plb_value a = plb_exp(g, plb_neg(g, image(g)));
    plb_output(g, "a", a);
    plb_output(g, "y", plb_tanh(g, plb_affine(g, a, 2, 1)));
}

// The row is smaller than the sum: computing it for every element would be more work.
static void chain_widens(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(6, 5));
    plb_value row = plb_exp(g, plb_input(g, "row", PLB_F32, &plb_shape_of(5)));
    plb_output(g, "y", plb_add(g, x, row));
}

// Numbers that f64 cannot hold, wrapped and compared.
static void chain_of_integers(plb_graph *g, const void *context) {
    (void)context;
    plb_value i = plb_input(g, "i", PLB_I64, &plb_shape_of(3, 7));
    plb_value big = plb_constant(g, PLB_I64, &plb_scalar_shape, (int64_t[]){INT64_C(1) << 60});
    plb_value j = plb_add(g, plb_add(g, plb_mul(g, i, big), i), i);
    plb_output(g, "j", plb_sub(g, j, plb_mul(g, i, big)));
    plb_value k =
        plb_remainder(g, plb_affine(g, plb_mul(g, i, i), 3, -1000), plb_scalar(g, PLB_I64, 7));
    plb_output(g, "k", plb_cast(g, plb_cast(g, k, PLB_I8), PLB_F32));
}

static void chain_of_prelu(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_neg(g, image(g));
    plb_output(g, "y", plb_tanh(g, plb_prelu(g, x, vector(g, "slope"))));
}

static void chain_across_assign(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), a = plb_exp(g, w);
    int variable = plb_value_variable(g, w);
    plb_assign(g, variable, plb_affine(g, w, 0.5, 0.25));
    plb_output(g, "y", plb_tanh(g, plb_add(g, a, plb_read(g, variable))));
}

static void chain_too_long(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g);
    for (int i = 0; i < 40; i++) x = i & 1 ? plb_tanh(g, x) : plb_affine(g, x, 1.5, 0.1);
    plb_output(g, "y", x);
}

static void chain_too_wide(plb_graph *g, const void *context) {
    (void)context;
    plb_value sum = plb_neg(g, image(g));
    for (int i = 0; i < 12; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%d", i);
        plb_shape s = plb_value_shape(g, sum);
        sum = plb_add(g, sum, plb_input(g, name, PLB_F32, &s));
    }
    plb_output(g, "y", sum);
}

static const pass_case pass_cases[] = {
    {"conv, relu", conv_relu, plb_pass_fuse_epilogue, PLB_OP_relu, 0},
    {"conv, clamp", conv_clamp, plb_pass_fuse_epilogue, PLB_OP_clamp, 0},
    {"matmul, add, relu", matmul_add_relu, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"conv, residual, relu: add", conv_residual_relu, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"conv, residual, relu: relu", conv_residual_relu, plb_pass_fuse_epilogue, PLB_OP_relu, 0},
    {"conv with a second reader", conv_second_reader, plb_pass_fuse_epilogue, PLB_OP_relu, 1},
    {"conv that is an output", conv_is_output, plb_pass_fuse_epilogue, PLB_OP_relu, 1},
    {"sum that is an output: add", sum_is_output, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"sum that is an output: relu", sum_is_output, plb_pass_fuse_epilogue, PLB_OP_relu, 1},
    {"residual comes later", residual_comes_later, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"residual is broadcast", residual_is_broadcast, plb_pass_fuse_epilogue, PLB_OP_add, 1},
    {"two convolutions", two_convs, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"sum with itself", sum_with_itself, plb_pass_fuse_epilogue, PLB_OP_add, 1},
    {"norm, relu", norm_relu, plb_pass_fuse_epilogue, PLB_OP_relu, 0},
    {"norm, clamp", norm_clamp, plb_pass_fuse_epilogue, PLB_OP_clamp, 1},
    {"norm, residual later", norm_residual_later, plb_pass_fuse_epilogue, PLB_OP_add, 0},
    {"norm, residual from statistics", norm_residual_from_statistics, plb_pass_fuse_epilogue,
     PLB_OP_add, 1},
    {"conv moves behind an assign", conv_moves_behind_assign, plb_pass_fuse_epilogue, PLB_OP_add,
     0},
    {"chain of four", chain_of_four, plb_pass_fuse_chain, PLB_OP_fused, 1},
    {"chain of four: nothing else", chain_of_four, plb_pass_fuse_chain, PLB_OP_exp, 0},
    {"chain with a second reader", chain_second_reader, plb_pass_fuse_chain, PLB_OP_fused, 2},
    {"chain with an output within", chain_output_within, plb_pass_fuse_chain, PLB_OP_fused, 2},
    {"chain that widens", chain_widens, plb_pass_fuse_chain, PLB_OP_exp, 1},
    {"chain of integers", chain_of_integers, plb_pass_fuse_chain, PLB_OP_cast, 0},
    {"chain with prelu", chain_of_prelu, plb_pass_fuse_chain, PLB_OP_prelu, 0},
    {"chain across an assign", chain_across_assign, plb_pass_fuse_chain, PLB_OP_fused, 1},
    {"chain too long", chain_too_long, plb_pass_fuse_chain, PLB_OP_fused, 2},
    {"chain too wide", chain_too_wide, plb_pass_fuse_chain, PLB_OP_fused, 2},
};

static void passes_do_what_they_say(void) {
    check_passes(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

static void programs_by_hand_agree(void) {
    check_levels(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

// What a plan tells of itself is what it runs.
static void plans_tell_their_ops(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    conv_residual_relu(g, NULL);
    plb_plan *plan = NULL;
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.threads = 1, .no_tuning = true}, &plan));
    CHECK(strstr(plb_plan_report(plan), "fuse epilogue: 1 residuals and activations\n"));
    int convs = 0, others = 0;
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        const char *op = plb_plan_op_info(plan, i).op;
        convs += strcmp(op, "conv") == 0;
        others += strcmp(op, "add") == 0 || strcmp(op, "relu") == 0;
    }
    CHECK(convs == 1 && others == 0);
    plb_plan_free(plan);
    plb_model_free(model);
}

static const check_test tests[] = {
    {"passes do what they say", passes_do_what_they_say},
    {"programs by hand agree at all levels", programs_by_hand_agree},
    {"plans tell their ops", plans_tell_their_ops},
};
CHECK_MAIN(tests)
