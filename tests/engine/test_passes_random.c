// SPDX-License-Identifier: Apache-2.0
// Random programs: passes and the planner may make them faster, and never anything else.
// PLB_TEST_SEEDS=n tries n random programs; PLB_TEST_FIRST_SEED=s begins with seed s.
#include "levels.h"
#include "print_program.h"
#include "random_graph.h"

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
    {"random programs agree at all levels", random_programs_agree},
    {"random programs agree in f64", random_programs_agree_in_f64},
};
CHECK_MAIN(tests)
