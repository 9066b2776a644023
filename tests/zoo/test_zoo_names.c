// SPDX-License-Identifier: Apache-2.0
// The zoo against torchvision: names, types and order of all variables, parameters, arithmetic
// (tests/golden/zoo_names.json, written by tools/golden_zoo.py). Nothing is run here.
#include <inttypes.h>
#include <jansson.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "check.h"
#include "engine/graph/graph.h"
#include "plumb/step.h"
#include "zoo/summary.h"

static json_t *golden; // object of models

static bool load_golden(void) {
    json_error_t error;
    golden = json_load_file("tests/golden/zoo_names.json", 0, &error);
    CHECK_SAY(golden, "%s", error.text);
    return golden;
}

static double golden_number(const char *model, const char *key) {
    return json_number_value(json_object_get(json_object_get(golden, model), key));
}

// Of the lines "name dtype shape\n" of all variables from `begin` on.
static uint64_t hash_variables(const plb_model *model) {
    uint64_t hash = PLB_HASH_SEED;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        plb_variable_info info = plb_model_variable_info(model, i);
        char shape[160], line[512];
        plb_shape_format(&info.type.shape, shape, sizeof shape);
        int length = snprintf(line, sizeof line, "%s %s %s\n", info.name,
                              plb_dtype_name(info.type.dtype), shape);
        hash = plb_hash_bytes(hash, line, (size_t)length);
    }
    return hash;
}

static void test_names(void) {
    CHECK(json_object_size(golden) == (size_t)plb_zoo_count());
    for (int i = 0; i < plb_zoo_count(); i++) {
        const char *name = plb_zoo_at(i)->name;
        plb_model *model = plb_model_new();
        CHECK_OK(plb_zoo_build_infer(model, name, NULL));
        CHECK_SAY(plb_model_variable_count(model) == (int)golden_number(name, "variables"),
                  "%s: %d variables", name, plb_model_variable_count(model));
        char hash[32];
        snprintf(hash, sizeof hash, "%016" PRIx64, hash_variables(model));
        const char *expected =
            json_string_value(json_object_get(json_object_get(golden, name), "hash"));
        CHECK_SAY(expected && strcmp(hash, expected) == 0, "%s: hash %s", name, hash);
        plb_model_free(model);
    }
}

// Built first, the training program declares the same variables in the same order.
static void test_names_of_training(void) {
    for (int i = 0; i < plb_zoo_count(); i++) {
        const char *name = plb_zoo_at(i)->name;
        plb_model *model = plb_model_new();
        plb_graph *graph;
        plb_value loss;
        const plb_zoo_options options = {.batch = 2, .no_dropout = true};
        CHECK_OK(plb_zoo_build_train(model, name, &options, &graph, &loss));
        char hash[32];
        snprintf(hash, sizeof hash, "%016" PRIx64, hash_variables(model));
        const char *expected =
            json_string_value(json_object_get(json_object_get(golden, name), "hash"));
        CHECK_SAY(expected && strcmp(hash, expected) == 0, "%s: hash %s", name, hash);
        plb_model_free(model);
    }
}

static void test_costs(void) {
    for (int i = 0; i < plb_zoo_count(); i++) {
        const char *name = plb_zoo_at(i)->name;
        plb_zoo_summary s;
        CHECK_OK(plb_zoo_summarize(name, NULL, &s));
        CHECK_SAY((double)s.parameters == golden_number(name, "parameters"), "%s: %" PRId64, name,
                  s.parameters);
        CHECK_SAY((double)s.buffers == golden_number(name, "buffers"), "%s: %" PRId64, name,
                  s.buffers);
        CHECK_SAY(s.products_infer == golden_number(name, "products"), "%s: %.0f multiply-adds",
                  name, s.products_infer);
        double published = golden_number(name, "published_giga_products") * 1e9;
        if (published > 0) CHECK_NEAR(s.products_infer / published, 1, 0.01);
        // The products again for inputs and again for weights, and some more for the rest.
        double ratio = s.flops_train / s.flops_infer;
        CHECK_SAY(ratio > 2 && ratio < 4, "%s: training costs %.2f times inference", name, ratio);
        plb_zoo_summary_free(&s);
    }
}

// Every row adds up, and layers have their names.
static void test_rows(void) {
    plb_zoo_summary s;
    CHECK_OK(plb_zoo_summarize("resnet18", NULL, &s));
    double flops = 0;
    int64_t parameters = 0;
    bool found = false;
    for (int i = 0; i < s.n_rows; i++) {
        const plb_zoo_row *row = &s.rows[i];
        flops += row->flops, parameters += row->parameters;
        if (strcmp(row->scope, "layer2.0.downsample.0") != 0) continue;
        found = true;
        CHECK(strcmp(row->op, "conv") == 0 && row->parameters == 64 * 128);
        CHECK(plb_shape_equal(&row->type.shape, &plb_shape_of(1, 128, 28, 28)));
        CHECK(row->flops == 2.0 * 64 * 128 * 28 * 28);
        CHECK(row->bytes == 4.0 * (64 * 56 * 56 + 64 * 128 + 128 * 28 * 28));
    }
    CHECK(found);
    CHECK(parameters == s.parameters);
    CHECK_NEAR(flops, s.flops_infer, 1e-9 * flops);
    plb_zoo_summary_free(&s);
}

static void test_refusals(void) {
    const plb_zoo_info *info;
    CHECK_FAILS(PLB_EINVAL, "did you mean resnet50?", plb_zoo_find("resnet5O", &info));
    CHECK_FAILS(PLB_EINVAL, "no model xyzzy-plugh", plb_zoo_find("xyzzy-plugh", &info));
    plb_model *model = plb_model_new();
    CHECK_FAILS(PLB_EINVAL, "negative",
                plb_zoo_build_infer(model, "resnet18", &(plb_zoo_options){.batch = -1}));
    // A plane smaller than the first pooling's window.
    CHECK_FAILS(PLB_EINVAL, "alexnet",
                plb_zoo_build_infer(model, "alexnet", &(plb_zoo_options){.size = 8}));
    plb_graph *graph;
    CHECK_OK(plb_model_program(model, "other", &graph));
    plb_value x = plb_input(graph, "x", PLB_F32, &plb_shape_of(1, 1, 224, 224));
    plb_zoo_result result;
    CHECK_FAILS(PLB_EINVAL, "[N, 3, H, W]", plb_zoo_forward(graph, "resnet18", x, NULL, &result));
    plb_model_free(model);
    // Batch norm over one value a channel has no variance.
    model = plb_model_new();
    plb_value loss;
    const plb_zoo_options one = {.batch = 1, .size = 32};
    CHECK_FAILS(PLB_EINVAL, "one value a channel",
                plb_zoo_build_train(model, "resnet18", &one, &graph, &loss));
    plb_model_free(model);
}

static int count_ops(const plb_graph *graph, plb_op_id op) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) count += graph->nodes[i].op == op;
    return count;
}

static void test_dropout(void) {
    static const struct {
        const char *name;
        int dropouts, uniforms;
    } cases[] = {{"mnist_cnn", 2, 0},    {"alexnet", 2, 0},         {"googlenet", 3, 0},
                 {"inception_v3", 1, 0}, {"efficientnet_b0", 1, 9}, {"resnet18", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int off = 0; off < 2; off++) {
            plb_model *model = plb_model_new();
            plb_graph *graph;
            plb_value loss;
            const plb_zoo_options options = {.batch = 2, .no_dropout = off};
            CHECK_OK(plb_zoo_build_train(model, cases[i].name, &options, &graph, &loss));
            CHECK_SAY(count_ops(graph, PLB_OP_dropout) == (off ? 0 : cases[i].dropouts), "%s",
                      cases[i].name);
            CHECK_SAY(count_ops(graph, PLB_OP_random_uniform) == (off ? 0 : cases[i].uniforms),
                      "%s", cases[i].name);
            plb_model_free(model);
        }
    }
}

static plb_status build_all(const char *optimizer) {
    plb_model *model = plb_model_new();
    if (!model) return PLB_ENOMEM;
    plb_step_options step;
    plb_graph *graph;
    plb_value loss;
    plb_status status = plb_zoo_build_infer(model, "mnist_cnn", NULL);
    if (!status) status = plb_zoo_build_eval(model, "mnist_cnn", NULL);
    if (!status) status = plb_zoo_build_train(model, "mnist_cnn", NULL, &graph, &loss);
    if (!status) status = plb_step_options_for(optimizer, &step);
    step.sgd.momentum = 0.9;
    if (!status) status = plb_train_step(graph, loss, &step);
    plb_model_free(model);
    return status;
}

static bool allow(void *context, size_t size_bytes) {
    (void)size_bytes;
    int *left = context;
    return (*left)-- != 0;
}

static void test_failed_allocations(void) {
    plb_status status = PLB_ENOMEM;
    int n = 0;
    for (; n < 100000 && status == PLB_ENOMEM; n++) {
        int left = n;
        plb_alloc_set_hook(allow, &left);
        status = build_all("sgd");
        plb_alloc_set_hook(NULL, NULL);
    }
    CHECK_OK(status);
    CHECK_SAY(n > 50, "%d", n);
}

static void test_step(void) {
    plb_step_options step;
    CHECK_FAILS(PLB_EINVAL, "did you mean adamw?", plb_step_options_for("adamww", &step));
    CHECK_OK(plb_step_options_for("adamw", &step));
    CHECK(step.adam.decoupled == 1 && step.adam.weight_decay == 0.01);
    plb_model *model = plb_model_new();
    plb_graph *graph;
    plb_value loss;
    CHECK_OK(
        plb_zoo_build_train(model, "googlenet", &(plb_zoo_options){.batch = 2}, &graph, &loss));
    step.output_gradients = true;
    CHECK_OK(plb_train_step(graph, loss, &step));
    // Auxiliary heads included, every parameter has its step.
    int parameters = 0, moments = 0;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        plb_role role = plb_model_variable_info(model, i).role;
        parameters += role == PLB_ROLE_PARAMETER, moments += role == PLB_ROLE_OPTIMIZER;
    }
    CHECK(moments == 2 * parameters && count_ops(graph, PLB_OP_adam) == parameters);
    CHECK(plb_model_find_variable(model, "adam.square.aux2.fc2.bias") >= 0);
    CHECK(plb_model_variable_info(model, plb_model_find_variable(model, "lr")).role ==
          PLB_ROLE_STATE);
    CHECK(plb_model_find_variable(model, "step") >= 0);
    plb_model_free(model);

    model = plb_model_new();
    CHECK_OK(plb_zoo_build_train(model, "lenet5", NULL, &graph, &loss));
    CHECK_OK(plb_step_options_for("sgd", &step));
    step.sgd = (plb_sgd_attrs){.momentum = 0.9, .dampening = 0.1};
    CHECK_FAILS(PLB_EUNSUPPORTED, "dampening", plb_train_step(graph, loss, &step));
    plb_model_free(model);
}

int main(void) {
    static const check_test tests[] = {
        {"names", test_names},       {"names_of_training", test_names_of_training},
        {"costs", test_costs},       {"rows", test_rows},
        {"refusals", test_refusals}, {"dropout", test_dropout},
        {"step", test_step},         {"failed_allocations", test_failed_allocations},
    };
    if (!load_golden()) return 1;
    int status = check_main(tests, sizeof tests / sizeof *tests);
    json_decref(golden);
    return status;
}
