// SPDX-License-Identifier: Apache-2.0
// Training programs that share a model: what they share, and what keeps them apart.
#include "check.h"
#include "plumb/plumb.h"

typedef struct trainer {
    const char *name, *prefix, *scope;
    double lr;
} trainer;

// A step of Adam on the sum of the scalars "a.w" and "b.w": each gradient is 1, and the first step
// is one learning rate.
static plb_status build(plb_model *model, const trainer *t, plb_graph **out) {
    plb_step_options options;
    plb_status status = plb_model_program(model, t->name, out);
    if (!status) status = plb_step_options_for("adam", &options);
    if (status) return status;
    options.lr = t->lr, options.prefix = t->prefix, options.scope = t->scope;
    plb_value w[2];
    for (int i = 0; i < 2; i++) {
        plb_scope_push(*out, i ? "b" : "a");
        w[i] = plb_param(*out, "w", PLB_F32, &plb_scalar_shape, PLB_ROLE_PARAMETER, (plb_init){0});
        plb_scope_pop(*out);
    }
    return plb_train_step(*out, plb_add(*out, w[0], w[1]), &options);
}

static plb_plan *plan_of(plb_model *model, const trainer *t) {
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    CHECK_OK(build(model, t, &graph));
    CHECK_OK(plb_plan_new(graph, NULL, &plan));
    return plan;
}

static double value_of(plb_model *model, const char *name) {
    const int v = plb_model_find_variable(model, name);
    float value = NAN;
    plb_tensor to = plb_tensor_dense(&value, PLB_F32, &plb_scalar_shape, (plb_layout){0});
    CHECK_SAY(v >= 0, "no variable %s", name);
    if (v >= 0) CHECK_OK(plb_variable_read(model, v, &to));
    return value;
}

static void programs_learn_apart(void) {
    plb_model *model = plb_model_new();
    plb_plan *a = plan_of(model, &(trainer){"first", "one", "a", 0.5});
    plb_plan *b = plan_of(model, &(trainer){"second", "two", "b", 0.125});
    CHECK_OK(plb_plan_run(a));
    CHECK_OK(plb_plan_run(b));
    CHECK_OK(plb_plan_run(b));
    CHECK_NEAR(value_of(model, "a.w"), -0.5, 1e-6);
    CHECK_NEAR(value_of(model, "b.w"), -0.25, 1e-6);
    CHECK(value_of(model, "one.step") == 1 && value_of(model, "two.step") == 2);
    CHECK(value_of(model, "one.lr") == 0.5 && value_of(model, "two.lr") == 0.125);
    CHECK_NEAR(value_of(model, "one.adam.mean.a.w"), 0.1, 1e-6);
    CHECK(plb_model_find_variable(model, "lr") < 0);
    CHECK(plb_model_find_variable(model, "one.adam.mean.b.w") < 0);
    plb_plan_free(a);
    plb_plan_free(b);
    plb_model_free(model);
}

// As programs for batches of two sizes do; without a prefix, names are as they ever were.
static void programs_of_one_rate_share_it(void) {
    plb_model *model = plb_model_new();
    plb_plan *a = plan_of(model, &(trainer){"first", NULL, NULL, 0.5});
    plb_plan *b = plan_of(model, &(trainer){"second", NULL, NULL, 0.5});
    CHECK_OK(plb_plan_run(a));
    CHECK_OK(plb_plan_run(b));
    CHECK(value_of(model, "step") == 2 && value_of(model, "lr") == 0.5);
    CHECK_NEAR(value_of(model, "a.w"), -1, 1e-6);
    CHECK_NEAR(value_of(model, "adam.mean.b.w"), 0.19, 1e-6);
    plb_plan_free(a);
    plb_plan_free(b);
    plb_model_free(model);
}

static void two_rates_under_one_name_are_refused(void) {
    plb_model *model = plb_model_new();
    plb_graph *graph;
    CHECK_OK(build(model, &(trainer){"first", NULL, NULL, 0.5}, &graph));
    CHECK_FAILS(PLB_EINVAL, "lr begins with 0.5",
                build(model, &(trainer){"second", NULL, NULL, 0.125}, &graph));
    plb_model_free(model);
}

static void a_scope_without_parameters_is_refused(void) {
    plb_model *model = plb_model_new();
    plb_graph *graph;
    CHECK_FAILS(PLB_EINVAL, "no parameter of scope c",
                build(model, &(trainer){"p", NULL, "c", 0.5}, &graph));
    plb_model_free(model);
}

static plb_status step_of(const char *name, plb_step_options options) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    plb_status status = plb_model_program(model, "p", &g);
    plb_value w = plb_param(g, name, PLB_F32, &plb_scalar_shape, PLB_ROLE_PARAMETER, (plb_init){0});
    if (!status) status = plb_train_step(g, plb_affine(g, w, 2, 0), &options);
    plb_model_free(model);
    return status;
}

static void options_that_make_no_sense_are_refused(void) {
    char name[510];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_OK(step_of(name, (plb_step_options){.lr = 1}));
    // "grad." before it would be cut.
    CHECK_FAILS(PLB_EINVAL, "bytes, at most 511",
                step_of(name, (plb_step_options){.lr = 1, .output_gradients = true}));
    CHECK_FAILS(PLB_EINVAL, "bytes, at most 511", step_of("w", (plb_step_options){.prefix = name}));
    CHECK_FAILS(PLB_EINVAL, "optimizer",
                step_of("w", (plb_step_options){.optimizer = (plb_optimizer)9}));
}

static const check_test tests[] = {
    {"programs learn apart", programs_learn_apart},
    {"programs of one rate share it", programs_of_one_rate_share_it},
    {"two rates under one name are refused", two_rates_under_one_name_are_refused},
    {"a scope without parameters is refused", a_scope_without_parameters_is_refused},
    {"options that make no sense are refused", options_that_make_no_sense_are_refused},
};
CHECK_MAIN(tests)
