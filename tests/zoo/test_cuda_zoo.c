// SPDX-License-Identifier: Apache-2.0
// Whole models on CUDA against the CPU: logits against its f64, and three training steps against
// its level interp, at every level of the device; the way of test_zoo_levels.c. Training by
// autocast stays near f32. Needs a device and says so where there is none. PLB_ZOO=name,… takes
// those models.
#include "../engine/levels.h"
#include "engine/device/backend.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

typedef struct zoo_case {
    const char *model;
    int64_t batch, size;
    bool training;
    int runs; // 0: three to train
} zoo_case;

static const zoo_case trained[] = {
    {"mnist_cnn", 8, 0, true, 0},        {"resnet18", 4, 64, true, 0},
    {"mobilenet_v2", 4, 64, true, 0},    {"squeezenet1_1", 4, 64, true, 0},
    {"efficientnet_b0", 4, 64, true, 0}, {"shufflenet_v2_x1_0", 4, 64, true, 1},
    {"densenet121", 4, 64, true, 0},     {"alexnet", 4, 64, true, 0},
};
static const zoo_case inferred[] = {
    {"lenet5", 4, 0, false, 0},
    {"alexnet", 2, 64, false, 0},
    {"vgg11_bn", 2, 64, false, 0},
    {"resnet50", 2, 64, false, 0},
    {"resnext50_32x4d", 2, 64, false, 0},
    {"squeezenet1_1", 2, 64, false, 0},
    {"mobilenet_v3_large", 2, 64, false, 0},
    {"densenet121", 2, 64, false, 0},
    {"mnasnet1_0", 2, 64, false, 0},
    {"shufflenet_v2_x1_0", 2, 64, false, 0},
    {"googlenet", 2, 64, false, 0},
    {"inception_v3", 2, 128, false, 0},
    {"efficientnet_b0", 2, 64, false, 0},
};
enum { TRAINED = sizeof trained / sizeof *trained, INFERRED = sizeof inferred / sizeof *inferred };

static const char *missing; // why there is no device
static char missing_text[256];

static bool chosen(const char *model) {
    const char *list = getenv("PLB_ZOO");
    return !list || strstr(list, model);
}

static void build(plb_graph *graph, const void *context) {
    const zoo_case *c = context;
    plb_zoo_options options = {
        .batch = c->batch, .size = c->size, .classes = c->training ? 10 : 0, .program = "step"};
    plb_step_options step;
    plb_graph *train;
    plb_value loss;
    if (!c->training) {
        CHECK_OK(plb_zoo_build_infer(plb_graph_model(graph), c->model, &options));
        return;
    }
    CHECK_OK(plb_step_options_for("sgd", &step));
    step.lr = 1e-5;
    step.sgd.momentum = 0.9; // keeps what the gradients were
    CHECK_OK(plb_zoo_build_train(plb_graph_model(graph), c->model, &options, &train, &loss));
    CHECK_OK(plb_train_step(train, loss, &step));
}

static levels_program program_of(const zoo_case *c) {
    return (levels_program){.build = build,
                            .context = c,
                            .program = "step",
                            .runs = c->runs       ? c->runs
                                    : c->training ? 3
                                                  : 1,
                            .below = 10,
                            .tolerance = c->training ? 1e-3 : 1e-4};
}

static const struct {
    const char *name;
    plb_level level;
} device_levels[] = {
    {"interp", PLB_LEVEL_INTERP}, {"plan", PLB_LEVEL_PLAN}, {"replay", PLB_LEVEL_REPLAY}};

static void compare_levels(const levels_program *p, const zoo_case *c, const levels_trace *expected,
                           const levels_trace *noise) {
    for (int i = 0; i < 3; i++) {
        char text[700];
        const plb_plan_options options = {
            .level = device_levels[i].level, .device = "cuda", .threads = 1, .no_tuning = true};
        levels_trace found = levels_run(p, &options);
        bool differ = levels_differ(p, expected, &found, noise, text, sizeof text);
        CHECK_SAY(!differ, "%s, %s, level %s: %s", c->model, c->training ? "train" : "infer",
                  device_levels[i].name, text);
        levels_trace_free(&found);
    }
}

static void training_steps_agree_with_the_cpu(void) {
    if (missing) SKIP(missing);
    const plb_plan_options interp = {.level = PLB_LEVEL_INTERP, .no_winograd = true};
    for (int i = 0; i < TRAINED; i++) {
        if (!chosen(trained[i].model)) continue;
        levels_program p = program_of(&trained[i]);
        levels_trace expected = levels_run(&p, &interp);
        levels_trace noise = levels_noise(&p, &interp, &expected, 4e-6);
        compare_levels(&p, &trained[i], &expected, &noise);
        levels_trace_free(&expected);
        levels_trace_free(&noise);
    }
}

static void logits_agree_with_f64(void) {
    if (missing) SKIP(missing);
    for (int i = 0; i < INFERRED; i++) {
        if (!chosen(inferred[i].model)) continue;
        levels_program p = program_of(&inferred[i]);
        levels_trace expected = levels_run(&p, &(plb_plan_options){.f64 = true, .no_tuning = true});
        for (int k = 0; k < expected.n_parts; k++) expected.parts[k].dtype = PLB_F32;
        compare_levels(&p, &inferred[i], &expected, NULL);
        levels_trace_free(&expected);
    }
}

// A first step in 16 bits: logits and loss are off by what eight bits of mantissa allow, and four
// times what f32 makes of inputs that are off by as much, as norms enlarge it.
static void autocast_stays_near_f32(void) {
    if (missing) SKIP(missing);
    for (int i = 0; i < TRAINED; i++) {
        if (!chosen(trained[i].model) || trained[i].runs) continue; // norms over a few pixels
        levels_program p = program_of(&trained[i]);
        p.runs = 1;
        const plb_plan_options f32 = {.device = "cuda", .no_tuning = true, .threads = 1};
        plb_plan_options cast = f32;
        cast.autocast = PLB_AUTOCAST_BF16;
        levels_trace expected = levels_run(&p, &f32), found = levels_run(&p, &cast);
        levels_trace noise = levels_noise(&p, &f32, &expected, 0x1p-8);
        for (int k = 0; k < expected.n_parts; k++) { // variables: by their change, below
            bool output = strncmp(expected.parts[k].name, "output", 6) == 0;
            if (!output || strstr(expected.parts[k].name, "correct")) expected.parts[k].n = 0;
        }
        for (int k = 0; k < expected.n_parts; k++) {
            const levels_part *part = &expected.parts[k];
            double largest = 0, off = levels_distance(part, &expected, &found);
            double noisy = levels_distance(part, &expected, &noise);
            for (size_t e = 0; e < part->n; e++) {
                largest = fmax(largest, fabs(expected.data[part->first + e]));
            }
            CHECK_SAY(!part->n || off <= 0.1 * largest + 4 * noisy,
                      "%s, autocast: %s off by %.3g of %.3g, inputs as far off change it by %.3g",
                      trained[i].model, part->name, off, largest, noisy);
        }
        levels_trace_free(&noise);
        levels_trace_free(&expected);
        levels_trace_free(&found);
    }
}

static const check_test tests[] = {
    {"training steps agree with the CPU", training_steps_agree_with_the_cpu},
    {"logits agree with f64", logits_agree_with_f64},
    {"autocast stays near f32", autocast_stays_near_f32},
};

int main(void) {
    const plb_backend *backend = NULL;
    plb_device *device = NULL;
    int index = 0;
    if (plb_device_find("cuda", &backend, &index) || backend->open(index, &device)) {
        snprintf(missing_text, sizeof missing_text, "%s", plb_error_text());
        missing = missing_text;
    }
    int failed = check_main(tests, sizeof tests / sizeof *tests);
    if (device) backend->close(device);
    return failed;
}
