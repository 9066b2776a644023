// SPDX-License-Identifier: Apache-2.0
// What is known before kernels are chosen: the least that a plan's values need. It must hold, or a
// plan that fits would be refused, and come near, or one that cannot would be timed for nothing.
#include "check.h"
#include "engine/graph/plan.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

static void compare(const char *model, bool training) {
    const plb_zoo_options zoo = {.batch = 2, .size = 64};
    plb_model *m = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_step_options step;
    plb_value loss;
    size_t least = 0;
    if (training) {
        CHECK_OK(plb_step_options_for("sgd", &step));
        CHECK_OK(plb_zoo_build_train(m, model, &zoo, &graph, &loss));
        CHECK_OK(plb_train_step(graph, loss, &step));
    } else {
        CHECK_OK(plb_zoo_build_infer(m, model, &zoo));
        graph = plb_model_find_program(m, "infer");
    }
    CHECK_OK(plb_plan_new(graph, &(plb_plan_options){.threads = 1, .no_tuning = true}, &plan));
    if (plan) {
        CHECK_OK(plb_plan_least_bytes(plan, &least));
        size_t most = 0; // of values, without workspace
        for (int i = 0; i < plb_plan_op_count(plan); i++) {
            const plb_plan_op op = plb_plan_op_info(plan, i);
            const size_t values = op.live_bytes - op.live_workspace_bytes;
            if (!op.prologue && values > most) most = values;
        }
        CHECK_SAY(least <= most && (double)least >= 0.9 * (double)most, "%s, %s: %zu of %zu bytes",
                  model, training ? "train" : "infer", least, most);
        CHECK(least <= plan->transient_bytes);
    }
    plb_plan_free(plan);
    plb_model_free(m);
}

static void the_least_is_near_what_is_planned(void) {
    static const char *const models[] = {"resnet18", "mobilenet_v2", "densenet121"};
    for (int i = 0; i < 3; i++) {
        compare(models[i], true);
        compare(models[i], false);
    }
}

int main(void) {
    static const check_test tests[] = {
        {"the least is near what is planned", the_least_is_near_what_is_planned}};
    return check_main(tests, 1);
}
