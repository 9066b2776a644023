// SPDX-License-Identifier: Apache-2.0
// Training steps of whole models: planned with all passes they leave the same loss, logits and
// variables, moments among them, as the program run op by op. Dropout is on: the random numbers are
// the same everywhere. An untrained deep network with batch norms over a few pixels multiplies
// rounding by thousands and a training rate of use makes it another network in three steps; so the
// rate is low, and all but the first outputs are also given what the op by op level is itself off
// when its input changes by a few millionths. Adam would turn a gradient that is all rounding
// into a whole step, so only the smallest model has it. (test_zoo_reference.c is stricter, in f64.)
#include "../engine/levels.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

typedef struct zoo_case {
    const char *model;
    int64_t batch, size;
    const char *optimizer;
    double lr;
} zoo_case;

static const zoo_case cases[] = {
    {"mnist_cnn", 8, 0, "adam", 1e-3},       {"resnet18", 4, 64, "sgd", 1e-5},
    {"mobilenet_v2", 4, 64, "sgd", 1e-5},    {"squeezenet1_1", 4, 64, "sgd", 1e-5},
    {"efficientnet_b0", 4, 64, "sgd", 1e-5}, {"shufflenet_v2_x1_0", 4, 64, "sgd", 1e-5},
};

static void build(plb_graph *graph, const void *context) {
    const zoo_case *c = context;
    plb_zoo_options options = {
        .batch = c->batch, .size = c->size, .classes = 10, .program = "step"};
    plb_step_options step;
    plb_graph *train;
    plb_value loss;
    CHECK_OK(plb_step_options_for(c->optimizer, &step));
    step.lr = c->lr;
    step.sgd.momentum = 0.9; // keeps what the gradients were
    CHECK_OK(plb_zoo_build_train(plb_graph_model(graph), c->model, &options, &train, &loss));
    CHECK_OK(plb_train_step(train, loss, &step));
}

static void steps_agree(void) {
    const plb_plan_options interp = {.level = PLB_LEVEL_INTERP, .threads = 1, .no_winograd = true};
    const plb_plan_options plan = {.threads = 1, .no_tuning = true, .no_winograd = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        levels_program p = {.build = build,
                            .context = &cases[i],
                            .program = "step",
                            .runs = 3,
                            .below = 10,
                            .tolerance = 1e-4};
        levels_trace expected = levels_run(&p, &interp), found = levels_run(&p, &plan);
        levels_trace noise = levels_noise(&p, &interp, &expected, 4e-6);
        char text[700];
        bool differ = levels_differ(&p, &expected, &found, &noise, text, sizeof text);
        CHECK_SAY(!differ, "%s: %s", cases[i].model, text);
        levels_trace_free(&expected);
        levels_trace_free(&found);
        levels_trace_free(&noise);
    }
}

static const check_test tests[] = {
    {"three training steps agree with the op by op level", steps_agree},
};
CHECK_MAIN(tests)
