// SPDX-License-Identifier: Apache-2.0
// The f64 reference of whole models: what f32 computes lies close to it, and in f64 the passes
// change next to nothing, so that a mistake has no rounding to hide behind.
#include "../engine/levels.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

static void infer(plb_graph *graph, const void *context) {
    plb_zoo_options options = {.batch = 2, .size = 64, .program = "it"};
    CHECK_OK(plb_zoo_build_infer(plb_graph_model(graph), context, &options));
}

static void train(plb_graph *graph, const void *context) {
    plb_zoo_options options = {.batch = 4, .size = 32, .classes = 10, .program = "it"};
    if (strcmp(context, "mnist_cnn") == 0) options.size = 0; // one size only
    plb_step_options step;
    plb_graph *program;
    plb_value loss;
    CHECK_OK(plb_step_options_for("sgd", &step));
    step.lr = 1e-3, step.sgd.momentum = 0.9;
    CHECK_OK(plb_zoo_build_train(plb_graph_model(graph), context, &options, &program, &loss));
    CHECK_OK(plb_train_step(program, loss, &step));
}

static levels_program program_of(void (*build)(plb_graph *, const void *), const char *model,
                                 double tolerance) {
    return (levels_program){.build = build,
                            .context = model,
                            .program = "it",
                            .runs = 1,
                            .below = 10,
                            .tolerance = tolerance};
}

static void compare(const levels_program *p, const plb_plan_options *a, const plb_plan_options *b,
                    const char *what) {
    levels_trace expected = levels_run(p, a), found = levels_run(p, b);
    char text[700];
    bool differ = levels_differ(p, &expected, &found, NULL, text, sizeof text);
    CHECK_SAY(!differ, "%s: %s", what, text);
    levels_trace_free(&expected);
    levels_trace_free(&found);
}

static const plb_plan_options f64 = {.threads = 1, .f64 = true};

static void f32_is_close(void) {
    levels_program p = program_of(infer, "resnet18", 1e-5);
    compare(&p, &f64, &(plb_plan_options){.threads = 1, .no_tuning = true, .no_winograd = true},
            "resnet18");
}

static void passes_change_nothing(void) {
    static const char *const models[] = {"resnet18", "mobilenet_v2", "shufflenet_v2_x1_0"};
    for (int i = 0; i < 3; i++) {
        levels_program p = program_of(infer, models[i], 1e-11);
        compare(&p, &(plb_plan_options){.threads = 2, .f64 = true, .no_fusion = true}, &f64,
                models[i]);
    }
}

// Variables are stored as f32: equal to its rounding, moments, which are the gradients, included.
static void training_steps_agree(void) {
    static const char *const models[] = {"resnet18",      "mobilenet_v2",    "shufflenet_v2_x1_0",
                                         "squeezenet1_1", "efficientnet_b0", "mnist_cnn"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        levels_program p = program_of(train, models[i], 3e-7);
        compare(&p, &(plb_plan_options){.threads = 2, .f64 = true, .no_fusion = true}, &f64,
                models[i]);
    }
}

static void only_values_are_widened(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    plb_plan *plan = NULL;
    plb_tensor t;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_value w = plb_param(g, "w", PLB_F32, &plb_shape_of(2), PLB_ROLE_PARAMETER,
                            (plb_init){.a = 0.1}); // as f32 rounds it
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2));
    plb_value i = plb_cast(g, x, PLB_I32);
    plb_output(g, "y",
               plb_div(g, plb_cast(g, plb_mul(g, w, x), PLB_F16), plb_scalar(g, PLB_F16, 3)));
    plb_output(g, "i", i);
    plb_assign(g, plb_value_variable(g, w), plb_affine(g, w, 1, 1e-9)); // lost when it is stored
    CHECK_OK(plb_plan_new(g, &f64, &plan));
    CHECK_OK(plb_plan_input(plan, "x", &t));
    CHECK(t.dtype == PLB_F32);
    ((float *)t.data)[0] = 7, ((float *)t.data)[1] = -2;
    CHECK_OK(plb_plan_run(plan));
    CHECK_OK(plb_plan_output(plan, "y", &t));
    CHECK(t.dtype == PLB_F64);
    CHECK_NEAR(((double *)t.data)[0], (double)0.1f * 7 / 3, 1e-15);
    CHECK_OK(plb_plan_output(plan, "i", &t));
    CHECK(t.dtype == PLB_I32 && ((int32_t *)t.data)[1] == -2);
    CHECK_NEAR(((float *)plb_variable_data(model, 0))[0], 0.1f, 0);
    plb_plan_free(plan);
    plan = NULL;
    plb_plan_options interp = {.level = PLB_LEVEL_INTERP, .f64 = true};
    CHECK_FAILS(PLB_EUNSUPPORTED, "level interp", plb_plan_new(g, &interp, &plan));
    CHECK(!plan);
    plb_model_free(model);
}

static const check_test tests[] = {
    {"f32 is close to it", f32_is_close},
    {"passes change nothing in f64", passes_change_nothing},
    {"training steps agree in f64", training_steps_agree},
    {"only values are widened", only_values_are_widened},
};
CHECK_MAIN(tests)
