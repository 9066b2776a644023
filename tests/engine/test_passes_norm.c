// SPDX-License-Identifier: Apache-2.0
// What passes do about norms: fold them into convolutions, join masks to their gradients, compute
// them again; and sums that move before poolings.
#include "pass_cases.h"

static plb_value norm_infer(plb_graph *g, plb_value x) {
    return plb_batch_norm_infer(g, x, vector(g, "gamma"), vector(g, "beta"), vector(g, "mean"),
                                vector(g, "variance"), 1e-3);
}

static void fold_plain(plb_graph *g, const void *context) {
    (void)context;
    plb_output(g, "y", plb_relu(g, norm_infer(g, conv(g, image(g), "w"))));
}

static void fold_second_reader(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w");
    plb_output(g, "y", plb_mul(g, norm_infer(g, y), y));
}

static void fold_without_gamma(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w");
    plb_output(g, "y",
               plb_batch_norm_infer(g, y, PLB_NONE, PLB_NONE, vector(g, "mean"),
                                    vector(g, "variance"), 1e-3));
}

static void fold_statistics_from_input(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = conv(g, x, "w");
    plb_value mean = plb_mean(g, x, 1 | 4 | 8, false);
    plb_output(g, "y",
               plb_batch_norm_infer(g, y, vector(g, "gamma"), vector(g, "beta"), mean,
                                    vector(g, "variance"), 1e-3));
}

static void fold_groups(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = plb_param(g, "w", PLB_F32, &plb_shape_of(4, 1, 3, 3), PLB_ROLE_PARAMETER,
                            (plb_init){PLB_INIT_UNIFORM, -1, 1});
    plb_conv_attrs attrs = plb_conv_uniform(2, 2, 1, 1, 4);
    plb_output(g, "y", norm_infer(g, plb_conv(g, image(g), w, PLB_NONE, &attrs)));
}

static void fold_mixed_precision(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_cast(g, image(g), PLB_F16);
    plb_value w = plb_param(g, "w", PLB_F16, &plb_shape_of(4, 4, 1, 1), PLB_ROLE_PARAMETER,
                            (plb_init){PLB_INIT_UNIFORM, -1, 1});
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_output(g, "y", norm_infer(g, plb_conv(g, x, w, PLB_NONE, &attrs)));
}

// loss = sum of squares of relu(norm(x) [+ residual]), and its gradient
static void descend(plb_graph *g, plb_value y, plb_value other) {
    plb_value loss = plb_sum(g, plb_mul(g, y, y), 0, false);
    if (other != PLB_NONE) loss = plb_add(g, loss, plb_sum(g, other, 0, false));
    plb_value w = plb_read(g, plb_model_find_variable(g->model, "gamma")), grads[2];
    plb_value wrt[2] = {PLB_NONE, PLB_NONE};
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *node = &g->nodes[i];
        if (node->op == PLB_OP_input) wrt[0] = node->out;
        if (node->op == PLB_OP_batch_norm) wrt[1] = node->in[1];
    }
    plb_gradients(g, loss, wrt, 2, grads);
    plb_output(g, "dx", grads[0]);
    plb_assign(g, plb_value_variable(g, w), plb_sub(g, w, plb_affine(g, grads[1], 1e-3, 0)));
}

static void masked_norm(plb_graph *g, const void *context) {
    (void)context;
    descend(g, plb_relu(g, norm(g, image(g))), PLB_NONE);
}

static void masked_norm_residual(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g);
    descend(g, plb_relu(g, plb_add(g, norm(g, x), x)), PLB_NONE);
}

static void masked_two_norms(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), a = norm(g, x), b = norm(g, plb_tanh(g, x));
    descend(g, plb_relu(g, plb_add(g, a, b)), PLB_NONE);
}

static void masked_second_reader(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), y = norm(g, x);
    descend(g, plb_relu(g, y), plb_exp(g, y)); // the norm's gradient is a sum: no mask joins
}

// Wide enough for its first norm to be computed again; the second has a residual and stays.
static void norms_again(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(1, 4, 512, 512));
    plb_value y = conv(g, plb_relu(g, norm(g, x)), "w"), grads[2];
    plb_value wrt[2] = {x, g->nodes[g->values[y].node].in[1]};
    y = plb_relu(g, plb_add(g, norm(g, y), x));
    plb_gradients(g, plb_mean(g, plb_mul(g, y, y), 0, false), wrt, 2, grads);
    plb_output(g, "dx", grads[0]);
    plb_output(g, "dw", grads[1]);
}

// Of the gradient of the bias nothing is left that is as large as x.
static void pooled_bias(plb_graph *g, const void *context) {
    (void)context;
    const plb_pool_attrs attrs = plb_pool_uniform(2, 3, 2, 1);
    plb_value y = conv(g, image(g), "w"), bias = g->nodes[g->values[y].node].in[2], grad;
    y = plb_max_pool(g, y, &attrs);
    plb_gradients(g, plb_sum(g, plb_mul(g, y, y), 0, false), &bias, 1, &grad);
    plb_output(g, "dbias", grad);
}

static const pass_case pass_cases[] = {
    {"fold a norm", fold_plain, plb_pass_fold_norm, PLB_OP_batch_norm_infer, 0},
    {"fold: conv with a second reader", fold_second_reader, plb_pass_fold_norm,
     PLB_OP_batch_norm_infer, 1},
    {"fold without gamma", fold_without_gamma, plb_pass_fold_norm, PLB_OP_batch_norm_infer, 0},
    {"fold: statistics of the input", fold_statistics_from_input, plb_pass_fold_norm,
     PLB_OP_batch_norm_infer, 1},
    {"fold: groups", fold_groups, plb_pass_fold_norm, PLB_OP_batch_norm_infer, 0},
    {"fold: f16 with f32 statistics", fold_mixed_precision, plb_pass_fold_norm,
     PLB_OP_batch_norm_infer, 1},
    {"mask of a norm", masked_norm, plb_pass_fuse_norm_grad, PLB_OP_relu_grad, 0},
    {"mask of a norm and a residual", masked_norm_residual, plb_pass_fuse_norm_grad,
     PLB_OP_relu_grad, 0},
    {"mask of two norms", masked_two_norms, plb_pass_fuse_norm_grad, PLB_OP_relu_grad, 0},
    {"mask with a second reader", masked_second_reader, plb_pass_fuse_norm_grad, PLB_OP_relu_grad,
     1},
    {"norms again", norms_again, plb_pass_recompute, PLB_OP_batch_norm, 2},
    {"bias before a pooling", pooled_bias, plb_pass_sum_early, PLB_OP_reduce_sum, 2},
};

static void passes_do_what_they_say(void) {
    check_passes(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

static void programs_by_hand_agree(void) {
    check_levels(pass_cases, sizeof pass_cases / sizeof *pass_cases);
}

static int planned_ops(void (*build)(plb_graph *g, const void *context), const char *op) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    build(g, NULL);
    plb_plan *plan = NULL;
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.threads = 1, .no_tuning = true}, &plan));
    int n = 0;
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        n += strcmp(plb_plan_op_info(plan, i).op, op) == 0;
    }
    plb_plan_free(plan);
    plb_model_free(model);
    return n;
}

static void sums_move_before_pooling(void) {
    CHECK(planned_ops(pooled_bias, "max_pool") == 1);
    CHECK(planned_ops(pooled_bias, "max_pool_grad") == 0);
}

// The plan of norms_again(): what the first norm makes is a chain's result in backward.
static void norms_are_computed_again(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    norms_again(g, NULL);
    plb_plan *plan = NULL;
    CHECK_OK(plb_plan_new(g, &(plb_plan_options){.threads = 1, .no_tuning = true}, &plan));
    CHECK(strstr(plb_plan_report(plan),
                 "use signs: 1 gradients of norms do without y\nrecompute: 1 norms of 4.0 MiB"));
    plb_plan_free(plan);
    plb_model_free(model);
}

static const check_test tests[] = {
    {"passes do what they say", passes_do_what_they_say},
    {"programs by hand agree at all levels", programs_by_hand_agree},
    {"sums move before pooling", sums_move_before_pooling},
    {"norms are computed again", norms_are_computed_again},
};
CHECK_MAIN(tests)
