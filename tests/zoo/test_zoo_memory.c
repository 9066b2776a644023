// SPDX-License-Identifier: Apache-2.0
// What a plan says it takes is what the process grows by, within 5 %, for models above 500 MB: a
// training step of resnet50, most of which is activations, and, with PLB_TEST_FULL=1, of vgg16,
// most of which is weights, and of densenet121, for which a library generates most code. Each has a
// process of its own.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/memory_use.h"
#include "plumb/plan.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

typedef struct case_of {
    const char *name;
    int64_t batch, size;
} case_of;

// The threads belong to what loading libraries takes.
static double resident_before(int threads) {
    int touched = 0;
#pragma omp parallel num_threads(threads) reduction(+ : touched)
    touched++;
    return touched ? (double)plb_memory_resident() : 0;
}

static void train_two_steps(const case_of *c) {
    const double before = resident_before(2);
    plb_zoo_options zoo = {.batch = c->batch, .size = c->size};
    plb_step_options step;
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_value loss;
    CHECK_OK(plb_step_options_for("sgd", &step));
    step.sgd.momentum = 0.9;
    CHECK_OK(plb_zoo_build_train(model, c->name, &zoo, &graph, &loss));
    CHECK_OK(plb_train_step(graph, loss, &step));
    CHECK_OK(plb_plan_new(graph, &(plb_plan_options){.threads = 2}, &plan));
    for (int i = 0; i < 2 && plan; i++) CHECK_OK(plb_plan_run(plan));
    if (plan) {
        const double planned = (double)plb_plan_memory(plan).total;
        const double grown = (double)plb_memory_resident() - before;
        printf("%s: planned %.1f MB, grown by %.1f MB\n", c->name, planned / 1e6, grown / 1e6);
        CHECK(planned > 500e6);
        CHECK_SAY(fabs(grown / planned - 1) <= 0.05, "%s: %.3f of the plan", c->name,
                  grown / planned);
    }
    plb_plan_free(plan);
    plb_model_free(model);
}

static void in_its_own_process(const case_of *c) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        train_two_steps(c);
        fflush(NULL);
        _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void activations_are_as_planned(void) {
    if (SANITIZED) SKIP("a sanitizer takes memory of its own");
    in_its_own_process(&(case_of){"resnet50", 16, 128});
}

static void weights_are_as_planned(void) {
    const char *full = getenv("PLB_TEST_FULL");
    if (SANITIZED) SKIP("a sanitizer takes memory of its own");
    if (!full || strcmp(full, "1") != 0) SKIP("PLB_TEST_FULL is not 1");
    in_its_own_process(&(case_of){"vgg16", 2, 64});
}

static void code_is_counted(void) {
    const char *full = getenv("PLB_TEST_FULL");
    if (SANITIZED) SKIP("a sanitizer takes memory of its own");
    if (!full || strcmp(full, "1") != 0) SKIP("PLB_TEST_FULL is not 1");
    in_its_own_process(&(case_of){"densenet121", 16, 128});
}

static const check_test tests[] = {
    {"activations are as planned", activations_are_as_planned},
    {"weights are as planned", weights_are_as_planned},
    {"code is counted", code_is_counted},
};
CHECK_MAIN(tests)
