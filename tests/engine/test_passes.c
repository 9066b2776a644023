// SPDX-License-Identifier: Apache-2.0
// What passes and the planner may do to a program: make it faster, and never anything else.
// PLB_TEST_SEEDS=n tries n random programs; PLB_TEST_FIRST_SEED=s begins with seed s.
#include "engine/graph/pass.h"
#include "levels.h"
#include "random_graph.h"

static void print_program(const plb_graph *g) {
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *node = &g->nodes[i];
        fprintf(stderr, "  %s(", plb_op_of(node->op)->name);
        for (int k = 0; k < node->n_in; k++) fprintf(stderr, "%s%d", k ? " " : "", node->in[k]);
        fprintf(stderr, ")");
        if (node->op == PLB_OP_read || node->op == PLB_OP_assign) {
            int variable = ((const plb_variable_attrs *)node->attrs)->variable;
            fprintf(stderr, " %s", g->model->variables[variable].name);
        }
        for (int k = 0; k < node->n_out; k++) {
            char text[160];
            const plb_type *type = &g->values[node->out + k].type;
            fprintf(stderr, " -> %d %s%s", node->out + k, plb_dtype_name(type->dtype),
                    plb_shape_format(&type->shape, text, sizeof text));
        }
        fprintf(stderr, "\n");
    }
    for (int i = 0; i < g->n_outputs; i++) {
        fprintf(stderr, "  output %s: %d\n", g->outputs[i].name, g->outputs[i].value);
    }
}

static void print_random(const random_spec *spec) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    if (model && plb_model_program(model, "p", &g) == PLB_OK) {
        random_build(g, spec);
        print_program(g);
    }
    plb_model_free(model);
}

// Reports the shortest prefix of the program that fails.
static void check_random(uint64_t seed) {
    random_spec spec = {.seed = seed, .steps = 30 + (int)(seed % 31)};
    levels_program p = {.build = random_build, .context = &spec, .runs = 3, .tolerance = 1e-3};
    char text[900];
    if (!levels_disagree(&p, text, sizeof text)) return;
    const int all = spec.steps;
    for (spec.steps = 0; spec.steps < all; spec.steps++) {
        if (levels_disagree(&p, text, sizeof text)) break;
    }
    levels_disagree(&p, text, sizeof text);
    CHECK_SAY(false, "seed %llu, %d steps: %s", (unsigned long long)seed, spec.steps, text);
    print_random(&spec);
}

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_programs_agree(void) {
    uint64_t first = number_of("PLB_TEST_FIRST_SEED", 1), n = number_of("PLB_TEST_SEEDS", 25);
    for (uint64_t seed = first; seed < first + n; seed++) check_random(seed);
}

// ------------------------------------------------------------------------------- single passes
// Small programs by hand. Every one must agree at all levels; `op` must be left `count` times by
// the pass.
typedef struct pass_case {
    const char *name;
    void (*build)(plb_graph *g, const void *context);
    plb_pass pass;
    plb_op_id op;
    int count;
} pass_case;

static plb_value image(plb_graph *g) {
    return plb_input(g, "x", PLB_F32, &plb_shape_of(2, 4, 5, 5));
}

static plb_value vector(plb_graph *g, const char *name) {
    return plb_param(g, name, PLB_F32, &plb_shape_of(4), PLB_ROLE_PARAMETER,
                     (plb_init){PLB_INIT_UNIFORM, 0.5, 1.5});
}

static plb_value conv(plb_graph *g, plb_value x, const char *name) {
    plb_value w = plb_param(g, name, PLB_F32, &plb_shape_of(4, 4, 3, 3), PLB_ROLE_PARAMETER,
                            (plb_init){PLB_INIT_UNIFORM, -0.3, 0.3});
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    return plb_conv(g, x, w, vector(g, "bias"), &attrs);
}

static plb_value norm(plb_graph *g, plb_value x) {
    return plb_batch_norm(g, x, vector(g, "gamma"), vector(g, "beta"), 1e-3);
}

static plb_value norm_infer(plb_graph *g, plb_value x) {
    return plb_batch_norm_infer(g, x, vector(g, "gamma"), vector(g, "beta"), vector(g, "mean"),
                                vector(g, "variance"), 1e-3);
}

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

static void old_value_used_late(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", plb_softmax(g, w, 0));
}
static void old_value_seen_late(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), view = plb_reshape(g, w, &plb_shape_of(2, 2));
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", plb_softmax(g, view, 0));
}
static void old_value_is_output(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_output(g, "before", w);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
}
static void old_value_not_needed(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), y = plb_softmax(g, w, 0);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_output(g, "y", y);
}
static void variables_change_places(plb_graph *g, const void *context) {
    (void)context;
    plb_value b = vector(g, "b"), a = vector(g, "a"); // the copy of a must not go to b yet
    plb_assign(g, plb_value_variable(g, a), b);
    plb_assign(g, plb_value_variable(g, b), a);
}
static void assigned_in_turn(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    int variable = plb_value_variable(g, w);
    plb_value first = plb_affine(g, w, 0.5, 1);
    plb_assign(g, variable, first);
    plb_value between = plb_softmax(g, plb_read(g, variable), 0);
    plb_assign(g, variable, plb_mul(g, first, between));
    plb_output(g, "y", plb_add(g, plb_read(g, variable), between));
}

static void equal_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g), a = plb_exp(g, plb_affine(g, x, 2, 0));
    plb_value b = plb_exp(g, plb_affine(g, x, 2, 0)), c = plb_exp(g, plb_affine(g, x, 2, 1));
    plb_output(g, "y", plb_add(g, plb_mul(g, a, b), c));
}
static void equal_random_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_graph_set_training(g, true);
    plb_value x = image(g);
    plb_output(g, "y", plb_sub(g, plb_dropout(g, x, 0.5), plb_dropout(g, x, 0.5)));
}
static void equal_reads(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w"), before = plb_exp(g, w);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 0.5, 1));
    plb_value after = plb_exp(g, plb_read(g, plb_value_variable(g, w)));
    plb_output(g, "y", plb_sub(g, before, after));
}
static void dead_nodes(plb_graph *g, const void *context) {
    (void)context;
    plb_value x = image(g);
    plb_input(g, "unused", PLB_F32, &plb_shape_of(3)); // stays: a caller fills it
    plb_exp(g, plb_tanh(g, x));
    plb_output(g, "y", plb_neg(g, x));
}

static void layout_stays(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = plb_relu(g, conv(g, plb_tanh(g, conv(g, image(g), "w")), "v"));
    plb_output(g, "y", plb_reshape(g, plb_softmax(g, y, 1), &plb_shape_of(2, 100)));
}
// One value, read both ways: a reorder each way and no more.
static void layout_mixes(plb_graph *g, const void *context) {
    (void)context;
    plb_value y = conv(g, image(g), "w"), z = plb_cumsum(g, y, 2, false, false);
    plb_output(g, "y", plb_add(g, conv(g, z, "v"), plb_mul(g, z, y)));
    plb_output(g, "z", plb_cumsum(g, y, 1, false, false));
}

// The planner, where nobody but the order of execution forbids something.
static void prologue_assigned(plb_graph *g, const void *context) {
    (void)context;
    plb_value w = vector(g, "w");
    plb_output(g, "y", plb_softmax(g, w, 0)); // of the old w, though exp(v) is there long before
    plb_assign(g, plb_value_variable(g, w), plb_exp(g, vector(g, "v")));
}
static void prologue_product(plb_graph *g, const void *context) {
    (void)context;
    plb_init init = {PLB_INIT_UNIFORM, -1, 1};
    plb_value a = plb_param(g, "a", PLB_F32, &plb_shape_of(5, 20), PLB_ROLE_PARAMETER, init);
    plb_value b = plb_param(g, "b", PLB_F32, &plb_shape_of(20, 9), PLB_ROLE_PARAMETER, init);
    plb_output(g, "y", plb_matmul(g, a, b, NULL)); // both constant, so b may be packed
}
static void prologue_read_twice(plb_graph *g, const void *context) {
    (void)context;
    plb_value e = plb_exp(g, vector(g, "w")), x = image(g);
    plb_value column = plb_reshape(g, e, &plb_shape_of(4, 1, 1));
    plb_output(g, "y", plb_mul(g, x, column));
    plb_output(g, "z", plb_mul(g, x, plb_tanh(g, column))); // not into e's memory
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
    {"old value used late", old_value_used_late, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value seen late", old_value_seen_late, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value is an output", old_value_is_output, plb_pass_keep_old, PLB_OP_cast, 1},
    {"old value not needed", old_value_not_needed, plb_pass_keep_old, PLB_OP_cast, 0},
    {"variables change places", variables_change_places, plb_pass_keep_old, PLB_OP_cast, 1},
    {"assigned in turn", assigned_in_turn, plb_pass_keep_old, PLB_OP_cast, 0},
    {"equal nodes", equal_nodes, plb_pass_clean, PLB_OP_exp, 2},
    {"equal random nodes", equal_random_nodes, plb_pass_clean, PLB_OP_dropout, 2},
    {"equal reads", equal_reads, plb_pass_clean, PLB_OP_exp, 2},
    {"dead nodes", dead_nodes, plb_pass_clean, PLB_OP_tanh, 0},
    {"inputs stay", dead_nodes, plb_pass_clean, PLB_OP_input, 2},
    {"layout stays", layout_stays, plb_pass_layout, PLB_OP_reorder, 2},
    {"layout mixes", layout_mixes, plb_pass_layout, PLB_OP_reorder, 3},
    {"prologue assigned", prologue_assigned, plb_pass_clean, PLB_OP_assign, 1},
    {"prologue product", prologue_product, plb_pass_clean, PLB_OP_matmul, 1},
    {"prologue read twice", prologue_read_twice, plb_pass_clean, PLB_OP_exp, 1},
};

static plb_status copied(const plb_graph *graph, plb_graph **out) {
    plb_rewrite rw;
    PLB_TRY(plb_rewrite_begin(graph, &rw));
    for (int i = 0; i < graph->n_nodes; i++) plb_rewrite_copy(&rw, i);
    return plb_rewrite_end(&rw, out);
}

static int count_of(const plb_graph *g, plb_op_id op) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

// Equal weights at convolutions count twice before `clean`; reorders that move nothing do not.
static int reorders_in(const char *report) {
    int n = -1;
    const char *line = report ? strstr(report, "layout: ") : NULL;
    if (line) sscanf(line, "layout: %d", &n);
    return n;
}

static void check_pass(const pass_case *c) {
    plb_model *model = plb_model_new();
    plb_graph *built, *graph = NULL;
    plb_strbuf report = {0};
    CHECK_OK(plb_model_program(model, "p", &built));
    c->build(built, NULL);
    plb_status status = plb_graph_status(built);
    if (!status) status = copied(built, &graph);
    plb_pass_context context = {&plb_backend_cpu, 1, &report, PLB_F32};
    if (!status) status = c->pass(&graph, &context);
    CHECK_SAY(!status, "%s: %s", c->name, plb_error_text());
    if (!status) {
        int n = c->op == PLB_OP_reorder ? reorders_in(report.text) : count_of(graph, c->op);
        CHECK_SAY(n == c->count, "%s: %d of %s expected, %d left", c->name, c->count,
                  plb_op_of(c->op)->name, n);
        if (n != c->count) print_program(graph);
    }
    plb_strbuf_free(&report);
    plb_graph_free(graph);
    plb_model_free(model);
}

static void passes_do_what_they_say(void) {
    for (size_t i = 0; i < sizeof pass_cases / sizeof *pass_cases; i++) check_pass(&pass_cases[i]);
}

static void programs_by_hand_agree(void) {
    for (size_t i = 0; i < sizeof pass_cases / sizeof *pass_cases; i++) {
        levels_program p = {.build = pass_cases[i].build, .runs = 3, .tolerance = 2e-3};
        char text[900];
        bool differ = levels_disagree(&p, text, sizeof text);
        CHECK_SAY(!differ, "%s: %s", pass_cases[i].name, text);
    }
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

// In f64 there is no rounding for a mistake to hide behind.
static void random_programs_agree_in_f64(void) {
    for (uint64_t seed = 1; seed < 11; seed++) {
        random_spec spec = {.seed = seed, .steps = 40};
        levels_program p = {.build = random_build, .context = &spec, .runs = 1, .tolerance = 1e-6};
        plb_plan_options plain = {.threads = 1, .f64 = true, .no_fusion = true};
        plb_plan_options fused = {.threads = 2, .f64 = true};
        levels_trace expected = levels_run(&p, &plain), found = levels_run(&p, &fused);
        char text[900];
        bool differ = levels_differ(&p, &expected, &found, NULL, text, sizeof text);
        CHECK_SAY(!differ, "seed %llu: %s", (unsigned long long)seed, text);
        levels_trace_free(&expected);
        levels_trace_free(&found);
    }
}

static const check_test tests[] = {
    {"passes do what they say", passes_do_what_they_say},
    {"programs by hand agree at all levels", programs_by_hand_agree},
    {"plans tell their ops", plans_tell_their_ops},
    {"sums move before pooling", sums_move_before_pooling},
    {"norms are computed again", norms_are_computed_again},
    {"random programs agree at all levels", random_programs_agree},
    {"random programs agree in f64", random_programs_agree_in_f64},
};
CHECK_MAIN(tests)
